"""The end of a reply that arrived in pieces: its rows of deltas become the parts of its message, in one transaction.

And what must hold before a row is written: its run goes on, its call waits.
"""

from __future__ import annotations

import sqlite3

import msgspec

from sluice.errors import StoreError
from sluice.session import rows
from sluice.values.messages import AssistantMessage, Reasoning, ToolCall, ToolMessage


def drop_open(connection: sqlite3.Connection, session: str) -> None:
    """A reply that was begun and never kept: what arrived of it stays in storage, and is no part of the conversation."""
    found = connection.execute(
        "SELECT seq FROM message INDEXED BY open_message WHERE session = ? AND state = 'open' ORDER BY seq", (session,)
    ).fetchall()
    for (seq,) in found:
        fold(connection, session, seq, None, "dropped")


def fold(
    connection: sqlite3.Connection,
    session: str,
    seq: int,
    message: AssistantMessage | None,
    state: str,
    *,
    all_told: bool = True,
) -> AssistantMessage:
    """Ends an open message: its chunk rows become its parts, or `message` if that is given. Returns what it holds now.

    A reply that was never given whole is made of its chunks: the text, the reasoning, and a `cut` call for each name.
    `all_told`: the rows hold all that was told of it.
    """
    run, first = connection.execute(
        "SELECT run, first_chunk FROM message WHERE session = ? AND seq = ? AND state = 'open'", (session, seq)
    ).fetchone()
    count, told, chunks = 0, 0, []
    for kind, body in connection.execute(
        "SELECT kind, body FROM chunk WHERE run = ? AND seq >= ? ORDER BY seq", (run, first)
    ):
        count += 1
        if kind == "text":
            told = rows.crc(body, told)
        if message is None:
            chunks.append((kind, body))
    if message is None:
        message = _arrived(chunks)
    _role, head, parts = rows.split(message)
    rows.put_parts(connection, session, seq, parts)
    connection.execute(
        "UPDATE message SET state = ?, head = ?, next_chunk = ?, told_crc = ? WHERE session = ? AND seq = ?",
        (state, head, first + count, told if all_told else None, session, seq),
    )
    # Never fewer than were counted: an older version counted each row as it was written, and one may be lost since.
    connection.execute("UPDATE run SET chunks = max(chunks, ?) WHERE id = ?", (first + count, run))
    connection.execute("DELETE FROM chunk WHERE run = ? AND seq >= ?", (run, first))
    return message


def arriving(connection: sqlite3.Connection, session: str, seq: int) -> AssistantMessage:
    """What has arrived so far of an open message, to be shown. A call of it is `cut`: it is not whole yet."""
    chunks = connection.execute(
        "SELECT c.kind, c.body FROM message m JOIN chunk c ON c.run = m.run AND c.seq >= m.first_chunk "
        "WHERE m.session = ? AND m.seq = ? ORDER BY c.seq",
        (session, seq),
    ).fetchall()
    return msgspec.structs.replace(_arrived(chunks), stop_reason=None)


def _arrived(chunks: list[tuple[str, str]]) -> AssistantMessage:
    text = "".join(body for kind, body in chunks if kind == "text")
    reasoning = "".join(body for kind, body in chunks if kind == "reasoning")
    names = [body for kind, body in chunks if kind == "call"]
    return AssistantMessage(
        content=text or None,
        reasoning=(Reasoning(text=reasoning),) if reasoning else (),
        tool_calls=tuple(
            ToolCall(id=f"cut_{at}", name=name, arguments="", index=at, status="cut", problem="its reply broke off")
            for at, name in enumerate(names)
        ),
        stop_reason="aborted",
    )


def alive(connection: sqlite3.Connection, run: str) -> None:
    """Raises `StoreError` (`refused`) unless the run was started and has not ended."""
    found = connection.execute("SELECT outcome FROM run WHERE id = ?", (run,)).fetchone()
    if found is None:
        raise StoreError("refused", f"run {run} has not been started")
    if found[0] is not None:
        raise StoreError("refused", f"run {run} has ended")


def next_turn(connection: sqlite3.Connection, run: str) -> int:
    """The turn of a reply that came in one piece, not announced by `reply_began`."""
    found = connection.execute("SELECT coalesce(max(turn), 0) + 1 FROM message WHERE run = ?", (run,))
    return int(found.fetchone()[0])


def awaiting(connection: sqlite3.Connection, session: str, result: ToolMessage) -> tuple[int, int]:
    """The call that this result answers: the first of the last reply that has none. Raises `StoreError`."""
    last = connection.execute(
        "SELECT max(seq) FROM message WHERE session = ? AND role != 'tool' AND state != 'dropped'", (session,)
    ).fetchone()[0]
    calls = connection.execute(
        "SELECT position, body FROM part WHERE session = ? AND seq = ? AND kind = 'call' AND position NOT IN "
        "(SELECT answers_position FROM part WHERE session = ? AND answers_seq = ?) ORDER BY position LIMIT 1",
        (session, last, session, last),
    ).fetchone()
    if calls is None or rows.join("assistant", "{}", [rows.Part("call", calls[1])]).tool_calls[0].id != result.call_id:  # type: ignore[union-attr]
        raise StoreError("refused", f"no call {result.call_id!r} waits for a result")
    return last, calls[0]
