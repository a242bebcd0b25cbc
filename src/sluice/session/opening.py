"""Opening a session to work in it: a new one, the last one, a named one, or a fork of one.

In order: the store is opened (and made, and checked after an unclean end), the session is found and its lock taken, old
ones are taken away if that is wanted, and what its last process left unfinished is made right, once. Any of these may say
no in one line (`StoreError`); then nothing of the session was changed.
"""

from __future__ import annotations

import asyncio
import math
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from sluice.errors import StoreError
from sluice.session import catalog
from sluice.session.database import Database, Work
from sluice.session.disk import store_error
from sluice.session.fork import fork
from sluice.session.locks import SessionLock, holder
from sluice.session.removal import PAUSE_SECONDS, expired, hide, sweep, sweep_meanwhile
from sluice.session.resume import Recovered, recover, waits
from sluice.session.store import SqliteStore
from sluice.session.vacuum import used_bytes
from sluice.session.waiting import asked_tools
from sluice.session.wish import Wish
from sluice.values.results import ToolResult

SWEEP_SECONDS = 0.2  # that an opening spends on what is left of removed sessions; the rest goes meanwhile


class Opening(msgspec.Struct, frozen=True, kw_only=True):
    """The open session, the runs that were found broken, and lines that a person should read. `found`: it was there."""

    store: SqliteStore
    recovered: tuple[Recovered, ...]
    news: tuple[str, ...]
    found: bool


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
    takes no more; sessions unused for `keep_days` are removed, but for the one that is wished for. Raises `StoreError`.
    """
    database = Database(path)
    try:
        news = list(database.warnings)
        session, source, said = await _chosen(database, project, wish, new_id)
        found, room = wish.how in ("continue", "resume") and not said, _room(path, max_bytes)
        lock = _locked(path, session)
        try:
            if keep_days is not None:
                news += await _expire(database, project, {session, source}, now(), keep_days)
            more = await _swept(database, SWEEP_SECONDS)
            await _within(database, room)
            work = _begin(wish, session, source, found, project, now, words, path)
            broken, tools, copied = await database.write(work)
        except BaseException:
            lock.close()
            raise
        if source is not None:
            said = [f"session {session} begins with {copied} messages of {source}"]
        of = f"of {source}: " if source is not None else ""
        news += [*said, *(f"{of}{one.words()}" for one in broken)]
        if tools and not broken:  # it was recovered before, and nobody has decided yet
            news.append(f"in this session {waits(tools)}")
        store = SqliteStore(
            database,
            session,
            project,
            lock,
            now=now,
            mend=lambda connection, keep: recover(connection, session, words, keep_waiting=keep),
            room=room,
            meanwhile=sweep_meanwhile(database) if more else None,
        )
        return Opening(store=store, recovered=() if source is not None else broken, news=tuple(news), found=found)
    except BaseException:
        database.close()
        raise


async def _chosen(
    database: Database, project: str, wish: Wish, new_id: Callable[[], str]
) -> tuple[str, str | None, list[str]]:
    """The session to open, the one that it is to be a copy of, and what a person should know of that."""

    def work(connection: sqlite3.Connection) -> str | None:
        return catalog.latest(connection, project) if wish.how == "continue" else catalog.find(connection, wish.id)

    if wish.how == "new":
        return new_id(), None, []
    found = await database.write(work, full=False)
    if found is None:
        return new_id(), None, ["this project has no session yet, so --continue began one"]
    return (new_id(), found, []) if wish.how == "fork" else (found, None, [])


def _locked(path: Path, session: str) -> SessionLock:
    try:
        return SessionLock(catalog.lock_folder(path), session)
    except OSError as error:
        raise store_error(error, path) from None


def _begin(
    wish: Wish,
    session: str,
    source: str | None,
    found: bool,
    project: str,
    now: Callable[[], float],
    words: Callable[[ToolResult], str],
    path: Path,
) -> Work[tuple[tuple[Recovered, ...], tuple[str, ...], int]]:
    """The first transaction in a session: what was found broken, which calls wait, and how many messages were copied.

    The source of a fork is made right too, unless somebody works with it: else the copy would lack the last reply of a run
    that died, and what was done of it. Its lock is not taken: who takes it after this looked comes behind this transaction.
    """

    def work(connection: sqlite3.Connection) -> tuple[tuple[Recovered, ...], tuple[str, ...], int]:
        copied = 0
        needed = session if found else source
        if needed is not None and not catalog.there(connection, needed):
            raise StoreError("refused", f"session {needed} has just been removed")
        if source is None:
            return recover(connection, session, words), asked_tools(connection, session), copied
        free = holder(catalog.lock_folder(path), source) is None
        broken = recover(connection, source, words) if free else ()
        copied = fork(connection, source, session, upto=wish.upto, project=project, now=now(), words=words)
        return broken, asked_tools(connection, session), copied

    return work


async def _expire(database: Database, project: str, spared: set[str | None], now: float, days: float) -> list[str]:
    """Removes sessions unused for `days`, but for those `spared`; returns what a person should know of it.

    A clock that is wrong would make every session old at once. So none is removed unless the store saw the days go by:
    something ran in that time, and not only just now.
    """
    before, lately = now - days * 86_400, now - min(1.0, days / 2) * 86_400

    def work(connection: sqlite3.Connection) -> tuple[list[str], set[str], bool]:
        old = [id for id in catalog.older_than(connection, project, before, now) if id not in spared]
        return old, catalog.waiting(connection, old), catalog.ran_between(connection, before, lately)

    old, waited, days_went_by = await database.write(work, full=False)
    if old and not days_went_by:
        return [
            f"{len(old)} sessions seem unused for {days:g} days (session_days) and were kept: nothing else ran here in "
            "that time, so the clock may be wrong; they go when it is confirmed by a run on another day"
        ]
    removed = await hide(database, old)  # one in use is not old
    return [expired(len(removed), len(waited.intersection(removed)), days)] if removed else []


async def _swept(database: Database, seconds: float, clock: Callable[[], float] = time.monotonic) -> bool:
    """Takes away what is left of removed sessions, for so long; says whether there is more."""
    until = clock() + seconds
    while True:
        more = await database.write(sweep, full=False)
        if not more or clock() >= until:
            return more
        await asyncio.sleep(PAUSE_SECONDS)


async def _within(database: Database, room: Callable[[sqlite3.Connection], None]) -> None:
    try:
        await database.write(room, full=False)
    except StoreError as error:
        if error.kind != "full":
            raise
        await _swept(database, math.inf)
        await database.write(room, full=False)


def _room(path: Path, max_bytes: int | None) -> Callable[[sqlite3.Connection], None]:
    """What raises `StoreError` once a store holds more than it may."""

    def room(connection: sqlite3.Connection) -> None:
        if max_bytes is not None and (size := used_bytes(connection)) > max_bytes:
            raise StoreError(
                "full",
                f"the session store {str(path)!r} holds {size:,} bytes, more than session_store_bytes allows "
                f"({max_bytes:,}); remove old sessions with: sluice sessions rm --older-than 30",
            )

    return room
