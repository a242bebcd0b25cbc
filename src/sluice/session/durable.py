"""What is to survive a loss of power: lines added to a file, names of files just made and of the folders they lie in."""

from __future__ import annotations

import contextlib
import errno
import os

_MEANINGLESS = (errno.EINVAL, errno.ENOTSUP, errno.EBADF)  # this file system has no such thing as syncing a folder
_PIECE = 1024 * 1024  # bytes
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)  # the disk is full, or what this user may have of it
_NOT_OURS = (errno.EACCES, errno.EPERM)


def sync_upwards(folder: str) -> None:
    """Syncs a folder and those above it, as far as they are the user's: names made in any of them are then on disk.

    Syncing a file does not do that, and a folder without its name is lost with all that is in it. Call it before the
    first file is made in the folder, also if the folder is there: whoever made it may have died before this.
    Raises `OSError`.
    """
    folder = os.path.realpath(folder)
    while True:
        try:
            fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            if error.errno in _NOT_OURS:
                return  # what may not be read was not made by us
            raise
        try:
            if os.fstat(fd).st_uid != os.geteuid():
                return
            os.fsync(fd)
        except OSError as error:
            if error.errno not in _MEANINGLESS:
                raise
        finally:
            os.close(fd)
        above = os.path.dirname(folder)
        if above == folder:
            return
        folder = above


def put_on_disk(fd: int, before: int) -> None:
    """Syncs what was added to a file that had `before` bytes. If that fails it is taken off again, and `OSError` raised.

    After a failed sync what was written may never come to the disk, though every later sync says that all is well: the
    next line would then stand behind a hole.
    """
    try:
        getattr(os, "fdatasync", os.fsync)(fd)
    except OSError:
        with contextlib.suppress(OSError):
            os.ftruncate(fd, before)
        raise


def write_again(path: str) -> None:
    """Writes the bytes of a file over themselves and syncs it; one that is not there is left so. Raises `OSError`.

    After a failed sync the system takes what it could not write for written, and no later sync writes it. It can still be
    read, so it can be written again.
    """
    try:
        fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        at = 0
        while piece := os.pread(fd, _PIECE, at):
            at += os.pwrite(fd, piece, at)
        os.fsync(fd)
    finally:
        os.close(fd)
