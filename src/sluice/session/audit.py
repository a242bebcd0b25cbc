"""The append-only record of decisions and executions (P10), on disk before what it records begins (P14).

One JSON object a line: `n` (from 1), `at` (seconds since the epoch), `event`, `fields`, and `prev`, the SHA-256 of the line
before. A line that was changed, dropped or put in breaks the chain at that place. The end of the file is not protected:
who can write the file can cut lines off its end or write it anew.

A line torn by a crash or a full disk stays as it is. The next line is then an `audit_torn` record whose `prev` covers it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import stat
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, BinaryIO

import msgspec

from sluice.errors import AuditError

MAX_TEXT_BYTES = 4 * 1024  # of one text in a record; longer ones are cut, and their digest stands beside them
MAX_LINE_BYTES = 256 * 1024  # of one record; beyond it the fields are left out, and that is said
TORN = "audit_torn"

_FIRST = "0" * 64  # what the first line has as the digest of the line before it
_TAIL_BYTES = MAX_LINE_BYTES + 4096  # read from the end to find the last line; a torn one may have lost its newline
_LOCK_SECONDS = 2.0  # waited for another process that is just writing its line
_MAX_DEPTH = 12  # of nested fields


class _Line(msgspec.Struct, frozen=True):
    n: int
    at: float
    event: str
    prev: str
    fields: dict[str, Any] = {}


class AuditLog:
    """Appends to the file at `path` (mode 0600, in a folder of mode 0700), and continues the chain found there.

    Nothing is opened before the first record, so a log that cannot be written stops what must be recorded and nothing
    else; the next record tries again. Several processes may write one file: each line is written under a lock, after
    the end of the file was looked at. Not for use from several threads at once. `now` gives seconds since the epoch.
    """

    def __init__(self, path: str, *, now: Callable[[], float] = time.time) -> None:
        self.path = path
        self._now = now
        self._fd: int | None = None
        self._end = -1  # the size of the file after our last line; another size means that others wrote, or a torn line
        self._count = 0
        self._prev = _FIRST

    def record(self, event: str, **fields: Any) -> None:
        """Puts one line on disk (one write, then `fdatasync`) before it returns.

        Texts over 4 KiB are cut, and their size and digest are kept. Raises `AuditError` if it cannot be done.
        """
        try:
            fd = self._opened()
            with _locked(fd):
                self._settle(fd)
                self._append(fd, event, _plain(fields, 0))
        except OSError as error:
            self.close()
            reason = error.strerror or str(error)
            raise AuditError(f"the audit log {self.path} cannot be written: {reason}") from None

    def close(self) -> None:
        """Closes the file. A later record opens it again."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
            self._end = -1

    def _opened(self) -> int:
        if self._fd is not None:
            return self._fd
        folder = os.path.dirname(os.path.abspath(self.path))
        if not os.path.isdir(folder):
            os.makedirs(os.path.dirname(folder), exist_ok=True)
            with contextlib.suppress(FileExistsError):
                os.mkdir(folder, 0o700)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        fd = os.open(self.path, flags, 0o600)
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise OSError("it is no regular file")
            if status.st_mode & 0o077:
                os.fchmod(fd, 0o600)
            if status.st_size == 0:
                _sync_folder(folder)
        except OSError:
            os.close(fd)
            raise
        self._fd = fd
        return fd

    def _settle(self, fd: int) -> None:
        """Finds the end of the chain, if it is not where we left it; a torn line is closed and noted."""
        size = os.fstat(fd).st_size
        if size == self._end:
            return
        self._count, self._prev = 0, _FIRST
        start = max(size - _TAIL_BYTES, 0)
        tail = _read(fd, start, size - start)
        if tail:
            torn = not tail.endswith(b"\n")
            last = tail.removesuffix(b"\n").rpartition(b"\n")[2]
            self._prev = _digest(last)
            line = None if torn else _parse(last)
            self._count = line.n if line is not None else _lines(fd, size)
            if torn:
                _write_all(fd, b"\n")
            if line is None:
                self._append(fd, TORN, {"bytes": len(last)})

    def _append(self, fd: int, event: str, fields: Any) -> None:
        line = _Line(self._count + 1, round(self._now(), 6), event, self._prev, fields)
        data = msgspec.json.encode(line)
        if len(data) > MAX_LINE_BYTES:
            note = {"left_out": f"fields of {len(data)} bytes", "sha256": _digest(data)}
            data = msgspec.json.encode(msgspec.structs.replace(line, fields=note))
        _write_all(fd, data + b"\n")
        getattr(os, "fdatasync", os.fsync)(fd)
        self._count += 1
        self._prev = _digest(data)
        self._end = os.fstat(fd).st_size


def verify(path: str) -> tuple[bool, int, int | None]:
    """Follows the chain of the log at `path`, in memory bounded by one line. Raises `OSError` if it cannot be read.

    Returns whether every line is in the chain, how many are before the first that is not, and the number of that one
    (from 1), or `None`.
    """
    prev, count, torn = _FIRST, 0, False
    with open(path, "rb") as file:
        for number, raw in enumerate(_bounded_lines(file), 1):
            line = _parse(raw.removesuffix(b"\n")) if raw.endswith(b"\n") else None
            if line is None:
                if torn:
                    return False, count, number - 1
                torn, prev = True, _digest(raw.removesuffix(b"\n"))
                count = number
                continue
            if line.prev != prev or line.n != count + 1 or (torn and line.event != TORN):
                return False, number - 1 - torn, number - torn
            torn, prev, count = False, _digest(raw.removesuffix(b"\n")), number
    return (False, count - 1, count) if torn else (True, count, None)


def records(path: str, last: int | None = None) -> Iterator[dict[str, Any]]:
    """The records of the log at `path`, oldest first, or the `last` of them. Raises `OSError` if it cannot be read.

    A line that is no record comes as `{"event": "unreadable", "bytes": …}`. The chain is not followed: see `verify`.
    """
    with open(path, "rb") as file:
        lines: Iterable[bytes] = _bounded_lines(file)
        for raw in lines if last is None else deque(lines, maxlen=last):
            line = _parse(raw.removesuffix(b"\n")) if raw.endswith(b"\n") else None
            yield {"event": "unreadable", "bytes": len(raw)} if line is None else msgspec.to_builtins(line)


def _bounded_lines(file: BinaryIO) -> Iterator[bytes]:
    """Lines with their newline; one longer than any of ours comes without it, and so counts as torn."""
    while raw := file.readline(_TAIL_BYTES):
        if not raw.endswith(b"\n") and len(raw) == _TAIL_BYTES:
            while rest := file.readline(_TAIL_BYTES):
                if rest.endswith(b"\n"):
                    break
        yield raw


@contextlib.contextmanager
def _locked(fd: int) -> Iterator[None]:
    deadline = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise OSError("another process holds it") from None
            time.sleep(0.002)  # a line takes about as long to write
    try:
        yield
    finally:
        fcntl.flock(fd, fcntl.LOCK_UN)


def _write_all(fd: int, data: bytes) -> None:
    if os.write(fd, data) != len(data):
        raise OSError("No space left on device")  # a regular file takes less than asked for no other reason


def _read(fd: int, start: int, size: int) -> bytes:
    pieces = bytearray()
    while len(pieces) < size:
        piece = os.pread(fd, size - len(pieces), start + len(pieces))
        if not piece:
            break
        pieces += piece
    return bytes(pieces)


def _lines(fd: int, size: int) -> int:
    """Lines in the file, a torn last one counted: the slow way, only after a crash."""
    count, at, last = 0, 0, b"\n"
    while at < size:
        piece = os.pread(fd, 1 << 20, at)
        if not piece:
            break
        count += piece.count(b"\n")
        at += len(piece)
        last = piece[-1:]
    return count + (last != b"\n")


def _sync_folder(folder: str) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _parse(raw: bytes) -> _Line | None:
    try:
        return msgspec.json.decode(raw, type=_Line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _plain(value: Any, depth: int) -> Any:
    """`value` as JSON can hold it, every text within its bound."""
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**64 else str(value)
    if depth > _MAX_DEPTH:
        return "(nested too deep)"
    if isinstance(value, msgspec.Struct):
        value = msgspec.to_builtins(value)
    if isinstance(value, dict):
        return {_text(str(key)): _plain(inner, depth + 1) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(inner, depth + 1) for inner in value]
    return _text(value if isinstance(value, str) else str(value))


def _text(text: str) -> Any:
    raw = text.encode("utf-8", "backslashreplace")  # half of a surrogate pair shows as its escape
    if len(raw) <= MAX_TEXT_BYTES:
        return raw.decode("utf-8")
    cut = raw[:MAX_TEXT_BYTES].decode("utf-8", "ignore")
    return f"{cut}… ({len(raw)} bytes, sha256 {_digest(raw)})"
