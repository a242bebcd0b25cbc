"""Counting against the limits of a run (L1, L11, P14). Each question returns how the run ends, or `None`."""

from __future__ import annotations

from collections.abc import Iterable

from sluice.limits import Limits
from sluice.turn import outcomes
from sluice.turn.outcomes import End

_MINUTE_NS = 60 * 1_000_000_000


class Budget:
    """What a run has used. `calls` counts every call asked for, whether it ran or not.

    `tokens` and `cost` (US dollars) are those of all replies and summaries so far, and of agents inside the calls; an
    unknown cost adds nothing.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.calls = 0
        self.tokens = 0
        self.cost = 0.0
        self._started: dict[str, tuple[int, ...]] = {}

    def before_turn(self, turn: int) -> End | None:
        """Turn number `turn` (from 1) is about to be asked for."""
        if turn <= self.limits.max_turns:
            return self.spent_out()
        return outcomes.limit("max_turns"), f"the run's {self.limits.max_turns} turns are used up"

    def spend(self, tokens: int, cost: float | None) -> None:
        """A reply, a summary or an agent inside a call used this much."""
        self.tokens += tokens
        self.cost += cost or 0.0

    def spent_out(self) -> End | None:
        """Asked before each request and before the calls of a reply: is there anything left to spend?"""
        most, dollars = self.limits.max_tokens_total, self.limits.max_cost
        if most is not None and self.tokens >= most:
            return outcomes.limit("max_tokens_total"), f"the run used {self.tokens} tokens and {most} are allowed"
        if dollars is not None and self.cost >= dollars and self.cost > 0:
            return outcomes.limit("max_cost"), f"the run cost ${self.cost:.4f} and ${dollars:g} are allowed"
        return None

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
        other._started = dict(self._started)
        return other

    def snapshot(self) -> tuple[object, ...]:
        """The whole state as plain values, for comparing."""
        return (self.calls, self.tokens, self.cost, sorted(self._started.items()))
