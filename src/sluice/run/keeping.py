"""The one bound over all that Sluice keeps on this disk: sessions of every project, pre-images, the audit log.

It is looked at when a session is opened: every file, in a thread, and for an hour nobody looks again while a tenth of the
bound is free. Over the bound, what the user has allowed to go goes first (`session_days`, and pre-images that no session
needs); if that is not enough, no session is opened until there is room. One that is open goes on.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from sluice.errors import AuditError, ConfigurationError, StoreError
from sluice.run.sessions import pruned
from sluice.run.settings import Settings
from sluice.run.shielding import in_thread
from sluice.run.store_places import IN_MEMORY, data_folder, project_stores, store_path, stores
from sluice.session.audit import AuditLog
from sluice.session.audit_files import closed_files
from sluice.session.audit_reading import written_between
from sluice.session.kept import Kept, measured, note, noted

NOTED_SECONDS = 3600.0  # that figures are believed; what is written meanwhile is bounded by other bounds
WARNED_PART = 0.9  # of the bound: from here on every opening looks for itself, and says so

_AUDIT = "audit.jsonl"
_DAY = 86_400  # seconds
_KINDS = {
    "sessions": "sessions",
    "preimages": "pre-images",
    "audit": "audit log",
    "damaged": "damaged stores kept aside",
}
_ROOM = {
    "sessions": "`sluice sessions rm --all --older-than 30` (or of fewer days) makes room",
    "preimages": "`sluice sessions rm --all --older-than 30` (or of fewer days) makes room",
    "audit": "`sluice audit prune --older-than 30` makes room",
    "damaged": "remove the damaged stores that were kept aside (sessions.db.damaged-…)",
    "other": "look for what does not belong there",
}


async def kept_within(settings: Settings, state: Path, *, now: Callable[[], float] = time.time) -> list[str]:
    """Sees to it that a session may be opened; returns what a person should read.

    Nothing is looked at where no session is kept. Raises `ConfigurationError` if too much is kept.
    """
    if settings.session_store == IN_MEMORY:
        return []
    return await in_thread(lambda: _within(settings, state, now))


def kept_now(state: Path) -> Kept:
    """What is kept, found by looking at every file."""
    return measured(data_folder(), state)


def kept_lines(kept: Kept, bound: int | None) -> Iterator[str]:
    """What is kept, for `sluice doctor`, line by line."""
    yield f"kept on this disk: {in_words(kept.total)}" + (f" (at most {in_words(bound)}: kept_bytes)" if bound else "")
    for kind, words in {**_KINDS, "other": "other"}.items():
        if size := getattr(kept, kind):
            yield f"  {in_words(size):>9}  {words}" + (f" (stores: {kept.stores})" if kind == "sessions" else "")
    if kept.largest is not None:
        yield f"  the largest: {kept.largest[0]} ({in_words(kept.largest[1])})"


def given_back(settings: Settings, everywhere: bool) -> int:
    """Makes stores smaller from which much was removed; returns the bytes that the disk has back. Raises `StoreError`."""
    from sluice.session.vacuum import give_back  # loads SQLite

    return sum(give_back(path) for path in stores(settings, everywhere, wanted=False))


def in_words(size: int) -> str:
    """A number of bytes to read, such as `1.5 GiB`."""
    for unit, least in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size >= least:
            return f"{size / least:.1f} {unit}"
    return f"{size} bytes"


def _within(settings: Settings, state: Path, now: Callable[[], float]) -> list[str]:
    news = _old_audit_files(settings, state, now())
    bound = settings.kept_bytes
    if bound is None:
        return news
    kept = noted(state, now(), NOTED_SECONDS)
    if kept is None or kept.total > bound * WARNED_PART:
        kept = kept_now(state)
        if kept.total > bound:
            news += _made_room(settings, state, now())
            kept = kept_now(state)
        note(state, kept, now())
    if kept.total > bound:
        raise ConfigurationError(_words(kept, f", more than kept_bytes allows ({in_words(bound)})"))
    if kept.total > bound * WARNED_PART:
        news.append(_words(kept, f" of the {in_words(bound)} that kept_bytes allows"))
    return news


def _words(kept: Kept, bound: str) -> str:
    kinds = sorted(((getattr(kept, kind), kind) for kind in _ROOM), reverse=True)
    most = ", ".join(f"{_KINDS.get(kind, 'other')} {in_words(size)}" for size, kind in kinds[:3] if size)
    largest = f"; the largest: {kept.largest[0]} ({in_words(kept.largest[1])})" if kept.largest is not None else ""
    return (
        f"Sluice keeps {in_words(kept.total)}{bound}: {most}{largest}; {_ROOM[kinds[0][1]]}, or set kept_bytes higher"
    )


def _old_audit_files(settings: Settings, state: Path, now: float) -> list[str]:
    """Removes closed files of the audit log that are older than the user wants them.

    A clock that is wrong would make all of them old at once. So none goes unless the log saw the days go by.
    """
    path = str(state / _AUDIT)
    if settings.audit_days is None or not closed_files(path):
        return []
    days = settings.audit_days
    before, lately = now - days * _DAY, now - min(1.0, days / 2) * _DAY
    log = AuditLog(path)
    try:
        if not log.has_closed(before):
            return []
        if not written_between(path, before, lately):
            return [
                f"files of the audit log seem older than {days:g} days (audit_days) and were kept: nothing else was "
                "recorded in that time, so the clock may be wrong; they go when it is confirmed by a record of another day"
            ]
        count, _bytes = log.remove_closed(before)
    except (AuditError, OSError) as error:
        return [str(error)]
    finally:
        log.close()
    if not count:
        return []
    return [f"{count} files of the audit log older than {days:g} days were removed (audit_days)"]


def _made_room(settings: Settings, state: Path, now: float) -> list[str]:
    """Does what the user has allowed already. A store that cannot be read, or is in use, stays as it is."""
    from sluice.session.removal import expired

    paths = project_stores()
    days, gone, waited = settings.session_days, 0, 0
    if days is not None and not any(_saw_the_days(path, now, days) for path in paths):
        days = None  # a clock that is wrong makes every session old
    for path in paths:
        with contextlib.suppress(StoreError):
            if days is not None:
                of_it, with_calls = _expired(path, settings, now, days)
                gone, waited = gone + of_it, waited + with_calls
            given_back(msgspec.structs.replace(settings, session_store=str(path)), False)
    with contextlib.suppress(StoreError):
        pruned(settings, state)
    return [expired(gone, waited, days)] if gone and days is not None else []


def _saw_the_days(path: Path, now: float, days: float) -> bool:
    """Whether something ran within the days for which sessions are kept, and not only just now."""
    from sluice.session import catalog
    from sluice.session.disk import reading

    with contextlib.suppress(StoreError), reading(path) as connection:
        return catalog.ran_between(connection, now - days * _DAY, now - min(1.0, days / 2) * _DAY)
    return False


def _expired(path: Path, settings: Settings, now: float, days: float) -> tuple[int, int]:
    """Removes the sessions of a store that were not used for so long, but for the one that is wished for; how many, and in
    how many of them calls waited for a person."""
    from sluice.session import catalog
    from sluice.session.database import Database
    from sluice.session.disk import reading
    from sluice.session.removal import remove_now

    wish, spared = settings.session, set[str | None]()
    with reading(path) as connection:
        old = catalog.older_than(connection, None, now - days * _DAY, now)
        if path == store_path(settings) and wish.how != "new":
            latest = wish.how == "continue"
            spared = (
                {catalog.latest(connection, settings.workspace)} if latest else {*catalog.matching(connection, wish.id)}
            )
        old = [id for id in old if id not in spared]
        waited = catalog.waiting(connection, old)
    if not old:
        return 0, 0
    database = Database(path)
    try:
        gone = remove_now(database, old)[0]
        return len(gone), len(waited.intersection(gone))
    finally:
        database.close()
