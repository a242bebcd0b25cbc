"""Finding the one place that each hunk of an envelope means, by whole lines.

Every hunk is looked for in the text as it was, after the hunk before it. Lines are compared as they are, then without
white space at their ends, then without any around them, then with typographic punctuation folded; the first way that finds
a place decides, and if it finds several the hunk is refused. `@@ LINE` says after which line to look: the first place after
it is meant, and that line must lead to one place only. Looking is a search for a joined text, so its cost is linear.

What is not named stays: a kept line is the file's own, however the patch spells it, with its own line end. A new line gets
the line end of the lines around it if they agree, else the file's usual one. A line that replaces a last line without line
end gets one; a last line that is not replaced is left as it is.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, islice

import msgspec

from sluice.tools.patch_envelope import Group, Hunk
from sluice.tools.patch_match import MAX_PLACES, Splice, usual_line_end
from sluice.tools.patch_miss import LOOK_ALIKES

MAX_LINES = 1_000_000  # lines of a file up to which hunks are looked for: the cost of each way grows with them

_LINE_END = re.compile(r"\r\n|\n|\r")


class Fit(msgspec.Struct, frozen=True):
    """Where a hunk stands: its first line (from 1) in the text before, and what had to be let differ (empty: nothing)."""

    line: int
    differs: str


class Misplaced(msgspec.Struct, frozen=True):
    """A hunk that has no place, or several (`lines`, from 1).

    `text` is what was looked for; `what` names it; `earlier`: it stands before the place where it was looked for.
    """

    hunk: Hunk
    text: str
    what: str
    lines: tuple[int, ...] = ()
    earlier: bool = False


def _trimmed_and_folded(line: str) -> str:
    return line.strip() if line.isascii() else line.translate(LOOK_ALIKES).strip()


_WAYS: tuple[tuple[Callable[[str], str], str], ...] = (
    (lambda line: line, ""),
    (str.rstrip, "white space at the ends of lines"),
    (str.strip, "white space around lines"),
    (_trimmed_and_folded, "punctuation and white space around lines"),
)


class Lines:
    """A text by lines, with what is needed to look for some of them in each way. Made ready when first asked for."""

    def __init__(self, text: str) -> None:
        self.text = text
        if "\r" in text:
            found = list(_LINE_END.finditer(text))
            self.starts = [0, *(end.end() for end in found)]
            self.ends = [end.start() for end in found]
            self._lines: list[str] | None = None
        else:  # the usual file, many times faster
            self._lines = text.split("\n")
            self.starts = [0, *accumulate(len(line) + 1 for line in self._lines)]
            self.starts.pop()
            self.ends = [start - 1 for start in self.starts[1:]]
        if self.starts[-1] == len(text):
            self.starts.pop()  # the text ends with a line end, or is empty
        else:
            self.ends.append(len(text))
        if self._lines is not None:
            del self._lines[len(self.starts) :]
        self._ready: dict[int, tuple[str, list[int]]] = {}

    def __len__(self) -> int:
        return len(self.starts)

    def all(self) -> list[str]:
        """All lines, without their ends."""
        if self._lines is None:
            self._lines = [self.text[start:end] for start, end in zip(self.starts, self.ends, strict=True)]
        return self._lines

    def end_of(self, number: int) -> int:
        """The offset after line `number` (from 0) and its line end."""
        return self.starts[number + 1] if number + 1 < len(self.starts) else len(self.text)

    def line_end(self, number: int) -> str:
        """The line end of line `number`; empty for a last line that has none."""
        return self.text[self.ends[number] : self.end_of(number)]

    def places(self, wanted: Sequence[str], way: int, after: int) -> Iterator[int]:
        """The numbers of the lines, not below `after`, at which all of `wanted` stand in that way, in order."""
        joined, starts = self._in_way(way)
        form = _WAYS[way][0]
        needle = "\n" + "\n".join(map(form, wanted)) + "\n"
        if after >= len(self):
            return
        at = joined.find(needle, starts[after])
        while at >= 0:
            yield bisect_left(starts, at)
            at = joined.find(needle, at + 1)

    def _in_way(self, way: int) -> tuple[str, list[int]]:
        ready = self._ready.get(way)
        if ready is None:
            formed = list(map(_WAYS[way][0], self.all()))
            starts = [0, *accumulate(len(line) + 1 for line in formed)]
            starts.pop()
            ready = self._ready[way] = "\n" + "\n".join(formed) + "\n", starts
        return ready


def place_hunks(text: str, hunks: Sequence[Hunk]) -> tuple[list[Splice], list[Fit]] | Misplaced:
    """What the hunks change in `text`, in order and disjoint, and how each was found; or the first that has no one place."""
    lines = Lines(text)
    usual = usual_line_end(text)
    splices: list[Splice] = []
    fits: list[Fit] = []
    at = 0
    for hunk in hunks:
        found = _found(lines, hunk, at)
        if isinstance(found, Misplaced) and hunk.loose_end and not found.lines:
            shorter = _without_loose_end(hunk)
            again = _found(lines, shorter, at)
            if not isinstance(again, Misplaced) or again.lines:
                hunk, found = shorter, again
        if isinstance(found, Misplaced):
            return found
        line, differs = found
        at = line
        reached = bool(splices) and splices[-1].end == len(text)
        splices += _splices(lines, hunk, line, usual, reached)
        at += len(hunk.old())
        fits.append(Fit(line + 1, differs))
    return splices, fits


def _without_loose_end(hunk: Hunk) -> Hunk:
    *groups, last = hunk.groups
    kept = last.old[:-1]
    return msgspec.structs.replace(
        hunk, groups=(*groups, Group(kept, kept, True)) if kept else tuple(groups), loose_end=False
    )


def _found(lines: Lines, hunk: Hunk, at: int) -> tuple[int, str] | Misplaced:
    """The first line of the hunk's one place, and what differs there."""
    after, several = [at], False
    for header in hunk.headers:
        heads = _in_first_way(lines, [header], after[0])
        if not heads:
            earlier = bool(_in_first_way(lines, [header], 0))
            return Misplaced(hunk, header, "the line after '@@'", earlier=earlier)
        after, several = [head + 1 for head in heads], len(heads) > 1
    old = hunk.old()
    if not old:
        return _for_addition(lines, hunk, after, several)
    if hunk.at_end:
        return _at_end(lines, hunk, old, after[0])
    for way, (_, differs) in enumerate(_WAYS):
        if hunk.headers:
            firsts = (next(lines.places(old, way, head), None) for head in after)
            places = sorted({place for place in firsts if place is not None})
        else:
            places = list(islice(lines.places(old, way, at), MAX_PLACES))
        if len(places) == 1:
            return places[0], differs
        if places:
            return Misplaced(hunk, "\n".join(old), "the hunk", tuple(place + 1 for place in places))
    earlier = bool(_in_first_way(lines, old, 0))
    return Misplaced(hunk, "\n".join(old), "the hunk", earlier=earlier)


def _in_first_way(lines: Lines, wanted: Sequence[str], after: int) -> list[int]:
    for way in range(len(_WAYS)):
        places = list(islice(lines.places(wanted, way, after), MAX_PLACES))
        if places:
            return places
    return []


def _for_addition(lines: Lines, hunk: Hunk, after: list[int], several: bool) -> tuple[int, str] | Misplaced:
    if several:
        return Misplaced(hunk, hunk.headers[-1], "the line after '@@'", tuple(after))
    return (after[0] if hunk.headers and not hunk.at_end else len(lines)), ""


def _at_end(lines: Lines, hunk: Hunk, old: list[str], after: int) -> tuple[int, str] | Misplaced:
    place = len(lines) - len(old)
    if place >= after:
        for way, (_, differs) in enumerate(_WAYS):
            if next(lines.places(old, way, place), None) == place:
                return place, differs
    return Misplaced(hunk, "\n".join(old), "the hunk (which must stand at the file's end)")


def _splices(lines: Lines, hunk: Hunk, first: int, usual: str, reached: bool) -> Iterator[Splice]:
    """The hunk's changes; `reached` says that one before it already changed the text's end."""
    count = len(hunk.old())
    around = {lines.line_end(number) for number in range(first, first + count)} - {""}
    end = around.pop() if len(around) == 1 else usual
    at = first
    for group in hunk.groups:
        if group.kept:
            at += len(group.old)
            continue
        start = lines.starts[at] if at < len(lines) else len(lines.text)
        stop = lines.end_of(at + len(group.old) - 1) if group.old else start
        new = "".join(line + end for line in group.new)
        if new and not reached and 0 < start == len(lines.text) and not lines.line_end(len(lines) - 1):
            new = end + new  # what is added after a last line without line end begins a line of its own
        yield Splice(start, stop, new)
        at += len(group.old)
