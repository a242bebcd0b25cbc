"""What files held before they were changed, kept by content: the `Journal` of `values.ports`.

In the state folder, `blobs/` holds each pre-image once, under the SHA-256 of its bytes (mode 0600, in a folder of mode
0700), and `changes.jsonl` has one line for each change: `id`, `at` (seconds since the epoch), `workspace`, `path`, `sha256`
and `bytes` (null where there was no file), `mode`. Both are on disk before `keep` returns, the blob first. Nothing is
made before the first change.

A line torn by a crash or a full disk stays until `prune`; the next one begins on a line of its own. Over `max_bytes` in
all, the message says which folder is full and what makes room, and changes are refused until then. `prune` takes away
what no session refers to, and nothing that was kept lately: a run may be about to write down what it refers to.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import secrets
import stat
import time
from collections.abc import Callable, Container

import msgspec

from sluice.session.durable import NO_ROOM, put_on_disk, sync_upwards
from sluice.session.private_folder import make_private_folder
from sluice.session.state_file import opened, parsed

MAX_JOURNAL_BYTES = 1024 * 1024 * 1024  # of all pre-images: some hundred thousand source files, a quarter of them large
INDEX = "changes.jsonl"
KEPT_DAYS = 30  # that a pre-image stays at least, whoever refers to it: a store elsewhere may, or a run that goes on

_BLOCK = 4096  # bytes that the smallest file takes on disk
_LINE = 64 * 1024  # bytes of a line of the index: two paths, and no more
_CHUNK = 1024 * 1024  # bytes read or written at a time
_FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | _FLAGS


class KeptChange(msgspec.Struct, frozen=True):
    """One line of the index."""

    id: str
    at: float
    workspace: str
    path: str
    sha256: str | None
    bytes: int | None
    mode: int | None


class BlobJournal:
    """Keeps pre-images below `folder`, for changes in `workspace`. Holds no descriptor between calls.

    Several processes may share a folder. Not for use from several threads at once. `now` gives seconds since the epoch.
    """

    def __init__(
        self,
        folder: str,
        workspace: str = "",
        *,
        max_bytes: int = MAX_JOURNAL_BYTES,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.folder = folder
        self._workspace = workspace
        self._max_bytes = max_bytes
        self._now = now
        self._held: int | None = None  # bytes in the blobs, counted at the first change
        self._settled = False  # whether the names of the folders are known to be on disk

    def keep(self, path: str, content: bytes | None, mode: int | None) -> str | None:
        """See `Journal.keep`; the handle is the `id` of the line in the index. Raises `OSError`."""
        digest = None if content is None else hashlib.sha256(content).hexdigest()
        with contextlib.ExitStack() as opened:
            state = self._opened(opened)
            self._settle(state)
            if content is not None and digest is not None:
                blobs = _child(state, "blobs", opened)
                fcntl.flock(blobs, fcntl.LOCK_SH)  # until it is closed: nothing is pruned meanwhile
                self._keep_blob(blobs, digest, content)
            size = None if content is None else len(content)
            at = round(self._now(), 6)
            change = KeptChange(secrets.token_hex(8), at, self._workspace, path, digest, size, mode)
            _append(state, msgspec.json.encode(change) + b"\n")
        return change.id

    def _opened(self, opened: contextlib.ExitStack) -> int:
        """The state folder's descriptor. Its own path is a person's, links in it are followed."""
        make_private_folder(self.folder)
        state = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        opened.callback(os.close, state)
        return state

    def _settle(self, state: int) -> None:
        """Puts the folders' names on disk at the first change: whoever made them may have died before that."""
        if self._settled:
            return
        try:
            os.stat(INDEX, dir_fd=state, follow_symlinks=False)
            os.fsync(state)
        except FileNotFoundError:
            sync_upwards(self.folder)
        self._settled = True

    def _keep_blob(self, blobs: int, digest: str, content: bytes) -> None:
        if self._held is None:
            self._held = _held_bytes(blobs)
        if _is_whole(blobs, digest, len(content)):
            os.utime(digest, dir_fd=blobs, follow_symlinks=False)  # it is wanted anew
            os.fsync(blobs)  # whoever kept it may not have come to that
            return
        size = len(content) + _BLOCK
        if self._held + size > self._max_bytes:
            where = os.path.join(self.folder, "blobs")
            raise OSError(
                errno.ENOSPC,
                f"the kept pre-images in {where} have reached {self._max_bytes} bytes; `sluice sessions rm --older-than "
                f"{KEPT_DAYS}` removes old sessions and what only they kept",
            )
        temporary = f".{secrets.token_hex(8)}.tmp"
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, 0o600, dir_fd=blobs)
        try:
            try:
                _write_all(fd, content)
                os.fsync(fd)
            finally:
                os.close(fd)
            os.rename(temporary, digest, src_dir_fd=blobs, dst_dir_fd=blobs)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=blobs)
            raise
        os.fsync(blobs)
        self._held += size


def prune(folder: str, referred: Container[str], *, now: Callable[[], float] = time.time) -> tuple[int, int]:
    """Removes the blobs below `folder` that are not `referred` to and were last kept more than `KEPT_DAYS` ago.

    Returns how many, and their bytes. Waits for nobody: while another process keeps a pre-image, nothing is done. What a
    death left half-written goes after a day, and from the index goes what is as old and has no blob. Raises `OSError`.
    """
    removed, freed = _prune_blobs(folder, referred, now())
    try:
        _prune_index(folder, now() - KEPT_DAYS * 86_400)
    except OSError as error:
        if error.errno not in NO_ROOM:  # what would make it smaller takes room first, and can wait
            raise
    return removed, freed


def _prune_blobs(folder: str, referred: Container[str], now: float) -> tuple[int, int]:
    removed = freed = 0
    try:
        blobs = os.open(os.path.join(folder, "blobs"), _FOLDER)
    except FileNotFoundError:
        return 0, 0
    try:
        if not _alone(blobs):
            return 0, 0
        for name in os.listdir(blobs):
            status = os.stat(name, dir_fd=blobs, follow_symlinks=False)
            days = (now - status.st_mtime) / 86_400
            unfinished = name.endswith(".tmp") and days > 1
            unwanted = len(name) == 64 and name not in referred and days > KEPT_DAYS
            if stat.S_ISREG(status.st_mode) and (unfinished or unwanted):
                os.unlink(name, dir_fd=blobs)
                removed, freed = removed + 1, freed + status.st_size
    finally:
        os.close(blobs)
    return removed, freed


def _prune_index(folder: str, before: float) -> int:
    """Takes lines from before this moment out of the index whose blob is gone or never was; returns how many.

    The others stay in their order, in a new file that takes the old one's place.
    """
    try:
        old = opened(os.path.join(folder, INDEX))
    except FileNotFoundError:
        return 0
    removed = 0
    path, new = os.path.join(folder, INDEX), os.path.join(folder, f".{INDEX}.new")
    with old as lines:
        if not _alone(old.fileno()) or not os.path.samestat(
            os.fstat(old.fileno()), os.stat(path, follow_symlinks=False)
        ):
            return 0
        try:
            made = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _FLAGS, 0o600)  # ours, while the index is held
            with open(made, "wb") as kept:
                while line := lines.readline(_LINE):
                    wanted = _is_wanted(folder, line, before)
                    removed += not wanted
                    kept.write(line if wanted else b"")
                kept.flush()
                os.fsync(made)
            if not removed:
                os.unlink(new)
                return 0
            os.rename(new, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(new)
            raise
        sync_upwards(folder)  # or a loss of power would bring the old one back, without the lines that come now
    return removed


def _is_wanted(folder: str, line: bytes, before: float) -> bool:
    change = parsed(line, KeptChange)
    if change is None:
        return False  # it was torn, and says nothing
    blob = change.sha256 is not None and os.path.lexists(os.path.join(folder, "blobs", change.sha256))
    return blob or change.at >= before


def _alone(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _child(state: int, name: str, opened: contextlib.ExitStack) -> int:
    try:
        folder = os.open(name, _FOLDER, dir_fd=state)
    except FileNotFoundError:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=state)
        folder = os.open(name, _FOLDER, dir_fd=state)
        opened.callback(os.close, folder)
        os.fsync(state)
        return folder
    opened.callback(os.close, folder)
    return folder


def _held_bytes(blobs: int) -> int:
    held = 0
    with os.scandir(blobs) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):
                held += entry.stat(follow_symlinks=False).st_size + _BLOCK
    return held


def _is_whole(blobs: int, digest: str, size: int) -> bool:
    """Whether the blob is there and holds these very bytes; one that was damaged is written again."""
    try:
        fd = os.open(digest, os.O_RDONLY | os.O_NONBLOCK | _FLAGS, dir_fd=blobs)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP, errno.EACCES, errno.ENXIO):
            return False
        raise
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode) or status.st_size != size:
            return False
        found = hashlib.sha256()
        while piece := os.read(fd, _CHUNK):
            found.update(piece)
        return found.hexdigest() == digest
    finally:
        os.close(fd)


def _append(state: int, line: bytes) -> None:
    fd = _index(state)
    try:
        status = os.fstat(fd)
        if status.st_mode & 0o077:
            os.fchmod(fd, 0o600)
        if status.st_size and os.pread(fd, 1, status.st_size - 1) != b"\n":
            line = b"\n" + line
        if not status.st_size:
            os.fsync(state)  # its name first: who finds a line relies on that
        if os.write(fd, line) != len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        put_on_disk(fd, status.st_size)
    finally:
        os.close(fd)


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view[:_CHUNK]) :]


def _index(state: int) -> int:
    """The index, open and held so that nobody puts another file in its place. Made if it is not there."""
    while True:
        fd = os.open(INDEX, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | _FLAGS, 0o600, dir_fd=state)
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise OSError(errno.EINVAL, f"{INDEX} is no regular file")
            fcntl.flock(fd, fcntl.LOCK_SH)
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(fd), os.stat(INDEX, dir_fd=state, follow_symlinks=False)):
                    return fd
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)
