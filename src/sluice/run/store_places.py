"""Where the stores of sessions are: one for each project in the data folder, or one that was chosen."""

from __future__ import annotations

import glob
import hashlib
import os
import re
from pathlib import Path

from sluice.errors import StoreError
from sluice.run.settings import Settings

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
        folder = path.endswith(os.sep) or os.path.isdir(path)
        return Path(os.path.realpath(os.path.join(path, STORE) if folder else path))
    name = re.sub(r"[^\w.-]+", "-", os.path.basename(settings.workspace))[:40] or "root"
    digest = hashlib.sha256(os.fsencode(settings.workspace)).hexdigest()[:12]
    return Path(os.path.realpath(data_folder() / "projects" / f"{name}-{digest}" / STORE))


def store_files(path: Path) -> list[str]:
    """The files of the store at `path`, there or not: itself, its logs and locks, and what a repair kept aside."""
    aside = glob.glob(f"{glob.escape(str(path))}.damaged-*")
    return [f"{path}{ending}" for ending in ("", "-wal", "-shm", "-journal", ".turn", ".users", ".locks")] + aside


def stores(settings: Settings, everywhere: bool, *, wanted: bool = True) -> list[Path]:
    """The stores that are there: that of this workspace, or those of every project.

    Raises `StoreError` for one that was chosen and is no file, or, if it is `wanted`, is not there.
    """
    path = store_path(settings)
    if path is None:
        return []
    if everywhere and settings.session_store is None:
        return project_stores()
    if path.is_file():
        return [path]
    if path.exists() and not path.is_dir():
        raise StoreError("foreign", f"{str(path)!r} is no session store: it is no regular file")
    if wanted and settings.session_store is not None:
        raise StoreError("io", f"there is no session store at {str(path)!r} (--session-store, session_store)")
    return []


def project_stores() -> list[Path]:
    """The stores of all projects in the data folder, links resolved."""
    return sorted(Path(os.path.realpath(path)) for path in (data_folder() / "projects").glob(f"*/{STORE}"))
