"""Recovery: what a session looks like after its process died, made right once, in storage.

A run without an end gets the outcome `interrupted`. A reply that was arriving is kept as far as it came, its calls `cut`.
Each call without a stored result gets one: its own, if its end was recorded; `unknown outcome` if only its start was;
`not started` if nothing was. None of them is ever run again by itself. Only a call that a person was being asked about
stays open, and those behind it: they wait (`session.waiting`) until a run takes them up. All of a session is one
transaction, so a second death in the middle changes nothing, and doing it twice does nothing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence

import msgspec

from sluice.session import rows
from sluice.session.folding import fold
from sluice.session.usage import estimate
from sluice.session.waiting import DIED, LastReply, calls_of, last_reply, left_waiting, take_back, waiting
from sluice.values.messages import AssistantMessage, ToolCall, ToolMessage, Usage
from sluice.values.notices import RunFinished
from sluice.values.results import ResultStatus, ToolResult
from sluice.wire.surrogates import storable

UNKNOWN = f"[unknown_outcome] {DIED}"
NOT_STARTED = "[not_started] The process ended before this call was started: nothing of it was done."
NOT_ANSWERED = (
    "[not_started] The run ended while a person was asked about this call: nothing of it was done. "
    "Ask for it again if it is still wanted; the person is then asked again."
)
NOT_IN_COPY = (
    "[not_started] This call waits for a person in the session that this one was copied from, and is not started here. "
    "Ask for it again if it is still wanted; the person is then asked."
)
INTERRUPTED = rows.INTERRUPTED


class Recovered(msgspec.Struct, frozen=True, kw_only=True):
    """A run that was found without an end. `unknown` names the tools whose outcome nobody knows, `pending` those that wait
    for a person's answer. `ended`: the run has its end, and results of it could not be stored before that."""

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
            words += f"; {waits(self.pending)}"
        return words


def waits(tools: Sequence[str]) -> str:
    """That calls of these tools wait for a person, in words."""
    return f"waiting for your approval: {', '.join(tools)}"


def recover(
    connection: sqlite3.Connection, session: str, words: Callable[[ToolResult], str], *, keep_waiting: bool = True
) -> tuple[Recovered, ...]:
    """Makes the session right, inside the caller's transaction; returns what was found, oldest first.

    The caller holds the session's lock, so nobody is at work on it. `words` is the text in which a model is told a result.
    With `keep_waiting` false the calls that wait for a person are given up: they were not started.
    """
    broken = connection.execute(
        "SELECT id, outcome FROM run WHERE session = ? AND outcome IS NULL ORDER BY number", (session,)
    ).fetchall()
    found = []
    for run, outcome in broken + _left_open(connection, session, keep_waiting):
        one = _recover_run(connection, session, run, outcome is not None, words, keep_waiting)
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


def _left_open(connection: sqlite3.Connection, session: str, keep_waiting: bool) -> list[tuple[str, str]]:
    """The last run if it has an end and a call without a result: the disk was full, and had room for the end again."""
    last = connection.execute(
        "SELECT id, outcome FROM run WHERE session = ? ORDER BY number DESC LIMIT 1", (session,)
    ).fetchone()
    if last is None or last[1] is None:
        return []
    reply = last_reply(connection, session)
    if reply is None or (reply.answered >= reply.calls and not _running(connection, {last[0], reply.run})):
        return []
    if keep_waiting and waiting(connection, session) is not None:
        return []
    return [last]


def _running(connection: sqlite3.Connection, runs: set[str | None]) -> bool:
    """Whether a call of these runs has a start and no end."""
    query = "SELECT 1 FROM call WHERE run = ? AND status IS NULL LIMIT 1"
    return any(connection.execute(query, (run,)).fetchone() for run in runs)


def _recover_run(
    connection: sqlite3.Connection,
    session: str,
    run: str,
    ended: bool,
    words: Callable[[ToolResult], str],
    keep_waiting: bool,
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
        estimate(connection, session, seq, kept=any_chunk is not None)
        fold(connection, session, seq, None, "interrupted" if any_chunk else "dropped")
    found: dict[str, list[str]] = {"unknown": [], "not_started": [], "pending": []}
    reply = last_reply(connection, session)
    if reply is not None:
        _give_results(connection, session, run, reply, words, keep_waiting and not ended, found)
        for one in {run, reply.run}:
            connection.execute("UPDATE call SET status = 'unknown_outcome' WHERE run = ? AND status IS NULL", (one,))
    return Recovered(run=run, ended=ended, **{name: tuple(tools) for name, tools in found.items()})


def _give_results(
    connection: sqlite3.Connection,
    session: str,
    run: str,
    reply: LastReply,
    words: Callable[[ToolResult], str],
    keep_waiting: bool,
    found: dict[str, list[str]],
) -> None:
    """Stores, as rows of `run`, the results that the reply's calls lack: in order, up to one that waits for a person."""
    if reply.answered >= reply.calls:
        return
    places = connection.execute(
        "SELECT position FROM part WHERE session = ? AND seq = ? AND kind = 'call' ORDER BY position",
        (session, reply.seq),
    ).fetchall()
    calls = calls_of(connection, session, reply)
    if keep_waiting:
        take_back(connection, reply)
    for position in range(reply.answered, len(calls)):
        left = left_waiting(connection, session) if keep_waiting else None
        if left is not None:
            found["pending"] += left.tools
            return
        result, list_of = _result(connection, reply, position, calls[position], words)
        if list_of:
            found[list_of].append(calls[position].name)
        place = rows.next_seq(connection, session)
        rows.put(connection, session, place, result, run=run, answers=(reply.seq, places[position][0]))


def _result(
    connection: sqlite3.Connection,
    reply: LastReply,
    position: int,
    call: ToolCall,
    words: Callable[[ToolResult], str],
) -> tuple[ToolMessage, str]:
    if reply.run is None or reply.turn is None:  # salvaged from a damaged file: what was recorded of it is lost
        return _told(call, UNKNOWN, "unknown_outcome"), "unknown"
    key = (reply.run, reply.turn, position)
    where = "WHERE run = ? AND turn = ? AND position = ?"
    started = connection.execute(f"SELECT status, result FROM call {where}", key).fetchone()  # noqa: S608 - words of ours, values are bound
    if started is not None and started[1] is not None:
        result = msgspec.json.decode(started[1], type=ToolResult)
        return ToolMessage(
            call_id=call.id, name=call.name, content=words(result), ok=result.ok, status=result.status
        ), ""
    if started is not None:
        return _told(call, UNKNOWN, "unknown_outcome"), "unknown"
    asked = connection.execute(f"SELECT 1 FROM approval {where} AND granted IS NULL", key).fetchone()  # noqa: S608 - words of ours, values are bound
    return _told(call, NOT_ANSWERED if asked is not None else NOT_STARTED, "skipped"), "not_started"


def _told(call: ToolCall, words: str, status: ResultStatus) -> ToolMessage:
    return ToolMessage(call_id=call.id, name=call.name, content=words, ok=False, status=status)


def closed(
    connection: sqlite3.Connection, session: str, seq: int, words: Callable[[ToolResult], str]
) -> tuple[ToolMessage, ...]:
    """The results that the calls of reply `seq` which wait have in a copy of the session, where they cannot be started;
    none if none of its calls wait."""
    left, reply = waiting(connection, session), last_reply(connection, session)
    if left is None or reply is None or reply.seq != seq:
        return ()
    return tuple(
        _told(call, NOT_IN_COPY, "skipped") if result is None else _result(connection, reply, position, call, words)[0]
        for position, (call, result) in enumerate(zip(left.calls, left.results, strict=True), left.first)
    )
