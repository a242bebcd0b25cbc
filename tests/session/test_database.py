"""One writing thread: order, groups, failures that are told, processes that take turns."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from session_world import broken, rows_of, run, store

from sluice.errors import StoreError
from sluice.session import database as database_module
from sluice.session.database import Database
from sluice.session.disk import VERSION
from sluice.session.locks import FileLock
from sluice.session.store import SqliteStore
from sluice.testing.store_kit import allowed, asks, well
from sluice.values.messages import AssistantMessage, UserMessage


def test_work_is_done_in_the_order_it_came_and_in_few_transactions(tmp_path: Path) -> None:
    database = Database(tmp_path / "s.db")
    done: list[int] = []

    async def body() -> None:
        before = await database.write(lambda c: c.total_changes)
        for at in range(50):
            database.later(lambda _c, at=at: done.append(at), lambda _r, _e: None)
        assert done == []
        await database.write(lambda _c: None)
        assert before == VERSION  # the records of the migrations

    run(body())
    database.close()
    assert done == list(range(50))


def test_one_work_that_fails_takes_nobody_with_it(tmp_path: Path) -> None:
    database = Database(tmp_path / "s.db")
    told: list[StoreError | None] = []

    def bad(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO session (id, project, created_at) VALUES ('bad', '', 0)")
        connection.execute("INSERT INTO session (id, project, created_at) VALUES ('bad', '', 0)")

    def good(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO session (id, project, created_at) VALUES ('good', '', 0)")

    async def body() -> None:
        database.later(bad, lambda _r, error: told.append(error))
        await database.write(good)
        with pytest.raises(StoreError) as said:
            await database.write(bad)
        assert said.value.kind == "refused"

    run(body())
    database.close()
    assert [error.kind for error in told if error] == ["refused"]
    assert rows_of(tmp_path / "s.db", "SELECT id FROM session") == [("good",)]


def _taken(database: Database) -> None:
    """Returns when what was put in before is committed or refused, and asks for no commit at once, as a write would."""
    done = threading.Event()
    database.later(lambda _c: None, lambda _r, _e: done.set())
    assert done.wait(20)


@pytest.mark.parametrize("again", [False, True])
def test_nothing_is_acknowledged_in_a_file_that_was_taken_away(again: bool, tmp_path: Path) -> None:
    path, aside = tmp_path / "s.db", tmp_path / "aside.db"

    async def body() -> None:
        async with store(path, id="a") as s:
            await s.started("r", UserMessage("x"))
            path.rename(aside)
            if again:
                path.write_bytes(b"")  # another one has its name
            with pytest.raises(StoreError, match="removed or replaced"):
                await s.call_started(allowed("r"))
            aside.rename(path)
            await s.finished("r", "completed")

    run(body())
    assert broken(path) == []


def test_a_flush_that_is_refused_by_itself_stops_no_write_and_is_told(tmp_path: Path) -> None:
    """What `write` promises of earlier work: it is committed, or failed by itself and was told to whoever asked for it."""
    path = tmp_path / "s.db"

    async def body() -> None:
        async with store(path) as s:
            await s.started("r", UserMessage("x"))
            await s.reply_began("r", 1)
            await s.database.write(lambda c: c.execute("INSERT INTO chunk VALUES ('r', 0, 'text', 'mine', 0)").rowcount)
            await s.delta("r", "text", "one ")
            assert await s.database.write(lambda _c: 7) == 7
            with pytest.raises(StoreError) as said:
                await s.delta("r", "text", "not this")
            assert said.value.kind == "refused"
            await s.append("r", AssistantMessage(content="one "))
            await s.finished("r", "completed")

    run(body())
    assert rows_of(path, "SELECT told_crc FROM message WHERE seq = 2") == [(None,)]
    assert broken(path) == []


def test_a_flush_of_several_rows_is_one_transaction_also_when_it_is_alone(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    async def body() -> None:
        async with store(path) as s:
            await s.started("r", UserMessage("x"))
            await s.reply_began("r", 1)
            await s.database.write(lambda c: c.execute("INSERT INTO chunk VALUES ('r', 1, 'text', 'mine', 0)").rowcount)
            s.database.grew(-1_000_000)  # both wait for the same commit
            await s.delta("r", "reasoning", "hm")
            await s.delta("r", "text", "one ")
            s.database.grew(2_000_000)
            while s._arriving._scheduled:
                await asyncio.sleep(0)
            _taken(s.database)
            assert rows_of(path, "SELECT seq, body FROM chunk") == [(1, "mine")]

    run(body())


def test_a_ring_that_nobody_waits_for_counts_for_the_next_wait() -> None:
    bell = database_module._Bell()
    bell.ring()
    bell.ring()
    bell.wait(-1)
    bell.wait(0)  # it has been heard: this one ran out of time


class _Broken:
    """A connection whose commits fail as a full disk makes them fail."""

    def __init__(self, connection: sqlite3.Connection, *, after_all: bool = False) -> None:
        self._connection = connection
        self._after_all = after_all  # the rows are on the disk, whatever the commit says

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def execute(self, sql: str, *given: Any) -> Any:
        if sql == "COMMIT":
            if self._after_all:
                self._connection.execute(sql)
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error
        return self._connection.execute(sql, *given)


def test_a_full_disk_is_told_nothing_is_marked_as_saved_and_it_goes_on_when_space_is_back(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    async def body() -> None:
        async with store(path) as s:
            await s.started("r", UserMessage("x"))
            await s.reply_began("r", 1)
            await s.delta("r", "text", "one ")
            await s.database.write(lambda _c: None)
            sound = s.database._connection
            assert sound is not None
            s.database._connection = _Broken(sound)  # type: ignore[assignment]
            await s.delta("r", "text", "two ")
            with pytest.raises(StoreError, match="disk is full") as said:
                await s.append("r", AssistantMessage(content="one two"))
            assert said.value.kind == "full"
            assert rows_of(path, "SELECT state FROM message WHERE seq = 2") == [("open",)]
            # Space is back: the connection is opened afresh.
            await s.finished("r", "failed")

    run(body())
    assert rows_of(path, "SELECT outcome FROM run") == [("failed",)]
    assert broken(path) == []


def test_a_delta_that_could_not_be_kept_is_told_by_the_next_one_and_is_not_lost(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    async def body() -> None:
        async with store(path) as s:
            await s.started("r", UserMessage("x"))
            await s.reply_began("r", 1)
            sound = s.database._connection
            s.database._connection = _Broken(sound)  # type: ignore[assignment,arg-type]
            await s.delta("r", "text", "one ")
            with pytest.raises(StoreError):
                await s.database.write(lambda _c: None)
            with pytest.raises(StoreError, match="disk is full"):
                await s.delta("r", "text", "not this")
            await s.delta("r", "text", "two")
            await s.append("r", AssistantMessage(content="one two"))
            await s.finished("r", "completed")

    run(body())
    assert rows_of(path, "SELECT first_chunk, next_chunk FROM message WHERE seq = 2") == [(0, 1)]
    assert broken(path) == []


def test_deltas_whose_commit_failed_and_are_there_after_all_are_not_there_twice(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    async def body() -> None:
        async with store(path) as s:
            await s.started("r", UserMessage("x"))
            await s.reply_began("r", 1)
            sound = s.database._connection
            s.database._connection = _Broken(sound, after_all=True)  # type: ignore[assignment,arg-type]
            await s.delta("r", "text", "one ")
            with pytest.raises(StoreError):
                await s.database.write(lambda _c: None)
            assert rows_of(path, "SELECT seq, body FROM chunk") == [(0, "one ")]
            with pytest.raises(StoreError):
                await s.delta("r", "text", "not this")
            await s.delta("r", "text", "two")
            await s.database.write(lambda _c: None)
            assert rows_of(path, "SELECT seq, body FROM chunk") == [(0, "one two")]

    run(body())


def test_another_program_that_keeps_the_store_is_said_without_sqlites_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "TURN_SECONDS", 0.05)
    path = tmp_path / "s.db"
    Database(path).close()
    lock = FileLock(Path(f"{path}.turn"))
    assert lock.try_exclusive()
    with pytest.raises(StoreError, match="another process") as said:
        Database(path)
    assert said.value.kind == "busy"
    lock.close()
    Database(path).close()


_WRITER = """
import asyncio, sys
from pathlib import Path
sys.path[:0] = {path!r}
from session_world import store
from sluice.testing.store_kit import allowed, asks, well
from sluice.values.messages import ToolMessage, UserMessage

async def main():
    async with store(Path(sys.argv[1]), new_id=lambda: sys.argv[2]) as s:
        for n in range(5):
            name = f"{{sys.argv[2]}}_{{n}}"
            await s.started(name, UserMessage("x"))
            await s.reply_began(name, 1)
            for _ in range(50):
                await s.delta(name, "text", "word ")
            await s.append(name, asks("a", text="word " * 50))
            await s.call_started(allowed(name))
            await s.call_ended(allowed(name), well())
            await s.append(name, ToolMessage("a", "look", "seen"))
            await s.finished(name, "completed")

asyncio.run(main())
"""


def test_several_processes_on_one_store_never_see_a_lock(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    code = _WRITER.format(path=[str(Path(__file__).parent)])
    children = [
        subprocess.Popen([sys.executable, "-c", code, str(path), f"ses_{at}"], stderr=subprocess.PIPE)
        for at in range(3)
    ]
    said = [child.communicate(timeout=50)[1] for child in children]
    assert [child.returncode for child in children] == [0, 0, 0], said
    assert rows_of(path, "SELECT count(*) FROM run WHERE outcome = 'completed'") == [(15,)]
    assert broken(path) == []


def test_a_long_reader_blocks_no_writer_and_the_log_is_emptied_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R1: the bound is made small here, so that little has to be written."""
    monkeypatch.setattr(database_module, "WAL_BYTES", 64 * 1024)
    path = tmp_path / "s.db"

    async def body() -> None:
        async with store(path) as s:
            await s.started("r", UserMessage("x"))
            reader = sqlite3.connect(path)
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM message").fetchone()
            for turn in range(1, 9):
                await s.reply_began("r", turn)
                await s.append("r", AssistantMessage(content="x" * 20_000))
            assert Path(f"{path}-wal").stat().st_size > 64 * 1024
            reader.close()
            await s.append("r", asks("a"))
            await s.call_started(allowed("r", 9))
            await s.call_ended(allowed("r", 9), well())
            assert Path(f"{path}-wal").stat().st_size <= 64 * 1024

    run(body())


def test_deltas_alone_do_not_make_the_log_grow_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """R1: the size of the log is not asked for at each commit of deltas, but often enough."""
    monkeypatch.setattr(database_module, "WAL_BYTES", 64 * 1024)
    path = tmp_path / "s.db"

    async def arrives(s: SqliteStore, pieces: int) -> None:
        for _ in range(pieces):
            await s.delta("r", "text", "x" * 5000)
            _taken(s.database)

    async def body() -> None:
        async with store(path) as s:
            await s.started("r", UserMessage("x"))
            await s.reply_began("r", 1)
            reader = sqlite3.connect(path)
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM message").fetchone()
            await arrives(s, 20)
            assert Path(f"{path}-wal").stat().st_size > 64 * 1024
            reader.close()
            await arrives(s, 20)
            assert Path(f"{path}-wal").stat().st_size <= 64 * 1024

    run(body())


def test_a_loop_that_is_gone_does_not_stop_the_writer(tmp_path: Path) -> None:
    database = Database(tmp_path / "s.db")

    async def body() -> None:
        task = asyncio.ensure_future(database.write(lambda _c: None))
        await asyncio.sleep(0)
        task.cancel()

    run(body())
    assert database.write_now(lambda _c: 7) == 7
    database.close()
