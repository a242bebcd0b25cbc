"""Opening a session to work in it: a new one, the last one, a named one, or a fork of one.

In order: the store is opened (and made, and checked after an unclean end), old sessions are taken away if that is
wanted, the session's lock is taken, and what its last process left unfinished is made right, once. Any of these may say
no in one line (`StoreError`), and then nothing was changed.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from sluice.errors import StoreError
from sluice.session import catalog
from sluice.session.database import Database
from sluice.session.fork import fork
from sluice.session.locks import SessionLock
from sluice.session.resume import Recovered, recover, waits
from sluice.session.store import SqliteStore
from sluice.session.vacuum import used_bytes
from sluice.session.waiting import asked_tools
from sluice.session.wish import Wish
from sluice.values.results import ToolResult


class Opening(msgspec.Struct, frozen=True, kw_only=True):
    """The open session, the runs that were found broken, and lines that a person should read."""

    store: SqliteStore
    recovered: tuple[Recovered, ...]
    news: tuple[str, ...]


async def open_session(
    path: Path,
    project: str,
    wish: Wish,
    *,
    new_id: Callable[[], str],
    words: Callable[[ToolResult], str],
    max_bytes: int | None = None,
    keep_days: float | None = None,
    now: Callable[[], float] = time.time,
) -> Opening:
    """Opens a session of the store at `path` for `project` (an absolute folder). Close `Opening.store` in every case.

    `new_id` gives the id of a new session, `words` the text in which a model is told a result. Over `max_bytes` the store
    takes no more; sessions unused for `keep_days` are removed first. Raises `StoreError`.
    """
    database = Database(path)
    try:
        news = list(database.warnings)
        if keep_days is not None:
            news += await _expire(database, project, now() - keep_days * 86_400, keep_days)
        if max_bytes is not None:
            _within(path, await database.write(used_bytes, full=False), max_bytes)
        session, said = await _session(database, project, wish, new_id, now, words)
        lock = SessionLock(catalog.lock_folder(path), session)
        try:
            found, tools = await database.write(
                lambda connection: (recover(connection, session, words), asked_tools(connection, session))
            )
        except BaseException:
            lock.close()
            raise
        news += [*said, *(one.words() for one in found)]
        if tools and not found:  # it was recovered before, and nobody has decided yet
            news.append(f"in this session {waits(tools)}")
        store = SqliteStore(
            database,
            session,
            project,
            lock,
            now=now,
            mend=lambda connection, keep: recover(connection, session, words, keep_waiting=keep),
        )
        return Opening(store=store, recovered=found, news=tuple(news))
    except OSError as error:
        database.close()
        raise StoreError("io", f"the session cannot be locked: {error.strerror or error}") from None
    except BaseException:
        database.close()
        raise


async def _session(
    database: Database,
    project: str,
    wish: Wish,
    new_id: Callable[[], str],
    now: Callable[[], float],
    words: Callable[[ToolResult], str],
) -> tuple[str, list[str]]:
    if wish.how == "continue":
        found = await database.write(lambda connection: catalog.latest(connection, project), full=False)
        if found is None:
            return new_id(), ["this project has no session yet, so --continue began one"]
        return found, []
    if wish.how == "resume":
        return await database.write(lambda connection: catalog.find(connection, wish.id), full=False), []
    if wish.how == "fork":
        target = new_id()

        def work(connection: sqlite3.Connection) -> tuple[str, int]:
            source = catalog.find(connection, wish.id)
            return source, fork(connection, source, target, upto=wish.upto, project=project, now=now(), words=words)

        source, count = await database.write(work)
        return target, [f"session {target} begins with {count} messages of {source}"]
    return new_id(), []


async def _expire(database: Database, project: str, before: float, days: float) -> list[str]:
    old = await database.write(lambda connection: catalog.older_than(connection, project, before), full=False)
    removed = 0
    for session in old:
        with contextlib.suppress(StoreError):  # in use, so it is not old
            await remove_session(database, session)
            removed += 1
    return [f"{removed} sessions unused for {days:g} days were removed (session_days)"] if removed else []


async def remove_session(database: Database, session: str) -> int:
    """Removes a session that nobody is at work on; returns how many messages it had. Raises `StoreError` (`held`)."""
    lock = SessionLock(catalog.lock_folder(database.path), session)
    try:
        return await database.write(lambda connection: catalog.remove(connection, session))
    finally:
        lock.close()


def remove_now(database: Database, session: str) -> int:
    """The same as `remove_session`, for callers that are not coroutines."""
    lock = SessionLock(catalog.lock_folder(database.path), session)
    try:
        return database.write_now(lambda connection: catalog.remove(connection, session))
    finally:
        lock.close()


def _within(path: Path, size: int, max_bytes: int) -> None:
    if size > max_bytes:
        raise StoreError(
            "full",
            f"the session store {str(path)!r} holds {size:,} bytes, more than session_store_bytes allows ({max_bytes:,}); "
            "remove old sessions with: sluice sessions rm --older-than 30",
        )
