"""Removed sessions give the disk back what they took, or at least make room in the store; nothing is lost by it."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from pathlib import Path

import pytest
from session_world import broken, opened, rows_of, run, store

from sluice.errors import StoreError
from sluice.session.database import Database
from sluice.session.disk import reading
from sluice.session.removal import remove_now
from sluice.session.vacuum import give_back, used_bytes
from sluice.session.wish import Wish
from sluice.values.messages import AssistantMessage, UserMessage

LARGE = "x" * 4_000_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with a small session and a large one."""

    async def body() -> None:
        for session, text in (("ses_small", "hi"), ("ses_large", LARGE)):
            async with store(tmp_path / "s.db", new_id=lambda session=session: session) as one:
                await one.started(f"run_{session}", UserMessage(text))
                await one.append(f"run_{session}", AssistantMessage(content="done"))
                await one.finished(f"run_{session}", "completed")

    run(body())
    return tmp_path / "s.db"


def remove(path: Path, session: str) -> None:
    database = Database(path)
    try:
        remove_now(database, [session])
    finally:
        database.close()


def used(path: Path) -> int:
    with reading(path) as connection:
        return used_bytes(connection)


def test_the_file_gets_smaller_and_keeps_what_is_left(path: Path) -> None:
    before = path.stat().st_size
    remove(path, "ses_large")
    assert path.stat().st_size == before  # which is why it is done
    freed = give_back(path)
    assert freed > len(LARGE) * 0.9
    assert path.stat().st_size == before - freed
    assert rows_of(path, "SELECT id FROM session") == [("ses_small",)]
    assert broken(path) == []
    assert path.stat().st_mode & 0o777 == 0o600
    assert rows_of(path, "PRAGMA journal_mode") == [("wal",)]
    assert give_back(path) == 0


def test_what_is_hardly_free_is_left_for_the_rows_to_come(path: Path) -> None:
    remove(path, "ses_small")
    inode, size = path.stat().st_ino, path.stat().st_size
    assert give_back(path) == 0
    assert (path.stat().st_ino, path.stat().st_size) == (inode, size)


def test_a_store_in_use_is_left_alone(path: Path) -> None:
    async def body() -> None:
        async with store(path, "resume", "ses_small"):
            remove(path, "ses_large")
            assert await asyncio.to_thread(give_back, path) == 0

    run(body())
    reader = sqlite3.connect(path)  # as one that shows a session, which takes none of our locks
    try:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM session").fetchone()
        size = path.stat().st_size
        assert give_back(path) == 0
        assert path.stat().st_size == size
    finally:
        reader.close()
    assert give_back(path) > 0
    assert broken(path) == []


def test_a_bound_that_was_reached_is_left_again_by_removing(path: Path) -> None:
    """The bound is on what a store holds: SQLite keeps the file as large as it was."""

    async def open_and_close() -> None:
        await (await opened(path, Wish(), max_bytes=2_000_000)).store.close()

    with pytest.raises(StoreError, match="session_store_bytes"):
        run(open_and_close())
    assert used(path) > len(LARGE)
    remove(path, "ses_large")
    assert path.stat().st_size > 2_000_000
    assert used(path) < 200_000
    run(open_and_close())


def test_the_bound_holds_also_while_a_run_goes_on_and_nothing_that_is_under_way_is_lost(tmp_path: Path) -> None:
    """No reply begins over it; what came before can still be ended, and the session goes on when there is room."""
    path = tmp_path / "s.db"

    async def body() -> None:
        opening = await opened(path, Wish(), max_bytes=1_000_000, new_id=lambda: "ses")
        one = opening.store
        await one.started("r", UserMessage("go"))
        await one.reply_began("r", 1)
        await one.append("r", AssistantMessage(content="x" * 2_000_000))
        with pytest.raises(StoreError, match="session_store_bytes") as said:
            await one.reply_began("r", 2)
        assert said.value.kind == "full"
        await one.append("r", AssistantMessage(content="the end"))
        await one.finished("r", "failed")
        await one.close()
        opening = await opened(path, Wish(how="continue"), max_bytes=9_000_000)
        assert len(await opening.store.history()) == 3
        await opening.store.close()

    run(body())
    assert broken(path) == []


def test_what_is_no_store_of_ours_is_not_written_to(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE theirs (a)")
    connection.commit()
    connection.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="another program"):
        give_back(path)
    assert path.read_bytes() == before
    with pytest.raises(StoreError):
        give_back(tmp_path / "absent.db")
    assert not os.path.exists(tmp_path / "absent.db")
