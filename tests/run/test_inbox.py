"""The order of prompts, cancels and ends: what a cancel covers, and what it does not."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from run_world import Answer, Gate, World, event, text

from sluice.run.agent import Agent
from sluice.run.inbox import Inbox
from sluice.values import notices as n


async def _ends(agent: Agent, prompt: str, ends: list[tuple[str, str]], began: asyncio.Event | None = None) -> None:
    async with aclosing(agent.run(prompt)) as stream:
        async for notice in stream:
            if began is not None:
                began.set()
            if isinstance(notice, n.RunFinished):
                ends.append((prompt, notice.outcome))


async def _until(condition: asyncio.Event) -> None:
    async with asyncio.timeout(20):
        await condition.wait()


def _prompts(world: World) -> list[str]:
    return [m["content"] for m in world.transport.bodies[-1]["messages"] if m["role"] == "user"]


def test_a_cancel_covers_what_was_accepted_before_it_and_nothing_after() -> None:
    gate = Gate()
    world = World(Answer(event({"content": "half"}), gate), text("answer"))

    async def body() -> list[tuple[str, str]]:
        agent, ends = world.agent(), list[tuple[str, str]]()
        first = asyncio.create_task(_ends(agent, "first", ends))
        await _until(gate.reached)
        second = asyncio.create_task(_ends(agent, "second", ends))
        third = asyncio.create_task(_ends(agent, "third", ends))
        await asyncio.sleep(0)
        agent.cancel()
        fourth = asyncio.create_task(_ends(agent, "fourth", ends))
        await asyncio.gather(first, second, third, fourth)
        return ends

    assert asyncio.run(body()) == [
        ("first", "cancelled"),
        ("second", "cancelled"),
        ("third", "cancelled"),
        ("fourth", "completed"),
    ]
    assert _prompts(world) == ["first", "fourth"], "a prompt that never began is no part of the session"
    assert [row[0] for row in world.store.rows].count("started") == 2


def test_prompts_run_in_the_order_in_which_they_were_accepted() -> None:
    world = World(text("1"), text("2"), text("3"))

    async def body() -> list[tuple[str, str]]:
        agent, ends = world.agent(), list[tuple[str, str]]()
        await asyncio.gather(*(_ends(agent, name, ends) for name in ("a", "b", "c")))
        return ends

    assert asyncio.run(body()) == [("a", "completed"), ("b", "completed"), ("c", "completed")]
    assert _prompts(world) == ["a", "b", "c"]


def test_a_cancel_with_nothing_accepted_covers_nothing() -> None:
    world = World(text("1"))

    async def body() -> list[tuple[str, str]]:
        agent, ends = world.agent(), list[tuple[str, str]]()
        agent.cancel()
        await _ends(agent, "a", ends)
        agent.cancel("terminated")
        return ends

    assert asyncio.run(body()) == [("a", "completed")]


def test_closing_ends_what_waits_too() -> None:
    gate = Gate()
    world = World(Answer(event({"content": "half"}), gate))

    async def body() -> list[tuple[str, str]]:
        agent, ends = world.agent(), list[tuple[str, str]]()
        first = asyncio.create_task(_ends(agent, "first", ends))
        await _until(gate.reached)
        second = asyncio.create_task(_ends(agent, "second", ends))
        await asyncio.sleep(0)
        await agent.close()
        await asyncio.gather(first, second)
        return ends

    assert asyncio.run(body()) == [("first", "cancelled"), ("second", "cancelled")]


def test_who_gives_up_waiting_holds_up_nobody() -> None:
    gate = Gate()
    world = World(Answer(event({"content": "1"}), gate, event({}, "stop"), b"data: [DONE]\n\n"), text("3"))

    async def body() -> list[tuple[str, str]]:
        agent, ends = world.agent(), list[tuple[str, str]]()
        first = asyncio.create_task(_ends(agent, "first", ends))
        await _until(gate.reached)
        second = asyncio.create_task(_ends(agent, "second", ends))
        third = asyncio.create_task(_ends(agent, "third", ends))
        await asyncio.sleep(0)
        second.cancel()
        gate.open.set()
        await asyncio.gather(first, second, third, return_exceptions=True)
        return ends

    assert asyncio.run(body()) == [("first", "completed"), ("third", "completed")]


def test_the_first_reason_stays() -> None:
    async def body() -> str | None:
        inbox = Inbox()
        async with inbox.turn() as ticket:
            inbox.cancel("terminated")
            inbox.cancel("cancelled")
        return ticket.cancelled

    assert asyncio.run(body()) == "terminated"
