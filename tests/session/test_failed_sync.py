"""After a sync that failed, nothing that is acknowledged later stands behind what may never have come to the disk."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from pathlib import Path

import pytest

from sluice.errors import AuditError, StoreError
from sluice.session import disk, durable
from sluice.session.audit import AuditLog
from sluice.session.audit_reading import records, verify
from sluice.session.blobs import INDEX, BlobJournal
from sluice.session.database import Database

ADD = "INSERT INTO session (id, project, created_at) VALUES (?, '/p', 0)"


def add(name: str):
    return lambda connection: connection.execute(ADD, (name,)) and None


def fails(_connection: sqlite3.Connection) -> None:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR_FSYNC
    raise error


def log_bytes(path: Path) -> int:
    return os.stat(f"{path}-wal").st_size


def names(path: Path) -> list[str]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return [name for (name,) in connection.execute("SELECT id FROM session ORDER BY id")]


@pytest.fixture
def database(tmp_path):
    one = Database(tmp_path / "s.db")
    yield one
    one.close()


def test_the_log_is_begun_anew_at_once(database) -> None:
    database.write_now(add("one"))
    assert log_bytes(database.path) > 0
    with pytest.raises(StoreError, match="the disk or the file failed"):
        database.write_now(fails)
    assert log_bytes(database.path) == 0, "another process could add to it"
    database.write_now(add("two"))
    assert names(database.path) == ["one", "two"]


def test_the_log_is_written_again_before_it_is_emptied_into_the_database(database, monkeypatch) -> None:
    """A loss of power in the middle of that leaves half of it in the database, and must find the log on disk."""
    real, sizes = durable.write_again, []

    def again(path: str) -> None:
        sizes.append(os.path.exists(path) and os.stat(path).st_size)
        real(path)

    monkeypatch.setattr("sluice.session.database.write_again", again)
    database.write_now(add("one"))
    before = log_bytes(database.path)
    with pytest.raises(StoreError):
        database.write_now(fails)
    assert sizes[0] == before > 0
    assert names(database.path) == ["one"]


def test_bytes_are_written_over_themselves(tmp_path) -> None:
    path = tmp_path / "log"
    durable.write_again(str(path))
    assert not path.exists()
    data = os.urandom(3 * 1024 * 1024 + 7)
    path.write_bytes(data)
    durable.write_again(str(path))
    assert path.read_bytes() == data


def test_while_somebody_reads_the_old_log_nothing_is_acknowledged(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(disk, "_BUSY_MS", 20)
    with contextlib.closing(Database(tmp_path / "s.db")) as database:
        database.write_now(add("one"))
        with contextlib.closing(sqlite3.connect(database.path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT * FROM session").fetchall()
            with pytest.raises(StoreError):
                database.write_now(fails)
            with pytest.raises(StoreError, match="a program that reads it is in the way"):
                database.write_now(add("two"))
        database.write_now(add("three"))
        assert names(database.path) == ["one", "three"]


def test_a_full_disk_is_not_taken_for_a_failed_sync(database) -> None:
    def full(_connection: sqlite3.Connection) -> None:
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise error

    database.write_now(add("one"))
    with contextlib.closing(sqlite3.connect(database.path)) as other:  # or else the last one to close empties the log
        other.execute("SELECT * FROM session").fetchall()
        before = log_bytes(database.path)
        with pytest.raises(StoreError, match="disk is full"):
            database.write_now(full)
        database.write_now(add("two"))
    assert log_bytes(database.path) > before, "emptying it would need room in the database"


def test_what_a_process_left_that_died_of_it_is_written_once_more(database, tmp_path) -> None:
    database.write_now(add("one"))
    copy = tmp_path / "copy.db"
    for ending in ("", "-wal"):
        shutil.copy(f"{database.path}{ending}", f"{copy}{ending}")
    assert log_bytes(copy) > 0
    with contextlib.closing(Database(copy)):
        assert log_bytes(copy) == 0
        assert names(copy) == ["one"]


@pytest.fixture
def one_failure(monkeypatch):
    """The next sync fails when it is asked for."""
    real, wanted = os.fdatasync, []

    def sync(fd: int) -> None:
        if wanted:
            wanted.pop()
            raise OSError(5, "Input/output error")
        real(fd)

    monkeypatch.setattr(os, "fdatasync", sync)
    return lambda: wanted.append(True)


def test_a_line_of_the_audit_log_that_was_not_synced_is_taken_off(tmp_path, one_failure) -> None:
    path = tmp_path / "audit.jsonl"
    log = AuditLog(str(path))
    log.record("one")
    before = path.read_bytes()
    one_failure()
    with pytest.raises(AuditError):
        log.record("two")
    assert path.read_bytes() == before
    log.record("three")
    log.close()
    assert verify(str(path)).whole
    assert [record["event"] for record in records(str(path))] == ["one", "three"]


def test_a_line_of_the_index_that_was_not_synced_is_taken_off(tmp_path, one_failure) -> None:
    journal = BlobJournal(str(tmp_path))
    first = journal.keep("a", None, None)
    one_failure()
    with pytest.raises(OSError, match="Input/output"):
        journal.keep("b", None, None)
    third = journal.keep("c", None, None)
    assert [line.split('"')[3] for line in (tmp_path / INDEX).read_text().splitlines()] == [first, third]
