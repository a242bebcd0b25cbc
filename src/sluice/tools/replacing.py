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
NO_LINKS_HERE = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


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


class Before(msgspec.Struct, frozen=True):
    """A file as it is before a change: bytes, status, extended attributes."""

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


class Prepared(msgspec.Struct, frozen=True):
    """One change that is ready: its pre-image is kept, its new bytes (`digest`, `size`) stand synced in `temporary`.

    `temporary` is None where the file is to be removed. `before` is what stands there now, None for nothing.
    """

    place: Place
    temporary: str | None
    before: Before | None
    expected: str | None
    digest: str
    size: int
    undo: str | None

    def written(self) -> Written:
        """What the change comes to."""
        return Written(self.before is None, self.digest, self.size, self.undo)


def prepare(
    place: Place,
    data: bytes | None,
    expected: str | None,
    max_bytes: int,
    journal: Journal | None,
    like: Before | None = None,
    mode: int | None = None,
) -> Prepared:
    """Compares, keeps the pre-image and writes the new bytes beside the file; None removes it. Nothing is visible yet.

    Mode, owner and attributes are those of the file that is replaced, or of `like`; a new file gets the permissions of
    `mode`, if given. Raises `PathError` or `OSError`, and then leaves nothing.
    """
    before = _expected(place, expected, max_bytes)
    undo = _keep(place, before, journal)
    if data is None:
        return Prepared(place, None, before, expected, "", 0, undo)
    like = like or before
    temporary = hidden_name()
    opened = os.open(temporary, _CREATE, 0o666 if like is None else 0o600, dir_fd=place.folder)
    try:
        try:
            _write_all(opened, data)
            if like is not None:
                _take_over(opened, like)
            elif mode is not None:
                os.fchmod(opened, mode & 0o777)  # to run with its owner's rights is nothing that a record may give
            os.fsync(opened)
        finally:
            os.close(opened)
    except BaseException:
        remove(place.folder, temporary)
        raise
    return Prepared(place, temporary, before, expected, hashlib.sha256(data).hexdigest(), len(data), undo)


def discard(prepared: Prepared) -> None:
    """Removes what `prepare` wrote beside the file."""
    if prepared.temporary is not None:
        remove(prepared.place.folder, prepared.temporary)


def hidden_name() -> str:
    """A fresh name for a file of ours beside a person's."""
    return f".sluice-{secrets.token_hex(12)}.tmp"


def remove(folder: int, name: str) -> None:
    """Removes a name if it is there."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)


def check_unchanged(prepared: Prepared, max_bytes: int) -> None:
    """Raises `PathError` if the place no longer holds what it held when the change was prepared."""
    _expected(prepared.place, prepared.expected, max_bytes)


def put_in_place(prepared: Prepared) -> None:
    """Gives the new bytes their name, in one step."""
    place, temporary = prepared.place, prepared.temporary
    if temporary is None:
        os.unlink(place.name, dir_fd=place.folder)
    elif prepared.before is None:
        _appear(place, temporary)
    else:
        os.rename(temporary, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)


def replace(place: Place, data: bytes, expected: str | None, max_bytes: int, journal: Journal | None) -> Written:
    """The steps of `Workspace.replace` inside the opened folder. Raises `PathError` or `OSError`.

    Between the last comparison and the rename lie a few microseconds in which another program's write would be lost
    without a word; the pre-image in the journal is then older than what was lost. No call of POSIX closes that gap.
    """
    prepared = prepare(place, data, expected, max_bytes, journal)
    try:
        check_unchanged(prepared, max_bytes)
        put_in_place(prepared)
    except BaseException:
        discard(prepared)
        raise
    make_durable(place.folder)
    return prepared.written()


def _expected(place: Place, expected: str | None, max_bytes: int) -> Before | None:
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


def _current(place: Place, max_bytes: int) -> Before | None:
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
        return Before(data, status, _attributes(opened))
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


def _keep(place: Place, before: Before | None, journal: Journal | None) -> str | None:
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


def _take_over(opened: int, before: Before) -> None:
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
        if error.errno not in NO_LINKS_HERE:
            raise
        os.rename(temporary, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
        return
    with contextlib.suppress(OSError):  # the file has its name now; a second, hidden one is no fault of the call
        os.unlink(temporary, dir_fd=place.folder)
