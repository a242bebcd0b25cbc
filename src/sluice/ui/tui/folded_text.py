"""Text that a person decides about, cut into rows: all of it, in order, nothing that a terminal obeys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, overload

from rich.cells import get_character_cell_size
from rich.style import Style

from sluice.run.question import GUTTER
from sluice.ui.tui.styles import PLAIN
from sluice.ui.tui.wrapping import Span, row_starts
from sluice.ui.visible import visible

MIN_WIDTH = 4  # cells of text in a row; narrower ones would split wide characters


class Line(NamedTuple):
    """A line of text to be folded, how it is painted, and what stands before its rows. `prose` is cut between words."""

    text: str
    style: Style = PLAIN
    before: str = ""
    prose: bool = False


class FoldedText(Sequence[Sequence[Span]]):
    """Lines folded to a width, as rows for a `RowList`. `text` joined over the rows of a line is the line, escaped.

    A line that begins with the gutter of a question has it before each of its rows, so that no text of a model begins a
    row.
    """

    def __init__(self, lines: Sequence[Line], width: int) -> None:
        self._lines = [line._replace(text=_shown(line.text)) for line in lines]
        self._rows: list[tuple[int, int, int]] = []  # of which line, from, to
        for number, line in enumerate(self._lines):
            room = max(width - len(line.before) - len(_again(line)), MIN_WIDTH)
            found: Iterable[tuple[int, int]]
            if line.prose:
                cuts = row_starts(line.text, room)
                found = zip([0, *cuts], [*cuts, len(line.text)], strict=True)
            else:
                found = folds(line.text, room, len(_again(line)))
            self._rows += [(number, start, end) for start, end in found]

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, at: int) -> Sequence[Span]: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Sequence[Span]]: ...
    def __getitem__(self, at: int | slice) -> Sequence[Span] | Sequence[Sequence[Span]]:
        if isinstance(at, slice):
            return [self[place] for place in range(*at.indices(len(self)))]
        number, start, end = self._rows[at]
        line = self._lines[number]
        before = line.before + (_again(line) if start else "")
        text = line.text[start:end]
        return ((before, line.style), (text.rstrip() if line.prose else text, line.style))

    def pieces(self) -> Iterator[tuple[int, str]]:
        """Each row's line number and its text without what stands before it."""
        for number, start, end in self._rows:
            yield number, self._lines[number].text[start:end]


def folds(text: str, width: int, first_more: int = 0) -> Iterator[tuple[int, int]]:
    """Where to cut so that no piece is wider than `width` cells (the first one `first_more` wider); one piece at least."""
    room = width + first_more
    if text.isascii():
        start = 0
        while len(text) - start > room:
            yield start, start + room
            start, room = start + room, width
        yield start, len(text)
        return
    start = used = 0
    for at, char in enumerate(text):
        size = get_character_cell_size(char)
        if used + size > room and at > start:
            yield start, at
            start, used, room = at, 0, width
        used += size
    yield start, len(text)


def _again(line: Line) -> str:
    """What a line's later rows begin with."""
    return GUTTER if line.text.startswith(GUTTER) else ""


def _shown(text: str) -> str:
    return visible(text, strict=True).replace("\n", "␊").replace("\t", "␉")
