"""A conversation taken up by another process: what it sends, and what it still knows of how the last one went."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from run_world import World, calls, check_notices, done, end_of, text
from test_prefix import Recording, parts

from sluice.run.conversation import Talk
from sluice.run.result_text import result_text
from sluice.session.opening import open_session
from sluice.session.wish import Wish
from sluice.values import notices as n
from sluice.values.messages import ToolMessage
from sluice.values.results import ToolResult

Notices = list[n.Notice]


async def _big(arguments: dict[str, Any], cancel: Any) -> ToolResult:
    return done("big", f"{arguments['path']} " * 800)


async def _process(
    path: Path, world: World, *prompts: str, kill_after: type | None = None, how: Any = "continue"
) -> list[Notices]:
    """One process: opens the session, answers the prompts, and goes. `kill_after`: it dies after the first such notice."""
    opening = await open_session(path, "/p", Wish(how=how), new_id=lambda: "ses_1", words=result_text)
    store: Any = opening.store
    world.parts = _with(world, store=store)
    world.talk = Talk("be good", store, await store.sent())
    agent, told = world.agent(), []
    try:
        for prompt in prompts:
            notices: Notices = []
            async for notice in agent.run(prompt):
                notices.append(notice)
                if kill_after is not None and isinstance(notice, kill_after):
                    await store.close()  # from here on nothing is stored: as if the process were gone
            told.append(notices)
            check_notices(notices)
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
