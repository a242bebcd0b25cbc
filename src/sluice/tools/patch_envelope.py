"""Reading the envelope form of a patch: `*** Begin Patch` … `*** End Patch`, with sections that add, delete and update.

Only the words are read here; no file is looked at. What is tolerated: white space around marker lines, a carriage return at
the end of any line, hunk headers with line numbers as in a unified diff (the numbers are not believed), a first hunk
without `@@`, and an empty line where an empty context line is meant. Everything else that is odd is an error with its line.
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

MAX_SECTIONS = 100  # sections of one patch: each holds its files' old and new bytes until the end
MAX_HUNKS = 20_000  # hunks of one patch, some 180 KB of the shortest: each is looked for on its own

_BEGIN, _END, _END_OF_FILE = "*** Begin Patch", "*** End Patch", "*** End of File"
_SECTION = re.compile(r"\*\*\* (Add|Delete|Update) File:(.*)")
_MOVE = re.compile(r"\*\*\* Move to:(.*)")
_NUMBERED = re.compile(r"@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@.*")
_SHOWN = 80  # characters of a wrong line that are shown


class Group(msgspec.Struct, frozen=True):
    """Lines of a hunk that stand together: kept ones (`old` is `new`), or `old` ones that become `new` ones."""

    old: tuple[str, ...]
    new: tuple[str, ...]
    kept: bool


class Hunk(msgspec.Struct, frozen=True):
    """One change of an update: lines in order, as groups.

    `line` is where it begins in the patch, from 1. `headers` are lines of the file after which it stands, outermost first.
    `at_end` says that its last old line is the file's last. `loose_end`: its last kept line is an empty line of the patch,
    which may be meant as space between two sections.
    """

    line: int
    headers: tuple[str, ...]
    groups: tuple[Group, ...]
    at_end: bool
    loose_end: bool = False

    def old(self) -> list[str]:
        """The lines that must stand in the file."""
        return [line for group in self.groups for line in group.old]


class Section(msgspec.Struct, frozen=True):
    """What a patch does to one file: `lines` of an added one, `hunks` of an updated one, `move_to` if it gets a new name."""

    kind: Literal["add", "delete", "update"]
    path: str
    line: int
    lines: tuple[str, ...] = ()
    hunks: tuple[Hunk, ...] = ()
    move_to: str | None = None


class Unreadable(msgspec.Struct, frozen=True):
    """Why a text is no patch, and the line (from 1) where that shows."""

    line: int
    words: str


def parse(patch: str) -> tuple[Section, ...] | Unreadable:
    """The sections of a patch in order, at least one, or what is wrong with it. The cost is linear in its size.

    A path is what stands after the colon, less the white space around it; the same trimmed path is judged and written.
    """
    lines = [line.removesuffix("\r") for line in patch.split("\n")]
    first, end = 0, len(lines)
    while first < end and not lines[first].strip():
        first += 1
    while end > first and not lines[end - 1].strip():
        end -= 1
    if first == end or lines[first].strip() != _BEGIN:
        return Unreadable(first + 1, f"a patch begins with the line '{_BEGIN}'{_seen(lines, first)}")
    if end - first < 2 or lines[end - 1].strip() != _END:
        return Unreadable(
            end, f"a patch ends with the line '{_END}'; without it the patch may be cut, so nothing was done"
        )
    return _Reader(lines, first + 1, end - 1).sections()


def _seen(lines: list[str], at: int) -> str:
    return f", not with {lines[at][:_SHOWN]!a}" if at < len(lines) else ""


class _Stop(Exception):
    """Ends the reading; carries the line and the words of an `Unreadable`."""

    def __init__(self, at: int, words: str) -> None:
        super().__init__(words)
        self.found = Unreadable(at + 1, words)


class _Reader:
    """Reads lines `[at, end)`; positions count from 0."""

    def __init__(self, lines: list[str], at: int, end: int) -> None:
        self._lines = lines
        self._at = at
        self._end = end
        self._hunks_read = 0

    def sections(self) -> tuple[Section, ...] | Unreadable:
        found: list[Section] = []
        try:
            while self._skip_empty():
                if len(found) == MAX_SECTIONS:
                    raise _Stop(self._at, f"more than {MAX_SECTIONS} sections; split the patch into several calls")
                found.append(self._section())
            if not found:
                raise _Stop(self._at, "the patch is empty: it names no file")
        except _Stop as stop:
            return stop.found
        return tuple(found)

    def _skip_empty(self) -> bool:
        while self._at < self._end and not self._lines[self._at].strip():
            self._at += 1
        return self._at < self._end

    def _section(self) -> Section:
        start, line = self._at, self._lines[self._at]
        found = _SECTION.fullmatch(line.strip())
        if found is None:
            what = "'*** Add File: PATH', '*** Delete File: PATH' or '*** Update File: PATH'"
            raise _Stop(start, f"expected {what}, not {line[:_SHOWN]!a}")
        path = found[2].strip()
        self._at += 1
        if found[1] == "Add":
            return Section("add", path, start + 1, lines=self._added())
        if found[1] == "Delete":
            return Section("delete", path, start + 1)
        move = _MOVE.fullmatch(self._lines[self._at].strip()) if self._at < self._end else None
        if move is not None:
            self._at += 1
        hunks = self._hunks()
        if not hunks and move is None:
            raise _Stop(start, f"the update of {path[:_SHOWN]!a} changes nothing: it has no hunk and no '*** Move to:'")
        return Section("update", path, start + 1, hunks=hunks, move_to=move[1].strip() if move else None)

    def _added(self) -> tuple[str, ...]:
        first = self._at
        while self._at < self._end and self._lines[self._at].startswith("+"):
            self._at += 1
        return tuple(line[1:] for line in self._lines[first : self._at])

    def _hunks(self) -> tuple[Hunk, ...]:
        hunks: list[Hunk] = []
        while self._at < self._end and not self._lines[self._at].startswith("*"):
            if not hunks and not self._lines[self._at].strip() and not self._begins_body():
                self._at += 1
                continue
            hunks.append(self._hunk(first=not hunks))
        return tuple(hunks)

    def _begins_body(self) -> bool:
        """Whether the empty lines here lead to a hunk's lines rather than to the next section."""
        at = self._at
        while at < self._end and not self._lines[at].strip():
            at += 1
        return at < self._end and self._lines[at].startswith((" ", "+", "-")) and "***" not in self._lines[at][:6]

    def _hunk(self, *, first: bool) -> Hunk:
        start, headers = self._at, []
        self._hunks_read += 1
        if self._hunks_read > MAX_HUNKS:
            raise _Stop(start, f"more than {MAX_HUNKS} hunks; split the patch into several calls")
        while self._at < self._end and self._lines[self._at].startswith("@@"):
            header = self._lines[self._at]
            if header.strip() != "@@" and not _NUMBERED.fullmatch(header.strip()):
                if not header.startswith("@@ "):
                    raise _Stop(self._at, f"a hunk begins with '@@' or '@@ LINE OF THE FILE', not {header[:_SHOWN]!a}")
                headers.append(header[3:])
            self._at += 1
        if self._at == start and not first:
            raise _Stop(start, f"a line of a hunk begins with ' ', '+' or '-', not {self._lines[start][:_SHOWN]!a}")
        body = self._body()
        if not body:
            seen = ascii(self._lines[self._at][:_SHOWN]) if self._at < self._end else "the end"
            raise _Stop(self._at, f"the hunk has no lines that begin with ' ', '+' or '-': here is {seen}")
        at_end = self._at < self._end and self._lines[self._at].strip() == _END_OF_FILE
        if at_end:
            self._at += 1
            self._skip_empty()
        loose_end = len(body) > 1 and body[-1] == "" and not at_end
        return Hunk(start + 1, tuple(headers), _groups(body), at_end, loose_end)

    def _body(self) -> list[str]:
        first = self._at
        while self._at < self._end and (not self._lines[self._at] or self._lines[self._at][0] in " +-"):
            self._at += 1
        return self._lines[first : self._at]


def _groups(body: list[str]) -> tuple[Group, ...]:
    groups: list[Group] = []
    kept: list[str] = []
    old: list[str] = []
    new: list[str] = []
    for line in body:
        mark = line[:1]
        if mark in ("+", "-"):
            if kept:
                groups.append(Group(tuple(kept), tuple(kept), True))
                kept = []
            # A lone carriage return ends a line in a file as well, so an old line may be several of the file's.
            (old if mark == "-" else new).extend(line[1:].split("\r") if mark == "-" else [line[1:]])
        else:
            if old or new:
                groups.append(Group(tuple(old), tuple(new), False))
                old, new = [], []
            kept.extend(line[1:].split("\r"))
    if kept:
        groups.append(Group(tuple(kept), tuple(kept), True))
    if old or new:
        groups.append(Group(tuple(old), tuple(new), False))
    return tuple(groups)
