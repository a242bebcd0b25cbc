from __future__ import annotations

from sluice.limits import Limits
from sluice.turn.budget import Budget

SECOND = 1_000_000_000


def test_defaults_are_those_of_the_specification() -> None:
    budget = Budget(Limits())
    assert budget.before_turn(20) is None
    assert budget.before_turn(21)[0] == "limit:turns"
    assert budget.reply(8) is None
    assert budget.reply(9)[0] == "limit:tool_calls_per_turn"
    budget = Budget(Limits())
    assert [budget.reply(8) for _ in range(6)] == [None] * 6
    assert budget.reply(2) is None
    assert budget.reply(0) is None
    assert budget.reply(1)[0] == "limit:total_tool_calls"
    assert budget.reply(0) is None


def test_a_minute_slides() -> None:
    budget = Budget(Limits(max_calls_per_minute=2))
    assert budget.start(["read_only"], 0) is None
    assert budget.start(["read_only", "mutating"], 30 * SECOND) is None
    assert budget.start(["read_only"], 60 * SECOND - 1)[0] == "limit:calls_per_minute"
    assert budget.start(["read_only"], 60 * SECOND) is None
    assert budget.start(["mutating", "mutating"], 61 * SECOND)[0] == "limit:calls_per_minute"
    assert budget.start(["mutating"], 61 * SECOND) is None  # the refused pair was not counted


def test_no_rate_unless_it_is_set() -> None:
    budget = Budget(Limits())
    assert all(budget.start(["execution"], 0) is None for _ in range(100))


def test_the_deadline() -> None:
    assert Budget(Limits()).deadline(5) is None
    budget = Budget(Limits(max_seconds=1.5))
    assert budget.deadline(None) is None
    assert budget.deadline(5) == 1_500_000_005


def test_what_agents_inside_calls_used_stops_the_next_call() -> None:
    budget = Budget(Limits(max_cost=0.5, max_tokens_total=100))
    assert budget.start(["mutating"], 0) is None
    budget.spend(10, 0.5)
    assert budget.start(["mutating"], 0) == ("limit:cost", "the run cost $0.5000 and $0.5 are allowed")
    budget.spend(90, None)
    assert (budget.start(["mutating"], 0) or ("",))[0] == "limit:tokens_total"


def test_what_was_estimated_is_told_as_such_and_only_that() -> None:
    budget = Budget(Limits(max_cost=0.5))
    budget.spend(10, None, True)
    budget.spend(10, 0.5)
    assert budget.spent_out() == ("limit:cost", "the run cost $0.5000 and $0.5 are allowed")
    budget.spend(10, 0.25, True)
    assert budget.copy().spent_out() == ("limit:cost", "the run cost about $0.7500 and $0.5 are allowed")
    budget.limits = Limits(max_tokens_total=30)
    assert budget.spent_out() == ("limit:tokens_total", "the run used about 30 tokens and 30 are allowed")
