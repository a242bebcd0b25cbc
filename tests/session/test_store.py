"""The store on disk keeps the contract of every store, is private, quick to say no, and loses nothing it has taken."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
from pathlib import Path

import msgspec
import pytest
from session_world import broken, rows_of, run, store

from sluice.errors import StoreError
from sluice.session.memory import MemoryStore
from sluice.testing.fault_agent import Acknowledging
from sluice.testing.store_kit import SCENARIOS, allowed, asks, well
from sluice.values.calls import CallKey
from sluice.values.messages import AssistantMessage, ToolMessage, Usage, UserMessage
from sluice.values.notices import Summarised, TurnFinished, Warned


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_store_on_disk_keeps_the_contract(name: str, tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    async def body() -> None:
        async with store(path) as s:
            await SCENARIOS[name](s)

    run(body())
    assert [b for b in broken(path) if b.promise not in ("D4", "P1", "C1", "X1")] == []


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_store_in_memory_keeps_the_contract(name: str) -> None:
    run(SCENARIOS[name](MemoryStore()))  # type: ignore[arg-type]


async def _whole_run(s: object, id: str = "r") -> None:
    await s.started(id, UserMessage("hello"))  # type: ignore[attr-defined]
    await s.reply_began(id, 1)  # type: ignore[attr-defined]
    await s.delta(id, "text", "so ")  # type: ignore[attr-defined]
    await s.delta(id, "text", "it is")  # type: ignore[attr-defined]
    await s.append(id, AssistantMessage(content="so it is"))  # type: ignore[attr-defined]
    await s.finished(id, "completed")  # type: ignore[attr-defined]


def test_every_file_is_private_whatever_the_umask(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "s.db"
    modes: dict[str, int] = {}

    async def body() -> None:
        async with store(path) as s:
            await s.started("r", UserMessage("x"))
            for file in [path.parent.parent, path.parent, *path.parent.rglob("*")]:
                modes[file.name] = stat.S_IMODE(file.stat().st_mode)

    before = os.umask(0)
    try:
        run(body())
    finally:
        os.umask(before)
    assert {"s.db", "s.db-wal", "s.db-shm", "s.db.turn", "s.db.users", "s.db.locks"} <= set(modes)
    folders = {"deep", "er", "s.db.locks"}
    assert {name: oct(mode) for name, mode in modes.items() if mode != (0o700 if name in folders else 0o600)} == {}


def test_others_rights_are_taken_from_a_store_that_is_there(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    async def body() -> None:
        async with store(path) as s:
            await _whole_run(s)

    run(body())
    path.chmod(0o644)
    assert {b.promise for b in broken(path)} == {"S1"}
    run(body_again(path))
    assert broken(path) == []


async def body_again(path: Path) -> None:
    async with store(path, "continue"):
        pass


def test_deltas_are_rows_while_they_come_and_are_folded_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    async def body() -> None:
        async with store(path) as s:
            await s.started("r", UserMessage("x"))
            await s.reply_began("r", 1)
            for piece in ("one ", "two ", "three"):
                await s.delta("r", "text", piece * 2000)  # above the size of a group: each is committed at once
                await s.database.write(lambda _c: None)
            assert [row[0] for row in rows_of(path, "SELECT seq FROM chunk ORDER BY seq")] == [0, 1, 2]
            assert rows_of(path, "SELECT count(*) FROM part WHERE seq = 2") == [(0,)], "no growing row"
            assert rows_of(path, "SELECT state FROM message WHERE seq = 2") == [("open",)]
            await s.append("r", AssistantMessage(content="one " * 2000 + "two " * 2000 + "three" * 2000))
            assert rows_of(path, "SELECT count(*) FROM chunk") == [(0,)]
            assert rows_of(path, "SELECT first_chunk, next_chunk, state FROM message WHERE seq = 2") == [
                (0, 3, "whole")
            ]
            await s.finished("r", "completed")

    run(body())
    assert broken(path) == []


def test_rows_of_deltas_are_counted_when_their_reply_ends(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    async def body() -> None:
        async with store(path) as s:
            await s.started("r", UserMessage("x"))
            for turn in (1, 2):
                await s.reply_began("r", turn)
                await s.delta("r", "text", "word")
                await s.database.write(lambda _c: None)
                assert rows_of(path, "SELECT chunks FROM run") == [(turn - 1,)]
                assert rows_of(path, "SELECT seq FROM chunk") == [(turn - 1,)]
                assert broken(path) == [], "while it arrives"
                await s.append("r", AssistantMessage(content="word"))
                assert rows_of(path, "SELECT chunks FROM run") == [(turn,)]
            await s.finished("r", "completed")

    run(body())
    assert broken(path) == []


def test_what_could_not_be_kept_of_a_reply_is_no_part_of_the_next(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    async def body() -> None:
        async with store(path) as s:
            await s.started("r", UserMessage("x"))
            await s.reply_began("r", 1)
            fails = "CREATE TRIGGER t BEFORE INSERT ON chunk BEGIN SELECT RAISE(ABORT, 'no'); END"
            await s.database.write(lambda c: c.execute(fails) and None)
            await s.delta("r", "text", "lost")
            await s.database.write(lambda c: c.execute("DROP TRIGGER t") and None)
            with pytest.raises(StoreError):
                await s.delta("r", "text", "lost too")
            await s.reply_began("r", 2)
            await s.delta("r", "text", "kept")
            await s.database.write(lambda _c: None)
            assert rows_of(path, "SELECT body FROM chunk") == [("kept",)]
            await s.append("r", AssistantMessage(content="kept"))
            await s.finished("r", "completed")

    run(body())
    assert broken(path) == []


def test_what_is_told_but_not_awaited_is_committed_with_the_next_start_of_a_tool(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    async def body() -> None:
        async with store(path) as s:
            await s.started("r", UserMessage("x"))
            await s.append("r", asks("a"))
            await s.noted("r", Warned(message="first"))
            await s.call_started(allowed("r"))
            assert rows_of(path, "SELECT body FROM notice")[0][0].count("first") == 1
            await s.call_ended(allowed("r"), well())
            await s.append("r", ToolMessage("a", "look", "seen"))
            await s.finished("r", "completed")

    run(body())


def test_deltas_alone_are_committed_without_being_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    async def body() -> None:
        async with store(path) as s:
            await s.started("r", UserMessage("x"))
            await s.reply_began("r", 1)
            await s.delta("r", "text", "alone")
            async with asyncio.timeout(20):
                while not rows_of(path, "SELECT 1 FROM chunk"):
                    await asyncio.sleep(0)

    run(body())


def test_the_witness_of_deltas_begins_anew_with_each_run(tmp_path: Path) -> None:
    acks = tmp_path / "acks"

    async def body() -> None:
        async with store(tmp_path / "s.db") as s:
            witness = Acknowledging(s, str(acks))
            for witness.run in ("q", "r"):  # the first breaks off in its first turn
                for _ in range(4):
                    await witness.text(1, "word")

    run(body())
    assert acks.read_text().splitlines() == ["q 1 16", "r 1 16"]


def test_cancelling_a_write_takes_nothing_back(tmp_path: Path) -> None:
    """S9: what has happened is stored, whoever has stopped waiting for it."""
    path = tmp_path / "s.db"

    async def body() -> None:
        async with store(path) as s:
            task = asyncio.create_task(s.started("r", UserMessage("x")))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await s.database.write(lambda _c: None)

    run(body())
    assert rows_of(path, "SELECT id FROM run") == [("r",)]


def test_usage_and_notices_are_rows(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    usage = Usage(input_tokens=5, output_tokens=1)

    async def body() -> None:
        async with store(path) as s:
            await s.started("r", UserMessage("x"))
            await s.noted("r", TurnFinished(turn=1, stop_reason=None, usage=usage, cost=0.25))
            await s.noted("r", TurnFinished(turn=2, stop_reason=None, usage=usage))
            await s.finished("r", "completed")

    run(body())
    found = rows_of(path, "SELECT number, turn, usage, cost FROM usage ORDER BY number")
    assert [row[:2] + row[3:] for row in found] == [(0, 1, 0.25), (1, 2, None)]
    assert msgspec.json.decode(found[0][2], type=Usage) == usage


def test_a_second_process_is_told_who_works_with_the_session(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    async def body() -> None:
        async with store(path) as s:
            await _whole_run(s)
            for how, id in (("continue", ""), ("resume", s.session)):
                with pytest.raises(StoreError, match=rf"process {os.getpid()}.*--fork") as said:
                    async with store(path, how, id):
                        pass
                assert said.value.kind == "held"
            async with store(path) as other:  # another session of the same store is nobody's business
                await _whole_run(other, "other")

    run(body())
    assert broken(path) == []


def test_approvals_and_files_seen_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    seen = {"a.txt": "1" * 64}

    async def body() -> dict[str, str]:
        async with store(path) as s:
            s.seen = lambda: seen
            await s.started("r", UserMessage("x"))
            await s.append("r", asks("a"))
            await s.asked(CallKey("r", 1, 0), "look", allowed("r").verdict.digest)
            await s.answered(CallKey("r", 1, 0), True)
            await s.call_started(allowed("r"))
            s.keep_preimage("h1", "./a.txt", None, None)
            seen["b.txt"] = "2" * 64
            await s.call_ended(allowed("r"), well())
            await s.append("r", ToolMessage("a", "look", "seen"))
            await s.finished("r", "completed")
        async with store(path, "continue") as again:
            return await again.seen_files()

    assert run(body()) == seen
    assert rows_of(path, "SELECT granted FROM approval") == [(1,)]
    assert rows_of(path, "SELECT path, ended, after FROM preimage") == [("a.txt", 1, "1" * 64)]


def test_a_pre_image_outside_a_call_is_refused(tmp_path: Path) -> None:
    async def body() -> None:
        async with store(tmp_path / "s.db") as s:
            with pytest.raises(StoreError, match="no call is running"):
                s.keep_preimage("h", "a", None, None)

    run(body())


def test_half_a_character_does_not_stop_a_session(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    async def body() -> None:
        async with store(path) as s:
            await s.started("r", UserMessage("x\ud83d"))
            await s.reply_began("r", 1)
            await s.delta("r", "text", "y\ud83d")
            await s.append("r", AssistantMessage(content="y\ud83d", model="\ud83d"))
            await s.finished("r", "completed")
            assert (await s.history())[1] == AssistantMessage(content="y\ufffd", model="\ufffd")

    run(body())
    assert broken(path) == []


def test_nothing_is_taken_after_the_close(tmp_path: Path) -> None:
    async def body() -> None:
        async with store(tmp_path / "s.db") as s:
            pass
        with pytest.raises(StoreError, match="closed"):
            await s.started("r", UserMessage("x"))
        await s.close()

    run(body())


def test_usage_that_cannot_be_kept_is_told_to_whoever_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_given: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    async def body() -> None:
        async with store(tmp_path / "s.db") as s:
            await s.started("r", UserMessage("hello"))
            with monkeypatch.context() as patched:
                patched.setattr("sluice.session.usage.keep", full)
                with pytest.raises(StoreError):
                    await s.noted("r", TurnFinished(turn=1, stop_reason=None, usage=Usage(input_tokens=1), cost=0.25))
            await s.finished("r", "completed")

    run(body())
    assert rows_of(tmp_path / "s.db", "SELECT outcome FROM run") == [("completed",)]


def test_what_a_summary_used_in_a_fork_before_its_first_run_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    used = Summarised(before=9, after=5, usage=Usage(input_tokens=100), cost=0.5)

    async def body() -> None:
        async with store(path) as s:
            await _whole_run(s)
            source = s.session
        async with store(path, "fork", source) as fork:
            await fork.noted("", Warned(message="nothing of money"))
            await fork.noted("", Summarised(before=9, after=9, ok=False))
            assert rows_of(path, "SELECT count(*) FROM run") == [(1,)]
            await fork.noted("", used)
            await fork.noted("", used)
            await _whole_run(fork, "after")

    run(body())
    kept = (
        "SELECT r.number, u.turn, u.cost, r.outcome FROM usage u JOIN run r ON r.id = u.run WHERE r.session != 'ses_1'"
    )
    assert rows_of(path, kept) == [(1, 0, 0.5, "completed")] * 2
    assert rows_of(path, "SELECT number FROM run WHERE id = 'after'") == [(2,)]
    assert rows_of(path, "SELECT count(*) FROM usage") == [(2,)], "the session it came from did not pay"
    assert broken(path) == []
