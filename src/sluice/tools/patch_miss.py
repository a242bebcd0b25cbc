"""Why an old text is not in a file: the nearest lines, with their numbers and what differs.

Everything here is for the model to read and correct its next call; nothing is decided by it. Work is bounded: lines are
found by equality of normal forms, and only where none is equal some thousands are compared in detail.
"""

from __future__ import annotations

import difflib
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence

_MAX_LINE = 200  # characters of a line that are shown
_MAX_SHOWN = 12  # lines of the file that are shown
_MAX_COMPARED = 4_000  # lines that are compared by similarity
_MAX_FOLDED = 1_000_000  # characters of a file up to which the costlier forms are tried
_MAX_LINES = 1_000_000  # lines of a file up to which a near place is looked for
_MAX_OLD_LINES = 2_000  # lines of the old text that vote for a place
_MAX_POSITIONS = 50  # places of one line that count: a line that is everywhere says nothing

LOOK_ALIKES = str.maketrans(
    {
        "‘": "'", "’": "'", "‚": "'", "‛": "'", "′": "'", "“": '"', "”": '"', "„": '"', "″": '"',
        "‐": "-", "‑": "-", "‒": "-", "–": "-", "—": "-", "―": "-", "−": "-",
        "\u00a0": " ", "\u2007": " ", "\u202f": " ", "\u200b": "", "\u200c": "", "\u200d": "", "\ufeff": "",
    }
)  # fmt: skip


def _without_spaces(line: str) -> str:
    return "".join(line.split())


def _folded(line: str) -> str:
    if line.isascii():
        return _without_spaces(line)
    return _without_spaces(unicodedata.normalize("NFKC", line.translate(LOOK_ALIKES)))


_FORMS: tuple[tuple[Callable[[str], str], str], ...] = (
    (str.rstrip, "only white space at the ends of lines differs"),
    (str.strip, "only white space around lines (the indentation) differs"),
    (_without_spaces, "only white space differs"),
    (_folded, "only look-alike characters (quotes, dashes, invisible or composed ones) differ"),
    (lambda line: _folded(line).casefold(), "only upper and lower case differ"),
)


def line_number(text: str, offset: int) -> int:
    """The line, from 1, in which `offset` stands."""
    return text.count("\n", 0, offset) + 1


def candidates(text: str, places: Sequence[int]) -> str:
    """The places of an old text that is not unique, one a line, with the line that begins there."""
    shown = []
    for place in places[:_MAX_SHOWN]:
        start = text.rfind("\n", 0, place) + 1
        end = text.find("\n", place)
        shown.append(f"line {line_number(text, place)}: {_visible(text[start : end if end >= 0 else len(text)])}")
    return _and_more(shown, len(places))


def candidates_at(lines: Sequence[str], numbers: Sequence[int]) -> str:
    """Lines of a file by their numbers (from 1), one a line: where a hunk could stand."""
    return _and_more([f"line {n}: {_visible(lines[n - 1])}" for n in numbers[:_MAX_SHOWN]], len(numbers))


def _and_more(shown: list[str], count: int) -> str:
    return "\n".join([*shown, "… and more"] if count > _MAX_SHOWN else shown)


def nearest(text: str, old: str, name: str = "old_text") -> str:
    """A few lines on where the old text (called `name`) nearly is, or that nothing in the file is like it."""
    if text.count("\n") > _MAX_LINES:
        return "The file has too many lines to look for a place that is nearly it."
    lines, wanted = _lines(text), _lines(old)[:_MAX_OLD_LINES]
    for form, words in _FORMS[: len(_FORMS) if len(text) <= _MAX_FOLDED else 2]:
        at = _place_by_form(lines, wanted, form)
        if at is not None:
            return f"It is nearly at line {at + 1}: {words}.\n{_difference(lines, wanted, at, name)}"
    at = _most_votes(lines, wanted)
    if at is None:
        at = _most_alike(lines, wanted)
    if at is None:
        return "Nothing in the file is like it."
    return f"The nearest place begins at line {at + 1}.\n{_difference(lines, wanted, at, name)}"


def _lines(text: str) -> list[str]:
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    return lines if lines[-1] else lines[:-1]


def _place_by_form(lines: list[str], wanted: list[str], form: Callable[[str], str]) -> int | None:
    formed = "\n".join(map(form, wanted))
    if not formed.strip():
        return None
    joined = "\n".join(map(form, lines))
    place = joined.find(formed)
    return None if place < 0 else joined.count("\n", 0, place)


def _most_votes(lines: list[str], wanted: list[str]) -> int | None:
    positions: dict[str, list[int]] = {}
    for number, line in enumerate(map(_without_spaces, lines)):
        if len(line) > 1:
            positions.setdefault(line, []).append(number)
    votes: Counter[int] = Counter()
    for number, line in enumerate(map(_without_spaces, wanted)):
        found = positions.get(line, ())
        if len(found) <= _MAX_POSITIONS:
            votes.update(position - number for position in found if position >= number)
    return min(votes, key=lambda at: (-votes[at], at)) if votes else None


def _most_alike(lines: list[str], wanted: list[str]) -> int | None:
    number, line = next(((n, w.strip()) for n, w in enumerate(wanted) if w.strip()), (0, ""))
    if not line:
        return None
    matcher = difflib.SequenceMatcher(autojunk=False)
    matcher.set_seq2(line[:_MAX_LINE])
    best, best_ratio = None, 0.6
    for at, other in enumerate(lines[:_MAX_COMPARED]):
        matcher.set_seq1(other.strip()[:_MAX_LINE])
        if matcher.real_quick_ratio() > best_ratio and matcher.quick_ratio() > best_ratio:
            ratio = matcher.ratio()
            if ratio > best_ratio:
                best, best_ratio = at, ratio
    return None if best is None else max(best - number, 0)


def _difference(lines: list[str], wanted: list[str], at: int, name: str) -> str:
    first = 0
    while first < len(wanted) and at + first < len(lines) and wanted[first] == lines[at + first]:
        first += 1
    shown = []
    if first < len(wanted):
        here = _visible(lines[at + first]) if at + first < len(lines) else "(the file ends)"
        shown.append(f"{name} line {first + 1} is: {_visible(wanted[first])}")
        shown.append(f"file line {at + first + 1} is: {here}")
    start = max(at + max(first - _MAX_SHOWN // 2, 0), 0)
    end = min(start + min(max(len(wanted), 1), _MAX_SHOWN), len(lines))
    shown.append("The file there:")
    shown += [f"{number + 1}: {_visible(lines[number])}" for number in range(start, end)]
    return "\n".join(shown)


def _visible(line: str) -> str:
    """A line with every character that cannot be seen as an escape, and no longer than can be read."""
    cut = line if len(line) <= _MAX_LINE else line[:_MAX_LINE] + "…"
    if cut.isascii() and cut.isprintable():
        return cut
    return "".join(c if c.isprintable() and (c.isascii() or c.isalnum()) else ascii(c)[1:-1] for c in cut)
