"""What cannot be used is said in one line and left as it was, byte for byte (S6, F2)."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from session_world import broken, run, store

from sluice.errors import SluiceError, StoreError
from sluice.session.catalog import lock_folder
from sluice.session.check import check
from sluice.session.disk import APPLICATION, VERSION, migrate, migrations, reading, sound, store_error
from sluice.session.file_systems import on_network
from sluice.session.locks import holder
from sluice.testing.fault_disk import small_disk
from sluice.testing.store_kit import SCENARIOS
from sluice.values.messages import UserMessage


def _made(path: Path) -> Path:
    async def body() -> None:
        async with store(path) as s:
            await SCENARIOS["a_run_comes_back_as_it_was"](s)

    run(body())
    return path


def _open(path: Path) -> None:
    async def body() -> None:
        async with store(path, "continue") as s:
            await s.history()
            await s.started("again", UserMessage("x"))
            await s.finished("again", "completed")

    run(body())


def _change(path: Path, sql: str) -> None:
    connection = sqlite3.connect(path)
    connection.execute(sql)
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    ("spoil", "kind", "word"),
    [
        (lambda p: p.write_bytes(b"this is no database" * 300), "foreign", "a text, and was left as it is"),
        (lambda p: p.write_bytes(b"this is no database" * 3 + p.read_bytes()[57:]), "damaged", "sessions repair"),
        (lambda p: p.write_bytes(b"\x01" * 4096 + p.read_bytes()[4096:]), "damaged", "sessions repair"),
        (lambda p: p.write_bytes(p.read_bytes()[:100]), "damaged", "left as it is"),
        (lambda p: _change(p, f"PRAGMA user_version = {VERSION + 1}"), "newer", "update Sluice"),
        (lambda p: _change(p, "PRAGMA application_id = 7"), "foreign", "another program"),
        (lambda p: (p.unlink(), _change(p, "CREATE TABLE a (b)")), "foreign", "another program"),
    ],
)
def test_what_is_not_ours_is_said_and_left(
    spoil: Callable[[Path], object], kind: str, word: str, tmp_path: Path
) -> None:
    path = _made(tmp_path / "s.db")
    spoil(path)
    before = path.read_bytes()
    with pytest.raises(StoreError, match=word) as said:
        _open(path)
    assert said.value.kind == kind
    assert "\n" not in str(said.value)
    assert path.read_bytes() == before
    assert not list(Path(f"{path}.locks").iterdir())


def test_a_later_schema_can_still_be_read(tmp_path: Path) -> None:
    path = _made(tmp_path / "s.db")
    _change(path, f"PRAGMA user_version = {VERSION + 1}")
    _change(path, "ALTER TABLE message ADD COLUMN novel TEXT")
    before = path.read_bytes()
    with reading(path) as connection:
        assert connection.execute("SELECT count(*) FROM message").fetchone() == (4,)
        assert [b.promise for b in check(connection, path).broken] == ["F2"]
    assert path.read_bytes() == before


def test_a_folder_and_a_file_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "folder", tmp_path / "file" / "s.db", tmp_path / ("n" * 300)):
        with pytest.raises(StoreError):
            _open(path)


def test_what_is_no_file_is_refused_and_nothing_is_made_beside_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/null")  # a device takes what SQLite writes
    for name in ("pipe", "link"):
        with pytest.raises(StoreError, match="no regular file"):
            _open(tmp_path / name)
    assert sorted(os.listdir(tmp_path)) == ["link", "pipe"]


def test_where_nothing_can_be_written_beside_it_a_store_is_read_all_the_same(tmp_path: Path) -> None:
    """A full disk is when a person wants to see what there is to remove."""
    place = tmp_path / "disk"
    place.mkdir()
    with small_disk(place) as there:
        if not there:
            pytest.skip("NOT CHECKED: no disk of our own can be had here, so none was full")
        path = _made(place / "s.db")
        with contextlib.suppress(OSError), (place / "rest").open("wb", buffering=0) as file:
            while True:
                file.write(b"x" * 512)
        with reading(path) as connection:
            assert connection.execute("SELECT count(*) FROM message").fetchone() == (4,)
        with pytest.raises(StoreError, match="the disk is full"):
            _open(path)
        assert broken(path) == []


def test_what_is_still_in_the_log_is_read_too_where_nothing_can_be_written(tmp_path: Path) -> None:
    place = tmp_path / "disk"
    place.mkdir()
    with small_disk(place) as there:
        if not there:
            pytest.skip("NOT CHECKED: no disk of our own can be had here, so none was full")
        path = _made(place / "s.db")
        writer = sqlite3.connect(path)  # as a process that was killed leaves it
        writer.execute("UPDATE session SET project = '/in/the/log'")
        writer.commit()
        log, main = Path(f"{path}-wal").read_bytes(), path.read_bytes()
        writer.close()
        path.write_bytes(main)
        Path(f"{path}-wal").write_bytes(log)
        with contextlib.suppress(OSError), (place / "rest").open("wb", buffering=0) as file:
            while True:
                file.write(b"x" * 512)
        before = sorted(os.listdir(tempfile.gettempdir()))
        with reading(path) as connection:
            assert connection.execute("SELECT project FROM session").fetchall() == [("/in/the/log",)]
            assert connection.execute("SELECT count(*) FROM part").fetchone()[0] > 3
        assert sorted(os.listdir(tempfile.gettempdir())) == before
        assert path.read_bytes() == main


@pytest.mark.parametrize(
    ("flags", "free", "kind", "words"),
    [
        (os.ST_RDONLY, 10**9, "read_only", "mounted for reading only, and it may not be written"),
        (0, 3, "full", "the disk is full; free some space and try again (left: 12 KiB)"),
        (0, 10**9, "io", "it cannot be opened"),
    ],
)
def test_why_a_file_cannot_be_opened_is_asked_of_the_disk(
    flags: int, free: int, kind: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Disk:
        f_flag, f_bavail, f_frsize = flags, free, 4096

    monkeypatch.setattr(os, "statvfs", lambda _path: Disk)
    error = sqlite3.OperationalError("unable to open database file")
    error.sqlite_errorcode = sqlite3.SQLITE_CANTOPEN
    found = store_error(error, tmp_path / "s.db")
    assert (found.kind, words in str(found)) == (kind, True), found
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR_WRITE
    found = store_error(error, tmp_path / "s.db")
    assert found.kind == kind
    assert kind != "io" or f"SQLite's code {sqlite3.SQLITE_IOERR_WRITE}" in str(found)


def test_a_large_file_is_read_through_for_a_while_only(tmp_path: Path) -> None:
    path = _made(tmp_path / "s.db")
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE much (a)")
        connection.execute(
            "INSERT INTO much WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 2000) SELECT i FROM n"
        )
        connection.commit()
        done: list[str] = []

        class Timer:
            """Rings while the file is being read, after so many of SQLite's steps."""

            def __init__(self, seconds: float, ring: Callable[[], None]) -> None:
                assert 0 < seconds < 2
                self.ring = ring

            def start(self) -> None:
                connection.set_progress_handler(self.ring, 100)

            def cancel(self) -> None:
                connection.set_progress_handler(None, 0)

            def join(self) -> None:
                done.append("joined")

        assert sound(connection, path)
        assert not sound(connection, path, timer=Timer)
        assert done == ["joined"]


def test_no_words_of_sqlite_reach_a_person() -> None:
    for code in range(1, 28):
        error = sqlite3.OperationalError("database is locked")
        error.sqlite_errorcode = code
        assert "locked" not in str(store_error(error, "x"))
    assert store_error(OSError(28, "No space left on device"), "x").kind == "full"
    assert store_error(OSError(30, "Read-only file system"), "x").kind == "read_only"
    assert store_error(ValueError("odd"), "x").kind == "io"
    assert store_error(UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no"), "x").kind == "damaged"


def test_network_file_systems_are_known() -> None:
    mounts = "/dev/a / ext4 rw 0 0\nserver:/x /net nfs4 rw 0 0\nsrv /net/here\\040too fuse.sshfs rw 0 0\n"
    assert on_network(Path("/home/s.db"), mounts) is None
    assert on_network(Path("/net/a/s.db"), mounts) == "nfs4"
    assert on_network(Path("/net/here too/s.db"), mounts) == "fuse.sshfs"
    assert on_network(Path("/network/s.db"), mounts) is None


@pytest.mark.parametrize("kind", ["virtiofs", "vboxsf", "ocfs2", "gpfs", "9p", "lustre"])
def test_disks_that_two_kernels_share_count_as_network(kind: str) -> None:
    assert on_network(Path("/far/s.db"), f"/dev/a / ext4 rw 0 0\nx /far {kind} rw 0 0\n") == kind


@pytest.mark.parametrize(
    "program", ["juicefs", "davfs", "gvfsd-fuse", "osxfs", "sshfs", "rclone", "google-drive-ocamlfuse"]
)
def test_programs_that_reach_other_machines_are_known_and_others_are_of_this_one(program: str) -> None:
    mounts = f"x /far fuse.{program} rw 0 0\ny /near fuse.gocryptfs rw 0 0\nz /disk fuseblk rw 0 0\n"
    assert on_network(Path("/far/s.db"), mounts) == f"fuse.{program}"
    assert on_network(Path("/near/s.db"), mounts) is None
    assert on_network(Path("/disk/s.db"), mounts) is None


def test_on_a_network_file_system_there_is_no_shared_memory_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sluice.session.database.on_network", lambda _path: "nfs4")
    path = tmp_path / "s.db"

    async def body() -> None:
        async with store(path) as s:
            await SCENARIOS["a_run_comes_back_as_it_was"](s)
            assert "nfs4" in s.database.warnings[0]
            assert not Path(f"{path}-wal").exists()

    run(body())
    assert broken(path) == []


def test_a_new_store_is_what_the_migrations_make(tmp_path: Path) -> None:
    path = _made(tmp_path / "s.db")
    old = sqlite3.connect(tmp_path / "old.db", isolation_level=None)
    migrate(old, migrations())
    shape = "SELECT type, name, sql FROM sqlite_master ORDER BY name"
    with reading(path) as connection:
        assert connection.execute(shape).fetchall() == old.execute(shape).fetchall()
        made = connection.execute("SELECT version, name FROM migration ORDER BY version").fetchall()
    assert made == [(number, name) for number, name, _sql in migrations()]
    assert migrations()[-1][0] == VERSION
    old.close()


def test_a_migration_and_its_record_are_one_step(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "s.db", isolation_level=None)
    migrate(connection, migrations())
    now = VERSION
    later = [
        *migrations(),
        (now + 1, "good.sql", "CREATE TABLE good (a);\n"),
        (now + 2, "bad.sql", "CREATE TABLE x (\n);"),
    ]
    with pytest.raises(sqlite3.Error):
        migrate(connection, later)
    assert connection.execute("PRAGMA user_version").fetchone() == (now,)
    assert connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'good'").fetchone() == (0,)
    migrate(connection, later[:-1])
    assert connection.execute("PRAGMA user_version").fetchone() == (now + 1,)
    assert connection.execute("SELECT name FROM migration ORDER BY version").fetchall()[now:] == [("good.sql",)]
    assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION,)
    connection.close()


@pytest.mark.skipif(os.geteuid() == 0 or sys.platform != "linux", reason="root may write everything")
def test_a_read_only_folder_is_said(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(StoreError) as said:
        _open(tmp_path / "s.db")
    tmp_path.chmod(0o700)
    assert said.value.kind == "read_only"


@settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_damage_gets_past_a_plain_word(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Flip, cut or blank any bytes: opening works or says no in a line of ours, and checking always answers."""
    path = _made(tmp_path_factory.mktemp("damage") / "s.db")
    raw = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(raw) - 1))
        match data.draw(st.sampled_from(["flip", "cut", "blank", "swap"])):
            case "flip":
                raw[at] ^= 1 << data.draw(st.integers(0, 7))
            case "cut":
                del raw[max(at, 1) :]
            case "blank":
                raw[at : at + 512] = bytes(len(raw[at : at + 512]))
            case "swap" if len(raw) >= 12288:
                raw[4096:8192], raw[8192:12288] = raw[8192:12288], raw[4096:8192]
    path.write_bytes(raw)
    for use in (_look, _open):
        said = ""
        try:
            use(path)
        except SluiceError as error:
            said = str(error)
        assert "\n" not in said


def _look(path: Path) -> None:
    with reading(path) as connection:
        check(connection, path)


def test_a_store_that_was_only_just_made_reads_as_one_without_sessions(tmp_path: Path) -> None:
    """Whoever made it died before its first row: that is no database of another program."""
    path = tmp_path / "s.db"
    path.touch(0o600)
    with reading(path) as connection:
        assert connection.execute("SELECT count(*) FROM session").fetchone() == (0,)
    assert path.read_bytes() == b""


def test_what_a_dead_writer_began_is_taken_back_before_reading(tmp_path: Path) -> None:
    """A rollback journal that a death left behind does not make the store unreadable."""
    path, dead = tmp_path / "s.db", tmp_path / "dead.db"
    with sqlite3.connect(path, isolation_level=None) as connection:
        migrate(connection)
        connection.execute("PRAGMA cache_size = 1")
        connection.execute("BEGIN IMMEDIATE")
        for number in range(200):
            connection.execute("INSERT INTO session VALUES (?, 'p', 0, NULL, 0)", (f"{number}{'x' * 900}",))
        for ending in ("", "-journal"):
            Path(f"{dead}{ending}").write_bytes(Path(f"{path}{ending}").read_bytes())
        connection.execute("ROLLBACK")
    connection.close()
    assert Path(f"{dead}-journal").stat().st_size
    with reading(dead) as connection:
        assert connection.execute("SELECT count(*) FROM session").fetchone() == (0,)


def test_an_id_in_a_store_leads_to_no_file_elsewhere(tmp_path: Path) -> None:
    """A store may come with somebody's repository: its lock would empty and remove a file beside it."""
    path = tmp_path / "s.db"
    (tmp_path / "poetry.lock").write_text("precious")
    connection = sqlite3.connect(path, isolation_level=None)
    migrate(connection)
    connection.execute("INSERT INTO session VALUES ('../poetry', '/project', 0, NULL, 1)")
    connection.close()
    with pytest.raises(StoreError, match="none of ours"):
        _open(path)
    assert holder(lock_folder(path), "../poetry") is None
    assert (tmp_path / "poetry.lock").read_text() == "precious"
