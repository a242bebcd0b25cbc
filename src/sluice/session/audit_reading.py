"""The audit log read back: its records, and whether its chain holds from the first file to the last.

Nothing is written. A log that is written meanwhile is read as it was when its end was found.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections import deque
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

import msgspec

from sluice.session.audit_files import (
    CLOSED,
    CONTINUED,
    FIRST,
    REMOVED,
    TORN,
    BegunRemoval,
    begun_removals,
    closed_files,
    digest,
    file_number,
    lines,
    locked,
    parse,
)
from sluice.session.state_file import opened, parsed

_WORDS = "it was changed or put in, or one before it was dropped"
_WROTE_ON = (
    "it goes on behind the line that closed the file, as an older version of Sluice does that still runs; whoever can write "
    "the file can do so too"
)
_TRIES = 5  # at a log that is closing files and removing old ones meanwhile


class Chain(msgspec.Struct, frozen=True, kw_only=True):
    """What `verify` found. `good` lines are in the chain, from the first on, in `files` files; `removed` files before
    them were taken away, and the log says so.

    `fault` says in words what breaks the chain, in the file `file`, at its line `line` (from 1).
    """

    good: int
    files: int
    removed: int = 0
    fault: str = ""
    file: str = ""
    line: int = 0

    @property
    def whole(self) -> bool:
        """Whether every line is in the chain."""
        return not self.fault


class _Stamp(msgspec.Struct, frozen=True):
    """Of a line: when it was written."""

    at: float


class _File(NamedTuple):
    path: str
    number: int  # 0: the one that is written
    size: int | None = None
    held: BinaryIO | None = None  # it is open, because its name may become another file's


def verify(path: str) -> Chain:
    """Follows the chain of the log at `path` through all its files, in memory bounded by one line. Raises `OSError`."""
    for left in reversed(range(_TRIES)):
        try:
            found, moved = _followed(path)
        except FileNotFoundError:
            if not left:
                raise
            continue
        if found.whole or not moved:
            break
    return found


def records(path: str, last: int | None = None) -> Iterator[dict[str, Any]]:
    """The records of the log at `path`, oldest first, or the `last` of them. Raises `OSError` if it cannot be read.

    A line that is no record comes as `{"event": "unreadable", "bytes": …}`. The chain is not followed: see `verify`.
    """
    with _files(path) as found:
        if last is None:
            for one in found:
                yield from map(_record, _lines(one))
            return
        pieces: list[deque[bytes]] = []
        for one in reversed(found):
            pieces.append(deque(_lines(one), maxlen=last))
            last -= len(pieces[-1])
            if not last:
                break
    for piece in reversed(pieces):
        yield from map(_record, piece)


def written_between(path: str, after: float, before: float) -> bool:
    """Whether any line of the log was written between these moments (seconds since the epoch). Raises `OSError`."""
    with _files(path) as found:
        stamps = (parsed(raw, _Stamp) for one in reversed(found) for raw in _lines(one))
        return any(stamp is not None and after < stamp.at < before for stamp in stamps)


def _record(raw: bytes) -> dict[str, Any]:
    line = parse(raw.removesuffix(b"\n")) if raw.endswith(b"\n") else None
    found: dict[str, Any] = {"event": "unreadable", "bytes": len(raw)} if line is None else msgspec.to_builtins(line)
    return found


@contextlib.contextmanager
def _files(path: str) -> Iterator[list[_File]]:
    """The files as they are at one moment, the oldest first. Raises `OSError`; `FileNotFoundError` if there is none.

    The one that is written is opened first, and stays open: it is the same file whatever its name is by then.
    """
    with contextlib.ExitStack() as stack:
        try:
            held = stack.enter_context(opened(path))
        except FileNotFoundError:
            found = [_File(one.path, one.number) for one in closed_files(path)]
            if not found:
                raise
        else:
            found = _before(path, held)
        yield found


def _before(path: str, held: BinaryIO) -> list[_File]:
    """The closed files that come before the one that is written, and that one."""
    status = os.fstat(held.fileno())
    size = status.st_size
    with contextlib.suppress(OSError), locked(held.fileno(), fcntl.LOCK_SH):  # never within a line
        size = os.fstat(held.fileno()).st_size
    found: list[_File] = []
    for one in closed_files(path):
        if os.path.samestat(status, os.stat(one.path, follow_symlinks=False)):  # it was closed just now
            break
        found.append(_File(one.path, one.number))
    return [*found, _File(path, 0, size, held)]


def _lines(one: _File) -> Iterator[bytes]:
    if one.held is not None:
        yield from lines(one.held, one.size)
        return
    with opened(one.path) as file:
        yield from lines(file, one.size)


class _Link:
    """The chain as far as it was followed."""

    def __init__(self, name: str) -> None:
        self.torn = False  # the last line was no record, which the next one must say
        self.removed = 0
        self.unrecorded = ""  # a file that is gone, and that no line was found about yet
        self._name = name
        self._prev = FIRST
        self._n = 0
        self._taken = 0
        self._event = ""
        self._removed_digest = ""

    @property
    def good(self) -> int:
        return self._taken - self.torn

    def takes(self, raw: bytes) -> str:
        """Takes the next line; why it cannot be that, in words."""
        bare = raw.removesuffix(b"\n")
        line = parse(bare) if raw.endswith(b"\n") else None
        if self._event == CLOSED:
            linked = line is not None and (line.prev, line.n) == (self._prev, self._n + 1)
            return _WROTE_ON if linked else "it stands behind the line that closed the file"
        if line is None and self.torn:
            return _WORDS
        if line is not None and (
            line.prev != self._prev or line.n != self._n + 1 or (self.torn and line.event != TORN)
        ):
            return _WORDS
        self._prev, self._n, self._taken = digest(bare), self._n + 1, self._taken + 1
        self.torn, self._event = line is None, line.event if line is not None else ""
        if line is not None and line.event == REMOVED and line.fields.get("file") == self.unrecorded:
            self.unrecorded = "" if line.fields.get("last") == self._removed_digest else self.unrecorded
        return ""

    def knows(self, removals: list[BegunRemoval]) -> None:
        """Takes what the names of emptied files say of what was removed."""
        if any((one.name, one.last) == (self.unrecorded, self._removed_digest) for one in removals):
            self.unrecorded = ""

    def begins(self, raw: bytes, one: _File, previous: _File | None) -> str:
        """Takes the first line of a file, which says what the file follows."""
        line = parse(raw.removesuffix(b"\n")) if raw.endswith(b"\n") else None
        follows = line.fields.get("follows") if line is not None and line.event == CONTINUED else None
        number = file_number(self._name, follows)
        if previous is None and line is not None and number:
            if one.number not in (0, number + 1):
                return f"it follows {follows}"
            self.removed, self.unrecorded, self._removed_digest = number, str(follows), line.prev
            self._prev, self._n = line.prev, line.n - 1
            return self.takes(raw)
        if previous is None:
            return self.takes(raw)
        if not (one.number or raw.endswith(b"\n")):
            return ""  # this very line was torn, and holds nothing else: the next writer writes it anew
        self._event = ""
        before = os.path.basename(previous.path)
        if number > previous.number:
            return f"it follows {follows}, which is missing"
        if number != previous.number:
            return f"it does not go on from {before}"
        return self.takes(raw) and f"it is not what followed the last line of {before}"

    def ends(self, one: _File) -> str:
        """Why this cannot be the end of the file, in words."""
        if self.torn:
            return "it was not written to its end"
        return "lines after it are missing: a closed file ends with a line that says so" if self._open(one) else ""

    def _open(self, one: _File) -> bool:
        return bool(one.number) and self._event != CLOSED


def _followed(path: str) -> tuple[Chain, bool]:
    """What was found, and whether the log has begun another file meanwhile, and may have removed some."""
    with _files(path) as files:
        found = _linked(path, files)
        held = files[-1].held
        moved = held is not None and not os.path.samestat(os.fstat(held.fileno()), os.stat(path, follow_symlinks=False))
        gone = any(one.number and not os.path.lexists(one.path) for one in files)
        return found, moved or gone


def _linked(path: str, files: list[_File]) -> Chain:
    link, previous = _Link(os.path.basename(path)), None
    for count, one in enumerate(files):
        number, fault = 0, ""
        for number, raw in enumerate(_lines(one), 1):
            fault = link.takes(raw) if number > 1 else link.begins(raw, one, previous)
            if fault:
                number -= link.torn  # the line before it should have been explained
                break
        fault = fault or link.ends(one)
        if fault:
            line = max(number, 1)
            return Chain(good=link.good, files=count + 1, removed=link.removed, fault=fault, file=one.path, line=line)
        previous = one
    link.knows(begun_removals(path))
    if link.unrecorded:
        fault = f"it follows {link.unrecorded}, which is missing, and no line says that it was removed"
        return Chain(good=0, files=len(files), fault=fault, file=files[0].path, line=1)
    return Chain(good=link.good, files=len(files), removed=link.removed)
