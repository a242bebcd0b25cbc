"""A model's reasoning: one row that says there was some, unfolded on request."""

from __future__ import annotations

from textual.strip import Strip

from sluice.ui.tui.block import Block
from sluice.ui.tui.styles import DIM, DIM_ITALIC
from sluice.ui.tui.wrapping import cut_row, plain_rows
from sluice.ui.visible import visible

MAX_KEPT = 64 * 1024  # characters; of longer reasoning the end is kept


class ReasoningBlock(Block):
    """Takes pieces until `end`. Times are seconds of one monotonic clock."""

    foldable = True

    def __init__(self, began: float | None = None, text: str = "") -> None:
        super().__init__(gap=True)
        self._pieces = [text] if text else []
        self._kept = self._total = len(text)
        self._began = began
        self._seconds: float | None = None
        self._ended = began is None

    @property
    def weight(self) -> int:
        """The characters kept."""
        return self._kept

    def feed(self, text: str) -> None:
        """Takes the next piece."""
        self._pieces.append(text)
        self._total += len(text)
        self._kept += len(text)
        if self._kept > 2 * MAX_KEPT:
            self._pieces = ["".join(self._pieces)[-MAX_KEPT:]]
            self._kept = MAX_KEPT
        self.changed()

    def end(self, now: float) -> None:
        """No more comes."""
        if not self._ended:
            self._ended = True
            self._seconds = None if self._began is None else now - self._began
            self.changed()

    def draw(self, width: int) -> list[Strip]:
        """One row, or with `details` the text as far as it is kept."""
        words = "thought" if self._ended else "thinking"
        if self._seconds is not None and self._seconds >= 1:
            words += f" for {self._seconds:.0f} s"
        size = f"{self._total:,} characters"
        if self._total == 0:
            size = "not shown by the provider"
        fold = "" if self.details or not self._total else " · ctrl+o shows it"
        rows = [cut_row(((f"∴ {words} ", DIM_ITALIC), (f"· {size}{fold}", DIM)), width)]
        if self.details and self._total:
            if self._kept < self._total or self._kept > MAX_KEPT:
                rows.append(cut_row((("  … its beginning is not kept here", DIM),), width))
            text = visible("".join(self._pieces)[-MAX_KEPT:].strip("\n"))
            rows += plain_rows(text, width, DIM_ITALIC, "  ")
        return rows
