"""Taking sessions away: at once for whoever looks, and a few rows at a time on the disk.

The first commit takes a session from its project: no list shows it and no name finds it from then on. Its rows go in
short transactions with a pause between them, so that whoever writes beside it waits for a moment only. If the process
dies meanwhile, every promise about what is left still holds, and the next one that opens the store goes on with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from sluice.errors import StoreError
from sluice.session.catalog import REMOVED, lock_folder
from sluice.session.database import Database, Work
from sluice.session.disk import reading, store_error
from sluice.session.locks import FileLock, holder, in_use

BATCH_SECONDS = 0.05  # that the rows of one transaction may take
MEANWHILE_SECONDS = 0.005  # the same beside a run, whose deltas wait no longer than 20 ms
PAUSE_SECONDS = 0.03  # between two: longer than whoever waits for the store sleeps between two tries
_AT_ONCE = 200  # sessions in one transaction
_ROWS = 16  # that one statement takes: a row may be large
_MANY_ROWS = 200  # the same, of small ones

# From what names others to what is named. What is left of a session that goes is not checked (`check_view`).
_OF_A_RUN = (
    ("call", "turn, position", _ROWS),
    ("approval", "turn, position", _MANY_ROWS),
    ("usage", "number", _MANY_ROWS),
    ("notice", "number", _MANY_ROWS),
    ("preimage", "handle", _MANY_ROWS),
    ("chunk", "seq", _MANY_ROWS),
)
_CHILDREN = tuple(
    f"DELETE FROM {table} WHERE run = ?1 AND ({key}) IN (SELECT {key} FROM {table} WHERE run = ?1 LIMIT {most})"  # noqa: S608 - words of ours, values are bound
    for table, key, most in _OF_A_RUN
)
_MESSAGES_LEFT = "SELECT 1 FROM message WHERE run = ? AND session = ? LIMIT 1"
_LAST_RUN = "SELECT id FROM run WHERE session = ? ORDER BY number DESC LIMIT 1"


def remove_now(database: Database, sessions: Sequence[str]) -> tuple[list[str], dict[str, StoreError]]:
    """Removes these sessions for good; returns those that are gone, and those in use with who holds them.

    Blocks until their rows are gone too. Raises `StoreError` for a store that fails.
    """
    gone = [id for group in _groups(sessions) for id in database.write_now(_begin(database.path, group))]
    while database.write_now(sweep, full=False):
        time.sleep(PAUSE_SECONDS)
    folder = lock_folder(database.path)
    return gone, {id: in_use(folder, id) for id in sessions if id not in set(gone)}


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


async def hide(database: Database, sessions: Sequence[str]) -> list[str]:
    """Takes these sessions from their project, but not those in use; returns which. Their rows go with `sweep`."""
    groups = [await database.write(_begin(database.path, group), full=False) for group in _groups(sessions)]
    return [id for group in groups for id in group]


def expired(removed: int, waited: int, days: float) -> str:
    """One line for a person: so many sessions are gone as they were old, and in so many of them calls waited."""
    one = removed == 1
    in_them = "in it" if one else f"in {waited} of them"
    which, gone = ("session", "was") if one else ("sessions", "were")
    words = f"{removed} {which} unused for {days:g} days {gone} removed (session_days)"
    return f"{words}; {in_them} calls waited for your approval" if waited else words


def _groups(sessions: Sequence[str]) -> Iterator[Sequence[str]]:
    for at in range(0, len(sessions), _AT_ONCE):
        yield sessions[at : at + _AT_ONCE]


def _begin(path: Path, sessions: Sequence[str]) -> Work[list[str]]:
    """Takes those that nobody works with from their project, and says which these are.

    No lock is taken. Who takes one after this looked finds in its own first transaction, behind this one, that the
    session is gone (`session.opening`).
    """

    def work(connection: sqlite3.Connection) -> list[str]:
        free = [session for session in sessions if holder(lock_folder(path), session) is None]
        begin(connection, free)
        return free

    return work


def begin(connection: sqlite3.Connection, sessions: Sequence[str]) -> None:
    """Takes the sessions from their project, inside the caller's transaction. Nobody works with them."""
    connection.executemany("UPDATE session SET project = ? WHERE id = ?", [(REMOVED, session) for session in sessions])


async def sweep_meanwhile(database: Database) -> None:
    """Takes away what is left of removed sessions while a run goes on, in so short steps that no delta waits for them.

    Ends when nothing is left, or the store fails: then the next opening goes on with it. May be cancelled.
    """
    with contextlib.suppress(StoreError):
        while True:
            more = await database.write(lambda connection: sweep(connection, seconds=MEANWHILE_SECONDS), full=False)
            if not more:
                return
            await asyncio.sleep(PAUSE_SECONDS)


def sweep(
    connection: sqlite3.Connection,
    clock: Callable[[], float] = time.monotonic,
    *,
    seconds: float | None = None,
) -> bool:
    """Takes away rows of sessions that are being removed, for `seconds` (`BATCH_SECONDS`); says whether there are more.

    Inside the caller's transaction.
    """
    until = clock() + (BATCH_SECONDS if seconds is None else seconds)
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
