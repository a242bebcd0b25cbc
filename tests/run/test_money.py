"""Tokens and costs of a run: counted, told, and bounded between turns and before calls."""

from __future__ import annotations

from typing import Any

import pytest
from run_world import DONE, World, calls, text

from sluice.run.prices import ModelEntry
from sluice.values import notices as n

PRICED = ModelEntry(input=100.0, output=1000.0)


def used(body: list[bytes], given: int, told: int, **more: Any) -> list[bytes]:
    usage = {"prompt_tokens": given, "completion_tokens": told, "total_tokens": given + told, **more}
    return [
        *body[:-1],
        b'data: {"id":"c","model":"m","choices":[],"usage":' + str(usage).replace("'", '"').encode() + b"}\n\n",
        DONE,
    ]


def of(notices: list[n.Notice], kind: type) -> list[Any]:
    return [notice for notice in notices if isinstance(notice, kind)]


def test_costs_of_turns_and_run_are_told() -> None:
    world = World(used(calls("look"), 1000, 10), used(text("fine"), 2000, 20), model=PRICED)
    notices = world.run("go")
    assert [turn.cost for turn in of(notices, n.TurnFinished)] == pytest.approx([0.11, 0.22])
    (end,) = of(notices, n.RunFinished)
    assert end.cost == pytest.approx(0.33)
    assert (end.usage.input_tokens, end.usage.output_tokens) == (3000, 30)


def test_an_unknown_price_is_unknown() -> None:
    world = World(used(calls("look"), 1000, 10), used(text("fine"), 2000, 20))
    notices = world.run("go")
    assert [turn.cost for turn in of(notices, n.TurnFinished)] == [None, None]
    assert of(notices, n.RunFinished)[0].cost is None


@pytest.mark.parametrize(
    ("limits", "outcome"),
    [({"max_cost": 0.1}, "limit:cost"), ({"max_tokens_total": 1010}, "limit:tokens_total")],
)
def test_a_bound_that_is_reached_stops_before_calls(limits, outcome) -> None:
    world = World(used(calls("look"), 1000, 10), used(text("never"), 1, 1), model=PRICED, limits=limits)
    (end,) = of(world.run("go"), n.RunFinished)
    assert (end.outcome, end.exit_code) == (outcome, 3)
    assert world.tools.ran == []
    assert len(world.transport.bodies) == 1


@pytest.mark.parametrize("limits", [{"max_cost": 0.12}, {"max_tokens_total": 1011}, {"max_cost": 0.0}])
def test_a_bound_that_is_not_reached_stops_nothing(limits) -> None:
    model = PRICED if limits.get("max_cost") else ModelEntry(input=0.0, output=0.0)
    world = World(used(calls("look"), 1000, 10), used(text("fine"), 1, 1), model=model, limits=limits)
    (end,) = of(world.run("go"), n.RunFinished)
    assert end.outcome == "completed"
    assert world.tools.ran == ["look"]


def test_a_whole_answer_is_no_limit_even_where_it_used_the_last_of_it() -> None:
    world = World(used(text("fine"), 1000, 10), model=PRICED, limits={"max_cost": 0.01})
    assert of(world.run("go"), n.RunFinished)[0].outcome == "completed"
