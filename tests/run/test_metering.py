"""An agent inside a call or a hook of a run: what it uses counts there, and the limits there hold for it."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from run_world import World, calls, done, event, text
from test_money import PRICED, counted, of, used
from test_shrinking import _talk

from sluice.errors import TransportError
from sluice.limits import Limits
from sluice.run.metering import Charge, Meter, usage_of
from sluice.run.parts import NoHooks
from sluice.run.prices import ModelEntry
from sluice.values import notices as n
from sluice.values.messages import Reply, Usage


async def _ended(world: World) -> n.RunFinished:
    last = [notice async for notice in world.agent().run("do it")][-1]
    assert isinstance(last, n.RunFinished)
    return last


def child(*scripts: Any, **limits: Any) -> World:
    return World(*scripts, model=PRICED, limits=limits)


def parent(inside: Callable[[], Any], *scripts: Any, limits: dict[str, Any] | None = None, **parts: Any) -> World:
    async def delegate(arguments: dict[str, Any], cancel: Any) -> Any:
        return done("delegate", str(await inside()))

    return World(*scripts, tools={"delegate": ("mutating", delegate)}, model=PRICED, limits=limits, **parts)


def ask(*names: str) -> list[bytes]:
    return used(calls(*names), 100, 1)  # costs 0.011


def test_where_nothing_may_be_paid_a_child_sends_nothing_that_has_a_price() -> None:
    """The run around it may be one of a model that costs nothing."""
    inner = child(used(text("found"), 2000, 20))

    async def inside() -> str:
        end = await _ended(inner)
        return f"{end.outcome}: {end.message}"

    world = parent(inside, ask("delegate"), used(text("fine"), 100, 1), limits={"max_cost": 0.0})
    world.parts = dataclasses.replace(world.parts, model=ModelEntry(input=0.0, output=0.0))
    assert of(world.run(), n.RunFinished)[0].outcome == "completed"
    told = world.transport.bodies[1]["messages"][-1]["content"]
    assert told.startswith("limit:cost: of the run that this one works for: a request would cost about $")
    assert inner.transport.bodies == []


@pytest.mark.parametrize("in_a_thread", [False, True])
def test_what_a_child_used_counts_for_the_run_around_it(in_a_thread: bool) -> None:
    inner = child(used(text("found"), 2000, 20))

    async def inside() -> str:
        if in_a_thread:
            return (await asyncio.to_thread(lambda: asyncio.run(_ended(inner)))).text
        return (await _ended(inner)).text

    world = parent(inside, ask("delegate"), used(text("fine"), 100, 1))
    notices = world.run()
    (also,) = of(notices, n.AlsoUsed)
    assert (also.by, also.turn, also.usage.input_tokens, also.cost) == ("agent", 1, 2000, pytest.approx(0.22))
    (end,) = of(notices, n.RunFinished)
    assert end.cost == pytest.approx(0.22 + 2 * 0.011)
    assert (end.usage.input_tokens, end.turns) == (2200, 2)


@pytest.mark.parametrize(
    ("limits", "outcome"), [({"max_cost": 0.2}, "limit:cost"), ({"max_tokens_total": 2000}, "limit:tokens_total")]
)
def test_a_limit_that_a_child_passed_stops_before_the_next_request_and_the_next_call(
    limits: dict[str, Any], outcome: str
) -> None:
    inner = child(used(text("found"), 2000, 20))

    async def inside() -> str:
        return (await _ended(inner)).outcome

    world = parent(inside, ask("delegate", "change"), limits=limits)
    (end,) = of(world.run(), n.RunFinished)
    assert (end.outcome, end.exit_code) == (outcome, 3)
    assert world.tools.ran == ["delegate"], "no call starts once nothing is left to spend"
    assert len(world.transport.bodies) == 1


def test_a_child_sends_nothing_more_once_the_run_around_it_has_nothing_left() -> None:
    inner = child(*[used(calls("look"), 2000, 20)] * 5)

    async def inside() -> str:
        end = await _ended(inner)
        return f"{end.outcome}: {end.message}"

    world = parent(inside, ask("delegate"), limits={"max_cost": 0.5})
    notices = world.run()
    assert of(notices, n.RunFinished)[0].outcome == "limit:cost"
    assert len(inner.transport.bodies) == 3, "0.22 each"
    (result,) = of(notices, n.CallFinished)
    assert result.result.content.startswith("limit:cost: of the run that this one works for")


def test_what_was_left_at_its_beginning_holds_for_grandchildren() -> None:
    last = child(*[used(calls("look"), 2000, 20)] * 5)

    async def innermost() -> str:
        return (await _ended(last)).outcome

    middle = parent(innermost, ask("delegate"))

    async def inside() -> str:
        return (await _ended(middle)).outcome

    world = parent(inside, ask("delegate"), limits={"max_cost": 0.3})
    notices = world.run()
    (end,) = of(notices, n.RunFinished)
    assert end.outcome == "limit:cost"
    assert len(last.transport.bodies) == 2
    assert end.cost == pytest.approx(2 * 0.011 + 2 * 0.22)


def test_a_childs_broken_summary_and_attempts_count_too() -> None:
    broken = [event({"content": "T"}), counted(5000, 30)]
    inner = child([counted(1000, 0), TransportError("broken", "gone")], broken, max_context_bytes=9_000)
    _talk(inner, 8)

    async def inside() -> str:
        return (await _ended(inner)).outcome

    world = parent(inside, ask("delegate"), limits={"max_cost": 0.5})
    notices = world.run()
    (also,) = of(notices, n.AlsoUsed)
    assert also.cost == pytest.approx(0.1 + 0.53)
    assert of(notices, n.RunFinished)[0].outcome == "limit:cost"


def test_a_child_of_unknown_price_makes_the_whole_unknown() -> None:
    inner = World(used(text("found"), 2000, 20))

    async def inside() -> str:
        return (await _ended(inner)).text

    world = parent(inside, ask("delegate"), used(text("fine"), 100, 1))
    assert of(world.run(), n.RunFinished)[0].cost is None


def test_the_time_of_the_run_around_it_holds_for_a_child() -> None:
    inner = child(*[used(calls("look"), 1, 1)] * 3)

    async def inside() -> str:
        world.clock.advance(61)
        return (await asyncio.to_thread(lambda: asyncio.run(_ended(inner)))).outcome

    world = parent(inside, ask("delegate"), limits={"max_seconds": 60})
    notices = world.run()
    assert inner.transport.bodies == []
    assert of(notices, n.RunFinished)[0].outcome == "limit:seconds"


def test_an_agent_inside_a_hook_counts() -> None:
    inner = child(used(text("yes"), 2000, 20))

    class Guard(NoHooks):
        async def call(self, turn: int, spec: Any, arguments: str) -> str | None:
            return None if (await _ended(inner)).text == "yes" else "no"

    world = World(ask("look"), used(text("fine"), 100, 1), hooks=Guard(), model=PRICED)
    notices = world.run()
    assert of(notices, n.RunFinished)[0].cost == pytest.approx(0.22 + 2 * 0.011)
    assert [also.by for also in of(notices, n.AlsoUsed)] == ["agent"]


def test_agents_one_after_another_or_side_by_side_are_no_children() -> None:
    one, other = child(used(text("a"), 1000, 10)), child(used(text("b"), 1000, 10))

    async def go() -> list[n.RunFinished]:
        ends = [await _ended(child(used(text("0"), 1000, 10)))]
        async for notice in one.agent().run("x"):
            if isinstance(notice, n.TurnFinished):
                ends.append(await _ended(other))  # by the reader of a run, not by the run
            if isinstance(notice, n.RunFinished):
                ends.append(notice)
        return ends

    assert [end.cost for end in asyncio.run(go())] == [pytest.approx(0.11)] * 3


def test_what_goes_on_after_the_run_counts_for_nobody_and_is_bounded_by_nobody() -> None:
    inner = child(used(text("late"), 2000, 20))
    left: list[asyncio.Task[n.RunFinished]] = []

    async def inside() -> str:
        begin = asyncio.Event()

        async def later() -> n.RunFinished:
            await begin.wait()
            return await _ended(inner)

        left.append(asyncio.create_task(later()))
        gates.append(begin)
        return "started"

    gates: list[asyncio.Event] = []
    world = parent(inside, ask("delegate"), used(text("fine"), 100, 1), limits={"max_cost": 0.02})

    async def go() -> tuple[n.RunFinished, n.RunFinished]:
        end = await _ended(world)
        gates[0].set()
        return end, await left[0]

    end, late = asyncio.run(go())
    assert (end.outcome, late.outcome) == ("completed", "completed")
    assert end.cost == pytest.approx(0.022)


def test_sums_of_charges() -> None:
    tokens = Usage(input_tokens=1)
    assert (Charge(tokens, 0.5) + Charge(tokens, 0.25)).cost == 0.75
    assert (Charge(tokens, 0.5) + Charge(tokens, None)).cost is None
    assert (Charge(tokens, 0.5) + Charge()).cost == 0.5
    assert (Charge() + Charge()).cost is None
    meter = Meter(lambda usage: usage.cost, Limits())
    assert meter.count([Usage(input_tokens=1, cost=0.5), Usage(input_tokens=2)]) == Charge(Usage(input_tokens=3), None)
    assert meter.used.tokens == 3


@pytest.mark.parametrize(
    ("told", "counted"),
    [
        (None, Usage(input_tokens=250, output_tokens=100, estimated=True)),
        (Usage(input_tokens=7, output_tokens=120), Usage(input_tokens=7, output_tokens=120)),
        (Usage(input_tokens=7, output_tokens=1), Usage(input_tokens=7, output_tokens=100, estimated=True)),
        (Usage(output_tokens=120), Usage(input_tokens=250, output_tokens=120, estimated=True)),
        (Usage(input_tokens=7, output_tokens=1, cost=0.1), Usage(input_tokens=7, output_tokens=1, cost=0.1)),
    ],
)
def test_what_a_broken_reply_used(told: Usage | None, counted: Usage) -> None:
    assert usage_of(Reply(text="x" * 400, usage=told), 1000, whole=False) == counted


def test_what_a_whole_reply_used_is_what_the_provider_says() -> None:
    assert usage_of(Reply(text="x" * 400, usage=Usage(input_tokens=7)), 1000) == Usage(input_tokens=7)
