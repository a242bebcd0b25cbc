"""Repair of a damaged store: what can be read goes into a new file; the old one is kept aside, as it was.

All reading is done on a copy. What cannot be read is said, line by line. Rows that belong together stay together: a lost
message leaves an empty place, a call whose result is lost gets the result `unknown outcome`, and nothing is made to look as
if it had not run.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from sluice.errors import StoreError
from sluice.session.check import UNREADABLE, check
from sluice.session.disk import APPLICATION, VERSION, migrate, store_error
from sluice.session.locks import FileLock
from sluice.session.salvage import Salvage

_PAGE = 4096
_HEADER = 100  # bytes before the first page's content
_PAGES_AT = 28  # where it says how many pages there are, in four bytes


class Repaired(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a repair. `aside` is where the old file is now; `None`: nothing was wrong, and nothing was done.

    `lost` says what could not be read, `left` which promises the new file still does not keep (none, as a rule).
    """

    sessions: int
    messages: int
    lost: tuple[str, ...]
    left: tuple[str, ...]
    aside: Path | None


def repair(path: Path, project: str, *, now: Callable[[], float] = time.time) -> Repaired:
    """Repairs the store at `path`, if it needs it. `project` is that of sessions of which only the messages are left.

    Raises `StoreError` for a store that is in use, of another program or of a later version, and for one of which nothing
    can be read; then nothing is changed.
    """
    if not path.is_file():
        raise StoreError("io", f"there is no session store at {str(path)!r}")
    try:
        with _alone(path):
            prefix = f".repair-{zlib.crc32(os.fsencode(path.name)):08x}-"
            for left in path.parent.glob(f"{prefix}*"):  # by a repair that died: a whole copy of the store
                shutil.rmtree(left, ignore_errors=True)
            with tempfile.TemporaryDirectory(dir=path.parent, prefix=prefix) as folder:
                return _repaired(path, Path(folder), project, now)
    except OSError as error:
        raise store_error(error, path) from None


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    lock = FileLock(Path(f"{path}.users"))
    try:
        if not lock.try_exclusive():
            raise StoreError("held", f"the session store {str(path)!r} is in use; end what uses it, and repair it then")
        yield
    finally:
        lock.close()


def _repaired(path: Path, folder: Path, project: str, now: Callable[[], float]) -> Repaired:
    copy = folder / "copy.db"
    _copy(path, copy)
    if _sound(copy, path):
        return Repaired(sessions=0, messages=0, lost=(), left=(), aside=None)
    best: tuple[Salvage, Path] | None = None
    for number, mended in enumerate((_as_it_is, _new_header, _new_first_page, _new_schema)):
        source, target = folder / f"try{number}.db", folder / f"new{number}.db"
        _copy(path, source)
        mended(source)
        found = _salvaged(source, target, project, now)
        if found is not None and (best is None or found.messages > best[0].messages):
            best = found, target
        if best is not None and best[0].messages and not number:
            break  # the file could be opened as it is: what the others do is for one that cannot
    if best is None:
        raise StoreError("io", f"the session store {str(path)!r} cannot be repaired: no new file can be made beside it")
    salvage, new = best
    if not salvage.sessions:  # it may be no store at all
        raise StoreError(
            "damaged",
            f"nothing of {str(path)!r} can be read, and it was left as it is; move it away to begin a new store",
        )
    left = _left(new)
    aside = _exchanged(path, new, now)
    return Repaired(
        sessions=salvage.sessions, messages=salvage.messages, lost=tuple(salvage.lost), left=left, aside=aside
    )


def _copy(path: Path, to: Path) -> None:
    for ending in ("", "-wal"):
        if Path(f"{path}{ending}").exists():
            shutil.copyfile(f"{path}{ending}", f"{to}{ending}")
            os.chmod(f"{to}{ending}", 0o600)


_STRUCTURE = ("F1", "F2", "D1", "D2")  # promises that a store breaks only by damage


def _names_are_ours(connection: sqlite3.Connection) -> bool:
    """Whether all tables, columns and indexes of ours are there: a damaged name is noticed only by who asks for it."""
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as new:
        migrate(new)
        return _names(new) <= _names(connection)


def _names(connection: sqlite3.Connection) -> set[tuple[str, str]]:
    return set(
        connection.execute(
            "SELECT s.name, '' FROM sqlite_schema s WHERE s.type = 'index' AND s.sql IS NOT NULL UNION ALL "
            "SELECT s.name, c.name FROM sqlite_schema s JOIN pragma_table_info(s.name) c WHERE s.type = 'table'"
        )
    )


def _sound(copy: Path, path: Path) -> bool:
    """Whether nothing is wrong with it. Raises `StoreError` for one that is sound and not ours."""
    connection = sqlite3.connect(copy, isolation_level=None)
    try:
        if connection.execute("PRAGMA integrity_check(1)").fetchone()[0] != "ok":
            return False
        application = int(connection.execute("PRAGMA application_id").fetchone()[0])
        version = int(connection.execute("PRAGMA user_version").fetchone()[0])
        if application != APPLICATION and connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone():
            raise StoreError("foreign", f"{str(path)!r} is a database of another program and was left as it is")
        if application == APPLICATION and version > VERSION:
            raise StoreError("newer", f"the session store {str(path)!r} was written by a later version; update Sluice")
        if application != APPLICATION:
            return True  # nothing was written to it yet
        migrate(connection)
        if not _names_are_ours(connection):
            return False
        found = check(connection, copy).broken
        return not any(one.promise in _STRUCTURE or UNREADABLE in one.words for one in found)
    except (sqlite3.Error, UnicodeDecodeError):
        return False
    finally:
        connection.close()


def _as_it_is(_source: Path) -> None:
    return None


def _new_header(source: Path) -> None:
    _patched(source, {0: _HEADER})


def _new_first_page(source: Path) -> None:
    _patched(source, {0: _PAGE})


def _new_schema(source: Path) -> None:
    _patched(source, None)


def _patched(source: Path, sizes: dict[int, int] | None) -> None:
    """Puts pages of a new store over those of this one: our stores all begin alike.

    `sizes`: number of the page (from 0) and how many bytes of it; `None`: every page that the schema stands on.
    """
    like = Path(f"{source}.like")
    connection = sqlite3.connect(like, isolation_level=None)
    try:
        migrate(connection)
        roots = {
            int(page) - 1 for (page,) in connection.execute("SELECT rootpage FROM sqlite_master WHERE rootpage > 1")
        }
    finally:
        connection.close()
    new = bytearray(like.read_bytes())
    new[_PAGES_AT : _PAGES_AT + 4] = (source.stat().st_size // _PAGE).to_bytes(4, "big")
    if sizes is None:
        sizes = {page: _PAGE for page in range(len(new) // _PAGE) if page not in roots}
    with source.open("r+b") as file:
        for page, size in sizes.items():
            file.seek(page * _PAGE)
            file.write(new[page * _PAGE : page * _PAGE + size])


def _salvaged(source: Path, target: Path, project: str, now: Callable[[], float]) -> Salvage | None:
    os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    old = sqlite3.connect(source, isolation_level=None)
    new = sqlite3.connect(target, isolation_level=None)
    try:
        migrate(new)
        new.execute("PRAGMA foreign_keys = ON")
        old.execute("PRAGMA trusted_schema = OFF")
        old.execute("PRAGMA cell_size_check = ON")
        old.text_factory = _text
        salvage = Salvage(old, new, project, now())
        new.execute("BEGIN IMMEDIATE")
        salvage.take()
        new.execute("COMMIT")
        return salvage
    except sqlite3.Error as error:
        raise store_error(error, target) from None
    finally:
        old.close()
        new.close()


def _text(raw: bytes) -> Any:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw  # no text any more: whoever wants one sees that it is none


def _left(new: Path) -> tuple[str, ...]:
    """Sees to it that the new file keeps its promises, as far as that can be had; what it does not keep."""
    connection = sqlite3.connect(new, isolation_level=None)
    try:
        for broken in check(connection, new, promises=("K1",)).broken:
            connection.execute("UPDATE session SET parent = NULL WHERE id = ?", (broken.where,))
        found = check(connection, new).broken
        return tuple(f"{one.promise} {one.where}: {one.words}" for one in found if one.promise != "D4")  # its next
    finally:
        connection.close()


def _exchanged(path: Path, new: Path, now: Callable[[], float]) -> Path:
    """Puts the new file in the place of the old one; returns where the old one is."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(now()))
    aside = Path(f"{path}.damaged-{stamp}")
    for more in range(1, 1000):
        if not aside.exists():
            break
        aside = Path(f"{path}.damaged-{stamp}.{more}")
    with new.open("rb") as file:
        os.fsync(file.fileno())
    os.link(path, aside)  # never a moment in which the old one has no name
    os.chmod(aside, 0o600)
    if Path(f"{path}-wal").exists():
        os.rename(f"{path}-wal", f"{aside}-wal")
    Path(f"{path}-shm").unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)  # after a loss of power the old log beside the new file would be played into it
        os.rename(new, path)
        os.fsync(folder)
    finally:
        os.close(folder)
    return aside
