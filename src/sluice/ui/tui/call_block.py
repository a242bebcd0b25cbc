"""One tool call, from the first word of it to its result: intent, what is being written, verdict, run time, output, diff."""

from __future__ import annotations

from textual.strip import Strip

from sluice.ui.tui.block import Block
from sluice.ui.tui.output_rows import changed_lines, diff_rows, head_and_tail
from sluice.ui.tui.styles import BAD, BOLD, CAUTION, DIM, GOOD, PLAIN
from sluice.ui.tui.wrapping import Span, cut_row, plain_rows
from sluice.ui.visible import one_line, visible
from sluice.values.results import ToolResult

MAX_PREVIEW = 4096  # characters of what is being written that are kept
PREVIEW_ROWS = 6  # rows of it that are shown
SUBJECT = 400  # characters of a subject that are shown; a question shows all of it
FOLDED, UNFOLDED = (3, 6), (100, 200)  # rows of output at its head and its tail
DIFF_FOLDED, DIFF_UNFOLDED = 40, 1000  # rows of a diff
HAS_NOT_RUN = ("blocked", "invalid", "skipped")  # what such a result says is for the model; the error is for the person
MAX_OUTPUT = 64 * 1024  # characters of output kept, half of its head and half of its tail


class CallBlock(Block):
    """One call. Each method takes what one notice says of it; `now` is a monotonic clock's seconds."""

    foldable = True

    def __init__(self, tool: str, *, gap: bool = True) -> None:
        super().__init__(gap=gap)
        self._tool = one_line(tool, 64)
        self._subject = ""
        self._mark: Span = ("◌", DIM)
        self._state: tuple[Span, ...] = (("being written, has not run", DIM),)
        self._preview = ""
        self._name = ""
        self._size = 0
        self._started: float | None = None
        self._output = self._diff = self._error = self._blocked = self._said = ""
        self._left_out = 0  # characters of the output
        self._diff_cut = False
        self._ran = True
        self._over = False

    @property
    def weight(self) -> int:
        """The characters kept."""
        return len(self._preview) + len(self._output) + len(self._subject) + len(self._diff)

    @property
    def running(self) -> bool:
        """Whether its run time grows."""
        return self._started is not None and not self._over

    @property
    def over(self) -> bool:
        """Whether nothing more is to come."""
        return self._over

    @property
    def words(self) -> str:
        """The tool and what it touches, one line."""
        return f"{self._tool} {one_line(self._subject, 60)}".rstrip()

    def intends(self, subject: str) -> None:
        """What it will touch is known."""
        self._subject = subject
        self.changed()

    def grows(self, size: int, name: str, tail: str) -> None:
        """Its arguments have grown."""
        if name != self._name:
            self._name, self._preview = name, ""
        self._preview = (self._preview + tail)[-MAX_PREVIEW:]
        self._size = size
        self._state = ((f"being written, has not run · {_size(size)}", DIM),)
        self.changed()

    def arrives(self, subject: str | None, status: str) -> None:
        """It stands in the reply."""
        self._subject = subject or self._subject
        self._preview = ""
        if status == "whole":
            self._mark, self._state = ("○", PLAIN), (("has not run yet", DIM),)
        else:
            self._mark, self._state = ("○", CAUTION), ((f"{status}: will not run", CAUTION),)
        self.changed()

    def judged(self, decision: str, rule: str) -> None:
        """The policy's word."""
        if decision == "ask":
            self._mark, self._state = ("?", CAUTION), (("waits for your answer", CAUTION),)
        elif decision == "deny":
            self._mark, self._state = ("✗", BAD), ((f"not allowed: {one_line(rule, 80)}", BAD),)
        else:
            self._state = ((f"allowed: {one_line(rule, 80)}", DIM),)
        self.changed()

    def starts(self, now: float, healed: str | None = None) -> None:
        """It runs; `healed` are the arguments it runs with if it had been cut."""
        if healed is not None:
            self._subject = f"{healed} (it was cut and only reads; its arguments were closed by Sluice)"
        self._started, self._mark = now, ("●", CAUTION)
        self.ticks(now)

    def ticks(self, now: float) -> None:
        """Time goes by while it runs."""
        if self._started is not None and not self._over:
            seconds = int(now - self._started)
            self._state = ((f"running {seconds} s" if seconds else "running", CAUTION),)
            self.changed()

    def finishes(self, result: ToolResult, seconds: float) -> None:
        """Its one result."""
        self._over, self._preview = True, ""
        ok = result.ok
        self._ran = result.status not in HAS_NOT_RUN or result.error is None
        self._mark = ("✓", GOOD) if ok else ("✗", BAD)
        words = [] if ok else [result.status.replace("_", " ")]
        if result.exit_code:
            words.append(f"exit code {result.exit_code}")
        if seconds >= 0.05:
            words.append(f"{seconds:.1f} s")
        text = result.content
        lines = text.count("\n") + (not text.endswith("\n")) if text else 0
        diff = result.facts.get("diff")
        if isinstance(diff, str) and diff:
            words.append(changed_lines(diff))
        elif self._ran:
            words.append(f"{lines:,} lines" if lines != 1 else "1 line")
        self._state = ((" · ".join(words), DIM if ok else BAD),)
        half = MAX_OUTPUT // 2
        self._output = text if len(text) <= MAX_OUTPUT else f"{text[:half]}\n{text[-half:]}"
        self._left_out = max(len(text) - MAX_OUTPUT, 0)
        self._diff = visible(diff[:MAX_OUTPUT]).rstrip("\n") if isinstance(diff, str) else ""
        self._diff_cut = isinstance(diff, str) and len(diff) > MAX_OUTPUT
        error = result.error
        self._error = "" if ok or error is None else one_line(f"{error.message}", 500)
        self._blocked = result.blocked.how_to_allow if result.blocked is not None and result.blocked.missing else ""
        if result.status == "blocked" and (said := result.facts.get("refused")) is not None:
            self._mark, self._state = ("⊘", CAUTION), (("has not run: you said no", CAUTION),)
            self._error = self._blocked = ""
            self._said = one_line(str(said), 500)
        self.changed()

    def withdrawn(self, reason: str) -> None:
        """It will not run as shown."""
        self._over, self._preview = True, ""
        self._mark, self._state = ("⊘", DIM), ((f"withdrawn, has not run: {one_line(reason, 200)}", DIM),)
        self.changed()

    def draw(self, width: int) -> list[Strip]:
        """A row for the call, one for its state where they do not fit together, then what there is to see."""
        head: tuple[Span, ...] = (self._mark, (f" {self._tool}", BOLD))
        subject = one_line(self._subject, SUBJECT)
        said = f" {subject}" if subject else ""
        state: tuple[Span, ...] = (("  ", PLAIN), *self._state)
        whole = cut_row((*head, (said, PLAIN), *state), 10_000)
        rows = [whole]
        if whole.cell_length > width:
            rows = [cut_row((*head, (said, PLAIN)), width), cut_row(state, width)]
        if self._preview.strip():
            lines = visible(self._preview).rstrip("\n").split("\n")
            rows += plain_rows("\n".join(lines[-PREVIEW_ROWS:]), width, DIM, "  │ ", fold=True)[-PREVIEW_ROWS:]
        if self._over:
            rows += self._what_came(width)
        return rows

    def _what_came(self, width: int) -> list[Strip]:
        rows: list[Strip] = []
        if self._said:
            rows += plain_rows(f"“{self._said}”", width, DIM, "  ")[:6]
        if self._error:
            rows += plain_rows(self._error, width, BAD, "  ")[:6]
        if self._blocked and self._blocked not in self._error:
            rows += plain_rows(one_line(self._blocked, 500), width, DIM, "  ")[:4]
        if self._diff:
            rows += diff_rows(self._diff, width, DIFF_UNFOLDED if self.details else DIFF_FOLDED, self._diff_cut)
            return rows
        output = self._output
        if self._error and output.startswith(self._error):
            output = output[len(self._error) :]
        if output.strip() and (self._ran or self.details):
            head, tail = UNFOLDED if self.details else FOLDED
            rows += head_and_tail(visible(output).strip("\n"), width, head, tail, self._left_out)
        return rows


def _size(size: int) -> str:
    return f"{size / 1024:.0f} KB" if size >= 1024 else f"{size} bytes"
