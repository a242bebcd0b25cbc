"""What a session has used, by turn, run and session (L7), kept in memory for whoever looks at it while it goes on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from sluice.values.messages import Usage
from sluice.values.money import dollars


class Spent(msgspec.Struct, frozen=True):
    """One reply: number of its run in the session, its turn, tokens, and US dollars if known.

    Turn 0 is a summary. Below 0 it is what was used in that turn beside its reply: by attempts that broke off, by what was
    stopped before anything of it was kept, by agents inside a call.
    """

    run: int
    turn: int
    usage: Usage
    cost: float | None


class Spending:
    """The replies of one session, in order."""

    def __init__(self, before: Iterable[Spent] = ()) -> None:
        self._all = list(before)
        self._run = self._all[-1].run if self._all else 0
        self.usage = sum((one.usage for one in self._all), Usage())

    def run_began(self) -> None:
        """What comes from here on belongs to the next run."""
        self._run += 1

    def add(self, turn: int, usage: Usage, cost: float | None) -> None:
        """One reply more."""
        self._run = self._run or 1  # a summary in a fork in which nothing was run yet counts as a run
        self._all.append(Spent(self._run, turn, usage, cost))
        self.usage += usage

    @property
    def turns(self) -> int:
        """How many replies there were; only those that are kept count."""
        return sum(one.turn > 0 for one in self._all)

    @property
    def last(self) -> Spent | None:
        """The reply that came last, of those that are kept."""
        return next((one for one in reversed(self._all) if one.turn > 0), None)

    @property
    def cost(self) -> float | None:
        """US dollars of all replies; `None` as soon as one of them is not known, and before the first."""
        return _cost(self._all) if self._all else None

    def lines(self) -> Iterator[str]:
        """By run, the turns of the last run, and the session."""
        if not self._all:
            yield "no reply of this session has said yet what it used"
            return
        runs: dict[int, list[Spent]] = {}
        for one in self._all:
            runs.setdefault(one.run, []).append(one)
        for number, found in runs.items():
            yield f"run {number}: {_words(found)}"
            if number == self._all[-1].run:
                for one in found:
                    yield f"  {_name(one.turn)}: {_words([one])}"
        yield f"session: {_words(self._all)}"


def _name(turn: int) -> str:
    if turn < 0:
        return f"turn {-turn}, beside its reply"
    return f"turn {turn}" if turn else "summary"


def _cost(found: list[Spent]) -> float | None:
    known = [one.cost for one in found if one.cost is not None]
    return sum(known) if len(known) == len(found) else None


def _words(found: list[Spent]) -> str:
    usage = sum((one.usage for one in found), Usage())
    about = "about " if usage.estimated else ""
    parts = [f"{about}{usage.input_tokens:,} tokens in", f"{usage.output_tokens:,} out"]
    if usage.cached_tokens:
        parts.insert(1, f"of them {usage.cached_tokens:,} cached")
    cost = _cost(found)
    known = sum(one.cost for one in found if one.cost is not None)
    estimated = any(one.usage.estimated for one in found if one.cost)
    if cost is not None:
        parts.append(dollars(cost, estimated=estimated))
    elif known:
        parts.append(f"at least {dollars(known, estimated=estimated)}, the price of some replies is not known")
    else:
        parts.append("price not known")
    return ", ".join(parts)
