"""Rows of text of which some are shown: a list with one row chosen, or lines that are only read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.geometry import Size
from textual.strip import Strip
from textual.widget import Widget

from sluice.ui.tui.styles import DIM, PLAIN, SELECTED
from sluice.ui.tui.wrapping import Span, cut_row

Rows = Sequence[Sequence[Span]]
"""Each row is one line, already visible. May be worked out when it is asked for."""


class RowList(Widget):
    """As many rows as fit, each cut to the width. With a chosen row, that one is always in view and marked.

    It takes no keys itself; whoever owns it calls `move` and `scroll_rows`.
    """

    OWN_PAGING: ClassVar[bool] = True
    DEFAULT_CSS = "RowList { height: auto; width: 1fr; }"

    def __init__(self, *, choosing: bool, id: str | None = None) -> None:
        super().__init__(id=id)
        self._rows: Rows = ()
        self._choosing = choosing
        self._top = 0
        self._active = True
        self.chosen = 0

    def show_rows(self, rows: Rows, *, chosen: int | None = None, keep_place: bool = False) -> None:
        """Shows other rows, from the top or from where the old ones stood."""
        resized = len(rows) != len(self._rows)
        self._rows = rows
        if chosen is not None:
            self.chosen = chosen
        elif not keep_place:
            self.chosen = self._top = 0
        self.chosen = max(0, min(self.chosen, len(rows) - 1))
        self._into_view()
        self.refresh(layout=resized)

    def show_active(self, active: bool) -> None:
        """Whether the chosen row is painted as chosen: only where keys choose another one."""
        self._active = active
        self.refresh()

    def move(self, by: int, *, around: bool = False) -> None:
        """Chooses another row."""
        if self._rows:
            at = self.chosen + by
            self.chosen = at % len(self._rows) if around else max(0, min(at, len(self._rows) - 1))
            self._into_view()
            self.refresh()

    def scroll_rows(self, by: int) -> None:
        """Shows later rows, or earlier ones if it is negative."""
        self._top = max(0, min(self._top + by, len(self._rows) - self.size.height))
        self.refresh()

    @property
    def place(self) -> tuple[int, int, int]:
        """The first and last row in view, counted from 1, and how many there are."""
        return min(self._top + 1, len(self._rows)), min(self._top + self.size.height, len(self._rows)), len(self._rows)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """One for each row."""
        return len(self._rows)

    def on_resize(self) -> None:
        """Keeps the chosen row, or the end, in view."""
        self.scroll_rows(0)
        self._into_view()

    def render_line(self, y: int) -> Strip:
        """One row of the screen."""
        at, width = self._top + y, self.size.width
        if at >= len(self._rows):
            return Strip.blank(width)
        row = self._rows[at]
        if not self._choosing:
            return cut_row(row, width).adjust_cell_length(width)
        chosen = self._active and at == self.chosen
        strip = cut_row((("› ", PLAIN) if chosen else ("  ", DIM), *row), width).adjust_cell_length(width)
        return strip.apply_style(SELECTED) if chosen else strip

    def _into_view(self) -> None:
        height = self.size.height
        if self._choosing and height:
            self._top = max(min(self._top, self.chosen), self.chosen - height + 1)
