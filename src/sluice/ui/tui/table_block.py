"""A Markdown table: columns as wide as they need, and narrower, with wrapped cells, where the screen is."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from textual.strip import Strip

from sluice.ui.tui.block import Block
from sluice.ui.tui.styles import BOLD, DIM
from sluice.ui.tui.wrapping import Span, cut_row, strip, wrap

MIN_COLUMN = 3  # cells
_BETWEEN: Span = (" │ ", DIM)


class TableBlock(Block):
    """`rows` are rows of cells, the first one the heading; each cell is one line of styled text."""

    def __init__(self, rows: Sequence[Sequence[Sequence[Span]]], *, indent: str = "", gap: bool = False) -> None:
        super().__init__(gap=gap)
        self._cells = rows
        self._indent = indent
        self._columns = max((len(row) for row in rows), default=0)

    @property
    def weight(self) -> int:
        """The characters of all cells."""
        return sum(len(text) for row in self._cells for cell in row for text, _style in cell)

    def draw(self, width: int) -> list[Strip]:
        """As a grid with a line below the heading."""
        widths = self._widths(width - len(self._indent) - 3 * (self._columns - 1))
        rows: list[Strip] = []
        for number, row in enumerate(self._cells):
            rows += self._row(row, widths, width, heading=number == 0)
            if number == 0:
                rule = "─┼─".join("─" * wide for wide in widths)
                rows.append(cut_row(((self._indent + rule, DIM),), width))
        return rows

    def _widths(self, room: int) -> list[int]:
        wanted = [MIN_COLUMN] * self._columns
        for row in self._cells:
            for at, cell in enumerate(row):
                wanted[at] = max(wanted[at], sum(cell_len(text) for text, _style in cell))
        while sum(wanted) > room and max(wanted, default=0) > MIN_COLUMN:
            widest = max(range(len(wanted)), key=wanted.__getitem__)
            others = sorted((one for one in wanted if one < wanted[widest]), reverse=True)
            least = max(others[0] if others else MIN_COLUMN, MIN_COLUMN)
            same = wanted.count(wanted[widest])
            over = -(-(sum(wanted) - room) // same)
            to = max(least, wanted[widest] - over)
            wanted = [to if one == wanted[widest] else one for one in wanted]
        return wanted

    def _row(self, row: Sequence[Sequence[Span]], widths: list[int], width: int, *, heading: bool) -> list[Strip]:
        columns: list[list[Strip]] = []
        for at, wide in enumerate(widths):
            spans = list(row[at]) if at < len(row) else []
            if heading:
                spans = [(text, style + BOLD) for text, style in spans]
            columns.append(wrap(spans, wide) if spans else [strip(())])
        rows: list[Strip] = []
        between = strip((_BETWEEN,))
        for number in range(max(len(column) for column in columns)):
            cells: list[Strip] = [strip(((self._indent, DIM),))] if self._indent else []
            for at, column in enumerate(columns):
                cell = column[number] if number < len(column) else strip(())
                cells += [cell.adjust_cell_length(widths[at]), between]
            rows.append(Strip.join(cells[:-1]).crop(0, width))
        return rows
