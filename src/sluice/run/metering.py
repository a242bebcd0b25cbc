"""What a run has used so far: tokens and money of its replies, its summaries, what broke, and the agents inside it (L7).

A tool or a hook may run another agent. What that one uses counts in the run around it as well, and the limits of the run
around it hold for it, although nobody handed it anything: a child that forgot to ask would be a way around every limit.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextvars import ContextVar

import msgspec

from sluice.limits import Limits
from sluice.turn import outcomes
from sluice.turn.budget import Budget
from sluice.turn.outcomes import End
from sluice.values.messages import Reply, Usage

# The meter of the run that the code at hand works for. Each task and thread that a run starts inherits it.
_AROUND: ContextVar[Meter | None] = ContextVar("sluice_meter", default=None)


class Charge(msgspec.Struct, frozen=True):
    """Something that was used: `cost` is in US dollars, `None` if a part of it is not known."""

    usage: Usage = Usage()
    cost: float | None = None

    @property
    def tokens(self) -> int:
        """All tokens of it."""
        return self.usage.input_tokens + self.usage.output_tokens

    def __add__(self, other: Charge) -> Charge:
        """Both together; without tokens there is no cost that could be unknown."""
        told = [one.cost for one in (self, other) if one.cost is not None or one.tokens]
        costs = [cost for cost in told if cost is not None]
        return Charge(self.usage + other.usage, sum(costs) if costs and len(costs) == len(told) else None)


class Meter:
    """Counts for one run. `cost_of` tells what one exchange cost; `elapsed` the seconds since the run began.

    Made inside a call or a hook of another run, it also counts there.
    """

    def __init__(
        self, cost_of: Callable[[Usage], float | None], limits: Limits, elapsed: Callable[[], float] = lambda: 0.0
    ) -> None:
        self._cost_of = cost_of
        self._budget = Budget(limits)
        self._elapsed = elapsed
        self._outer = _AROUND.get()
        self._inside: deque[Charge] = deque()  # what agents inside used and the run was not told yet
        self._lock = threading.Lock()  # an agent inside may run in a thread of its own
        self._open = True
        self.used = Charge()

    def work_for(self) -> None:
        """From here on, what the task at hand starts works for this run."""
        _AROUND.set(self)

    def close(self) -> None:
        """The run is over: what goes on by itself counts for nobody."""
        self._open = False

    def count(self, used: Iterable[Usage]) -> Charge:
        """Counts exchanges of this run; returns what they came to."""
        charge = sum((Charge(one, self._cost_of(one)) for one in used), Charge())
        self._add(charge)
        return charge

    def from_inside(self) -> Charge:
        """What agents inside this run have used since this was last asked; counted already."""
        charge = Charge()
        while self._inside:
            charge += self._inside.popleft()
        return charge

    def enough(self, used: Iterable[Usage]) -> tuple[str, str] | None:
        """The limit that is met once this is counted too, by its field of `Limits`, and one line; `None` if none is."""
        budget = self._budget.copy()
        for one in used:
            budget.spend(one.input_tokens + one.output_tokens, self._cost_of(one), one.estimated)
        end = budget.spent_out()
        return None if end is None else ("max_" + end[0].removeprefix("limit:"), end[1])

    def refusal(self, sent: int) -> End | None:
        """Why no further request, of `sent` bytes, may be sent; `None` if it may.

        That is so by a limit of a run around this one, and where nothing may be paid (`max_cost` 0) but it has a price.
        """
        cost = self._cost_of(least(sent))
        if (end := self._budget.unpaid(cost)) is not None:
            return end
        outer = self._outer
        while outer is not None:
            if outer._open and (end := outer._spent_out() or outer._budget.unpaid(cost)) is not None:
                return end[0], f"of the run that this one works for: {end[1]}"
            outer = outer._outer
        return None

    def _add(self, charge: Charge) -> None:
        with self._lock:
            self.used += charge
            self._budget.spend(charge.tokens, charge.cost, charge.usage.estimated)
        outer = self._outer
        if outer is not None and outer._open and charge.tokens:
            outer._inside.append(charge)
            outer._add(charge)

    def _spent_out(self) -> End | None:
        most = self._budget.limits.max_seconds
        if most is not None and self._elapsed() >= most:
            return outcomes.limit("max_seconds"), f"it took longer than {most:g} seconds"
        return self._budget.spent_out()


def least(sent: int) -> Usage:
    """What a request of so many bytes uses at least, about: its own tokens, and one of a reply."""
    return Usage(input_tokens=max(sent // 4, 1), output_tokens=1, estimated=True)


def usage_of(reply: Reply, sent: int, *, whole: bool = True) -> Usage:
    """What a reply used: as the provider says, else estimated from the `sent` bytes of its request and its own text.

    A provider may have told of a reply that broke off only what it had counted at its beginning: then what arrived counts
    if it is more.
    """
    told = len(reply.text) + len(reply.reasoning) + len(reply.refusal)
    told += sum(len(call.name) + len(call.arguments) for call in reply.tool_calls)
    guess = Usage(input_tokens=sent // 4, output_tokens=told // 4, estimated=True)
    usage = reply.usage
    if usage is None:
        return guess
    if whole or usage.cost is not None:
        return usage
    input_tokens = usage.input_tokens or guess.input_tokens
    output_tokens = max(usage.output_tokens, guess.output_tokens)
    if (input_tokens, output_tokens) == (usage.input_tokens, usage.output_tokens):
        return usage
    return msgspec.structs.replace(usage, input_tokens=input_tokens, output_tokens=output_tokens, estimated=True)
