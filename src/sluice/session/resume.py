"""Recovery: what a session looks like after its process died, made right once, in storage.

A run without an end gets the outcome `interrupted`. A reply that was arriving is kept as far as it came, its calls `cut`.
Each call without a stored result gets one: its own, if its end was recorded; `unknown outcome` if only its start was;
`not started` if nothing was. None of them is ever run again by itself. All of a session is one transaction, so a second
death in the middle changes nothing, and doing it twice does nothing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence

import msgspec

from sluice.session import rows
from sluice.session.folding import fold
from sluice.values.messages import AssistantMessage, ToolCall, ToolMessage, Usage
from sluice.values.notices import RunFinished
from sluice.values.results import ToolResult
from sluice.wire.surrogates import storable

UNKNOWN = "[unknown_outcome] The process ended while this call ran: it may have done all, some or nothing of its work."
NOT_STARTED = "[not_started] The process ended before this call was started: nothing of it was done."
PENDING = (
    "[not_started] The process ended while a person was asked about this call: nothing of it was done. "
    "Ask for it again if it is still wanted; the person is then asked again."
)
INTERRUPTED = rows.INTERRUPTED
_NEAR_THE_END = 100  # messages: more than the results of one reply, which holds at most 32 calls


class Recovered(msgspec.Struct, frozen=True, kw_only=True):
    """A run that was found without an end. `unknown` names the tools whose outcome nobody knows, `pending` those that
    waited for a person's answer. `ended`: the run has its end, and results of it could not be stored before that."""

    run: str
    unknown: tuple[str, ...] = ()
    not_started: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()
    ended: bool = False

    def words(self) -> str:
        """One line for a person."""
        words = f"the last run of this session ({self.run}) was interrupted"
        if self.ended:
            words = f"the last run of this session ({self.run}) ended, and not all of its results could be stored"
        if self.unknown:
            words += f"; it is not known what became of: {', '.join(self.unknown)}"
        if self.pending:
            words += f"; waiting for an answer was: {', '.join(self.pending)}"
        return words


def recover(connection: sqlite3.Connection, session: str, words: Callable[[ToolResult], str]) -> tuple[Recovered, ...]:
    """Makes the session right, inside the caller's transaction; returns what was found, oldest first.

    The caller holds the session's lock, so nobody is at work on it. `words` is the text in which a model is told a result.
    """
    broken = connection.execute(
        "SELECT id, outcome FROM run WHERE session = ? AND outcome IS NULL ORDER BY number", (session,)
    ).fetchall()
    found = []
    for run, outcome in broken + _left_open(connection, session):
        one = _recover_run(connection, session, run, outcome is not None, words)
        found.append(one)
        if outcome is None:
            connection.execute("UPDATE run SET outcome = ? WHERE id = ?", (INTERRUPTED, run))
            _tell_end(connection, session, one)
    return tuple(found)


def _tell_end(connection: sqlite3.Connection, session: str, found: Recovered) -> None:
    """The run-finished notice that the dead process could not give (L9), kept with the run's others."""
    reply = connection.execute(
        "SELECT seq, turn FROM message WHERE session = ? AND run = ? AND role = 'assistant' "
        "AND state IN ('whole', 'interrupted') ORDER BY seq DESC LIMIT 1",
        (session, found.run),
    ).fetchone()
    last = next(rows.stored_messages(connection, session, after=reply[0] - 1)).message if reply else None
    used = [
        msgspec.json.decode(usage, type=Usage | None) or Usage()
        for (usage,) in connection.execute("SELECT usage FROM usage WHERE run = ?", (found.run,))
    ]
    (calls,) = connection.execute("SELECT count(*) FROM call WHERE run = ?", (found.run,)).fetchone()
    notice = RunFinished(
        run=found.run,
        outcome=INTERRUPTED,
        exit_code=1,
        message=found.words(),
        text=(last.content or "") if isinstance(last, AssistantMessage) else "",
        message_id=f"{session}@{reply[0]}" if reply else "",
        turns=int(reply[1] or 1) if reply else 0,
        tool_calls=calls,
        usage=sum(used, Usage()),
    )
    connection.execute(
        "INSERT INTO notice SELECT ?, coalesce(max(number), -1) + 1, ? FROM notice WHERE run = ?",
        (found.run, storable(rows.to_json(notice)), found.run),
    )


def _left_open(connection: sqlite3.Connection, session: str) -> list[tuple[str, str]]:
    """The last run if it has an end and a call without a result: the disk was full, and had room for the end again."""
    return connection.execute(
        "SELECT id, outcome FROM run r WHERE session = ?1 AND outcome IS NOT NULL "
        "AND number = (SELECT max(number) FROM run WHERE session = ?1) AND ("
        "EXISTS (SELECT 1 FROM call c WHERE c.run = r.id AND c.status IS NULL) OR EXISTS ("
        "SELECT 1 FROM message m JOIN part p ON p.session = m.session AND p.seq = m.seq AND p.kind = 'call' "
        "WHERE m.session = ?1 AND m.run = r.id AND m.state IN ('whole', 'interrupted') "
        "AND m.seq >= (SELECT max(seq) - ?2 FROM message WHERE session = ?1) AND NOT EXISTS ("
        "SELECT 1 FROM part a WHERE a.session = p.session AND a.answers_seq = p.seq AND a.answers_position >= p.position)))",
        (session, _NEAR_THE_END),
    ).fetchall()


def _recover_run(
    connection: sqlite3.Connection, session: str, run: str, ended: bool, words: Callable[[ToolResult], str]
) -> Recovered:
    arriving = connection.execute(
        "SELECT seq, next_chunk FROM message INDEXED BY open_message WHERE session = ? AND run = ? AND state = 'open'",
        (session, run),
    ).fetchall()
    for seq, _next in arriving:
        any_chunk = connection.execute(
            "SELECT 1 FROM chunk c JOIN message m ON c.run = m.run AND c.seq >= m.first_chunk "
            "WHERE m.session = ? AND m.seq = ? AND c.kind != 'reasoning' LIMIT 1",
            (session, seq),
        ).fetchone()
        # Reasoning alone cannot be sent back: no dialect takes a reply without text or calls.
        fold(connection, session, seq, None, "interrupted" if any_chunk else "dropped")
    unknown: list[str] = []
    not_started: list[str] = []
    pending: list[str] = []
    for seq, turn, position, call in _unanswered(connection, session, run):
        result, list_of = _result(connection, run, turn, position, call, words)
        if list_of:
            {"unknown": unknown, "not_started": not_started, "pending": pending}[list_of].append(call.name)
        part = connection.execute(
            "SELECT position FROM part WHERE session = ? AND seq = ? AND kind = 'call' ORDER BY position",
            (session, seq),
        ).fetchall()[position][0]
        place = rows.next_seq(connection, session)
        rows.put(connection, session, place, result, run=run, answers=(seq, part))
    connection.execute("UPDATE call SET status = 'unknown_outcome' WHERE run = ? AND status IS NULL", (run,))
    return Recovered(
        run=run, unknown=tuple(unknown), not_started=tuple(not_started), pending=tuple(pending), ended=ended
    )


def _unanswered(connection: sqlite3.Connection, session: str, run: str) -> Sequence[tuple[int, int, int, ToolCall]]:
    """Message, turn, position and call of every call of the run's last reply that has no result."""
    found = connection.execute(
        "SELECT seq FROM message WHERE session = ? AND run = ? AND role = 'assistant' "
        "AND state IN ('whole', 'interrupted') ORDER BY seq DESC LIMIT 1",
        (session, run),
    ).fetchone()
    if found is None:
        return []
    last = next(rows.stored_messages(connection, session, after=found[0] - 1, upto=found[0]))
    assert isinstance(last.message, AssistantMessage)
    answered = connection.execute(
        "SELECT count(*) FROM part WHERE session = ? AND answers_seq = ?", (session, last.seq)
    ).fetchone()[0]
    turn = last.turn if last.turn is not None else 1  # each reply of a run has one; a row without is damaged
    return [
        (last.seq, turn, position, call)
        for position, call in enumerate(last.message.tool_calls)
        if position >= answered
    ]


def _result(
    connection: sqlite3.Connection,
    run: str,
    turn: int,
    position: int,
    call: ToolCall,
    words: Callable[[ToolResult], str],
) -> tuple[ToolMessage, str]:
    key = (run, turn, position)
    where = "WHERE run = ? AND turn = ? AND position = ?"
    started = connection.execute(f"SELECT status, result FROM call {where}", key).fetchone()  # noqa: S608
    if started is not None and started[1] is not None:
        result = msgspec.json.decode(started[1], type=ToolResult)
        return ToolMessage(
            call_id=call.id, name=call.name, content=words(result), ok=result.ok, status=result.status
        ), ""
    if started is not None:
        return ToolMessage(
            call_id=call.id, name=call.name, content=UNKNOWN, ok=False, status="unknown_outcome"
        ), "unknown"
    asked = connection.execute(f"SELECT 1 FROM approval {where} AND granted IS NULL", key).fetchone()  # noqa: S608
    if asked is not None:
        return ToolMessage(call_id=call.id, name=call.name, content=PENDING, ok=False, status="skipped"), "pending"
    return ToolMessage(call_id=call.id, name=call.name, content=NOT_STARTED, ok=False, status="skipped"), "not_started"
