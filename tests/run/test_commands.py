"""The hands of a run: its beginning and its end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from run_world import World, end_of, kinds, text

from sluice.run.agent import Agent
from sluice.run.parts import NoHooks
from sluice.session.memory import MemoryStore
from sluice.values import notices as n
from sluice.values.messages import Conversation, UserMessage


def test_a_last_store_that_never_returns_is_given_up_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stuck(MemoryStore):
        async def finished(self, run: str, outcome: str) -> None:
            await asyncio.Event().wait()

    monkeypatch.setattr("sluice.run.commands._LAST_STORE_SECONDS", 0.01)
    end = end_of(World(text("ok"), store=Stuck()).run())
    assert (end.outcome, end.saved) == ("completed", False)
    assert end.unsaved == "the end of the run was not stored: it took longer than 0.01 s"


def test_when_the_last_notice_comes_nothing_of_the_run_is_at_work() -> None:
    left: list[bool] = []

    class Slow(NoHooks):
        async def prepare_turn(self, turn: int, conversation: Conversation) -> Sequence[UserMessage]:
            try:
                reached.set()
                await asyncio.Event().wait()
            finally:
                left.append(True)
            return ()

    reached = asyncio.Event()

    async def go() -> None:
        agent = World(hooks=Slow()).agent()

        async def stop(agent: Agent) -> None:
            await reached.wait()
            agent.cancel()

        stopper = asyncio.create_task(stop(agent))
        async for notice in agent.run("go"):
            if isinstance(notice, n.RunFinished):
                assert left == [True]
        await stopper

    asyncio.run(go())


def test_the_beginning_names_tools_and_what_is_blocked() -> None:
    first = World(text("ok"), allow=False).run()[0]
    assert isinstance(first, n.RunStarted)
    assert first.tools == ("look", "change", "execute", "wait")
    assert set(first.blocked) == {"mutating", "execution"}
    asking = World(text("ok"), allow=False, ask=True).run()[0]
    assert isinstance(asking, n.RunStarted)
    assert asking.blocked == ()


def test_a_prompt_may_be_a_message() -> None:
    async def go() -> list[n.Notice]:
        world = World(text("ok"))
        notices = [x async for x in world.agent().run(UserMessage("hello"))]
        assert world.talk.messages[0] == UserMessage("hello")
        return notices

    assert kinds(asyncio.run(go()))[-1] == "RunFinished"
