"""Finding the one place that an exact edit means, and changing nothing else.

Old text is first looked for as it is. Only if it is nowhere, line ends are let differ (a model does not see them); then
every line end that the edit keeps stays as it was in the file, and new lines get the one next to them.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import islice

import msgspec

from sluice.tools.file_diff import LineChange, changes_between, lines_of
from sluice.tools.text_file import Text

MAX_PLACES = 20  # places that are looked for: enough to show which, and a bound for a text that is everywhere

_LINE_END = re.compile(r"\r\n|\n|\r")


class Change(msgspec.Struct, frozen=True):
    """One changed stretch: `[old_start, old_end)` of the text before became `[new_start, new_end)` of the text now."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int


class Misfit(msgspec.Struct, frozen=True):
    """Old text that is in no place (`places` is empty) or in several; places are offsets, `MAX_PLACES` at most."""

    places: tuple[int, ...] = ()


class Splice(msgspec.Struct, frozen=True):
    """`[start, end)` of a text is to become `new`."""

    start: int
    end: int
    new: str


class Edits:
    """A text and what was changed in it so far, as disjoint stretches in order; the rest is as it was."""

    def __init__(self, text: str) -> None:
        self.before = text
        self.text = text
        self.changes: list[Change] = []

    def apply(self, old: str, new: str) -> Misfit | bool:
        """Replaces the one place of `old` by `new`. True if line ends had to be let differ, False if it was exact.

        Answers a `Misfit`, and changes nothing, unless `old` (never empty) is in exactly one place. Places may overlap:
        `aa` is in `aaa` twice.
        """
        places = list(islice(_places(self.text, old), MAX_PLACES))
        if len(places) == 1:
            self._splice(places[0], places[0] + len(old), new)
            return False
        if places:
            return Misfit(tuple(places))
        spans = list(islice(_loose_places(self.text, old), MAX_PLACES))
        if len(spans) != 1:
            return Misfit(tuple(start for start, _ in spans))
        start, end = spans[0]
        self._splice(start, end, _with_line_ends_of(self.text[start:end], old, new, usual_line_end(self.text)))
        return True

    @classmethod
    def of(cls, text: str, splices: Iterable[Splice]) -> Edits:
        """A text with all of `splices` done, which are in order and disjoint; the cost is linear."""
        edits = cls(text)
        pieces: list[str] = []
        at = length = 0
        for splice in splices:
            pieces += (text[at : splice.start], splice.new)
            length += splice.start - at
            edits.changes.append(Change(splice.start, splice.end, length, length + len(splice.new)))
            length += len(splice.new)
            at = splice.end
        edits.text = "".join([*pieces, text[at:]])
        return edits

    def encode(self, text: Text) -> bytes:
        """The file's new bytes: those between the changes are the old ones, byte for byte.

        Raises `UnicodeEncodeError` for new text that the file's encoding cannot say.
        """
        pieces = [text.mark]
        at = 0
        for change in self.changes:
            pieces.append(text.encode_old(self.before[at : change.old_start]))
            pieces.append(text.encode(self.text[change.new_start : change.new_end]))
            at = change.old_end
        pieces.append(text.encode_old(self.before[at:]))
        return b"".join(pieces)

    def _splice(self, start: int, end: int, new: str) -> None:
        self.text = self.text[:start] + new + self.text[end:]
        grown = len(new) - (end - start)
        kept: list[Change] = []
        later: list[Change] = []
        old_start, old_end = self._before_offset(start), self._before_offset(end)
        new_start, new_end = start, start + len(new)
        for change in self.changes:
            if change.new_end < start:
                kept.append(change)
            elif change.new_start > end:
                later.append(Change(change.old_start, change.old_end, change.new_start + grown, change.new_end + grown))
            else:  # they touch: one stretch from now on
                if change.new_start <= start:
                    old_start, new_start = change.old_start, change.new_start
                if change.new_end >= end:
                    old_end, new_end = change.old_end, change.new_end + grown
        self.changes = [*kept, Change(old_start, old_end, new_start, new_end), *later]

    def _before_offset(self, offset: int) -> int:
        shift = 0
        for change in self.changes:
            if change.new_end > offset:
                break
            shift = change.old_end - change.new_end
        return offset + shift


def line_changes(edits: Edits) -> list[LineChange]:
    """The edits by whole lines, for a diff: lines that an edit names but does not change are left out."""
    old_lines, new_lines = lines_of(edits.before), lines_of(edits.text)
    spans: list[LineChange] = []
    old_line = new_line = old_at = new_at = 0
    for change in edits.changes:
        old_line += edits.before.count("\n", old_at, change.old_start)
        new_line += edits.text.count("\n", new_at, change.new_start)
        old_end = old_line + edits.before.count("\n", change.old_start, change.old_end)
        new_end = new_line + edits.text.count("\n", change.new_start, change.new_end)
        span = LineChange(old_line, old_end, new_line, new_end)
        old_line, new_line, old_at, new_at = old_end, new_end, change.old_end, change.new_end
        if not (_begins_line(edits.before, old_at) and _begins_line(edits.text, new_at)):
            span = LineChange(
                span.old_start, min(old_end + 1, len(old_lines)), span.new_start, min(new_end + 1, len(new_lines))
            )
        if spans and span.old_start < spans[-1].old_end:
            last = spans.pop()
            span = LineChange(last.old_start, span.old_end, last.new_start, span.new_end)
        spans.append(span)
    return [
        LineChange(
            span.old_start + inner.old_start,
            span.old_start + inner.old_end,
            span.new_start + inner.new_start,
            span.new_start + inner.new_end,
        )
        for span in spans
        for inner in changes_between(old_lines[span.old_start : span.old_end], new_lines[span.new_start : span.new_end])
    ]


def _begins_line(text: str, offset: int) -> bool:
    return offset == 0 or text[offset - 1] == "\n"


def _places(text: str, old: str) -> Iterator[int]:
    at = text.find(old)
    while at >= 0:
        yield at
        at = text.find(old, at + 1)


def _loose_places(text: str, old: str) -> Iterator[tuple[int, int]]:
    plain_text, plain_old = _plain(text), _plain(old)
    if plain_text == text and plain_old == old:
        return
    # Where the two characters of a \r\n stand in the plain text: an offset there is that many characters behind.
    pairs = [found.start() - before for before, found in enumerate(re.finditer("\r\n", text))]
    for at in _places(plain_text, plain_old):
        end = at + len(plain_old)
        yield at + bisect_left(pairs, at), end + bisect_left(pairs, end)


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def usual_line_end(text: str) -> str:
    """The line end that most lines of `text` have; LF if there is none."""
    crlf = text.count("\r\n")
    lone_lf = text.count("\n") - crlf
    if crlf > lone_lf:
        return "\r\n"
    return "\r" if not lone_lf and "\r" in text else "\n"


def _with_line_ends_of(matched: str, old: str, new: str, usual: str) -> str:
    """`new` with the matched stretch's own line ends on the lines it shares with `old` at both sides."""
    old_lines, new_lines = _LINE_END.split(old), _LINE_END.split(new)
    ends = _LINE_END.findall(matched)
    most = min(len(old_lines), len(new_lines)) - 1
    head = 0
    while head < most and old_lines[head] == new_lines[head]:
        head += 1
    tail = 0
    while tail < most - head and old_lines[-1 - tail] == new_lines[-1 - tail]:
        tail += 1
    count = len(new_lines) - 1
    kept = ends[:head] + [_filler(ends, head, usual)] * (count - head - tail) + (ends[-tail:] if tail else [])
    return "".join(line + end for line, end in zip(new_lines, [*kept, ""], strict=True))


def _filler(ends: list[str], at: int, usual: str) -> str:
    return ends[min(at, len(ends) - 1)] if len(set(ends)) == 1 else usual
