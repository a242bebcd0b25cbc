"""What was used, by turn, run and session; a price that is not known is said and never guessed."""

from __future__ import annotations

import pytest

from sluice.run.spending import Spending, Spent
from sluice.values.messages import Usage


def test_sums_by_turn_run_and_session() -> None:
    spending = Spending([Spent(1, 1, Usage(input_tokens=10, output_tokens=1), 0.5)])
    spending.run_began()
    spending.add(1, Usage(input_tokens=20, output_tokens=2, cached_tokens=5), 0.25)
    spending.add(0, Usage(input_tokens=7, output_tokens=7, estimated=True), 0.0)
    assert spending.usage.input_tokens == 37
    assert spending.cost == pytest.approx(0.75)
    assert spending.turns == 2
    assert spending.last == Spent(2, 1, Usage(input_tokens=20, output_tokens=2, cached_tokens=5), 0.25)
    assert list(spending.lines()) == [
        "run 1: 10 tokens in, 1 out, $0.5000",
        "run 2: about 27 tokens in, of them 5 cached, 9 out, $0.2500",
        "  turn 1: 20 tokens in, of them 5 cached, 2 out, $0.2500",
        "  summary: about 7 tokens in, 7 out, $0.0000",
        "session: about 37 tokens in, of them 5 cached, 10 out, $0.7500",
    ]


def test_what_was_used_beside_a_reply_is_no_reply() -> None:
    spending = Spending([Spent(1, -2, Usage(input_tokens=10), 0.5), Spent(1, 2, Usage(input_tokens=20), 0.25)])
    assert (spending.turns, spending.cost) == (1, pytest.approx(0.75))
    assert spending.last == Spent(1, 2, Usage(input_tokens=20), 0.25)
    assert list(spending.lines()) == [
        "run 1: 30 tokens in, 0 out, $0.7500",
        "  turn 2, beside its reply: 10 tokens in, 0 out, $0.5000",
        "  turn 2: 20 tokens in, 0 out, $0.2500",
        "session: 30 tokens in, 0 out, $0.7500",
    ]


def test_money_for_what_was_estimated_is_marked_so() -> None:
    guess = Usage(input_tokens=10, output_tokens=1, estimated=True)
    spending = Spending([Spent(1, 1, guess, 0.5), Spent(1, 2, Usage(input_tokens=1), 0.25)])
    assert list(spending.lines()) == [
        "run 1: about 11 tokens in, 1 out, about $0.7500",
        "  turn 1: about 10 tokens in, 1 out, about $0.5000",
        "  turn 2: 1 tokens in, 0 out, $0.2500",
        "session: about 11 tokens in, 1 out, about $0.7500",
    ]
    spending.add(3, Usage(input_tokens=1), None)
    assert "at least about $0.7500, the price" in list(spending.lines())[-1]


def test_a_summary_in_a_fork_before_its_first_run_is_a_run_of_its_own() -> None:
    spending = Spending()
    spending.add(0, Usage(input_tokens=7), 0.5)
    spending.run_began()
    spending.add(1, Usage(input_tokens=1), 0.25)
    assert [line.partition(":")[0] for line in spending.lines()] == ["run 1", "run 2", "  turn 1", "session"]


def test_what_is_not_known_is_said() -> None:
    spending = Spending()
    assert spending.cost is None
    assert spending.last is None
    spending.run_began()
    spending.add(1, Usage(input_tokens=1), None)
    assert list(spending.lines())[-1] == "session: 1 tokens in, 0 out, price not known"
    spending.add(2, Usage(input_tokens=1), 0.1)
    assert spending.cost is None
    assert "at least $0.1000" in list(spending.lines())[-1]
