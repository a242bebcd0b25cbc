"""The files of one audit log, their order and their lines.

`audit.jsonl` is the file that is written. Closed, it is called `audit-000001.jsonl`, the next one `audit-000002.jsonl`, and
keeps that name. A closed file ends with an `audit_closed` line. The file after it begins with an `audit_continued` line,
whose `prev` is the digest of that last line, and whose field `follows` is that file's name; `n` counts on. What retention
took away is in the log as well: `audit_removed`, with the file's name and the digest of its last line.

On a full disk there is no room to say so first. Then the file gets a name that says it, `audit-000001.jsonl.removed-…` with
that digest, and is emptied; the line is written in the room that this made, and the name goes.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import time
from collections.abc import Iterator
from typing import Any, BinaryIO

import msgspec

from sluice.session.state_file import parsed

CLOSED = "audit_closed"
CONTINUED = "audit_continued"
REMOVED = "audit_removed"
TORN = "audit_torn"

FIRST = "0" * 64  # what the first line has as the digest of the line before it
MAX_LINE_BYTES = 256 * 1024  # of one record; beyond it the fields are left out, and that is said
TAIL_BYTES = MAX_LINE_BYTES + 4096  # read from the end to find the last line; a torn one may have lost its newline
LOCK_SECONDS = 2.0  # waited for another process that is just writing its line


class Line(msgspec.Struct, frozen=True):
    """One record: its number, when (seconds since the epoch), what, and the digest of the line before it."""

    n: int
    at: float
    event: str
    prev: str
    fields: dict[str, Any] = {}


class ClosedFile(msgspec.Struct, frozen=True):
    """A closed file of a log. `number` is that in its name."""

    number: int
    path: str

    @property
    def name(self) -> str:
        """Its name without the folder."""
        return os.path.basename(self.path)


def closed_files(path: str) -> list[ClosedFile]:
    """The closed files of the log at `path`, the oldest first. Raises `OSError`, but not where there is no folder."""
    folder, name = os.path.split(os.path.abspath(path))
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    found = (ClosedFile(number, os.path.join(folder, one)) for one in names if (number := file_number(name, one)))
    return sorted(found, key=lambda one: one.number)


class BegunRemoval(msgspec.Struct, frozen=True):
    """A closed file that was emptied on a full disk. `name` is what it was called, `last` the digest of its last line."""

    name: str
    last: str
    path: str


def removal_path(one: ClosedFile, last: str) -> str:
    """The name that says that a closed file is being removed, whose last line has this digest."""
    return f"{one.path}.removed-{last}"


def begun_removals(path: str) -> list[BegunRemoval]:
    """The files of the log at `path` whose removal is not in the log yet, the oldest first. Raises `OSError`."""
    folder, name = os.path.split(os.path.abspath(path))
    names = [one.partition(".removed-") for one in sorted(os.listdir(folder))]
    return [
        BegunRemoval(one, last, os.path.join(folder, f"{one}{word}{last}"))
        for one, word, last in names
        if word and file_number(name, one)
    ]


def closed_name(name: str, number: int) -> str:
    """What the `number`th closed file of a log called `name` is called."""
    stem, ending = os.path.splitext(name)
    return f"{stem}-{number:06d}{ending}"


def file_number(name: str, closed: object) -> int:
    """The number in the name of a closed file of the log called `name`; 0 if it is no such name."""
    stem, ending = os.path.splitext(name)
    found = re.fullmatch(
        rf"{re.escape(stem)}-(\d{{6,15}}){re.escape(ending)}", closed if isinstance(closed, str) else ""
    )
    return int(found[1]) if found else 0


def lines(file: BinaryIO, size: int | None = None) -> Iterator[bytes]:
    """Lines with their newline, of the first `size` bytes; one longer than any of ours comes without, and counts as torn."""
    left = os.fstat(file.fileno()).st_size if size is None else size
    while left > 0 and (raw := file.readline(min(TAIL_BYTES, left))):
        left -= len(raw)
        if not raw.endswith(b"\n") and len(raw) == TAIL_BYTES:
            while left > 0 and (rest := file.readline(min(TAIL_BYTES, left))):
                left -= len(rest)
                if rest.endswith(b"\n"):
                    break
        yield raw


def last_line(fd: int, size: int) -> tuple[bytes, bool]:
    """The last line of the first `size` bytes without its newline, and whether it was torn; empty if there is none."""
    start = max(size - TAIL_BYTES, 0)
    tail = read_at(fd, start, size - start)
    torn = bool(tail) and not tail.endswith(b"\n")
    return tail.removesuffix(b"\n").rpartition(b"\n")[2], torn


def first_line(fd: int) -> Line | None:
    """The first record of a file, if its first line is one."""
    raw, newline, _rest = read_at(fd, 0, TAIL_BYTES).partition(b"\n")
    return parse(raw) if newline else None


def count_to(fd: int, size: int) -> int:
    """The number that the last line of the first `size` bytes should have: the slow way, for one that does not say so."""
    count, at, last = 0, 0, b"\n"
    while at < size:
        piece = os.pread(fd, min(1 << 20, size - at), at)
        if not piece:
            break
        count += piece.count(b"\n")
        at += len(piece)
        last = piece[-1:]
    first = first_line(fd)
    return count + (last != b"\n") + (first.n - 1 if first is not None else 0)


def read_at(fd: int, start: int, size: int) -> bytes:
    """At most `size` bytes from `start`; fewer at the file's end."""
    pieces = bytearray()
    while len(pieces) < size:
        piece = os.pread(fd, size - len(pieces), start + len(pieces))
        if not piece:
            break
        pieces += piece
    return bytes(pieces)


def parse(raw: bytes) -> Line | None:
    """The record in a line without its newline; `None` if it holds none."""
    return parsed(raw, Line)


def digest(raw: bytes) -> str:
    """The SHA-256 of a line without its newline, as the next line has it."""
    return hashlib.sha256(raw).hexdigest()


@contextlib.contextmanager
def locked(fd: int, kind: int = fcntl.LOCK_EX) -> Iterator[None]:
    """Holds the lock of one file of the log; whoever writes it or gives it another name holds it alone.

    Raises `OSError` if another process keeps it for long.
    """
    deadline = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(fd, kind | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise OSError("another process holds it") from None
            time.sleep(0.002)  # a line takes about as long to write
    try:
        yield
    finally:
        fcntl.flock(fd, fcntl.LOCK_UN)
