"""A unified diff for people to look at, bounded in lines, bytes and time.

It is a view: long lines are cut and the end may be missing (a last line says so). Nothing applies it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

import msgspec

from sluice.tools.relative_path import visible

MAX_DIFF_LINES = 200  # lines of a diff that are kept
_MAX_LINE_CHARACTERS = 500  # characters of one line that are kept
_CONTEXT = 3  # unchanged lines around a change
_MAX_COMPARED = 1_000  # lines of a changed stretch up to which its inner likeness is looked for: the cost is quadratic


class LineChange(msgspec.Struct, frozen=True):
    """Lines `[old_start, old_end)` before became `[new_start, new_end)`, both counted from 0."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int


def changes_between(old: Sequence[str], new: Sequence[str]) -> list[LineChange]:
    """What differs between two lists of lines; a large stretch that differs is given as one change."""
    head = 0
    most = min(len(old), len(new))
    while head < most and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < most - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    old_end, new_end = len(old) - tail, len(new) - tail
    if head == old_end and head == new_end:
        return []
    if max(old_end, new_end) - head > _MAX_COMPARED:
        return [LineChange(head, old_end, head, new_end)]
    matcher = difflib.SequenceMatcher(None, old[head:old_end], new[head:new_end])
    return [
        LineChange(head + i1, head + i2, head + j1, head + j2)
        for tag, i1, i2, j1, j2 in matcher.get_opcodes()
        if tag != "equal"
    ]


def unified(path: str, old: str | None, new: str, *, max_lines: int = MAX_DIFF_LINES) -> str:
    """The diff from `old` (None: there was no file) to `new`, at most `max_lines` lines; empty if nothing changed."""
    old_lines, new_lines = lines_of(old or ""), lines_of(new)
    return written(path, old_lines, new_lines, changes_between(old_lines, new_lines), old is None, max_lines)


def written(
    path: str,
    old: Sequence[str],
    new: Sequence[str],
    changes: Iterable[LineChange],
    created: bool = False,
    max_lines: int = MAX_DIFF_LINES,
    deleted: bool = False,
) -> str:
    """The diff that `changes` (in order, disjoint) make of two lists of lines with their ends."""
    name = visible(path)
    out: list[str] = []
    for group in _groups(changes):
        if len(out) > max_lines:
            break
        out += _hunk(group, old, new, max_lines)
    if not out:
        return ""
    out = [f"--- {'/dev/null' if created else 'a/' + name}", f"+++ {'/dev/null' if deleted else 'b/' + name}", *out]
    if len(out) > max_lines:
        out = [*out[: max_lines - 1], "… the rest of the diff is not shown"]
    return "\n".join(out) + "\n"


def lines_of(text: str) -> list[str]:
    """The lines of a text with their ends; only a line feed ends a line, as in every tool that reads a diff."""
    *ended, last = text.split("\n")
    lines = [line + "\n" for line in ended]
    return [*lines, last] if last else lines


def _groups(changes: Iterable[LineChange]) -> list[list[LineChange]]:
    groups: list[list[LineChange]] = []
    for change in changes:
        if groups and change.old_start - groups[-1][-1].old_end <= 2 * _CONTEXT:
            groups[-1].append(change)
        else:
            groups.append([change])
    return groups


def _hunk(group: list[LineChange], old: Sequence[str], new: Sequence[str], max_lines: int) -> list[str]:
    first, last = group[0], group[-1]
    before = min(_CONTEXT, first.old_start)
    after = min(_CONTEXT, len(old) - last.old_end)
    old_at, new_at = first.old_start - before, first.new_start - before
    old_count, new_count = last.old_end + after - old_at, last.new_end + after - new_at
    out = [f"@@ -{_range(old_at, old_count)} +{_range(new_at, new_count)} @@"]
    for change in group:
        out += _marked(" ", old[old_at : change.old_start], max_lines)
        out += _marked("-", old[change.old_start : change.old_end], max_lines)
        out += _marked("+", new[change.new_start : change.new_end], max_lines)
        old_at = change.old_end
    out += _marked(" ", old[old_at : old_at + after], max_lines)
    return out


def _range(start: int, count: int) -> str:
    if count == 1:
        return str(start + 1)
    return f"{start + 1 if count else start},{count}"


def _marked(mark: str, lines: Sequence[str], max_lines: int) -> list[str]:
    out: list[str] = []
    for line in lines[: max_lines + 1]:
        text = line.rstrip("\r\n")
        cut = text if len(text) <= _MAX_LINE_CHARACTERS else text[:_MAX_LINE_CHARACTERS] + "…"
        out.append(mark + cut)
        if not line.endswith("\n"):
            out.append("\\ No newline at end of file")
    return out
