"""What a session has used, by turn, run and session (L7), kept in memory for whoever looks at it while it goes on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from sluice.values.messages import Usage


class Spent(msgspec.Struct, frozen=True):
    """One reply: number of its run in the session, its turn (0: a summary), tokens, and US dollars if known."""

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
        self._all.append(Spent(self._run, turn, usage, cost))
        self.usage += usage

    @property
    def turns(self) -> int:
        """How many replies there were, summaries left out."""
        return sum(one.turn > 0 for one in self._all)

    @property
    def last(self) -> Spent | None:
        """The reply that came last, summaries left out."""
        return next((one for one in reversed(self._all) if one.turn > 0), None)

    @property
    def cost(self) -> float | None:
        """US dollars of all replies; `None` as soon as one of them is not known, and before the first."""
        return _cost(self._all) if self._all else None

    def lines(self) -> Iterator[str]:
        """By run, the turns of the last run, and the session."""
        if not self._all:
            yield "nothing has been asked in this session yet"
            return
        runs: dict[int, list[Spent]] = {}
        for one in self._all:
            runs.setdefault(one.run, []).append(one)
        for number, found in runs.items():
            if number == self._all[-1].run:
                for one in found:
                    yield f"  {f'turn {one.turn}' if one.turn else 'summary'}: {_words([one])}"
            yield f"run {number}: {_words(found)}"
        yield f"session: {_words(self._all)}"


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
    if cost is not None:
        parts.append(f"${cost:.4f}")
    elif known:
        parts.append(f"at least ${known:.4f}, the price of some replies is not known")
    else:
        parts.append("price not known")
    return ", ".join(parts)
