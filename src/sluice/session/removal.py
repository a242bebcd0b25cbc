"""Taking sessions away: at once for whoever looks, and a few rows at a time on the disk.

The first commit takes a session from its project: no list shows it and no name finds it from then on. Its rows go in
short transactions with a pause between them, so that whoever writes beside it waits for a moment only. If the process
dies meanwhile, every promise about what is left still holds, and the next one that opens the store goes on with it.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from sluice.errors import StoreError
from sluice.session.catalog import REMOVED, lock_folder
from sluice.session.database import Database
from sluice.session.disk import reading, store_error
from sluice.session.locks import FileLock, SessionLock

BATCH_SECONDS = 0.05  # that the rows of one transaction may take
PAUSE_SECONDS = 0.03  # between two: longer than whoever waits for the store sleeps between two tries
_AT_ONCE = 50  # sessions that are locked together
_ROWS = 16  # that one statement takes: a row may be large
_MANY_ROWS = 200  # the same, of small ones

# Calls go before approvals and before messages, as what is left is checked by what there still is of them.
_OF_A_RUN = (
    ("call", "turn, position", _ROWS),
    ("approval", "turn, position", _MANY_ROWS),
    ("usage", "number", _MANY_ROWS),
    ("notice", "number", _MANY_ROWS),
    ("preimage", "handle", _MANY_ROWS),
    ("chunk", "seq", _MANY_ROWS),
)
_CHILDREN = tuple(
    f"DELETE FROM {table} WHERE run = ?1 AND ({key}) IN (SELECT {key} FROM {table} WHERE run = ?1 LIMIT {most})"  # noqa: S608
    for table, key, most in _OF_A_RUN
)
_MESSAGES_LEFT = "SELECT 1 FROM message WHERE run = ? AND session = ? LIMIT 1"
_LAST_RUN = "SELECT id FROM run WHERE session = ? ORDER BY number DESC LIMIT 1"


def remove_now(database: Database, sessions: Sequence[str]) -> tuple[list[str], dict[str, StoreError]]:
    """Removes these sessions for good; returns those that are gone, and those in use with who holds them.

    Blocks until their rows are gone too. Raises `StoreError` for a store that fails.
    """
    gone: list[str] = []
    held: dict[str, StoreError] = {}
    for group in groups(sessions):
        with locked(database.path, group) as (ours, others):
            database.write_now(lambda connection, ours=ours: begin(connection, ours))  # type: ignore[misc]
        gone += ours
        held |= others
    while database.write_now(sweep, full=False):
        time.sleep(PAUSE_SECONDS)
    return gone, held


def remove_file(path: Path, sessions: Sequence[str]) -> bool:
    """Removes the file of a store that holds no sessions but these and that nobody has open; says whether.

    For a full disk: removing rows takes room for the log, and this takes none. Raises `StoreError`.
    """
    try:
        with contextlib.closing(FileLock(Path(f"{path}.users"))) as users:
            if not users.try_exclusive():
                return False
            with reading(path) as connection:
                held = connection.execute("SELECT id FROM session WHERE project != ?", (REMOVED,)).fetchall()
            if not {str(id) for (id,) in held} <= set(sessions):
                return False
            for ending in ("", "-wal", "-shm", "-journal"):  # a log without its file counts for nothing
                Path(f"{path}{ending}").unlink(missing_ok=True)
            return True
    except OSError as error:
        raise store_error(error, path) from None


async def hide(database: Database, sessions: Sequence[str]) -> int:
    """Takes these sessions from their project, but not those in use; returns how many. Their rows go with `sweep`."""
    count = 0
    for group in groups(sessions):
        with locked(database.path, group) as (ours, _others):
            await database.write(lambda connection, ours=ours: begin(connection, ours))  # type: ignore[misc]
        count += len(ours)
    return count


def groups(sessions: Sequence[str]) -> Iterator[Sequence[str]]:
    """The sessions, as many at a time as are locked together."""
    for at in range(0, len(sessions), _AT_ONCE):
        yield sessions[at : at + _AT_ONCE]


@contextlib.contextmanager
def locked(path: Path, sessions: Sequence[str]) -> Iterator[tuple[list[str], Mapping[str, StoreError]]]:
    """Those of the sessions that nobody works with, locked, and for each of the others why not."""
    held: dict[str, StoreError] = {}
    ours: list[str] = []
    with contextlib.ExitStack() as stack:
        for session in sessions:
            try:
                stack.enter_context(contextlib.closing(SessionLock(lock_folder(path), session)))
            except StoreError as error:
                held[session] = error
            else:
                ours.append(session)
        yield ours, held


def begin(connection: sqlite3.Connection, sessions: Sequence[str]) -> None:
    """Takes the sessions from their project, inside the caller's transaction. The caller holds their locks."""
    connection.executemany("UPDATE session SET project = ? WHERE id = ?", [(REMOVED, session) for session in sessions])


def sweep(connection: sqlite3.Connection, clock: Callable[[], float] = time.monotonic) -> bool:
    """Takes away rows of sessions that are being removed, for `BATCH_SECONDS`; says whether there are more.

    Inside the caller's transaction.
    """
    until = clock() + BATCH_SECONDS
    for (session,) in connection.execute("SELECT id FROM session WHERE project = ?", (REMOVED,)).fetchall():
        for _step in _steps(connection, session):
            if clock() >= until:
                return True
    return False


def _steps(connection: sqlite3.Connection, session: str) -> Iterator[None]:
    """Removes a session from its end to its beginning, some rows at each step."""
    while (found := connection.execute(_LAST_RUN, (session,)).fetchone()) is not None:
        for statement in _CHILDREN:
            while connection.execute(statement, found).rowcount:
                yield
        while connection.execute(_MESSAGES_LEFT, (*found, session)).fetchone() is not None:
            _last_messages(connection, session)
            yield
        connection.execute("DELETE FROM run WHERE id = ?", found)
        yield
    while _last_messages(connection, session):
        yield
    connection.execute("DELETE FROM session WHERE id = ?", (session,))  # and the little that hangs on it
    yield


def _last_messages(connection: sqlite3.Connection, session: str) -> int:
    """Removes the last messages of the session with their parts; how many."""
    found = connection.execute(
        "SELECT seq FROM message WHERE session = ? ORDER BY seq DESC LIMIT ?", (session, _ROWS)
    ).fetchall()
    if found:
        last = (session, found[-1][0])
        connection.execute("DELETE FROM part WHERE session = ? AND seq >= ?", last)
        connection.execute("DELETE FROM message WHERE session = ? AND seq >= ?", last)
    return len(found)
