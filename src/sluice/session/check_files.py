"""The part of the promises that is about files beside the database: who may read them, and what must be in them."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from sluice.errors import StoreError
from sluice.session.undo import preimage

_MOST_TOLD = 10  # findings of one kind; the next line says how many more there are


def open_to_others(paths: Iterable[Path]) -> Iterator[tuple[str, str]]:
    """Each of these files and folders that is not for its owner alone. One that is not there is nobody's."""
    for path in paths:
        try:
            status = os.stat(path)
        except OSError:
            continue
        mode = stat.S_IMODE(status.st_mode)
        if mode & (0o077 if stat.S_ISDIR(status.st_mode) else 0o177):
            yield str(path), f"others on this machine may use it (mode {mode:o})"


def replaceable(places: Iterable[Path]) -> Iterator[tuple[str, str]]:
    """Each of these folders, and of those above them, in which anybody may rename what is there, so that the modes of what
    lies below keep nobody from putting another folder in its place. Of the user's own folders and the system's: another
    user may do in his own what he likes anyway."""
    ways = {
        way: None for place in places for real in (place.absolute(), place.resolve()) for way in (real, *real.parents)
    }
    for folder in ways:
        try:
            status = os.stat(folder)
        except OSError:
            continue
        anybody = status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX
        if anybody and stat.S_ISDIR(status.st_mode) and status.st_uid in (0, os.geteuid()):
            mode = stat.S_IMODE(status.st_mode)
            yield str(folder), f"others on this machine may rename what is in it (mode {mode:o}, no sticky bit)"


def below(folder: Path) -> Iterator[Path]:
    """The folder and all that is in it; links are not followed."""
    yield folder
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(place, name)
            if not path.is_symlink():
                yield path


def secrets_in(files: Iterable[Path], secrets: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Each of these files that holds one of these words."""
    words = [secret.encode() for secret in secrets if secret]
    for file in files if words else ():
        if _holds(file, words):
            yield str(file), "it holds an API key"


def _holds(path: Path, words: Sequence[bytes]) -> bool:
    longest = max(map(len, words))
    try:
        with path.open("rb") as file:
            tail = b""
            while piece := file.read(1 << 20):
                if any(word in tail + piece for word in words):
                    return True
                tail = (tail + piece)[-longest:]
    except OSError:
        return False
    return False


def preimages_are_there(connection: sqlite3.Connection, state: Path, since: float) -> Iterator[tuple[str, str]]:
    """Each file that a run begun after `since` changed and whose earlier bytes are not below `state` as they were."""
    lost = 0
    wanted = "SELECT DISTINCT sha256 FROM preimage JOIN run ON id = run WHERE sha256 IS NOT NULL AND started_at >= ?"
    for (digest,) in connection.execute(wanted, (since,)).fetchall():
        try:
            preimage(state, str(digest))
        except StoreError as error:
            lost += 1
            if lost <= _MOST_TOLD:
                path, run = connection.execute(
                    "SELECT path, run FROM preimage WHERE sha256 = ? ORDER BY run, number LIMIT 1", (digest,)
                ).fetchone()
                yield f"{run} {path}", f"what it held before cannot be given back: {error}"
    if lost > _MOST_TOLD:
        yield "pre-images", f"{lost - _MOST_TOLD} more cannot be given back"
