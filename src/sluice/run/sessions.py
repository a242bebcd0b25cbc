"""Sessions for the rest of the program and for faces: where they are, opening one, and what `sluice sessions` does.

SQLite is loaded with `session.opening` and the like, inside the functions that need it: a run with `:memory:` does
without.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from sluice.errors import ConfigurationError, StoreError
from sluice.run.config import Settings
from sluice.run.elsewhere import elsewhere_words, left_behind, moved_words
from sluice.run.parts import RandomIds
from sluice.run.result_text import result_text
from sluice.run.shielding import in_thread
from sluice.run.spending import Spending, Spent
from sluice.run.store_places import data_folder, project_stores, store_path, stores
from sluice.session.blobs import prune
from sluice.session.unsaved import Unsaved
from sluice.values.ports import Journal
from sluice.wire.surrogates import storable

if TYPE_CHECKING:
    from sluice.session.catalog import Listed
    from sluice.session.opening import Opening
    from sluice.session.repair import Repaired
    from sluice.session.store import SqliteStore


async def open_store(settings: Settings) -> Opening | None:
    """The session that the settings wish for; `None` where nothing is to be kept. Close its store in every case.

    Raises `ConfigurationError` for a store that cannot be used and a session that cannot be had.
    """
    path = store_path(settings)
    if path is None:
        if settings.session.how != "new":
            raise ConfigurationError(f"there is no session to {settings.session.how} with --session-store :memory:")
        return None
    from sluice.session.opening import open_session  # loads SQLite

    try:
        opening = await open_session(
            path,
            settings.workspace,
            msgspec.structs.replace(settings.session, id=storable(settings.session.id)),
            new_id=lambda: RandomIds().new("ses"),
            words=result_text,
            max_bytes=settings.session_store_bytes,
            keep_days=settings.session_days,
        )
    except StoreError as error:
        words = ""
        if error.kind == "refused" and settings.session.id:
            words = await in_thread(lambda: elsewhere_words(settings, settings.session.id, own_store=False))
        raise ConfigurationError(words or str(error)) from None
    if settings.session.how != "continue" or opening.found:
        return opening
    moved = await in_thread(lambda: moved_words(settings, likely=True))
    return msgspec.structs.replace(opening, news=(*opening.news, moved)) if moved else opening


class SessionJournal:
    """A `Journal` that also tells the session which pre-image belongs to which call."""

    def __init__(self, journal: Journal, store: SqliteStore) -> None:
        self._journal = journal
        self._store = store

    def keep(self, path: str, content: bytes | None, mode: int | None) -> str | None:
        """See `Journal.keep`. Raises `OSError` also where the session cannot keep it."""
        handle = self._journal.keep(path, content, mode)
        if handle is not None:
            digest = None if content is None else hashlib.sha256(content).hexdigest()
            try:
                self._store.keep_preimage(handle, path, digest, mode)
            except StoreError as error:
                raise OSError(str(error)) from None
        return handle


# -- what `sluice sessions` does. All of it raises `StoreError` or `ConfigurationError`.


def listed(settings: Settings, everywhere: bool, most: int | None = None) -> list[Listed]:
    """The sessions, the one used last first within each store, and at most `most` of each."""
    from sluice.session import catalog
    from sluice.session.disk import reading

    found: list[Listed] = []
    for path in stores(settings, everywhere):
        with reading(path) as connection:
            found += catalog.listed(connection, path, None if everywhere else settings.workspace, most)
    return found


def stayed_in_use(settings: Settings, everywhere: bool, older_than: float) -> list[str]:
    """The sessions unused for `older_than` days that `removed` leaves, because a process works with them."""
    before = time.time() - older_than * 86_400
    return [one.id for one in listed(settings, everywhere) if one.held_by is not None and one.last_run_at < before]


def none_words(settings: Settings, everywhere: bool) -> str:
    """That there is no session, where one would be, and which folders may have been moved here. Raises `StoreError`."""
    path = store_path(settings)
    if path is None:
        return "no sessions: nothing is kept with --session-store :memory:"
    if everywhere:
        where = path if settings.session_store is not None else data_folder() / "projects"
        return f"no sessions in {where}"
    if not os.path.isdir(settings.workspace):
        raise StoreError("refused", f"there is no folder {settings.workspace!r}, and no session of it")
    words = f"no sessions of {settings.workspace}; they would be in {path}"
    moved = moved_words(settings, likely=False)
    return f"{words}; {moved}" if moved else words


def spent_in(settings: Settings, session: str) -> list[Spent]:
    """What each reply of a session of this workspace used, oldest first."""
    from sluice.session.disk import reading
    from sluice.session.usage import replies

    path = store_path(settings)
    if path is None or not path.is_file():
        return []
    with reading(path) as connection:
        return [Spent(*reply) for reply in replies(connection, session)]


def spent_lines(settings: Settings, wanted: str, everywhere: bool) -> list[str]:
    """What a session used, in lines for a person: by run, the turns of its last run, and in all."""
    from sluice.session.disk import reading
    from sluice.session.usage import replies

    path, session = _found(settings, everywhere, wanted)
    with reading(path) as connection:
        return list(Spending(Spent(*reply) for reply in replies(connection, session)).lines())


def named(settings: Settings, everywhere: bool, wanted: str) -> str:
    """The id of the session that `wanted` names or begins; of the one used last where it is empty."""
    return _found(settings, everywhere, wanted)[1]


def _found(settings: Settings, everywhere: bool, wanted: str) -> tuple[Path, str]:
    """Store and id of the session that `wanted` names, in one store or another; empty is the one used last.

    With `everywhere` a store that cannot be read is passed over if the session is in another one.
    """
    from sluice.session import catalog
    from sluice.session.disk import reading

    wanted = storable(wanted)  # bytes of an argument that are no text in this locale name nothing
    found: dict[str, Path] = {}
    last: list[tuple[float, str, Path]] = []
    failed: list[StoreError] = []
    for path in stores(settings, everywhere):
        try:
            with reading(path) as connection:
                if wanted:
                    ids = catalog.matching(connection, wanted, None if everywhere else settings.workspace)
                    found = {**dict.fromkeys(ids, path), **found}
                elif everywhere:
                    last += [(one.last_run_at, one.id, path) for one in catalog.listed(connection, path, None, 1)]
                elif (id := catalog.latest(connection, settings.workspace)) is not None:
                    return path, id
        except StoreError as error:
            failed.append(error)
    if last:
        return max(last)[2], max(last)[1]
    if failed and not found:
        raise failed[0]
    if not wanted:
        raise StoreError("refused", none_words(settings, everywhere))
    if not found and not everywhere and (words := elsewhere_words(settings, wanted)):
        raise StoreError("refused", words)
    id = catalog.chosen(list(found), wanted)
    return found[id], id


def exported(
    settings: Settings, wanted: str, form: str, everywhere: bool = False, unsaved: Sequence[Unsaved] = ()
) -> Iterator[bytes]:
    """A session as pieces of JSON (`json`) or Markdown (`md`), with what is not in the store in its place."""
    from sluice.session.disk import reading
    from sluice.session.export import as_json, as_markdown

    path, session = _found(settings, everywhere, wanted)
    with reading(path) as connection:
        if form == "json":
            yield from as_json(connection, session, unsaved)
        else:
            for piece in as_markdown(connection, session, unsaved):
                yield piece.encode("utf-8")


def removed(
    settings: Settings, wanted: Sequence[str], everywhere: bool = False, older_than: float | None = None
) -> list[str]:
    """Removes these sessions, and those unused for `older_than` days; returns their ids. What is in use stays.

    Raises `StoreError` for a named one that is in use, and for a store of another project that cannot be read; the others
    are removed then, and it says which.
    """
    from sluice.session import catalog
    from sluice.session.disk import reading

    named = [_found(settings, everywhere, one) for one in wanted]
    targets = list(named)
    spared: list[StoreError] = []
    if older_than is not None:
        now = time.time()
        before = now - older_than * 86_400
        for path in stores(settings, everywhere):
            try:
                with reading(path) as connection:
                    project = None if everywhere else settings.workspace
                    targets += [(path, session) for session in catalog.older_than(connection, project, before, now)]
            except StoreError as error:
                if not everywhere:
                    raise
                spared.append(error)
    targets += left_behind(settings, targets)  # or the next `adopt` would bring them back
    gone: list[str] = []
    full: list[tuple[Path, list[str]]] = []
    by_store = itertools.groupby(sorted(dict.fromkeys(targets), key=lambda one: one[0]), lambda one: one[0])
    groups = [(path, [session for _path, session in group]) for path, group in by_store]
    while groups:
        for path, ids in groups:
            try:
                done, held = _gone_from(path, ids)
            except StoreError as error:
                if error.kind != "full":
                    raise
                full.append((path, ids))
                spared.append(error)
                continue
            gone += done
            spared += [error for session, error in held.items() if (path, session) in named]
        # What was removed from one store has made room for the log of another.
        groups, full = (full, []) if len(full) < len(groups) else ([], [])
        spared = [error for error in spared if not groups or error.kind != "full"]
    if spared:
        more = f" (removed: {', '.join(gone)})" if gone else ""
        raise StoreError(spared[0].kind, f"{spared[0]}{more}")
    return list(dict.fromkeys(gone))


def _gone_from(path: Path, ids: Sequence[str]) -> tuple[list[str], Mapping[str, StoreError]]:
    """Removes sessions of one store; returns those that are gone, and who holds the others. Raises `StoreError`."""
    from sluice.session.database import Database
    from sluice.session.removal import remove_file, remove_now

    try:
        database = Database(path)
        try:
            return remove_now(database, ids)
        finally:
            database.close()
    except StoreError as error:
        if error.kind != "full":
            raise
        if remove_file(path, ids):
            return list(ids), {}
        need = "the log for removing some sessions of a store needs about 128 KiB; removing all of them needs none"
        raise StoreError("full", f"{error}; {need}") from None


def pruned(settings: Settings, state: Path) -> tuple[int, int]:
    """Removes old pre-images that no session refers to; returns how many, and their bytes.

    Asked are the stores of every project and the one that the settings choose. If one of them cannot be read, nothing is
    removed. Raises `StoreError`.
    """
    from sluice.session.disk import reading

    referred: set[str] = set()
    for path in {*project_stores(), *stores(settings, False, wanted=False)}:
        with reading(path) as connection:
            referred |= {digest for (digest,) in connection.execute("SELECT sha256 FROM preimage WHERE sha256 NOTNULL")}
    try:
        return prune(str(state), referred)
    except OSError as error:
        raise StoreError("io", f"old pre-images cannot be removed: {error.strerror or error}") from None


def repaired(settings: Settings) -> list[tuple[Path, Repaired]]:
    """Saves what can be read of this project's store into a new file, if it is damaged; the old one is kept aside."""
    from sluice.session.repair import repair

    return [(path, repair(path, settings.workspace)) for path in stores(settings, False)]
