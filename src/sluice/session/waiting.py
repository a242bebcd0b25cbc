"""Calls that wait for a person: a process died while they were asked about one, and nothing of it was begun.

They stand at the end of a session, without a result, until a run takes them up. What makes a call one of them is read from
the rows alone, and is the same for whoever recovers, shows, forks or checks a session:

- its reply is the last one, whole, and nothing but results stands behind it;
- it is the first call of that reply without a result, and it has no record of a start;
- a person was asked about exactly this call (the digest is the same), and has not answered.

A yes that no start followed held for the process that asked, and is taken back by recovery. The calls behind such a one
wait with it; what had started of them keeps its record.
"""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

import msgspec

from sluice.errors import StoreError
from sluice.session import rows
from sluice.values.calls import CallKey, call_digest
from sluice.values.messages import AssistantMessage, ToolCall
from sluice.values.results import ToolResult
from sluice.values.waiting import WaitingCalls

DIED = "The process ended while this call ran: it may have done all, some or nothing of its work."
_KEY = "run = ? AND turn = ? AND position = ?"


class LastReply(NamedTuple):
    """The last reply of a session: where it stands, how many calls it asks for, how many of them the results reach."""

    seq: int
    run: str | None
    turn: int | None
    state: str
    calls: int
    answered: int


def last_reply(connection: sqlite3.Connection, session: str) -> LastReply | None:
    """The last reply that counts; `None` where there is none."""
    found = connection.execute(
        "SELECT seq, run, turn, state, "
        "(SELECT count(*) FROM part p WHERE p.session = m.session AND p.seq = m.seq AND p.kind = 'call'), "
        "(SELECT count(*) FROM part p WHERE p.session = m.session AND p.seq = m.seq AND p.kind = 'call' AND p.position <= "
        "(SELECT max(a.answers_position) FROM part a WHERE a.session = m.session AND a.answers_seq = m.seq)) "
        "FROM message m WHERE session = ? AND role = 'assistant' AND state IN ('whole', 'interrupted') "
        "ORDER BY seq DESC LIMIT 1",
        (session,),
    ).fetchone()
    return None if found is None else LastReply(*found)


def calls_of(connection: sqlite3.Connection, session: str, reply: LastReply) -> tuple[ToolCall, ...]:
    """The calls that the reply asks for. Raises `StoreError` (`damaged`)."""
    return _message(connection, session, reply).tool_calls


def _message(connection: sqlite3.Connection, session: str, reply: LastReply) -> AssistantMessage:
    stored = next(rows.stored_messages(connection, session, after=reply.seq - 1, upto=reply.seq))
    assert isinstance(stored.message, AssistantMessage)
    return stored.message


def left_waiting(connection: sqlite3.Connection, session: str) -> WaitingCalls | None:
    """The calls at the end of a session that wait for a person, whether its last run goes on or not."""
    reply = last_reply(connection, session)
    if reply is None or reply.run is None or reply.turn is None or reply.state != "whole":
        return None
    if reply.answered >= reply.calls or not _is_last(connection, session, reply):
        return None
    message = _message(connection, session, reply)
    left = message.tool_calls[reply.answered :]
    if not left or not _waits(connection, CallKey(reply.run, reply.turn, reply.answered), left[0]):
        return None
    keys = [CallKey(reply.run, reply.turn, reply.answered + at) for at in range(len(left))]
    return WaitingCalls(
        run=reply.run,
        turn=reply.turn,
        first=reply.answered,
        calls=left,
        results=tuple(_known(connection, key, call) for key, call in zip(keys, left, strict=True)),
        stop_reason=message.stop_reason,
    )


def waiting(connection: sqlite3.Connection, session: str) -> WaitingCalls | None:
    """The calls that wait to be taken up: those of a session whose last run was interrupted."""
    return left_waiting(connection, session) if last_outcome(connection, session) == rows.INTERRUPTED else None


def last_outcome(connection: sqlite3.Connection, session: str) -> str | None:
    """How the last run of a session ended; `None` if it has no end, or there is none."""
    found = connection.execute(
        "SELECT outcome FROM run WHERE session = ? ORDER BY number DESC LIMIT 1", (session,)
    ).fetchone()
    return None if found is None else found[0]


def asked(connection: sqlite3.Connection, session: str) -> WaitingCalls | None:
    """The calls that a person has to decide about: of a session that waits, or of one that is at work."""
    at_work = last_outcome(connection, session) in (None, rows.INTERRUPTED)
    return left_waiting(connection, session) if at_work else None


def asked_tools(connection: sqlite3.Connection, session: str) -> tuple[str, ...]:
    """The tools of these calls."""
    left = asked(connection, session)
    return () if left is None else left.tools


def asked_keys(connection: sqlite3.Connection, session: str) -> tuple[tuple[CallKey, str], ...]:
    """The keys of these calls, each with its tool."""
    left = asked(connection, session)
    if left is None:
        return ()
    return tuple(
        (CallKey(left.run, left.turn, position), call.name)
        for position, (call, result) in enumerate(zip(left.calls, left.results, strict=True), left.first)
        if result is None
    )


def _is_last(connection: sqlite3.Connection, session: str, reply: LastReply) -> bool:
    behind = "SELECT 1 FROM message WHERE session = ? AND seq > ? AND role != 'tool' AND state != 'dropped' LIMIT 1"
    return connection.execute(behind, (session, reply.seq)).fetchone() is None


def _waits(connection: sqlite3.Connection, key: CallKey, call: ToolCall) -> bool:
    if call.status != "whole" or is_started(connection, key):
        return False
    asked = connection.execute(f"SELECT digest, granted FROM approval WHERE {_KEY}", _given(key)).fetchone()  # noqa: S608 - words of ours, values are bound
    return asked is not None and asked[0] == call_digest(call.name, call.arguments) and asked[1] is None


def take_back(connection: sqlite3.Connection, reply: LastReply) -> None:
    """Takes back each yes to a call of the reply that no start followed."""
    connection.execute(
        "UPDATE approval SET granted = NULL WHERE run = ? AND turn = ? AND position >= ? AND granted = 1 AND NOT EXISTS "
        "(SELECT 1 FROM call c WHERE c.run = approval.run AND c.turn = approval.turn AND c.position = approval.position)",
        (reply.run, reply.turn, reply.answered),
    )


def is_started(connection: sqlite3.Connection, key: CallKey) -> bool:
    """Whether a start of the call is recorded."""
    return connection.execute(f"SELECT 1 FROM call WHERE {_KEY}", _given(key)).fetchone() is not None  # noqa: S608 - words of ours, values are bound


def _known(connection: sqlite3.Connection, key: CallKey, call: ToolCall) -> ToolResult | None:
    """What became of a call that had started; `None` for one that had not."""
    found = connection.execute(f"SELECT result FROM call WHERE {_KEY}", _given(key)).fetchone()  # noqa: S608 - words of ours, values are bound
    if found is None:
        return None
    if found[0] is None:
        return ToolResult(ok=False, status="unknown_outcome", tool=call.name, content=DIED)
    return msgspec.json.decode(found[0], type=ToolResult)


def _given(key: CallKey) -> tuple[str, int, int]:
    return key.run, key.turn, key.position


# -- what may be done to a call by the run that goes on


def is_taken_up(connection: sqlite3.Connection, session: str, key: CallKey) -> bool:
    """Whether the run that goes on took the call over from one before it; false for a call of its own.

    Raises `StoreError` (`refused`) for any other call of a run that has ended, and for one of a run that is not known.
    """
    found = connection.execute("SELECT outcome FROM run WHERE id = ? AND session = ?", (key.run, session)).fetchone()
    if found is None:
        raise StoreError("refused", f"run {key.run} has not been started")
    if found[0] is None:
        return False
    reply = last_reply(connection, session)
    at_work = connection.execute("SELECT 1 FROM run WHERE session = ? AND outcome IS NULL", (session,)).fetchone()
    if at_work is None or reply is None or (reply.run, reply.turn) != (key.run, key.turn):
        raise StoreError("refused", f"run {key.run} has ended")
    if not reply.answered <= key.position < reply.calls:
        raise StoreError("refused", f"call {key} does not wait any more")
    return True


def may_start(connection: sqlite3.Connection, session: str, key: CallKey, digest: str) -> None:
    """Raises `StoreError` (`refused`) for a call that may not start: one of a run that has ended, unless it was taken up
    and a person has said yes to exactly this call since."""
    if not is_taken_up(connection, session, key):
        return
    said = connection.execute(
        f"SELECT 1 FROM approval WHERE {_KEY} AND digest = ? AND granted = 1",  # noqa: S608 - words of ours, values are bound
        (*_given(key), digest),
    ).fetchone()
    if said is None:
        raise StoreError("refused", f"call {key} waited for a person, and nobody has said yes to it")


def ask(connection: sqlite3.Connection, session: str, key: CallKey, tool: str, digest: str) -> None:
    """Keeps that a person is asked about a call. For one that was taken up, what was answered before does not count any
    more. Raises `StoreError` (`refused`) for a call that has started, or of which another was asked."""
    if not is_taken_up(connection, session, key):
        connection.execute(
            "INSERT INTO approval (run, turn, position, tool, digest) VALUES (?, ?, ?, ?, ?)",
            (*_given(key), tool, digest),
        )
        return
    if is_started(connection, key):
        raise StoreError("refused", f"call {key} has been started before")
    connection.execute(
        "INSERT INTO approval (run, turn, position, tool, digest) VALUES (?, ?, ?, ?, ?) "
        "ON CONFLICT DO UPDATE SET granted = NULL WHERE digest = excluded.digest",
        (*_given(key), tool, digest),
    )
    if not connection.execute("SELECT changes()").fetchone()[0]:
        raise StoreError("refused", f"call {key} is not the one that was asked about before")
