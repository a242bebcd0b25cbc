"""What must hold before a row is written: its run goes on, its call waits. And a turn's number if nobody told it."""

from __future__ import annotations

import sqlite3

from sluice.errors import StoreError
from sluice.session import rows
from sluice.values.messages import ToolMessage


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
