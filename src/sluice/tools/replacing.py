"""Replacing one file in an opened folder: temporary file, sync, rename, sync.

Everything here works on a folder's descriptor and one name in it, so no step can be led elsewhere by a swapped folder.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import stat

import msgspec

from sluice.errors import PathError
from sluice.tools.beneath import kind_error
from sluice.tools.relative_path import visible
from sluice.values.ports import Journal

_CHUNK = 1024 * 1024  # bytes read or written at a time
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW | os.O_CLOEXEC
_NO_LINKS_HERE = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


class Place(msgspec.Struct, frozen=True):
    """A name in an opened folder; `path` is how the model and the journal call it."""

    folder: int
    name: str
    path: str


class Written(msgspec.Struct, frozen=True):
    """What a replacement came to: was the file new, the SHA-256 and number of its bytes, the pre-image's handle."""

    created: bool
    digest: str
    size: int
    undo: str | None = None


class _Before(msgspec.Struct, frozen=True):
    data: bytes
    status: os.stat_result
    attributes: tuple[tuple[str, bytes], ...]


def too_large(path: str, max_bytes: int) -> PathError:
    """The refusal of a file of more than `max_bytes`."""
    shown = visible(path)
    return PathError("too_large", f"{shown} is larger than {max_bytes} bytes, the most that a file tool handles", shown)


def stale(path: str, how: str) -> PathError:
    """The refusal to replace something else than what was read."""
    shown = visible(path)
    return PathError("stale", f"{shown} changed since it was read ({how}); read it again before changing it", shown)


def hard_linked(path: str, links: int) -> PathError:
    """The refusal to write a file that has other names."""
    shown = visible(path)
    words = f"{shown} has {links} hard links: it may also be a file outside the workspace; it is not written"
    return PathError("hard_link", words, shown)


def read_at_most(opened: int, size: int, max_bytes: int) -> bytes | None:
    """All bytes of `opened`, or None if there are more than `max_bytes`; the size told is not believed."""
    if size > max_bytes:
        return None
    pieces: list[bytes] = []
    left = max_bytes + 1
    while left and (piece := os.read(opened, min(_CHUNK, left))):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces) if left else None


def make_durable(folder: int) -> None:
    """Syncs a folder, so that a name made or changed in it survives a power cut; skipped where it means nothing."""
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):
            raise


def replace(place: Place, data: bytes, expected: str | None, max_bytes: int, journal: Journal | None) -> Written:
    """The steps of `Workspace.replace` inside the opened folder. Raises `PathError` or `OSError`.

    Between the last comparison and the rename lie a few microseconds in which another program's write would be lost
    without a word; the pre-image in the journal is then older than what was lost. No call of POSIX closes that gap.
    """
    before = _expected(place, expected, max_bytes)
    undo = _keep(place, before, journal)
    temporary = f".sluice-{secrets.token_hex(12)}.tmp"
    opened = os.open(temporary, _CREATE, 0o666 if before is None else 0o600, dir_fd=place.folder)
    try:
        try:
            _write_all(opened, data)
            if before is not None:
                _take_over(opened, before)
            os.fsync(opened)
        finally:
            os.close(opened)
        _expected(place, expected, max_bytes)
        if before is None:
            _appear(place, temporary)
        else:
            os.rename(temporary, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=place.folder)
        raise
    make_durable(place.folder)
    return Written(before is None, hashlib.sha256(data).hexdigest(), len(data), undo)


def _expected(place: Place, expected: str | None, max_bytes: int) -> _Before | None:
    before = _current(place, max_bytes)
    shown = visible(place.path)
    if before is None:
        if expected is not None:
            raise stale(place.path, "it was removed")
        return None
    if expected is None:
        raise PathError("exists", f"{shown} exists already", shown)
    if hashlib.sha256(before.data).hexdigest() != expected:
        raise stale(place.path, "its bytes differ")
    return before


def _current(place: Place, max_bytes: int) -> _Before | None:
    try:
        status = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
        problem = kind_error(status, place.path)
        if problem is not None:
            raise problem
        opened = os.open(place.name, _READ, dir_fd=place.folder)
    except FileNotFoundError:
        return None
    try:
        status = os.fstat(opened)
        problem = kind_error(status, place.path) or _unwritable(place, status)
        if problem is not None:
            raise problem
        data = read_at_most(opened, status.st_size, max_bytes)
        if data is None:
            raise too_large(place.path, max_bytes)
        return _Before(data, status, _attributes(opened))
    finally:
        os.close(opened)


def _unwritable(place: Place, status: os.stat_result) -> PathError | None:
    if status.st_nlink > 1:
        return hard_linked(place.path, status.st_nlink)
    # A rename would get past a file's own mode, which says what its owner wants.
    allowed = status.st_mode & 0o222 and os.access(
        place.name, os.W_OK, dir_fd=place.folder, effective_ids=os.access in os.supports_effective_ids
    )
    shown = visible(place.path)
    return None if allowed else PathError("permission", f"{shown} is read-only", shown)


def _keep(place: Place, before: _Before | None, journal: Journal | None) -> str | None:
    if journal is None:
        return None
    try:
        if before is None:
            return journal.keep(place.path, None, None)
        return journal.keep(place.path, before.data, stat.S_IMODE(before.status.st_mode))
    except OSError as error:
        shown = visible(place.path)
        reason = error.strerror or str(error)
        raise PathError(
            "journal", f"what {shown} held could not be kept, so it was not changed: {reason}", shown
        ) from None


def _write_all(opened: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(opened, view[:_CHUNK]) :]


def _attributes(opened: int) -> tuple[tuple[str, bytes], ...]:
    if not hasattr(os, "listxattr"):
        return ()
    try:
        return tuple((name, os.getxattr(opened, name)) for name in os.listxattr(opened))
    except OSError:
        return ()


def _take_over(opened: int, before: _Before) -> None:
    old, new = before.status, os.fstat(opened)
    mode = stat.S_IMODE(old.st_mode)
    if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
        try:
            os.fchown(opened, old.st_uid, old.st_gid)
        except OSError:
            # The file becomes ours: then it must not run with our rights for whoever could run it with its owner's.
            mode &= ~(stat.S_ISUID | stat.S_ISGID)
    for name, value in before.attributes:
        with contextlib.suppress(OSError):
            os.setxattr(opened, name, value)
    os.fchmod(opened, mode)


def _appear(place: Place, temporary: str) -> None:
    # A link fails where the name was taken meanwhile; a rename would replace what is there.
    try:
        os.link(temporary, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_LINKS_HERE:
            raise
        os.rename(temporary, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
        return
    os.unlink(temporary, dir_fd=place.folder)
