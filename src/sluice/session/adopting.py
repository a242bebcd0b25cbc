"""Taking the sessions of a folder along that was moved or renamed: out of its store into that of the new folder.

Some sessions at a time are copied in one transaction, and then removed where they were. If the process dies between the
two they are in both stores; doing it again goes on from there, and takes nothing twice.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from sluice.errors import StoreError
from sluice.session.catalog import lock_folder
from sluice.session.database import Database
from sluice.session.disk import reading
from sluice.session.locks import SessionLock
from sluice.session.removal import PAUSE_SECONDS, begin, sweep

_AT_ONCE = 50  # sessions that are locked together: each takes a descriptor
# In the order in which rows refer to each other.
_TABLES = (
    *((table, "session") for table in ("run", "message", "part", "seen", "shrunk")),
    *((table, "run") for table in ("chunk", "call", "approval", "usage", "notice", "preimage")),
)


def adopt(path: Path, source: Path, old: str, new: str) -> tuple[list[str], list[StoreError]]:
    """Makes the sessions of the folder `old` in the store at `source` sessions of `new` in the store at `path`.

    What other sessions of that store changed in `old` counts as changed in `new`. Returns those that were taken along, the
    one used first first, and why others were not: they are in use. They come before what the store at `path` holds.
    Raises `StoreError`.
    """
    with contextlib.ExitStack() as stack:
        theirs = stack.enter_context(contextlib.closing(Database(source)))  # which brings its schema up to date, too
        ours = theirs if path == source else stack.enter_context(contextlib.closing(Database(path)))
        with reading(source) as connection:
            found = connection.execute("SELECT id FROM session WHERE project = ? ORDER BY last", (old,)).fetchall()
        ids = [str(id) for (id,) in found]
        # What sessions of other projects changed there: it is where the folder is now.
        change = "UPDATE preimage SET workspace = ? WHERE workspace = ?"
        theirs.write_now(lambda connection: connection.execute(change, (new, old)))
        taken: list[str] = []
        held: list[StoreError] = []
        for at in reversed(range(0, len(ids), _AT_ONCE)):  # each group goes before what is there
            with _locked(source, ids[at : at + _AT_ONCE]) as (free, others):
                if path == source:
                    ours.write_now(lambda connection, free=free: _rename(connection, free, new))  # type: ignore[misc]
                else:
                    ours.write_now(lambda connection, free=free: _copy(connection, source, free, new))  # type: ignore[misc]
                    theirs.write_now(lambda connection, free=free: begin(connection, free))  # type: ignore[misc]
            taken = [*free, *taken]
            held += others
        while path != source and theirs.write_now(sweep, full=False):
            time.sleep(PAUSE_SECONDS)
        return taken, held


@contextlib.contextmanager
def _locked(path: Path, sessions: Sequence[str]) -> Iterator[tuple[list[str], list[StoreError]]]:
    """Those of the sessions that nobody works with, locked, and why the others are not."""
    held: list[StoreError] = []
    free: list[str] = []
    with contextlib.ExitStack() as stack:
        for session in sessions:
            try:
                stack.enter_context(contextlib.closing(SessionLock(lock_folder(path), session)))
            except StoreError as error:
                held.append(error)
            else:
                free.append(session)
        yield free, held


def _rename(connection: sqlite3.Connection, sessions: Sequence[str], project: str) -> None:
    connection.executemany("UPDATE session SET project = ? WHERE id = ?", [(project, id) for id in sessions])


def _copy(connection: sqlite3.Connection, source: Path, sessions: Sequence[str], project: str) -> None:
    """Copies the sessions that are not there yet, inside the caller's transaction."""
    (first,) = connection.execute("SELECT min(last) FROM session").fetchone()
    with reading(source) as theirs:
        (last,) = theirs.execute("SELECT max(last) FROM session").fetchone()
        shift = 0 if first is None else first - last - 1
        for session in sessions:
            if connection.execute("SELECT 1 FROM session WHERE id = ?", (session,)).fetchone() is not None:
                continue
            connection.execute(
                "INSERT INTO session (id, project, created_at, parent, last) VALUES (?, ?, ?, ?, ?)",
                theirs.execute(
                    "SELECT id, ?, created_at, parent, last + ? FROM session WHERE id = ?", (project, shift, session)
                ).fetchone(),
            )
            for table, by in _TABLES:
                where = "session = ?" if by == "session" else "run IN (SELECT id FROM run WHERE session = ?)"
                rows = theirs.execute(f"SELECT * FROM {table} WHERE {where}", (session,))  # noqa: S608 - words of ours
                names = [name for name, *_ in rows.description]
                into = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"  # noqa: S608 - words of ours, values are bound
                connection.executemany(into, rows)
