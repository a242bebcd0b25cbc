"""Counting against the limits of a run (L1, L11, P14). Each question returns how the run ends, or `None`."""

from __future__ import annotations

from collections.abc import Iterable

from sluice.limits import Limits
from sluice.turn import outcomes
from sluice.turn.outcomes import End
from sluice.values.money import dollars

_MINUTE_NS = 60 * 1_000_000_000


class Budget:
    """What a run has used. `calls` counts every call asked for, whether it ran or not.

    `tokens` and `cost` (US dollars) are those of all replies and summaries so far, and of agents inside the calls; an
    unknown cost adds nothing. `estimated` is whether a part of it is our estimate, and `cost_estimated` of the cost.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.calls = 0
        self.tokens = 0
        self.cost = 0.0
        self.estimated = False
        self.cost_estimated = False
        self._started: dict[str, tuple[int, ...]] = {}

    def before_turn(self, turn: int) -> End | None:
        """Turn number `turn` (from 1) is about to be asked for."""
        if turn <= self.limits.max_turns:
            return self.spent_out()
        return outcomes.limit("max_turns"), f"the run's {self.limits.max_turns} turns are used up"

    def spend(self, tokens: int, cost: float | None, estimated: bool = False) -> None:
        """A reply, a summary or an agent inside a call used this much, by our own estimate if `estimated`."""
        self.tokens += tokens
        self.cost += cost or 0.0
        self.estimated |= estimated
        self.cost_estimated |= estimated and bool(cost)

    def spent_out(self) -> End | None:
        """Asked before each request and before the calls of a reply: is there anything left to spend?"""
        most, most_cost = self.limits.max_tokens_total, self.limits.max_cost
        if most is not None and self.tokens >= most:
            used = f"{'about ' if self.estimated else ''}{self.tokens} tokens"
            return outcomes.limit("max_tokens_total"), f"the run used {used} and {most} are allowed"
        if most_cost is not None and self.cost >= most_cost and self.cost > 0:
            cost = dollars(self.cost, estimated=self.cost_estimated)
            return outcomes.limit("max_cost"), f"the run cost {cost} and ${most_cost:g} are allowed"
        return None

    def unpaid(self, cost: float | None) -> End | None:
        """A request that costs about so much, if that is known, is about to be sent: is anything to be paid at all?"""
        if self.limits.max_cost != 0 or not cost:
            return None
        price = dollars(cost, estimated=True)
        return outcomes.limit("max_cost"), f"a request would cost {price} or more, and $0 are allowed"

    def reply(self, calls: int) -> End | None:
        """A reply asks for `calls` calls. With one too many none of them may run."""
        self.calls += calls
        most, total = self.limits.max_tool_calls_per_turn, self.limits.max_total_tool_calls
        if calls > most:
            message = f"a reply asked for {calls} calls and {most} are allowed; none was run"
            return outcomes.limit("max_tool_calls_per_turn"), message
        if calls and self.calls > total:
            message = f"a reply would bring the run to {self.calls} calls and {total} are allowed; none of it was run"
            return outcomes.limit("max_total_tool_calls"), message
        return self.spent_out() if calls else None

    def start(self, categories: Iterable[str], at: int) -> End | None:
        """Calls of these categories are about to start at `at` (ns). If it is one too many, none is counted.

        What agents inside the calls before them used may have left nothing to spend.
        """
        if (spent := self.spent_out()) is not None:
            return spent
        most = self.limits.max_calls_per_minute
        if most is None:
            return None
        started = dict(self._started)
        for category in categories:
            recent = tuple(t for t in started.get(category, ()) if at - t < _MINUTE_NS)
            if len(recent) >= most:
                message = f"{most} {category} calls in one minute are allowed"
                return outcomes.limit("max_calls_per_minute"), message
            started[category] = (*recent, at)
        self._started = started
        return None

    def deadline(self, began: int | None) -> int | None:
        """When a run that began at `began` (ns) is out of time; `None` if it has not begun or has no bound."""
        if began is None or self.limits.max_seconds is None:
            return None
        return began + int(self.limits.max_seconds * 1_000_000_000)

    def copy(self) -> Budget:
        """An independent copy."""
        other = Budget(self.limits)
        other.calls, other.tokens, other.cost = self.calls, self.tokens, self.cost
        other.estimated, other.cost_estimated = self.estimated, self.cost_estimated
        other._started = dict(self._started)
        return other

    def snapshot(self) -> tuple[object, ...]:
        """The whole state as plain values, for comparing."""
        spent = (self.tokens, self.cost, self.estimated, self.cost_estimated)
        return (self.calls, *spent, sorted(self._started.items()))
