"""What the transcript is made of: blocks that know their rows for a width, and keep them while they are looked at."""

from __future__ import annotations

from collections.abc import Sequence

from textual.strip import Strip

from sluice.ui.tui.styles import PLAIN
from sluice.ui.tui.wrapping import Span, wrap


class Block:
    """One block of the transcript. `gap` is whether an empty row stands above it.

    A subclass gives `draw`; it calls `changed` when its rows are to be drawn again.
    """

    foldable = False  # whether `details` makes a difference

    def __init__(self, *, gap: bool = False) -> None:
        self.gap = gap
        self.details = False
        self._rows: list[Strip] | None = None
        self._width = 0
        self._height = 1

    @property
    def weight(self) -> int:
        """About how many characters it keeps."""
        return 0

    def draw(self, width: int) -> list[Strip]:
        """The rows for so many cells, without the gap."""
        raise NotImplementedError

    def changed(self) -> None:
        """Its rows are out of date."""
        self._rows, self._width = None, 0

    def forget(self) -> None:
        """Lets go of its rows, and keeps their number."""
        self._rows = None

    def known(self, width: int) -> bool:
        """Whether `height` is exact for this width."""
        return self._width == width

    def rows(self, width: int) -> list[Strip]:
        """The rows for this width, with the gap."""
        if self._rows is None or self._width != width:
            drawn = self.draw(width)
            self._rows = [Strip([], 0), *drawn] if self.gap and drawn else drawn
            self._width, self._height = width, len(self._rows)
        return self._rows

    def height(self, width: int) -> int:
        """The number of rows: exact if `known`, else a guess from the last width."""
        if self._width == width or not self._width:
            return self._height
        return max(1, -(-self._height * self._width // max(width, 1)))

    def show_details(self, details: bool) -> bool:
        """Unfolds or folds; returns whether that changes anything."""
        if not self.foldable or self.details == details:
            return False
        self.details = details
        self.changed()
        return True


class LineBlock(Block):
    """One line of text of any length, with what stands before its first and its other rows."""

    def __init__(
        self,
        spans: Sequence[Span],
        *,
        first: Sequence[Span] = (),
        rest: Sequence[Span] = (),
        gap: bool = False,
    ) -> None:
        super().__init__(gap=gap)
        self._spans, self._first, self._rest = tuple(spans), tuple(first), tuple(rest)

    @property
    def weight(self) -> int:
        """The characters of the line."""
        return sum(len(text) for text, _style in self._spans)

    def draw(self, width: int) -> list[Strip]:
        """Wrapped by words."""
        return wrap(self._spans or (("", PLAIN),), width, self._first, self._rest)
