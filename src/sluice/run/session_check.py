"""`sluice sessions check`: every promise of the stores, and of the files that Sluice keeps beside them."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from sluice.errors import StoreError
from sluice.run.models import BUILT_IN
from sluice.run.settings import Settings
from sluice.run.store_places import data_folder, stores

_MOST_TOLD = 20  # findings about files that others may use


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """How much was checked, and each broken promise as one line. `unchecked` says of each store that could not be read now
    (a full disk, one that is kept by another program) why; that breaks no promise, and shows none to hold. `unended` are
    sessions whose last run died and that were not opened since; they get its end then, and no promise is broken by them."""

    stores: int
    sessions: int
    runs: int
    broken: tuple[str, ...]
    unchecked: tuple[str, ...]
    unended: tuple[str, ...]


def checked(settings: Settings, everywhere: bool, *, state: Path, environ: Mapping[str, str]) -> Checked:
    """Checks every promise of every store. `state` is the folder of pre-images and of the audit log.

    No key of a known provider, as far as `environ` and the settings hold it, may be in a file of ours. Nothing is changed.
    """
    from sluice.session.check import check
    from sluice.session.disk import reading

    sessions = runs = 0
    broken: list[str] = []
    unchecked: list[str] = []
    unended: list[str] = []
    secrets = _keys(settings, environ)
    paths = stores(settings, everywhere)
    for path in paths:
        # Pre-images of a store elsewhere are kept for as long as all are, and not for as long as it refers to them.
        since = None if path.is_relative_to(_real(data_folder())) else _kept_since()
        try:
            with reading(path) as connection:
                report = check(connection, path, secrets=secrets, state=state, since=since)
        except StoreError as error:
            if error.kind == "damaged":
                broken.append(f"F2 {error}")
            else:
                unchecked.append(f"cannot be checked: {error}")
            continue
        sessions, runs = sessions + report.sessions, runs + report.runs
        broken += [f"{one.promise} {one.where}: {one.words}" for one in report.broken]
        unended += report.unended
    broken += [f"S1 {where}: {words}" for where, words in _files_beside(paths, everywhere, state, secrets)]
    return Checked(
        stores=len(paths),
        sessions=sessions,
        runs=runs,
        broken=tuple(broken),
        unchecked=tuple(unchecked),
        unended=tuple(unended),
    )


def _files_beside(paths: list[Path], everywhere: bool, state: Path, secrets: list[str]) -> Iterator[tuple[str, str]]:
    from sluice.session.check_files import below, open_to_others, replaceable, secrets_in

    data = _real(data_folder())
    folders = [state, data] if everywhere else [state, *(path.parent for path in paths if path.is_relative_to(data))]
    files = itertools.chain.from_iterable(below(folder) for folder in folders)
    stores_own = {f"{path}{ending}" for path in paths for ending in ("", "-wal", "-shm", "-journal", ".users", ".turn")}
    found = list(open_to_others(file for file in files if str(file) not in stores_own))
    yield from found[:_MOST_TOLD]
    if len(found) > _MOST_TOLD:
        yield str(state), f"{len(found) - _MOST_TOLD} files more are open to others"
    ways = [state.parent, data.parent, *(path.parent for path in paths if not path.is_relative_to(data))]
    yield from replaceable(ways)
    logs = [*state.glob("*.jsonl"), *state.glob("prompts/*.jsonl")]
    yield from secrets_in(logs, secrets)


def _keys(settings: Settings, environ: Mapping[str, str]) -> list[str]:
    known = (*BUILT_IN.values(), *settings.providers)
    names = dict.fromkeys(("SLUICE_API_KEY", *(name for provider in known for name in provider.key_env)))
    found = [settings.api_key or "", *(environ.get(name, "").strip() for name in names)]
    return list(dict.fromkeys(key for key in found if key))


def _kept_since() -> float:
    from sluice.session.blobs import KEPT_DAYS

    return time.time() - KEPT_DAYS * 86_400


def _real(path: Path) -> Path:
    return Path(path).resolve()
