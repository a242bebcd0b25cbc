"""Sessions go from every list at once, and from the disk in short steps; a death between two of them spoils nothing."""

from __future__ import annotations

import asyncio
import math
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from session_world import broken, opened, rows_of, run, store

from sluice.errors import StoreError
from sluice.session import catalog, removal
from sluice.session.database import Database
from sluice.session.disk import reading
from sluice.session.removal import begin, hide, remove_file, remove_now, sweep
from sluice.session.wish import Wish
from sluice.testing.store_kit import allowed, asks, well
from sluice.turn.repeats import output_digest
from sluice.values.messages import AssistantMessage, ToolMessage, Usage, UserMessage
from sluice.values.notices import TurnFinished

TABLES = ("message", "part", "run", "chunk", "call", "approval", "usage", "notice", "preimage", "seen", "shrunk")


async def _filled(path: Path, id: str, runs: int = 3, project: str = "/project") -> None:
    """A session with a row in every table; its last run died in the middle of a reply."""
    async with store(path, new_id=lambda: id, project=project) as s:
        s.seen = lambda: {"a.txt": "new"}
        for number in range(runs):
            name = f"{id}r{number}"
            await s.started(name, UserMessage(f"prompt {number}"))
            await s.reply_began(name, 1)
            await s.delta(name, "text", "let me look")
            await s.append(name, asks("a", "b", text="let me look"))
            for position, call in enumerate("ab"):
                start = allowed(name, position=position)
                await s.asked(start.key, "look", start.verdict.digest)
                await s.answered(start.key, True)
                await s.call_started(start)
                if not position:
                    await asyncio.to_thread(s.keep_preimage, f"{name}h", "a.txt", "old", 0o600)
                await s.call_ended(start, well())
                await s.append(name, ToolMessage(call, "look", "seen", digest=output_digest(well())))
            await s.noted(name, TurnFinished(turn=1, stop_reason="tool_use", usage=Usage(input_tokens=1)))
            if number < runs - 1:
                await s.append(name, AssistantMessage(content="done"))
                await s.finished(name, "completed")
        await s.shrank([UserMessage("in short")])
        await s.reply_began(name, 2)
        await s.delta(name, "text", "and now")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "s.db"
    for id in ("ses_a", "ses_b"):
        run(_filled(path, id))
    return path


def ticking(step: float) -> Callable[[], float]:
    """A clock that goes on by this much whenever it is asked."""
    times: Iterator[float] = (step * number for number in range(10**9))
    return lambda: next(times)


def test_nothing_of_it_is_left(path: Path) -> None:
    database = Database(path)
    assert remove_now(database, ["ses_a"]) == (["ses_a"], {})
    database.close()
    assert rows_of(path, "SELECT id FROM session") == [("ses_b",)]
    for table in TABLES:
        column = "session" if table in ("message", "part", "run", "seen", "shrunk") else "run"
        left = {str(of)[:5] for (of,) in rows_of(path, f"SELECT {column} FROM {table}")}
        assert left <= {"ses_b"}, table


def test_every_promise_holds_and_nobody_sees_it_between_any_two_steps(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(removal, "_ROWS", 1)
    database = Database(path)
    assert run(hide(database, ["ses_a"])) == ["ses_a"]
    steps = 0
    while True:
        assert {one.where for one in broken(path)} <= {"ses_b ses_br2"}  # which was not opened since it died
        with reading(path) as connection:
            assert [one.id for one in catalog.listed(connection, path)] == ["ses_b"]
            assert catalog.matching(connection, "ses_a") == []
            assert catalog.latest(connection, "/project") == "ses_b"
            assert catalog.older_than(connection, None, 4e9, 5e9) == ["ses_b"]
        steps += 1
        if not database.write_now(lambda connection: sweep(connection, ticking(1))):
            break
    database.close()
    assert steps > 30
    assert rows_of(path, "SELECT DISTINCT session FROM message") == [("ses_b",)]


def test_what_a_process_that_died_left_goes_with_the_next_opening(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluice.session.opening.SWEEP_SECONDS", math.inf)
    database = Database(path)
    run(hide(database, ["ses_a"]))
    database.write_now(lambda connection: sweep(connection, ticking(1)))
    database.close()
    assert rows_of(path, "SELECT count(*) FROM session WHERE project = ''") == [(1,)]

    async def body() -> None:
        with pytest.raises(StoreError, match="no session is named"):
            await opened(path, Wish(how="resume", id="ses_a"))
        await (await opened(path, Wish())).store.close()

    run(body())
    assert rows_of(path, "SELECT DISTINCT session FROM run") == [("ses_b",)]


def test_an_opening_does_not_wait_for_all_of_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluice.session.opening.SWEEP_SECONDS", 0)
    monkeypatch.setattr(removal, "BATCH_SECONDS", 0)
    database = Database(path)
    run(hide(database, ["ses_a"]))
    database.close()

    async def body() -> None:
        await (await opened(path, Wish())).store.close()
        assert rows_of(path, "SELECT count(*) FROM session WHERE project = ''") == [(1,)]
        with pytest.raises(StoreError, match="session_store_bytes"):  # it may wait before it says no
            await opened(path, Wish(), max_bytes=1)

    run(body())
    assert rows_of(path, "SELECT count(*) FROM session WHERE project = ''") == [(0,)]


def test_what_an_opening_left_goes_while_a_run_goes_on(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluice.session.opening.SWEEP_SECONDS", 0)
    for name in ("BATCH_SECONDS", "MEANWHILE_SECONDS", "PAUSE_SECONDS"):
        monkeypatch.setattr(removal, name, 0)
    database = Database(path)
    run(hide(database, ["ses_a"]))
    database.close()

    async def body() -> None:
        opening = await opened(path, Wish())
        left = 1
        for _ in range(10_000):
            found = await opening.store.database.write(
                lambda c: c.execute("SELECT count(*) FROM session WHERE project = ''").fetchone()
            )
            left = found[0]
            if not left:
                break
        await opening.store.close()
        assert not left
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(body())
    assert rows_of(path, "SELECT DISTINCT session FROM message") == [("ses_b",)]


def test_closing_does_not_wait_for_what_is_left(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluice.session.opening.SWEEP_SECONDS", 0)
    for name in ("BATCH_SECONDS", "MEANWHILE_SECONDS"):
        monkeypatch.setattr(removal, name, 0)
    monkeypatch.setattr(removal, "PAUSE_SECONDS", 3600)
    database = Database(path)
    run(hide(database, ["ses_a"]))
    database.close()

    async def body() -> None:
        async with store(path, "new") as s:
            await s.started("x", UserMessage("x"))
            await s.finished("x", "completed")
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(body())
    assert rows_of(path, "SELECT count(*) FROM session WHERE project = ''") == [(1,)]


def test_who_writes_beside_it_gets_a_turn_between_two_steps(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each transaction ends when its time is over, and the lock is free for longer than others sleep before they try."""
    monkeypatch.setattr(removal, "BATCH_SECONDS", 0)
    database, other = Database(path), Database(path)
    pauses: list[int] = []

    def pause(seconds: float) -> None:
        assert seconds > 0.02
        found = other.write_now(lambda c: c.execute("SELECT count(*) FROM message WHERE session = 'ses_a'").fetchone())
        pauses.append(found[0])

    monkeypatch.setattr("time.sleep", pause)
    remove_now(database, ["ses_a"])
    other.close()
    database.close()
    assert len(pauses) > 10
    assert pauses == sorted(pauses, reverse=True)


@pytest.mark.parametrize("how", ["continue", "resume", "fork"])
def test_a_session_that_was_removed_while_it_was_looked_up_is_not_opened(
    how: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found(connection: sqlite3.Connection, *_: object) -> str:
        begin(connection, ["ses_b"])  # by another process, at the worst moment
        return "ses_b"

    monkeypatch.setattr(catalog, "find", found)
    monkeypatch.setattr(catalog, "latest", found)
    with pytest.raises(StoreError, match="just been removed"):
        run(opened(path, Wish(how=how, id="ses_b")))  # type: ignore[arg-type]
    assert not list((path.parent / "s.db.locks").iterdir())


def test_a_whole_file_goes_only_with_all_its_sessions_and_when_nobody_has_it_open(path: Path) -> None:
    assert not remove_file(path, ["ses_a"])
    database = Database(path)
    assert not remove_file(path, ["ses_a", "ses_b"])
    database.close()
    assert path.exists()
    assert remove_file(path, ["ses_a", "ses_b", "more"])
    assert not list(path.parent.glob("s.db")) + list(path.parent.glob("s.db-*"))


def test_the_work_of_removing_does_not_grow_with_what_stands_beside_it(tmp_path: Path) -> None:
    """Counted in SQLite's own steps: without an index on a message's run each removed run reads every message."""

    def steps(others: int) -> int:
        path = tmp_path / f"{others}.db"
        run(_filled(path, "ses_a"))
        count = 0

        def tick() -> int:
            nonlocal count
            count += 1
            return 0

        def work(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT INTO session (id, project, created_at) VALUES ('other', '/project', 0)")
            connection.execute(
                "INSERT INTO run (id, session, number, started_at, began_ns) VALUES ('r', 'other', 1, 0, 0)"
            )
            connection.executemany(
                "INSERT INTO message (session, seq, run, role, state) VALUES ('other', ?, 'r', 'user', 'whole')",
                [(number,) for number in range(1, others + 1)],
            )
            begin(connection, ["ses_a"])
            connection.set_progress_handler(tick, 100)
            while sweep(connection):
                pass
            connection.set_progress_handler(None, 0)

        database = Database(path)
        database.write_now(work)
        database.close()
        return count

    few, many = steps(10), steps(5000)
    assert many < few * 1.5 + 10


def test_the_messages_of_a_run_are_found_by_an_index(path: Path) -> None:
    (plan,) = rows_of(path, "EXPLAIN QUERY PLAN SELECT 1 FROM message WHERE run = 'r'")
    assert "message_by_run" in plan[-1]
