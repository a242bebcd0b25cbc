"""A SQLite file on disk: made private, opened with care, brought up to date. Nothing here changes what is stored.

What cannot be used is said in one line (`StoreError`): a file of another program, one of a later version, a damaged one,
a disk that is full or read-only. None of them is ever written to, moved or removed.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sqlite3
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Protocol

import msgspec

from sluice.errors import StoreError, StoreFault
from sluice.session.durable import sync_upwards, write_again
from sluice.session.file_systems import FULL, READ_ONLY, full_or_read_only, is_text
from sluice.session.kinds import wrong_kinds
from sluice.session.private_folder import make_private_folder

APPLICATION = 0x534C5543  # marks the file as ours: "SLUC"
VERSION = 5  # of the schema
WAL_BYTES = 32 * 1024 * 1024  # of the write-ahead log; from here on every commit tries to empty it
_WAL_PAGES = 1000  # pages after which SQLite empties the log by itself: about 4 MB
_BUSY_MS = 10_000  # how long SQLite itself waits for others; our own lock comes before it
_CHECK_SECONDS = 1.0  # that reading a file through at opening may take; the rest of it is not looked at
_NOTHING_BESIDE = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR_SHMSIZE)  # the log's index cannot be made

_DAMAGED = "it is damaged, and was left as it is; `sluice sessions repair` saves what can be read of it"


_KINDS: dict[int, tuple[StoreFault, str]] = {
    sqlite3.SQLITE_FULL: ("full", FULL),
    sqlite3.SQLITE_READONLY: ("read_only", READ_ONLY),
    sqlite3.SQLITE_PERM: ("read_only", READ_ONLY),
    sqlite3.SQLITE_CORRUPT: ("damaged", _DAMAGED),
    sqlite3.SQLITE_NOTADB: ("damaged", f"it is no database; or {_DAMAGED}"),
    sqlite3.SQLITE_BUSY: ("busy", "another program kept it for too long; try again"),
    sqlite3.SQLITE_LOCKED: ("busy", "another program kept it for too long; try again"),
    sqlite3.SQLITE_CANTOPEN: ("io", "it cannot be opened"),
    sqlite3.SQLITE_CONSTRAINT: ("refused", "it refuses a row that breaks its rules"),
}


def store_error(error: Exception, path: Path | str) -> StoreError:
    """What went wrong, in words for a person. SQLite's own words (such as "database is locked") are not among them."""
    if isinstance(error, StoreError):
        return error
    where = _cannot_be_used(path)
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorcode", 0)
        found = _KINDS.get(code & 0xFF)
        if code & 0xFF in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR):  # which SQLite says of anything
            found = full_or_read_only(Path(path), code) or found
        if code & 0xFF == sqlite3.SQLITE_NOTADB and is_text(Path(path)):
            found = ("foreign", "it is no database but a text, and was left as it is; choose another --session-store")
        kind, words = found or ("io", f"the disk or the file failed (SQLite's code {code})")
        return StoreError(kind, f"{where}: {words}")
    if isinstance(error, OSError):
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return StoreError("full", f"{where}: {FULL}")
        kind = "read_only" if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM) else "io"
        return StoreError(kind, f"{where}: {error.strerror or error}")
    if isinstance(error, UnicodeDecodeError):  # damage can make a text of bytes that are none
        return StoreError("damaged", f"{where}: {_DAMAGED} (a text in it is no text)")
    if isinstance(error, msgspec.MsgspecError):
        return StoreError("damaged", f"{where}: {_DAMAGED} (a row of it cannot be read: {error})")
    return StoreError("io", f"{where}: {type(error).__name__}: {error}")


def _cannot_be_used(path: Path | str) -> str:
    return f"the session store {str(path)!r} cannot be used"


def make_private(path: Path) -> None:
    """Makes folder (0700) and file (0600) where they are absent; takes others' rights from a file that is there.

    Never opens a file that is there: closing it would drop the locks that SQLite holds on it in this process. The files
    that SQLite makes beside it take over its mode. Raises `OSError`, also for what is no regular file: SQLite would write
    to a device as it does to a file.
    """
    make_private_folder(path.parent)
    if not path.exists():
        sync_upwards(str(path.parent))  # SQLite syncs the names in the store's folder, not those above it
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "it is no regular file") from None
        if mode & 0o077:
            os.chmod(path, 0o600)


def open_writing(path: Path, *, check: bool, network: str | None) -> sqlite3.Connection:
    """A connection that may write, with schema and pragmas as they should be. `check`: the last end was not clean.

    Raises `StoreError`; then the file is as it was.
    """
    try:
        connection = sqlite3.connect(path, isolation_level=None, timeout=_BUSY_MS / 1000, check_same_thread=True)
    except sqlite3.Error as error:
        raise store_error(error, path) from None
    try:
        _harden(connection)
        _acceptable(connection, path)
        mode = "truncate" if network else "wal"
        connection.execute(f"PRAGMA journal_mode = {mode}").fetchone()
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA wal_autocheckpoint = {_WAL_PAGES}")
        connection.execute(f"PRAGMA journal_size_limit = {WAL_BYTES}")
        connection.execute("PRAGMA foreign_keys = ON")
        if check:
            sound(connection, path)
        migrate(connection)
        return connection
    except BaseException as error:
        connection.close()
        if isinstance(error, sqlite3.Error | OSError | UnicodeDecodeError):
            raise store_error(error, path) from None
        raise


def empty_log(connection: sqlite3.Connection, path: Path) -> None:
    """Begins the log anew after a failed sync. What that was to put on disk may never come there, and what later commits
    add behind it would be lost with it; so all of the log is written once more, and then into the database.

    Raises `StoreError` where somebody reads for so long that it cannot be done, `OSError` or `sqlite3.Error`.
    """
    write_again(f"{path}-wal")  # or half of it may be in the database, and nothing to make up the rest from
    (busy, *_counts) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    if busy:
        raise StoreError("io", f"the session store {str(path)!r} failed, and a program that reads it is in the way")


def open_reading(path: Path) -> sqlite3.Connection:
    """A connection that cannot write. A later schema is not refused: what can be read of it is. Raises `StoreError`.

    A file that nothing was written to yet (whoever made it died just then) reads as a store without sessions. Where
    nothing can be written beside the file (a medium for reading only, a full disk) it is read without.
    """
    if not path.is_file():
        raise StoreError("io", f"there is no session store at {str(path)!r}")
    try:
        return _reader(path)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode in _NOTHING_BESIDE:
            with contextlib.suppress(sqlite3.Error, UnicodeDecodeError, OSError):  # the first error says more
                # Without a log nobody writes, as none can be made.
                return _copied(path) if _log_bytes(path) else _reader(path, "&immutable=1")
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_READONLY:
            raise store_error(error, path) from None
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise store_error(error, path) from None
    try:
        _take_back(path)
        return _reader(path)
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise store_error(error, path) from None


def _take_back(path: Path) -> None:
    """What a process began and died over is taken back first, as SQLite does with any that may write (network disks, and
    the making of a new store)."""
    connection = sqlite3.connect(path, isolation_level=None, timeout=_BUSY_MS / 1000)
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    finally:
        connection.close()


def _copied(path: Path) -> sqlite3.Connection:
    """A copy in the folder for temporary files, with what is still in the log; it is gone when it is closed."""
    with tempfile.TemporaryDirectory(prefix="sluice-") as folder:
        for ending in ("", "-wal"):
            shutil.copyfile(f"{path}{ending}", f"{folder}/copy.db{ending}")
        return _reader(Path(folder, "copy.db"))  # which has the files open, so it needs their names no more


def _log_bytes(path: Path) -> int:
    try:
        return os.stat(f"{path}-wal").st_size
    except FileNotFoundError:
        return 0


def _reader(path: Path, more: str = "") -> sqlite3.Connection:
    place = f"{path.absolute().as_uri()}?mode=ro{more}"
    connection = sqlite3.connect(place, uri=True, isolation_level=None, timeout=10)
    try:
        _harden(connection)
        connection.execute("PRAGMA query_only = ON")
        application, _version = _marks(connection)
        if application == APPLICATION:
            return connection
        if application or connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone():
            raise _foreign(path)
    except BaseException:
        connection.close()
        raise
    connection.close()
    connection = sqlite3.connect(":memory:", isolation_level=None)
    migrate(connection)
    connection.execute("PRAGMA query_only = ON")
    return connection


@contextlib.contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """A reading connection, closed on leaving; what SQLite raises inside becomes a `StoreError`, and so does what stumbles
    over a value that cannot stand where it does."""
    connection = open_reading(path)
    try:
        yield connection
    except (sqlite3.Error, UnicodeDecodeError, msgspec.MsgspecError) as error:
        raise store_error(error, path) from None
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        found = _wrong_kind(connection)
        if found is None:  # the store is not to blame
            raise
        raise StoreError("damaged", f"{_cannot_be_used(path)}: {_DAMAGED} ({': '.join(found)})") from error
    finally:
        connection.close()


def _wrong_kind(connection: sqlite3.Connection) -> tuple[str, str] | None:
    try:
        return next(wrong_kinds(connection), None)
    except sqlite3.Error:
        return None


def _harden(connection: sqlite3.Connection) -> None:
    # A database may come from anywhere: what it defines is not run, and what it claims is checked.
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    connection.execute("PRAGMA mmap_size = 0")


def _marks(connection: sqlite3.Connection) -> tuple[int, int]:
    application = int(connection.execute("PRAGMA application_id").fetchone()[0])
    return application, int(connection.execute("PRAGMA user_version").fetchone()[0])


def _acceptable(connection: sqlite3.Connection, path: Path) -> None:
    """Raises `StoreError` for a database that is not ours to write."""
    application, version = _marks(connection)
    if application != APPLICATION:
        if application or connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone():
            raise _foreign(path)
        return
    if version > VERSION:
        raise StoreError(
            "newer",
            f"the session store {str(path)!r} was written by a later version of Sluice (schema {version}; this one "
            f"knows {VERSION}) and was left as it is; update Sluice, or choose another with --session-store",
        )


def _foreign(path: Path) -> StoreError:
    return StoreError("foreign", f"{str(path)!r} is a database of another program; choose another --session-store")


class _Timer(Protocol):
    def start(self) -> None: ...
    def cancel(self) -> None: ...
    def join(self) -> None: ...


def sound(
    connection: sqlite3.Connection,
    path: Path,
    *,
    timer: Callable[[float, Callable[[], None]], _Timer] = threading.Timer,
) -> bool:
    """Reads the file through, for a second at most; raises `StoreError` (`damaged`) if its structure is broken.

    Returns whether all of it was read. `timer` is what calls a function after so many seconds.
    """
    bell = timer(_CHECK_SECONDS, connection.interrupt)
    bell.start()
    try:
        found = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
            raise
        return False
    finally:
        bell.cancel()
        bell.join()
    if found is None or found[0] != "ok":
        raise StoreError(
            "damaged",
            f"the session store {str(path)!r} cannot be used: {_DAMAGED}, `sluice sessions check` says more, and "
            "--session-store chooses another",
        )
    return True


# -- the schema


def migrations() -> list[tuple[int, str, str]]:
    """The steps in order: number, name, SQL."""
    folder = files("sluice.session").joinpath("migrations")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [(int(name[:4]), name, folder.joinpath(name).read_text("utf-8")) for name in names]


def migrate(connection: sqlite3.Connection, steps: Sequence[tuple[int, str, str]] | None = None) -> None:
    """Brings the schema up to date, each step and its record in one transaction. Raises `sqlite3.Error`.

    A new database is made from `schema.sql` at once. `steps` takes the place of the shipped ones, for tests.
    """
    target = VERSION if steps is None else steps[-1][0]
    if _marks(connection) == (APPLICATION, target):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        application, version = _marks(connection)  # another process may have been first
        known = migrations() if steps is None else list(steps)
        todo = [step for step in known if step[0] > version]
        if application != APPLICATION and steps is None:
            _run(connection, files("sluice.session").joinpath("schema.sql").read_text("utf-8"))
        else:
            for _number, _name, sql in todo:
                _run(connection, sql)
        for number, name, _sql in todo:
            connection.execute("INSERT INTO migration VALUES (?, ?, ?)", (number, name, time.time()))
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
        connection.execute(f"PRAGMA user_version = {target}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _run(connection: sqlite3.Connection, sql: str) -> None:
    """Runs statements one by one: `executescript` would commit before it."""
    statement = ""
    for line in sql.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            connection.execute(statement)
            statement = ""
