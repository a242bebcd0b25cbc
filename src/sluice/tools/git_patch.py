"""A patch as git prints it, read into files and hunks.

No content can be taken for a header: in a patch each line of content begins with a blank, `+`, `-` or a backslash.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

_MAX_LINE_BYTES = 16 * 1024  # kept of one line: enough for the longest header, since paths have at most 4,096 bytes
_HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@(?: (.*))?", re.DOTALL)
_COMBINED_HUNK = re.compile(rb"(@@@+) .*\+(\d+)(?:,(\d+))? @@@+(?: (.*))?", re.DOTALL)
_ESCAPE = re.compile(rb'\\([abtnvfr"\\]|[0-7]{3})')
_SHORT_ESCAPES = dict(zip(b'abtnvfr"\\', b'\a\b\t\n\v\f\r"\\', strict=True))
_SHOWN_HEADING_BYTES = 120


@dataclass
class FileDiff:
    """One file of a patch: paths as git has them (None: there is no such side), and what kind of change it is."""

    old: bytes | None
    new: bytes | None
    state: str = "modified"
    binary: bool = False
    added: int = 0
    deleted: int = 0
    hunks: list[dict[str, Any]] = field(default_factory=list)


class PatchReader:
    """Reads a patch in pieces; keeps the first `max_files` files and `max_hunks` hunks and counts the rest.

    `files` hold what was read; `total_files`, `added` and `deleted` count everything. Call `finish` at the end.
    """

    def __init__(self, *, max_files: int = 200, max_hunks: int = 400) -> None:
        self._max_files = max_files
        self._hunks_left = max_hunks
        self._rest = bytearray()
        self._file: FileDiff | None = None
        self._parents = 1
        self._in_hunk = False
        self.files: list[FileDiff] = []
        self.total_files = 0
        self.added = 0
        self.deleted = 0

    def feed(self, data: bytes) -> None:
        """Takes the next bytes."""
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._keep(data[start:end])
            start = end + 1
            self._line(bytes(self._rest))
            self._rest.clear()
        self._keep(data[start:])

    def finish(self) -> None:
        """Takes a last line without a newline."""
        if self._rest:
            self._line(bytes(self._rest))
            self._rest.clear()

    def _keep(self, piece: bytes) -> None:
        self._rest += piece[: _MAX_LINE_BYTES - len(self._rest)]

    def _line(self, line: bytes) -> None:
        if line.startswith(b"diff --"):
            self._begin(line)
        elif self._file is None:
            return
        elif line.startswith(b"@@"):
            self._hunk(self._file, line)
        elif self._in_hunk:
            self._content(self._file, line)
        else:
            self._header(self._file, line)

    def _begin(self, line: bytes) -> None:
        self._in_hunk = False
        if line.startswith(b"diff --git "):
            self._parents = 1
            path = _both(line[len(b"diff --git ") :])
        else:  # `diff --cc path` or `diff --combined path`
            path = unquoted(line.split(b" ", 2)[-1])
        self._file = FileDiff(path, path)
        self.total_files += 1
        if len(self.files) < self._max_files:
            self.files.append(self._file)

    def _header(self, file: FileDiff, line: bytes) -> None:
        word, _, rest = line.partition(b" ")
        if word in (b"---", b"+++"):
            path = unquoted(rest.removesuffix(b"\t"))
            side = None if path == b"/dev/null" else path[2:]
            if word == b"---":
                file.old = side
            else:
                file.new = side
        elif line.startswith(b"new file mode"):
            file.state, file.old = "added", None
        elif line.startswith(b"deleted file mode"):
            file.state, file.new = "deleted", None
        elif line.startswith((b"rename from ", b"copy from ")):
            file.state, file.old = ("renamed" if word == b"rename" else "copied"), unquoted(rest.partition(b" ")[2])
        elif line.startswith((b"rename to ", b"copy to ")):
            file.new = unquoted(rest.partition(b" ")[2])
        elif line.startswith(b"old mode") and file.state == "modified":
            file.state = "mode changed"
        elif line.startswith((b"Binary files ", b"GIT binary patch")):
            file.binary = True

    def _hunk(self, file: FileDiff, line: bytes) -> None:
        found = _HUNK.fullmatch(line)
        combined = None if found else _COMBINED_HUNK.fullmatch(line)
        if found:
            numbers = [int(found[group]) if found[group] else 1 for group in (1, 2, 3, 4)]
            hunk = dict(zip(("old_start", "old_lines", "new_start", "new_lines"), numbers, strict=True))
            heading = found[5]
        elif combined:
            self._parents = len(combined[1]) - 1
            hunk = {"new_start": int(combined[2]), "new_lines": int(combined[3] or 1)}
            heading = combined[4]
        else:
            return
        self._in_hunk = True
        if file.state == "mode changed":
            file.state = "modified"
        if self._hunks_left:
            self._hunks_left -= 1
            shown = {"heading": heading[:_SHOWN_HEADING_BYTES].decode("utf-8", "replace")} if heading else {}
            file.hunks.append({**hunk, **shown})

    def _content(self, file: FileDiff, line: bytes) -> None:
        signs = line[: self._parents]
        if b"+" in signs:
            file.added += 1
            self.added += 1
        elif b"-" in signs:
            file.deleted += 1
            self.deleted += 1


def _both(paths: bytes) -> bytes | None:
    """The path in `a/path b/path`; None if the sides differ, which later lines of the header then tell."""
    if paths.startswith(b'"'):
        return unquoted(paths[: len(paths) // 2])[2:]
    half = len(paths) // 2
    left, right = paths[:half], paths[half + 1 :]
    return left[2:] if left[2:] == right[2:] else None


def unquoted(path: bytes) -> bytes:
    """A path as git prints it: as it is, or in double quotes with the escapes of C."""
    if not (len(path) >= 2 and path.startswith(b'"') and path.endswith(b'"')):
        return path

    def plain(found: re.Match[bytes]) -> bytes:
        word = found[1]
        return bytes([_SHORT_ESCAPES[word[0]] if len(word) == 1 else int(word, 8) & 0xFF])

    return _ESCAPE.sub(plain, path[1:-1])
