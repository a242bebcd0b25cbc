"""The append-only record of decisions and executions (P10), on disk before what it records begins (P14).

One JSON object a line: `n` (from 1), `at` (seconds since the epoch), `event`, `fields`, and `prev`, the SHA-256 of the line
before. A line that was changed, dropped or put in breaks the chain at that place. The end of the log is not protected:
who can write the file can cut lines off its end or write it anew.

A line torn by a crash or a full disk stays as it is. The next line is then an `audit_torn` record whose `prev` covers it.

A file that has reached its bound is closed and the next one goes on with the chain (see `audit_files`). Each step leaves a
whole chain, and whoever writes next takes the next step: the closing line; the file's new name; the new file; its first
line. All of it is done under the lock of the file that has the log's name, so a process that still has an old file open
finds that out before it writes.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from collections.abc import Callable
from typing import Any

import msgspec

from sluice.errors import AuditError
from sluice.session.audit_files import (
    CLOSED,
    CONTINUED,
    FIRST,
    MAX_LINE_BYTES,
    REMOVED,
    TORN,
    ClosedFile,
    Line,
    begun_removals,
    closed_files,
    closed_name,
    count_to,
    digest,
    file_number,
    first_line,
    last_line,
    locked,
    parse,
    removal_path,
)
from sluice.session.durable import NO_ROOM, put_on_disk, sync_upwards
from sluice.session.private_folder import make_private_folder

MAX_FILE_BYTES = 64 * 1024 * 1024  # of one file: tens of thousands of calls, read through in half a second
MAX_TEXT_BYTES = 4 * 1024  # of one text in a record; longer ones are cut, and their digest stands beside them

_MAX_DEPTH = 12  # of nested fields
_TRIES = 1000  # files that others may close before our line found its place; more is no log of ours


class AuditLog:
    """Appends to the file at `path` (mode 0600, in a folder of mode 0700), and continues the chain found there.

    Nothing is opened before the first record, so a log that cannot be written stops what must be recorded and nothing
    else; the next record tries again. Several processes may write one log: each line is written under a lock, after
    the end of the file was looked at. A file of `max_bytes` is closed before the next line. Not for use from several
    threads at once. `now` gives seconds since the epoch.
    """

    def __init__(self, path: str, *, max_bytes: int = MAX_FILE_BYTES, now: Callable[[], float] = time.time) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._now = now
        self._fd: int | None = None
        self._end = -1  # the size of the file after our last line; another size means that others wrote, or a torn line
        self._count = 0
        self._prev = FIRST
        self._last = ""  # the event of the last line

    def record(self, event: str, **fields: Any) -> None:
        """Puts one line on disk (one write, then `fdatasync`) before it returns.

        Texts over 4 KiB are cut, and their size and digest are kept. Raises `AuditError` if it cannot be done.
        """
        try:
            self._record(event, fields)
        except OSError as error:
            reason = error.strerror or str(error)
            raise AuditError(f"the audit log {self.path} cannot be written: {reason}") from None

    def close(self) -> None:
        """Closes the file. A later record opens it again."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
            self._end = -1

    def has_closed(self, before: float) -> bool:
        """Whether `remove_closed` would remove a file. Raises `AuditError`."""
        try:
            return any(_end_of(one.path)[1] < before for one in closed_files(self.path)[:1])
        except FileNotFoundError:
            return False  # another process is removing them
        except OSError as error:
            raise AuditError(f"closed files of the audit log cannot be read: {error.strerror or error}") from None

    def remove_closed(self, before: float) -> tuple[int, int]:
        """Removes closed files whose last line was written before this moment (seconds since the epoch), oldest first.

        Each removal is in the log before it is done, so that `verify` knows it from a loss; on a full disk its name says it
        first (see `audit_files`). The file that is written stays whatever its age. Returns how many, and their bytes.
        Raises `AuditError`; what was removed by then is recorded, or the next removal records it.
        """
        removed = freed = 0
        try:
            for one in closed_files(self.path):
                raw, at, size = _end_of(one.path)
                if at >= before:
                    break
                self._remove(one, raw)
                removed, freed = removed + 1, freed + size
            for begun in begun_removals(self.path):
                self._record(REMOVED, {"file": begun.name, "last": begun.last})
                with contextlib.suppress(FileNotFoundError):  # another process did the same
                    _gone(begun.path)
        except FileNotFoundError:
            return removed, freed  # another process is removing them
        except OSError as error:
            raise AuditError(f"closed files of the audit log cannot be removed: {error.strerror or error}") from None
        return removed, freed

    def _remove(self, one: ClosedFile, raw: bytes) -> None:
        """Removes a closed file that ends with `raw`. On a full disk it may be left emptied, under a name that says so."""
        line, last = parse(raw), digest(raw)
        try:
            self._record(REMOVED, {"file": one.name, "records_to": line.n if line else None, "last": last})
        except OSError as error:
            if error.errno not in NO_ROOM or not self._is_followed(one):
                raise
            path = removal_path(one, last)
            os.rename(one.path, path)
            sync_upwards(os.path.dirname(path))  # before its lines are gone, also after a loss of power
            os.truncate(path, 0)
        else:
            _gone(one.path)

    def _is_followed(self, one: ClosedFile) -> bool:
        """Whether the next file says already what it follows: until it does, the end of this one is needed."""
        if closed_files(self.path)[-1] != one:
            return True
        fd = self._opened()
        first = first_line(fd)
        return first is not None and first.fields.get("follows") == one.name

    # -- one line

    def _record(self, event: str, fields: dict[str, Any]) -> None:
        try:
            plain = _plain(fields, 0)
            for _ in range(_TRIES):
                if self._recorded(event, plain):
                    return
            raise OSError("other programs keep taking it away")
        except OSError:
            self.close()
            raise

    def _recorded(self, event: str, fields: Any) -> bool:
        """Whether the line is on disk; if not, the file at hand is not the one to write, or was just closed."""
        fd = self._opened()
        with locked(fd):
            if self._has_the_name(fd):
                self._settle(fd)
                if not self._is_full():
                    self._append(fd, event, fields)
                    return True
                self._close_file(fd)
        self.close()
        return False

    def _opened(self) -> int:
        if self._fd is not None:
            return self._fd
        folder = os.path.dirname(os.path.abspath(self.path))
        make_private_folder(folder)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        fd = os.open(self.path, flags, 0o600)
        try:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                raise OSError("it is no regular file")
            if status.st_mode & 0o077:
                os.fchmod(fd, 0o600)
            if status.st_size == 0:
                sync_upwards(folder)
        except BaseException:
            os.close(fd)
            raise
        self._fd = fd
        return fd

    def _has_the_name(self, fd: int) -> bool:
        """Whether the log's name is this file's. Only who holds its lock gives it another name, so it stays true."""
        try:
            return os.path.samestat(os.fstat(fd), os.stat(self.path, follow_symlinks=False))
        except FileNotFoundError:
            return False

    def _settle(self, fd: int) -> None:
        """Finds the end of the chain, if it is not where we left it; a torn line is closed and noted."""
        size = os.fstat(fd).st_size
        if size == self._end:
            return
        last, torn = last_line(fd, size)
        unfinished = torn and len(last) == size  # the file is nothing but a line that was torn
        before = closed_files(self.path) if unfinished or not size else []
        if unfinished and before:  # the line that goes on with the chain: it holds nothing else
            os.ftruncate(fd, 0)
            size = 0
        if size == 0:
            self._begin(fd, before)
            return
        line = None if torn else parse(last)
        self._prev = digest(last)
        self._count = line.n if line is not None else count_to(fd, size)
        self._last = line.event if line is not None else ""
        self._end = size
        if torn:
            _write_all(fd, b"\n")
        if line is None:
            self._append(fd, TORN, {"bytes": len(last)})

    def _append(self, fd: int, event: str, fields: Any) -> None:
        line = Line(self._count + 1, round(self._now(), 6), event, self._prev, fields)
        data = msgspec.json.encode(line)
        if len(data) > MAX_LINE_BYTES:
            note = {"left_out": f"fields of {len(data)} bytes", "sha256": digest(data)}
            data = msgspec.json.encode(msgspec.structs.replace(line, fields=note))
        before = os.fstat(fd).st_size
        _write_all(fd, data + b"\n")
        put_on_disk(fd, before)
        self._count += 1
        self._prev = digest(data)
        self._last = event
        self._end = os.fstat(fd).st_size

    # -- from one file to the next

    def _begin(self, fd: int, before: list[ClosedFile]) -> None:
        """The first line of an empty file, if closed ones are before it."""
        self._count, self._prev, self._last, self._end = 0, FIRST, "", 0
        if not before:
            return
        old = os.open(before[-1].path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            size = os.fstat(old).st_size
            last, _torn = last_line(old, size)
            line = parse(last)
            self._count = line.n if line is not None else count_to(old, size)
            self._prev = digest(last)
        finally:
            os.close(old)
        self._append(fd, CONTINUED, {"follows": before[-1].name})

    def _is_full(self) -> bool:
        """Whether the file takes no more lines; each takes one at least beside those that bind it to its neighbours."""
        return self._last == CLOSED or (self._end >= self._max_bytes and self._last != CONTINUED)

    def _close_file(self, fd: int) -> None:
        folder, name = os.path.split(os.path.abspath(self.path))
        first = first_line(fd)
        followed = first.fields.get("follows") if first is not None and first.event == CONTINUED else None
        newest = max([file_number(name, followed), *(one.number for one in closed_files(self.path))])
        if self._last != CLOSED:
            self._append(fd, CLOSED, {})
        new = closed_name(name, newest + 1)
        try:
            os.rename(self.path, os.path.join(folder, new))
            sync_upwards(folder)
        except OSError as error:
            raise OSError(f"it is full, and cannot be given the name {new}: {error.strerror or error}") from None


def _gone(path: str) -> None:
    os.unlink(path)
    sync_upwards(os.path.dirname(path))  # what is written now comes later on the disk too: no gap after a loss of power


def _end_of(path: str) -> tuple[bytes, float, int]:
    """The last line of a closed file, when it was written (seconds since the epoch), and the file's bytes."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        status = os.fstat(fd)
        raw, _torn = last_line(fd, status.st_size)
    finally:
        os.close(fd)
    line = parse(raw)
    return raw, status.st_mtime if line is None else line.at, status.st_size


def _write_all(fd: int, data: bytes) -> None:
    if os.write(fd, data) != len(data):
        raise OSError(
            errno.ENOSPC, os.strerror(errno.ENOSPC)
        )  # a regular file takes less than asked for no other reason


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
    return f"{cut}… ({len(raw)} bytes, sha256 {digest(raw)})"
