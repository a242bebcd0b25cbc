"""A reply that arrives: its rows, the sizes of its calls, and how many of them are known to be there."""

from __future__ import annotations

import asyncio
import re
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from session_world import broken, rows_of, run, store, tampered

from sluice.errors import StoreError
from sluice.session.arriving import COUNTED_ROWS
from sluice.session.database import GROUP_BYTES, Database
from sluice.session.disk import reading
from sluice.session.export import as_markdown
from sluice.session.store import SqliteStore
from sluice.values.messages import AssistantMessage, UserMessage


def _flushed(database: Database) -> None:
    """Returns when what was put in before is committed, and asks for no commit at once, as a write would."""
    done = threading.Event()
    database.later(lambda _c: None, lambda _r, _e: done.set())
    assert done.wait(20)


def _calls(path: Path) -> list[str]:
    return [body for (body,) in rows_of(path, "SELECT body FROM chunk WHERE kind = 'call' ORDER BY seq")]


def test_the_size_of_a_call_goes_with_a_commit_that_happens_anyway(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    async def body() -> None:
        async with store(path) as s:
            await s.started("r", UserMessage("x"))
            await s.reply_began("r", 1)
            await s.delta("r", "call", "write")
            _flushed(s.database)
            await s.call_grew("r", 0, 100)
            await s.call_grew("r", 0, 4095)
            _flushed(s.database)
            assert _calls(path) == ["write"]
            await s.delta("r", "call", "look")
            await s.call_grew("r", 1, 7)
            _flushed(s.database)
            assert _calls(path) == ["write", "look", "\t0 4095", "\t1 7"]
            await s.delta("r", "text", "what has not changed is not said again")
            _flushed(s.database)
            assert len(_calls(path)) == 4
            assert broken(path) == []

    run(body())


def test_each_4_kib_more_of_a_call_ask_for_a_commit(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    async def body() -> None:
        async with store(path) as s:
            await s.started("r", UserMessage("x"))
            await s.reply_began("r", 1)
            await s.delta("r", "call", "write")
            _flushed(s.database)
            for size in range(0, 10_000, 100):
                await s.call_grew("r", 0, size)
                if size in (4096 + 4, 8192 + 8):
                    await asyncio.sleep(0)
                _flushed(s.database)
            assert _calls(path) == ["write", "\t0 4100", "\t0 8200"]

    run(body())


def test_a_call_that_was_arriving_comes_back_as_cut_after_so_many_bytes(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    async def body() -> None:
        async with store(path, new_id=lambda: "ses") as s:
            await s.started("r", UserMessage("x"))
            await s.reply_began("r", 1)
            for name in ("write", "\tlook", "ls"):
                await s.delta("r", "call", name)
            await s.call_grew("r", 0, 12)
            await s.call_grew("r", 1, 34)
            await s.delta("r", "text", "and")
        with reading(path) as connection:
            assert "arriving (not whole yet: 34 bytes of its arguments have arrived)" in "".join(
                as_markdown(connection, "ses")
            )
        async with store(path, "resume", "ses") as s:
            (_prompt, reply, *_results) = await s.history()
            assert isinstance(reply, AssistantMessage)
            assert [(c.name, c.status, c.problem) for c in reply.tool_calls] == [
                ("write", "cut", "its reply broke off, cut after 12 bytes of its arguments"),
                ("look", "cut", "its reply broke off, cut after 34 bytes of its arguments"),
                ("ls", "cut", "its reply broke off"),
            ]

    run(body())
    assert broken(path) == []
    with reading(path) as connection:
        assert "cut after 12 bytes" in "".join(as_markdown(connection, "ses"))


def test_a_reply_that_came_whole_holds_no_sizes(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    async def body() -> None:
        async with store(path) as s:
            await s.started("r", UserMessage("x"))
            await s.reply_began("r", 1)
            await s.delta("r", "call", "write")
            await s.call_grew("r", 0, 5000)
            await s.append("r", AssistantMessage())
            with pytest.raises(StoreError, match="no reply that is arriving"):
                await s.call_grew("r", 0, 6000)
            await s.reply_began("r", 2)
            await s.delta("r", "text", "x")
            _flushed(s.database)
            assert _calls(path) == []
            await s.append("r", AssistantMessage(content="x"))
            await s.finished("r", "completed")

    run(body())
    assert broken(path) == []


@pytest.mark.parametrize("wrong", ["\t1 9", "\t0 3", "\tzero"])
def test_a_size_of_no_call_or_one_that_shrank_is_found(tmp_path: Path, wrong: str) -> None:
    path = tmp_path / "s.db"

    async def body() -> None:
        async with store(path) as s:
            await s.started("r", UserMessage("x"))
            await s.reply_began("r", 1)
            await s.delta("r", "call", "write")
            await s.call_grew("r", 0, 5)
            await s.delta("r", "text", "x")
            _flushed(s.database)
            await s.call_grew("r", 0, 8)
            await s.delta("r", "text", "y")

    run(body())
    assert broken(path, promises=["D2"]) == []
    with tampered(path) as connection:
        connection.execute("UPDATE chunk SET body = ? WHERE body = char(9) || '0 8'", (wrong,))
    assert [one.promise for one in broken(path, promises=["D2"])] == ["D2"]


def test_a_lost_row_of_a_reply_that_is_still_open_is_found_up_to_its_last_count(tmp_path: Path) -> None:
    """D1: what has come after the last count is known to those alone who were told of it."""
    path = tmp_path / "s.db"

    async def body() -> None:
        async with store(path) as s:
            await s.started("r", UserMessage("x"))
            await s.reply_began("r", 1)
            for at in range(COUNTED_ROWS + 5):
                await s.delta("r", "text", f"{at} ")
                await s.database.write(lambda _c: None, full=False)

    run(body())
    assert rows_of(path, "SELECT chunks FROM run") == [(COUNTED_ROWS,)]
    assert broken(path, promises=["D1"]) == []
    with tampered(path) as connection:
        connection.execute("DELETE FROM chunk WHERE seq >= ?", (COUNTED_ROWS,))
    assert broken(path, promises=["D1"]) == []
    with tampered(path) as connection:
        connection.execute("DELETE FROM chunk WHERE seq >= ?", (COUNTED_ROWS - 1,))
    assert [one.promise for one in broken(path, promises=["D1"])] == ["D1"]

    async def opened_again() -> None:
        async with store(path, "continue"):
            pass

    run(opened_again())
    assert {one.promise for one in broken(path, promises=["D1"])} == {"D1"}


_STEPS = st.one_of(
    st.tuples(st.sampled_from(["text", "reasoning"]), st.text(max_size=5)),
    st.tuples(st.just("call"), st.sampled_from(["look", "write"])),
    st.tuples(st.just("grew"), st.integers(0, 3), st.integers(0, 6000)),
    st.just(("flush",)),
)


@given(steps=st.lists(_STEPS, max_size=30))
@settings(max_examples=40, deadline=None)
def test_whatever_arrives_comes_back_as_far_as_it_was_kept(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[Any, ...]]
) -> None:
    """The text is all there, each call is there, and its size is one that it had, less than 4 KiB behind."""
    path = tmp_path_factory.mktemp("arriving") / "s.db"
    told = {"text": "", "reasoning": ""}
    names: list[str] = []
    sizes: list[list[int]] = []

    async def arrives(s: SqliteStore, step: tuple[Any, ...]) -> None:
        match step:
            case ("flush",):
                _flushed(s.database)
            case ("grew", call, more):
                if call < len(names):
                    sizes[call].append((sizes[call] or [0])[-1] + more)
                    await s.call_grew("r", call, sizes[call][-1])
            case ("call", name):
                names.append(name)
                sizes.append([])
                await s.delta("r", "call", name)
            case (kind, text):
                told[kind] += text
                await s.delta("r", kind, text)

    async def body() -> AssistantMessage | None:
        async with store(path, new_id=lambda: "ses") as s:
            await s.started("r", UserMessage("x"))
            await s.reply_began("r", 1)
            for step in steps:
                await arrives(s, step)
        assert broken(path, promises=["D1", "D2"]) == []
        async with store(path, "resume", "ses") as s:
            return next((m for m in await s.history() if isinstance(m, AssistantMessage)), None)

    reply = run(body())
    assert broken(path) == []
    if reply is None:  # nothing that could be sent back
        assert (told["text"], names) == ("", [])
        return
    assert ((reply.content or ""), "".join(r.text for r in reply.reasoning)) == (told["text"], told["reasoning"])
    assert [call.name for call in reply.tool_calls] == names
    for call, had in zip(reply.tool_calls, sizes, strict=True):
        said = re.search(r"after (\d+) bytes", call.problem or "")
        kept = int(said[1]) if said else 0
        assert kept in [0, *had]
        assert (had or [0])[-1] - kept < GROUP_BYTES


def test_what_waits_is_counted_in_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """1,500 characters of three bytes each are more than 4 KiB: they wait for nobody."""
    monkeypatch.setattr("sluice.session.database.GROUP_SECONDS", 3600.0)
    path = tmp_path / "s.db"

    async def body() -> None:
        async with store(path) as s:
            await s.started("r", UserMessage("hello"))
            await s.reply_began("r", 1)
            await s.delta("r", "text", "漢" * 1500)
            for _look in range(400):
                if rows_of(path, "SELECT 1 FROM chunk"):
                    return
                await asyncio.sleep(0.005)
            raise AssertionError("it waits for more")

    run(body())
