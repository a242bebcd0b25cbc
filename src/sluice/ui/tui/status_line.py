"""The last line of the screen: what goes on and for how long, then model, context, tokens, cost, policy and sandbox.

The narrower the screen, the fewer of them; what goes on and the policy in force are the last to go.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.cells import cell_len
from textual.content import Content
from textual.widgets import Static

from sluice.run.interaction import ApprovalSettled, ApprovalWanted, Event, Situation
from sluice.ui.tui.home_path import from_home
from sluice.ui.visible import one_line
from sluice.values import notices as n

TICK_SECONDS = 0.2
PATIENCE_SECONDS = 1.0  # what takes longer shows a mark that moves
_MARKS = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


class StatusLine(Static):
    """Shows the last `Situation` and what is waited for. `clock` gives monotonic seconds."""

    DEFAULT_CSS = "StatusLine { height: 1; padding: 0 1; text-style: dim; }"

    def __init__(self, situation: Situation, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(id="status", markup=False)
        self._situation = situation
        self._clock = clock
        self._doing: list[tuple[str, float]] = []  # requests of the person's that are waited for
        self._run = ""  # what the run does
        self._since = 0.0
        self._calls: dict[int, str] = {}  # the tools that run, by position
        self._asked: set[int] = set()
        self._mark = 0
        self._words = ""

    @property
    def situation(self) -> Situation:
        """The last one that was told."""
        return self._situation

    def on_mount(self) -> None:
        """Begins to move."""
        self.set_interval(TICK_SECONDS, self._tick)
        self._show()

    def hear(self, event: Event) -> None:
        """Takes one event."""
        match event:
            case Situation():
                self._situation = event
                if not event.running:
                    self._begin("")
            case ApprovalWanted():
                self._asked.add(event.number)
            case ApprovalSettled():
                self._asked.discard(event.number)
            case n.RunStarted() | n.TurnStarted():
                self._begin("waiting for the model")
            case n.ReasoningNotice():
                self._begin("thinking")
            case n.TextNotice() | n.CallIntended() | n.CallProgressed():
                self._begin("writing")
            case n.Waiting():
                self._begin("waiting to try again")
            case n.CallStarted():
                self._calls[event.position] = event.tool
                self._begin(self._what_runs())
            case n.CallFinished():
                self._calls.pop(event.position, None)
                self._begin(self._what_runs())
            case n.RunFinished():
                self._calls.clear()
                self._asked.clear()
                self._begin("")
            case _:
                return
        if not isinstance(event, n.TextNotice | n.ReasoningNotice | n.CallProgressed):
            self._show()

    @contextmanager
    def busy(self, words: str) -> Iterator[None]:
        """Shows `words` while the block takes longer than a second."""
        entry = (words, self._clock())
        self._doing.append(entry)
        try:
            yield
        finally:
            self._doing.remove(entry)
            self._show()

    def _what_runs(self) -> str:
        if not self._calls:
            return "working"
        names = list(self._calls.values())
        return f"running {names[0]}" if len(names) == 1 else f"running {len(names)} calls"

    def _begin(self, words: str) -> None:
        if words != self._run:
            self._run, self._since = words, self._clock()

    def _tick(self) -> None:
        if self._doing or self._run:
            self._mark = (self._mark + 1) % len(_MARKS)
            self._show()

    def on_resize(self) -> None:
        """Fits the new width."""
        self._show()

    def _activity(self) -> str:
        if self._asked:
            return "? waits for your answer"
        words, since = self._doing[-1] if self._doing else (self._run, self._since)
        seconds = self._clock() - since
        if not words or seconds < PATIENCE_SECONDS:
            return ""
        more = "" if self._doing else " · ctrl+c stops"
        if self._situation.job and not self._doing:
            more += " · ctrl+b to background"
        return f"{_MARKS[self._mark]} {one_line(words, 60)} {seconds:.0f} s{more}"

    def _show(self) -> None:
        words = status_words(self._situation, self._activity(), max(self.size.width, 1))
        if self.is_attached and words != self._words:
            self._words = words
            self.update(Content(words), layout=False)


def status_words(situation: Situation, activity: str, width: int) -> str:
    """The line, at most `width` cells: parts are left out by rank until the rest fits, then the end is cut."""
    usage = situation.usage
    parts: list[tuple[int, str]] = [  # a rank, the highest is left out first; in the order in which they stand
        (0, one_line(activity)),
        (2, one_line(situation.model, 40)),
        (3, _context(situation)),
        (5, f"{_short(usage.input_tokens)} in {_short(usage.output_tokens)} out" if usage.input_tokens else ""),
        (4, _money(situation)),
        (1, one_line(situation.policy, 40)),
        (6, f"sandbox: {one_line(situation.sandbox, 20)}"),
        (7, one_line(from_home(situation.workspace), 60)),
    ]
    shown = [part for part in parts if part[1]]
    line = " · ".join(words for _rank, words in shown)
    while cell_len(line) > width and len(shown) > 1:
        shown.remove(max(shown))
        line = " · ".join(words for _rank, words in shown)
    while cell_len(line) > width:
        line = line[: min(len(line) - 1, width)]
    return line


def _money(situation: Situation) -> str:
    if situation.cost is None:
        return ""
    about = "~" if situation.usage.estimated and situation.cost else ""
    return f"{about}${situation.cost:.{4 if situation.cost < 1 else 2}f}"


def _context(situation: Situation) -> str:
    tokens, window = situation.context_tokens, situation.window_tokens
    if tokens is None:
        return ""
    about = "~" if situation.context_estimated else ""
    if not window:
        return f"context {about}{_short(tokens)}"
    return f"context {about}{_short(tokens)} of {_short(window)} ({100 * tokens // window}%)"


def _short(number: int) -> str:
    """`999`, `12.3k`, `1.2M`."""
    if number < 1000:
        return str(number)
    if number < 999_950:
        return f"{number / 1000:.1f}k".replace(".0k", "k")
    return f"{number / 1_000_000:.1f}M".replace(".0M", "M")
