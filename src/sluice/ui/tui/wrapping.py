"""Styled text cut into rows of a terminal: by words, between wide characters, never inside a visible character.

Rows are filled from the left, so that text that grows at its end changes its last row only. Widths are cells as Rich and
Textual count them: two for CJK and most emoji.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from rich.cells import cell_len, split_graphemes
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from sluice.ui.tui.styles import PLAIN

Span = tuple[str, Style]
"""A piece of text, already visible and without a line end, and its style."""

MIN_WIDTH = 4  # cells; where there are fewer, rows are cut by the screen instead
_WORD = re.compile(r"\S+\s*|\s+")
_WIDE = (
    r"\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f"
    r"\uff00-\uff60\uffe0-\uffe6\U00020000-\U0003fffd"
)
# No row begins with one of these.
_CLOSING = (
    r"\u3001\u3002\uff0c\uff0e\uff1a\uff1b\uff1f\uff01\u300d\u300f\uff09\u3011\u300b\u3009\u2019\u201d\u2026)\],.;:!?"
)
_WIDE_WORD = re.compile(rf"[{_WIDE}][{_CLOSING}]*\s*|[^\s{_WIDE}]+\s*|\s+")


def row_starts(text: str, width: int) -> list[int]:
    """The indices at which rows after the first begin, so that no row but its end's spaces is wider than `width` cells."""
    if len(text) * 2 <= width or (text.isascii() and len(text) <= width):
        return []
    ascii_only = text.isascii()
    starts: list[int] = []
    used = 0
    for word in (_WORD if ascii_only else _WIDE_WORD).finditer(text):
        whole = word[0]
        bare = whole.rstrip()
        size = len(bare) if ascii_only else cell_len(bare)
        if used + size > width and used and bare:
            starts.append(word.start())
            used = 0
        if size > width:
            cuts = _folded(bare, width, ascii_only)
            starts.extend(word.start() + cut for cut in cuts)
            whole = whole[cuts[-1] :] if cuts else whole
        used += len(whole) if ascii_only else cell_len(whole)
    return starts


def _folded(word: str, width: int, ascii_only: bool) -> list[int]:
    """Where a word wider than a row is cut."""
    if ascii_only:
        return list(range(width, len(word), width))
    cuts, used = [], 0
    for start, _end, size in split_graphemes(word)[0]:
        if used + size > width and used:
            cuts.append(start)
            used = 0
        used += size
    return cuts


def wrap(
    spans: Sequence[Span], width: int, first: Sequence[Span] = (), rest: Sequence[Span] = (), *, fold: bool = False
) -> list[Strip]:
    """The rows of one line of text, at least one. `first` stands before the first row, `rest` before the others.

    With `fold` rows are cut at the width, wherever that is (for code), and no space is lost.
    """
    text = "".join([piece for piece, _style in spans])
    room = max(width - sum(cell_len(piece) for piece, _style in (first or rest)), MIN_WIDTH)
    starts = _folded(text, room, text.isascii()) if fold else row_starts(text, room)
    if not starts:
        return [strip((*first, *spans), trim=not fold)]
    ends = [*starts, len(text)]
    rows: list[Strip] = []
    row: list[Span] = list(first)
    at = 0
    for piece, style in spans:
        while at + len(piece) > ends[len(rows)]:
            cut = ends[len(rows)] - at
            row.append((piece[:cut], style))
            rows.append(strip(row, trim=not fold))
            row = list(rest)
            piece = piece[cut:]
            at += cut
        row.append((piece, style))
        at += len(piece)
    rows.append(strip(row, trim=not fold))
    return rows


def strip(spans: Iterable[Span], *, trim: bool = False) -> Strip:
    """One row; with `trim` without the spaces at its end."""
    pieces = [(text, style) for text, style in spans if text]
    while trim and pieces:
        text, style = pieces.pop()
        if text := text.rstrip():
            pieces.append((text, style))
            break
    return Strip([Segment(text, style) for text, style in pieces], sum(cell_len(text) for text, _style in pieces))


def plain_rows(text: str, width: int, style: Style = PLAIN, indent: str = "", *, fold: bool = False) -> list[Strip]:
    """The rows of text of several lines, each indented."""
    before = ((indent, style),) if indent else ()
    rows: list[Strip] = []
    for line in text.split("\n"):
        rows += wrap(((line.expandtabs(4), style),), width, before, before, fold=fold)
    return rows


def cut_row(spans: Sequence[Span], width: int) -> Strip:
    """One row of at most `width` cells; an ellipsis where something was cut off."""
    row = strip(spans)
    return row if row.cell_length <= width else Strip.join([row.crop(0, max(width - 1, 0)), Strip([Segment("…")], 1)])
