"""Sessions that are not found where they are looked for: of another project, or of a folder that was moved or renamed."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from sluice.errors import ConfigurationError, StoreError
from sluice.run.settings import Settings
from sluice.run.store_places import project_stores, store_path
from sluice.wire.surrogates import storable

MOST_STORES = 1000  # that are looked into
_NAMED = 3  # folders in one line

T = TypeVar("T")


class Elsewhere(msgspec.Struct, frozen=True, kw_only=True):
    """A session of another project, or of another store."""

    id: str
    project: str
    store: Path


def found_elsewhere(settings: Settings, wanted: str) -> list[Elsewhere]:
    """The sessions of other projects that `wanted` names or begins, in the store of the settings and those of all
    projects. A store that cannot be read is passed over."""
    from sluice.session import catalog  # loads SQLite

    wanted = storable(wanted)

    def look(connection: Any) -> list[tuple[str, str]]:
        ids = catalog.matching(connection, wanted)
        return [(id, catalog.project_of(connection, id)) for id in ids if wanted]

    found = [
        Elsewhere(id=id, project=project, store=path)
        for path, rows in _looked(settings, look)
        for id, project in rows
        if (path, project) != (store_path(settings), settings.workspace)
    ]
    exact = [one for one in found if one.id == wanted]
    return exact or found


def elsewhere_words(settings: Settings, wanted: str, *, own_store: bool = True) -> str:
    """Where the session that `wanted` names is, and how to get at it; empty if it is nowhere.

    Without `own_store` it is also empty if the store of the settings has one: whoever opens a session looks in all of that.
    """
    found = found_elsewhere(settings, wanted)
    if not found or (not own_store and _in_own_store(settings, wanted)):
        return ""
    if len(found) > 1:
        ids = ", ".join(dict.fromkeys(one.id for one in found[:4]))
        return f"{wanted!r} begins more than one session of other projects: {ids}"
    (one,) = found
    words = f"session {one.id} belongs to the project {one.project}"
    if os.path.isdir(one.project):
        return f"{words}; give {_way(settings, one)} to get at it"
    return (
        f"{words}, and that folder is not there any more; give {_way(settings, one)} to read it. If the folder was moved, "
        f"take its sessions along from where it is now: {_adopt(settings, one.store, one.project)}"
    )


def _in_own_store(settings: Settings, wanted: str) -> bool:
    from sluice.session import catalog
    from sluice.session.disk import reading

    path = store_path(settings)
    if path is None or not path.is_file():
        return False
    with contextlib.suppress(StoreError), reading(path) as connection:
        return bool(catalog.matching(connection, storable(wanted)))
    return False


def moved_words(settings: Settings, *, likely: bool) -> str:
    """Which folders that are not there any more have sessions, and how to take them along; empty if there is none.

    `likely`: only folders with the name of this workspace, as one that was moved has, or beside it, as one that was renamed.
    """
    from sluice.session import catalog

    found: dict[str, Path] = {}
    place, name = os.path.split(settings.workspace)
    for path, projects in _looked(settings, catalog.projects):
        for project in projects:
            there, called = os.path.split(project)
            if (not likely or called == name or there == place) and not os.path.isdir(project):
                found.setdefault(project, path)
    if not found:
        return ""
    named = [f"{project} ({_adopt(settings, path, project)})" for project, path in list(found.items())[:_NAMED]]
    more = f", and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    words = "there are sessions of folders that are not there any more; if one of them was moved here, take them along"
    return f"{words}: {', '.join(named)}{more}"


def adopted(settings: Settings, folder: str) -> list[str]:
    """Makes the sessions of `folder` (absolute), which was moved, sessions of this workspace; their ids.

    What sessions of other projects changed there counts as changed here: that may be all, and there is no id then.
    Raises `ConfigurationError` for a folder that is still there, and `StoreError` where there is nothing to take along or
    some of it is in use.
    """
    from sluice.session import catalog
    from sluice.session.adopting import adopt
    from sluice.session.disk import reading
    from sluice.session.undo import changed_from_elsewhere

    path, source = store_path(settings), store_path(msgspec.structs.replace(settings, workspace=folder))
    if path is None or source is None:
        raise ConfigurationError("there is nothing to take along with --session-store :memory:")
    if os.path.isdir(folder):
        raise ConfigurationError(
            f"{folder!r} is still there, and its sessions stay with it; --fork ID works on a copy of one"
        )
    if not os.path.isdir(settings.workspace):
        raise ConfigurationError(f"there is no folder {settings.workspace!r} to take sessions along to")
    there = False
    if source.is_file():
        with reading(source) as connection:
            there = folder in catalog.projects(connection) or changed_from_elsewhere(connection, folder)
    if not there:
        raise StoreError("refused", f"no session of {folder!r} is kept; `sluice sessions list --all` names the folders")
    taken, held = adopt(path, source, folder, settings.workspace)
    if held:
        raise StoreError("held", f"{held[0]} (taken along: {len(taken)})")
    return taken


def left_behind(settings: Settings, sessions: Sequence[tuple[Path, str]]) -> list[tuple[Path, str]]:
    """Where these sessions (each with its store) are still of a folder that is gone: an `adopt` that died had copied them.

    One that is of the same folder in two stores was copied by hand: each of the two is the user's to remove.
    """
    from sluice.session import catalog
    from sluice.session.disk import reading

    folders: dict[str, set[str]] = {}
    for path in {path for path, _id in sessions}:
        with contextlib.suppress(StoreError), reading(path) as connection:
            for id in (id for of, id in sessions if of == path and catalog.there(connection, id)):
                folders.setdefault(id, set()).add(catalog.project_of(connection, id))

    def look(connection: Any) -> list[str]:
        there = {id: catalog.project_of(connection, id) for id in folders if catalog.there(connection, id)}
        return [id for id, folder in there.items() if folder not in folders[id] and not os.path.isdir(folder)]

    return [(path, id) for path, found in _looked(settings, look) for id in found] if folders else []


def _looked(settings: Settings, look: Callable[[Any], T]) -> Iterator[tuple[Path, T]]:
    from sluice.session.disk import reading

    own = store_path(settings)
    others = [path for path in project_stores() if path != own][:MOST_STORES]
    for path in ([own] if own is not None and own.is_file() else []) + others:
        with contextlib.suppress(StoreError), reading(path) as connection:
            yield path, look(connection)


def _way(settings: Settings, one: Elsewhere) -> str:
    return f"-w {shlex.quote(one.project)}{_store(settings, one.store, one.project)}"


def _adopt(settings: Settings, store: Path, project: str) -> str:
    return f"sluice sessions adopt {shlex.quote(project)}{_store(settings, store, project)}"


def _store(settings: Settings, store: Path, project: str) -> str:
    """The flag that chooses the store, where the flags as they are do not."""
    there = msgspec.structs.replace(settings, workspace=project)
    return "" if store == store_path(there) else f" --session-store {shlex.quote(str(store))}"
