"""What the checkers of a store read."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

from sluice.session.catalog import REMOVED, lock_folder
from sluice.session.locks import holder
from sluice.session.waiting import last_reply

# What a session that is being removed still has, from its end on, says nothing of what it had. So it is hidden.
_GOING = f"SELECT id FROM main.session WHERE project = '{REMOVED}'"  # noqa: S608 - a word of ours
_HIDDEN = {
    "id": ("session",),
    "session": ("run", "message", "part", "seen", "shrunk"),
    "run": ("chunk", "call", "approval", "usage", "notice", "preimage"),
}

Found = Iterator[tuple[str, str]]  # where, and what was found


class View:
    """What a checker reads. `secrets` are words that may be in no file of the store; `state` is the folder of pre-images,
    where those of runs begun before `since` may be gone.

    A transaction is open, and is rolled back by the caller: with it go the views that hide what is being removed.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        path: Path,
        secrets: Sequence[str] = (),
        state: Path | None = None,
        since: float | None = None,
    ) -> None:
        self.connection = connection
        self.path = path
        self.secrets = secrets
        self.state = state
        self.since = since
        _hide_removed(connection)
        self.sessions = [str(id) for (id,) in connection.execute("SELECT id FROM session ORDER BY last")]
        self.held = {id for id in self.sessions if holder(lock_folder(path), id) is not None}
        self.runs = connection.execute(
            "SELECT id, session, outcome, duration_ns, chunks FROM run ORDER BY session, number"
        ).fetchall()
        last = {session: run for run, session, *_ in self.runs}
        self.unended = {s: r for r, s, outcome, *_ in self.runs if outcome is None and last[s] == r}
        self._last_ended = {s: r for r, s, outcome, *_ in self.runs if outcome is not None and last[s] == r}

    def unsaved(self, session: str) -> set[str]:
        """The runs whose last results may be missing, as a full disk took only the end of the last run (or not even the
        notice of it): the next one that opens the session gives them. None where that run said that all was kept."""
        run = self._last_ended.get(session)
        if run is None or self.query(
            "SELECT 1 FROM notice WHERE run = ? AND json_valid(body) AND json_extract(body, '$.type') = 'run_finished' "
            "AND json_extract(body, '$.saved')",
            run,
        ):
            return set()
        reply = last_reply(self.connection, session)
        return {run} if reply is None or reply.run is None else {run, reply.run}

    def query(self, sql: str, *given: object) -> list[tuple[object, ...]]:
        """All rows of a query."""
        return self.connection.execute(sql, given).fetchall()


def _hide_removed(connection: sqlite3.Connection) -> None:
    if connection.execute("SELECT 1 FROM session WHERE project = ? LIMIT 1", (REMOVED,)).fetchone() is None:
        return
    there = {name for (name,) in connection.execute("SELECT name FROM main.sqlite_master WHERE type = 'table'")}
    runs = f"SELECT id FROM main.run WHERE session IN ({_GOING})"  # noqa: S608 - words of ours, values are bound
    (closed,) = connection.execute("PRAGMA query_only").fetchone()  # to a reading connection not even a view is given
    connection.execute("PRAGMA query_only = OFF")
    for column, tables in _HIDDEN.items():
        for table in there.intersection(tables):
            going = runs if column == "run" else _GOING
            connection.execute(
                f"CREATE TEMP VIEW {table} AS SELECT * FROM main.{table} WHERE {column} NOT IN ({going})"  # noqa: S608 - words of ours, values are bound
            )
    connection.execute(f"PRAGMA query_only = {int(closed)}")
