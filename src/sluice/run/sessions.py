"""Sessions for the rest of the program and for faces: where they are, opening one, and what `sluice sessions` does.

SQLite is loaded with `session.opening` and the like, inside the functions that need it: a run with `:memory:` does
without.
"""

from __future__ import annotations

import glob
import hashlib
import itertools
import os
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from sluice.errors import ConfigurationError, PathError, StoreError
from sluice.run.config import Settings
from sluice.run.parts import RandomIds
from sluice.run.result_text import result_text
from sluice.run.spending import Spending, Spent
from sluice.session.blobs import BlobJournal, prune
from sluice.session.undo import Step
from sluice.tools.changing import Change
from sluice.tools.workspace import Workspace
from sluice.values.ports import Journal
from sluice.wire.surrogates import storable

if TYPE_CHECKING:
    from sluice.session.catalog import Listed
    from sluice.session.opening import Opening
    from sluice.session.repair import Repaired
    from sluice.session.store import SqliteStore

IN_MEMORY = ":memory:"
STORE = "sessions.db"


def data_folder() -> Path:
    """Where Sluice keeps what belongs to the user: the platform's data folder, below `sluice`."""
    import platformdirs  # wanted here only

    return platformdirs.user_data_path("sluice", appauthor=False)


def store_path(settings: Settings) -> Path | None:
    """The store of this workspace (absolute); `None` where nothing is to be kept.

    It is the file itself: a link to it is followed, because its log and its locks stand beside it under its own name.
    """
    if settings.session_store == IN_MEMORY:
        return None
    if settings.session_store is not None:
        path = settings.session_store
        return Path(os.path.realpath(os.path.join(path, STORE) if os.path.isdir(path) else path))
    name = re.sub(r"[^\w.-]+", "-", os.path.basename(settings.workspace))[:40] or "root"
    digest = hashlib.sha256(os.fsencode(settings.workspace)).hexdigest()[:12]
    return Path(os.path.realpath(data_folder() / "projects" / f"{name}-{digest}" / STORE))


def store_files(path: Path) -> list[str]:
    """The files of the store at `path`, there or not: itself, its logs and locks, and what a repair kept aside."""
    aside = glob.glob(f"{glob.escape(str(path))}.damaged-*")
    return [f"{path}{ending}" for ending in ("", "-wal", "-shm", "-journal", ".turn", ".users", ".locks")] + aside


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
        return await open_session(
            path,
            settings.workspace,
            msgspec.structs.replace(settings.session, id=storable(settings.session.id)),
            new_id=lambda: RandomIds().new("ses"),
            words=result_text,
            max_bytes=settings.session_store_bytes,
            keep_days=settings.session_days,
        )
    except StoreError as error:
        raise ConfigurationError(str(error)) from None


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


def stores(settings: Settings, everywhere: bool) -> list[Path]:
    """The stores that are there: that of this workspace, or those of every project."""
    path = store_path(settings)
    if path is None:
        return []
    if everywhere and settings.session_store is None:
        return sorted(Path(os.path.realpath(path)) for path in (data_folder() / "projects").glob(f"*/{STORE}"))
    return [path] if path.is_file() else []


def listed(settings: Settings, everywhere: bool, most: int | None = None) -> list[Listed]:
    """The sessions, the one used last first within each store, and at most `most` of each."""
    from sluice.session import catalog
    from sluice.session.disk import reading

    found: list[Listed] = []
    for path in stores(settings, everywhere):
        with reading(path) as connection:
            found += catalog.listed(connection, path, None if everywhere else settings.workspace, most)
    return found


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


def _found(settings: Settings, everywhere: bool, wanted: str) -> tuple[Path, str]:
    """Store and id of the session that `wanted` names, in one store or another; empty is the one used last."""
    from sluice.session import catalog
    from sluice.session.disk import reading

    wanted = storable(wanted)  # bytes of an argument that are no text in this locale name nothing
    found: dict[str, Path] = {}
    for path in stores(settings, everywhere):
        with reading(path) as connection:
            if wanted:
                ids = catalog.matching(connection, wanted, None if everywhere else settings.workspace)
                found = {**dict.fromkeys(ids, path), **found}
            elif (last := catalog.latest(connection, settings.workspace)) is not None:
                return path, last
    if not wanted or not stores(settings, everywhere):
        raise StoreError("refused", "this project has no session yet")
    id = catalog.chosen(list(found), wanted)
    return found[id], id


def exported(settings: Settings, wanted: str, form: str, everywhere: bool = False) -> Iterator[bytes]:
    """A session as pieces of JSON (`json`) or Markdown (`md`)."""
    from sluice.session.disk import reading
    from sluice.session.export import as_json, as_markdown

    path, session = _found(settings, everywhere, wanted)
    with reading(path) as connection:
        if form == "json":
            yield from as_json(connection, session)
        else:
            for piece in as_markdown(connection, session):
                yield piece.encode("utf-8")


def removed(
    settings: Settings, wanted: Sequence[str], everywhere: bool = False, older_than: float | None = None
) -> list[str]:
    """Removes these sessions, and those unused for `older_than` days; returns their ids. What is in use stays.

    Raises `StoreError` for a named one that is in use, and for a store of another project that cannot be read; the others
    are removed then, and it says which.
    """
    from sluice.session import catalog
    from sluice.session.database import Database
    from sluice.session.disk import reading
    from sluice.session.removal import remove_now

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
    gone: list[str] = []
    for path, group in itertools.groupby(sorted(dict.fromkeys(targets), key=lambda one: one[0]), lambda one: one[0]):
        database = Database(path)
        try:
            done, held = remove_now(database, [session for _path, session in group])
            gone += done
            spared += [error for session, error in held.items() if (path, session) in named]
        finally:
            database.close()
    if spared:
        more = f" (removed: {', '.join(gone)})" if gone else ""
        raise StoreError(spared[0].kind, f"{spared[0]}{more}")
    return gone


def pruned(settings: Settings, state: Path) -> tuple[int, int]:
    """Removes old pre-images that no session refers to; returns how many, and their bytes.

    Asked are the stores of every project and the one that the settings choose. If one of them cannot be read, nothing is
    removed. Raises `StoreError`.
    """
    from sluice.session.disk import reading

    referred: set[str] = set()
    for path in {*(data_folder() / "projects").glob(f"*/{STORE}"), *stores(settings, False)}:
        with reading(path) as connection:
            referred |= {digest for (digest,) in connection.execute("SELECT sha256 FROM preimage WHERE sha256 NOTNULL")}
    try:
        return prune(str(state), referred)
    except OSError as error:
        raise StoreError("io", f"old pre-images cannot be removed: {error.strerror or error}") from None


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """What `sluice sessions check` found: how much was checked, and each broken promise as one line."""

    stores: int
    sessions: int
    runs: int
    broken: tuple[str, ...]


def checked(settings: Settings, everywhere: bool) -> Checked:
    """Checks every promise of every store."""
    from sluice.session.check import check
    from sluice.session.disk import reading

    sessions = runs = 0
    broken: list[str] = []
    paths = stores(settings, everywhere)
    for path in paths:
        try:
            with reading(path) as connection:
                report = check(connection, path, secrets=[settings.api_key] if settings.api_key else [])
        except StoreError as error:
            broken.append(f"F2 {error}")
            continue
        sessions, runs = sessions + report.sessions, runs + report.runs
        broken += [f"{one.promise} {one.where}: {one.words}" for one in report.broken]
    return Checked(stores=len(paths), sessions=sessions, runs=runs, broken=tuple(broken))


def repaired(settings: Settings) -> list[tuple[Path, Repaired]]:
    """Saves what can be read of this project's store into a new file, if it is damaged; the old one is kept aside."""
    from sluice.session.repair import repair

    return [(path, repair(path, settings.workspace)) for path in stores(settings, False)]


def undone(settings: Settings, wanted: str, state: Path, *, dry: bool = False) -> tuple[list[Step], list[Step]]:
    """Takes back what the session's last changing run did to files of the workspace: those restored, those not touched.

    All of them are restored or none is. What is overwritten is itself kept in the journal of pre-images. With `dry`
    nothing is changed. Raises `PathError` for a file that may not be written.
    """
    from sluice.session.disk import reading
    from sluice.session.undo import last_changing_run, plan, preimage

    path, session = _found(settings, False, wanted)
    most = settings.limits.max_file_bytes
    private = [str(state), str(data_folder()), *store_files(path)]
    with Workspace(settings.workspace, private=private) as workspace:

        def digest(name: str) -> str | None:
            try:
                found = workspace.read_to_change(name, most)
            except PathError as error:
                raise ValueError(str(error)) from None
            return None if found is None else found.digest

        with reading(path) as connection:
            run = last_changing_run(connection, session)
            steps = [] if run is None else plan(connection, run, digest)
        todo = [step for step in steps if not step.refusal]
        changes = [
            Change(
                path=s.path, data=None if s.before is None else preimage(state, s.before), expected=s.now, mode=s.mode
            )
            for s in todo
        ]
        if changes and not dry:
            workspace.change_all(changes, max_bytes=most, journal=BlobJournal(str(state), settings.workspace))
    return todo, [step for step in steps if step.refusal]
