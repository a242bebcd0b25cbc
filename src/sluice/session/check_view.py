"""What the checkers of a store read."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

from sluice.session.catalog import REMOVED, lock_folder
from sluice.session.locks import holder

Found = Iterator[tuple[str, str]]  # where, and what was found


class View:
    """What a checker reads. `secrets` are words that may be in no file of the store; `state` is the folder of pre-images,
    where those of runs begun before `since` may be gone."""

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
        alive = "FROM session WHERE project != ?"  # the rest is being removed, from its end on
        self.sessions = [str(id) for (id,) in connection.execute(f"SELECT id {alive} ORDER BY last", (REMOVED,))]
        self.held = {id for id in self.sessions if holder(lock_folder(path), id) is not None}
        self.runs = connection.execute(
            "SELECT id, session, outcome, duration_ns, chunks FROM run "  # noqa: S608
            f"WHERE session IN (SELECT id {alive}) ORDER BY session, number",
            (REMOVED,),
        ).fetchall()
        last = {session: run for run, session, *_ in self.runs}
        self.unended = {s: r for r, s, outcome, *_ in self.runs if outcome is None and last[s] == r}

    def query(self, sql: str, *given: object) -> list[tuple[object, ...]]:
        """All rows of a query."""
        return self.connection.execute(sql, given).fetchall()
