"""A fork: a session of its own that begins with what another one held. The other one is not touched."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

from sluice.errors import StoreError
from sluice.session import rows, shrunk
from sluice.session.resume import closed
from sluice.values.messages import AssistantMessage, ToolMessage
from sluice.values.results import ToolResult


def fork(
    connection: sqlite3.Connection,
    source: str,
    target: str,
    *,
    upto: int | None,
    project: str,
    now: float,
    words: Callable[[ToolResult], str],
) -> int:
    """Copies `source` up to message `upto` (all of it by default) into the new session `target`; returns how many.

    Runs inside the caller's transaction. A reply is copied with all its results, so the cut may fall a few messages
    after `upto`; a reply that has not all of them yet, in a run that goes on, is left out. What was recorded of starts,
    approvals and changed files stays with the source: no call starts twice. So calls that wait for a person are copied as
    not started. Which files were seen goes with a whole copy only: in a part of the source nobody can tell which of them
    it has read, so none may be overwritten there before it is read again. `words` is the text in which a model is told a
    result. Raises `StoreError` for a message that is not there.
    """
    if (
        upto is not None
        and not connection.execute("SELECT 1 FROM message WHERE session = ? AND seq = ?", (source, upto)).fetchone()
    ):
        raise StoreError(
            "refused", f"session {source} has no message {upto}; `sluice sessions show {source}` counts them"
        )
    kept: list[rows.Stored] = []
    waiting = 0
    whole = 0  # how many of `kept` end with a finished exchange
    for stored in rows.stored_messages(connection, source):
        if upto is not None and stored.seq > upto and not waiting:
            break
        if waiting and not isinstance(stored.message, ToolMessage):
            break
        kept.append(stored)
        if isinstance(stored.message, AssistantMessage):
            waiting = len(stored.message.tool_calls)
        elif isinstance(stored.message, ToolMessage) and waiting:
            waiting -= 1
        if not waiting:
            whole = len(kept)
    made_up = closed(connection, source, kept[whole].seq, words) if waiting else ()
    if not made_up:
        kept = kept[:whole]
    last = connection.execute("SELECT coalesce(max(last), 0) + 1 FROM session").fetchone()[0]
    parent = f"{source}@{kept[-1].seq if kept else 0}"
    connection.execute("INSERT INTO session VALUES (?, ?, ?, ?, ?)", (target, project, now, parent, last))
    calls: list[tuple[int, int]] = []  # message and part of those whose results follow
    for seq, stored in enumerate(kept, 1):
        answers = calls.pop(0) if isinstance(stored.message, ToolMessage) and calls else None
        rows.put(
            connection, target, seq, stored.message, run=None, turn=stored.turn, state=stored.state, answers=answers
        )
        if isinstance(stored.message, AssistantMessage):
            calls = connection.execute(
                "SELECT seq, position FROM part WHERE session = ? AND seq = ? AND kind = 'call' ORDER BY position",
                (target, seq),
            ).fetchall()
    for seq, result in enumerate(made_up, len(kept) + 1):
        rows.put(connection, target, seq, result, run=None, answers=calls.pop(0))
    shrunk.copy(connection, source, target, [stored.seq for stored in kept])
    left_out = connection.execute(
        "SELECT 1 FROM message WHERE session = ? AND seq > ? AND state IN ('whole', 'interrupted') LIMIT 1",
        (source, kept[-1].seq if kept else 0),
    ).fetchone()
    if left_out is None:
        connection.execute("INSERT INTO seen SELECT ?, path, sha256 FROM seen WHERE session = ?", (target, source))
    return len(kept) + len(made_up)
