"""A conversation taken up by another process: what it sends, and what it still knows of how the last one went."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from run_world import World, calls, check_notices, done, end_of, text
from test_prefix import Recording, parts

from sluice.run.agent import Agent
from sluice.run.config import Settings
from sluice.run.conversation import Talk
from sluice.run.recalling import recalled
from sluice.run.result_text import result_text
from sluice.run.sessions import open_store
from sluice.run.wiring import open_agent
from sluice.session.opening import open_session
from sluice.session.wish import Wish
from sluice.turn.notes import LOOP_NOTE
from sluice.values import notices as n
from sluice.values.messages import ToolMessage, UserMessage
from sluice.values.results import ToolResult

Notices = list[n.Notice]


async def _big(arguments: dict[str, Any], cancel: Any) -> ToolResult:
    return done("big", f"{arguments['path']} " * 800)


async def _process(path: Path, world: World, *prompts: str) -> list[Notices]:
    """One process: opens the session, answers the prompts, and goes."""
    opening = await open_session(path, "/p", Wish(how="continue"), new_id=lambda: "ses_1", words=result_text)
    store: Any = opening.store
    world.parts = _with(world, store=store)
    world.talk = Talk("be good", store, await store.sent())
    agent = Agent(world.parts, world.talk, await recalled(store, world.tools))
    told: list[Notices] = []
    try:
        for prompt in prompts:
            told.append([notice async for notice in agent.run(prompt)])
            check_notices(told[-1])
    finally:
        await store.close()
    return told


def _with(world: World, **changes: Any) -> Any:
    import dataclasses

    return dataclasses.replace(world.parts, **changes)


def _ids(world: World, name: str) -> World:
    """Run ids of this process; every process makes its own."""

    class Ids:
        count = 0

        def new(self, kind: str) -> str:
            self.count += 1
            return f"{kind}_{name}_{self.count}"

    world.parts = _with(world, ids=Ids())
    return world


# -- what is sent


@pytest.mark.parametrize("dialect", ["openai_chat", "anthropic_messages"])
def test_after_shrinking_a_resumed_session_sends_the_shrunk_prefix_byte_for_byte(dialect: str, tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    first_form, second_form = Recording(dialect), Recording(dialect)
    tools: Any = {"big": ("read_only", _big)}
    steps = [calls(("big", f'{{"path": "file{at}"}}')) for at in range(6)]
    limits = {"max_context_bytes": 20_000}
    first = _ids(World(*steps, text("fine"), tools=tools, limits=limits, dialect=first_form), "a")
    second = _ids(World(text("again"), tools=tools, limits=limits, dialect=second_form), "b")
    (notices,) = asyncio.run(_process(path, first, "go"))
    assert any(isinstance(x, n.Summarised) and x.ok for x in notices)
    assert end_of(notices).outcome == "completed"
    (again,) = asyncio.run(_process(path, second, "more"))
    assert not any(isinstance(x, n.Summarised) for x in again), "it need not be shrunk again"
    before, head = parts(first_form.bodies[-1])
    after, same = parts(second_form.bodies[0])
    assert same == head
    assert after[: len(before)] == before
    assert b"characters left out" in first_form.bodies[-1]


def test_the_rows_of_a_shrunk_session_stay_whole(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    steps = [calls(("big", f'{{"path": "file{at}"}}')) for at in range(6)]
    world = _ids(
        World(*steps, text("fine"), tools={"big": ("read_only", _big)}, limits={"max_context_bytes": 20_000}), "a"
    )
    asyncio.run(_process(path, world, "go"))

    async def rows() -> Any:
        opening = await open_session(path, "/p", Wish(how="continue"), new_id=lambda: "x", words=result_text)
        try:
            return await opening.store.history()
        finally:
            await opening.store.close()

    results = [m.content for m in asyncio.run(rows()) if isinstance(m, ToolMessage)]
    assert [len(content) for content in results] == [len("file0 ") * 800] * 6


# -- what is known of how it went


def _same(times: int) -> list[Any]:
    return [calls(("look", '{"path": "a.py"}')) for _ in range(times)]


@pytest.mark.parametrize("cut", [1, 3, 5])
def test_a_loop_cut_by_a_kill_and_a_resume_is_stopped(cut: int, tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    first = _ids(World(*_same(9)), "a")
    second = _ids(World(*_same(9)), "b")
    asyncio.run(_killed_in_turn(path, first, cut + 1))
    (notices,) = asyncio.run(_process(path, second, "go on"))
    end = end_of(notices)
    assert (end.outcome, end.exit_code) == ("loop", 3)
    assert end.turns == 6 - cut
    warned = [m["content"] for m in second.transport.bodies[-1]["messages"] if m["role"] == "user"]
    assert LOOP_NOTE in warned, "a warning comes before the stop"


async def _killed_in_turn(path: Path, world: World, turn: int) -> None:
    """A process that dies when the model is asked for reply number `turn`: nothing is stored after that."""
    opening = await open_session(path, "/p", Wish(how="new"), new_id=lambda: "ses_1", words=result_text)
    store: Any = opening.store
    world.parts = _with(world, store=store)
    world.talk = Talk("be good", store)
    agent = world.agent()
    async for notice in agent.run("go"):
        if isinstance(notice, n.TurnStarted) and notice.turn == turn:
            await store.close()
    await agent.close()


def test_batch_work_cut_by_a_kill_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    work = [calls(("look", f'{{"path": "{at}.py"}}')) for at in range(16)]
    asyncio.run(_killed_in_turn(path, _ids(World(*work[:9]), "a"), 9))
    (notices,) = asyncio.run(_process(path, _ids(World(*work[8:], text("done")), "b"), "go on"))
    assert end_of(notices).outcome == "completed"


def test_the_same_work_asked_for_again_after_each_answer_is_no_loop(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    for at in range(8):
        world = _ids(World(*_same(1), text("here it is")), f"p{at}")
        (notices,) = asyncio.run(_process(path, world, "look again"))
        assert end_of(notices).outcome == "completed"


def test_in_one_process_a_loop_goes_on_over_a_cancel_and_a_new_prompt() -> None:
    world = World(*_same(12))
    count = 0

    def react(notice: n.Notice, agent: Any) -> None:
        nonlocal count
        if isinstance(notice, n.TurnStarted):
            count += 1
            if count == 4:
                agent.cancel()

    first, second = world.runs("go", "go on", react=react)
    assert end_of(first).outcome == "cancelled"
    assert end_of(second).outcome == "loop"


def test_a_failure_before_a_kill_counts_after_it(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    unknown = [calls(("nothing", "{}")) for _ in range(3)]
    asyncio.run(_killed_in_turn(path, _ids(World(*unknown), "a"), 2))
    (notices,) = asyncio.run(_process(path, _ids(World(*unknown), "b"), "go on"))
    assert (end_of(notices).outcome, end_of(notices).turns) == ("failed", 1)


def test_a_failure_of_a_run_that_ended_is_not_held_against_the_next_prompt(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    world = _ids(World(calls(("nothing", "{}")), text("no"), calls(("nothing", "{}")), text("still no")), "a")
    first, second = asyncio.run(_process(path, world, "go", "again"))
    assert [end_of(first).outcome, end_of(second).outcome] == ["completed", "completed"]


# -- the same through what `sluice` opens


def _settings(folder: Path, messages: list[dict[str, Any]], **more: Any) -> Settings:
    (folder / "work").mkdir(exist_ok=True)
    fixture = folder / "fixture.json"
    fixture.write_text(json.dumps([{"role": "assistant", **m} for m in messages]))
    return Settings(workspace=str(folder / "work"), mode="mock", mock_fixture=str(fixture), **more)


_LIST = {"tool_calls": [{"function": {"name": "list_files_bounded", "arguments": {}}}]}


def _opened(settings: Settings, *prompts: str) -> tuple[list[Notices], Any]:
    async def body() -> tuple[list[Notices], Any]:
        async with open_agent(settings) as agent:
            return [[x async for x in agent.run(prompt)] for prompt in prompts], agent.messages

    return asyncio.run(body())


def test_an_opened_agent_knows_of_the_loop_before_it(tmp_path: Path) -> None:
    (notices,), _ = _opened(_settings(tmp_path, [_LIST] * 5), "go")
    assert end_of(notices).outcome == "provider_error", "the fixture is used up"
    (again,), _ = _opened(_settings(tmp_path, [_LIST], session=Wish(how="continue")), "go on")
    assert end_of(again).outcome == "loop"


def test_an_opened_agent_sends_what_was_shrunk(tmp_path: Path) -> None:
    settings = _settings(tmp_path, [{"content": "hello"}])
    _opened(settings, "go")
    short = (UserMessage("[Summary] hello", origin="host"),)

    async def shrink() -> None:
        opening = await open_store(msgspec.structs.replace(settings, session=Wish(how="continue")))
        assert opening is not None
        await opening.store.shrank(short)
        await opening.store.close()

    asyncio.run(shrink())
    _, messages = _opened(_settings(tmp_path, [], session=Wish(how="continue")))
    assert messages == short


def test_in_one_process_the_same_work_after_each_answer_is_no_loop() -> None:
    scripts = [script for _ in range(8) for script in (*_same(1), text("here it is"))]
    for notices in World(*scripts).runs(*["look again"] * 8):
        assert end_of(notices).outcome == "completed"


def test_a_run_that_was_told_to_go_was_broken_off(tmp_path: Path) -> None:
    path = tmp_path / "s.db"

    async def told_to_go() -> bool:
        opening = await open_session(path, "/p", Wish(how="new"), new_id=lambda: "ses_1", words=result_text)
        try:
            await opening.store.started("r", UserMessage("x"))
            await opening.store.finished("r", "terminated")
            return await opening.store.broken_off()
        finally:
            await opening.store.close()

    assert asyncio.run(told_to_go())
