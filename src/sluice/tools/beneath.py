"""Opening a path beneath a directory descriptor so that the check is the open itself.

Two ways with the same answers. `openat2` (Linux 5.6 and later) lets the kernel refuse links and escapes while it walks.
Where the kernel or a sandbox's filter does not offer it, every component is opened from the descriptor of the one before
it, following no link. Neither way looks first and opens later, so there is no moment in which a swapped folder counts.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import sys
from collections.abc import Callable

from sluice.errors import PathError
from sluice.tools.relative_path import visible

OpenBeneath = Callable[[int, tuple[str, ...], int], int]
"""`(directory descriptor, components, flags)` to a new descriptor; raises `OSError`. No components: the directory."""

# Without O_PATH (macOS) a folder is opened for reading to walk through it.
PATH_ONLY: int = getattr(os, "O_PATH", os.O_RDONLY)
_FOLDER = PATH_ONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC

_SYS_OPENAT2 = 437  # the same on every architecture of Linux but Alpha
_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_NO_SYMLINKS = 0x04
_RESOLVE_BENEATH = 0x08
# The kernel answers EAGAIN when something was renamed while it walked. A busy tree can do that many times in a row.
_AGAIN_TRIES = 10_000


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def walk(root: int, parts: tuple[str, ...], flags: int) -> int:
    """Opens component by component with no-follow: the way for kernels without `openat2`."""
    if os.pardir in parts:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
    if not parts:
        return os.open(".", flags | os.O_CLOEXEC, dir_fd=root)
    at = root
    try:
        for part in parts[:-1]:
            below = _step(at, part, _FOLDER)
            if at != root:
                os.close(at)
            at = below
        return _step(at, parts[-1], flags | os.O_NOFOLLOW | os.O_CLOEXEC)
    finally:
        if at != root:
            os.close(at)


def _step(folder: int, name: str, flags: int) -> int:
    try:
        return os.open(name, flags, dir_fd=folder)
    except NotADirectoryError:
        # O_DIRECTORY with O_NOFOLLOW says ENOTDIR of a link; the refusal stands, only the word for it is looked up.
        if stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None
        raise


def by_openat2() -> OpenBeneath | None:
    """An opener on `openat2`, or None where this system does not offer it.

    Loads the C library; call it once for each workspace.
    """
    if sys.platform != "linux" or os.uname().machine == "alpha":
        return None
    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.restype = ctypes.c_long
    resolve = _RESOLVE_BENEATH | _RESOLVE_NO_SYMLINKS | _RESOLVE_NO_MAGICLINKS
    size = ctypes.c_size_t(ctypes.sizeof(_OpenHow))
    number = ctypes.c_long(_SYS_OPENAT2)

    def open_beneath(root: int, parts: tuple[str, ...], flags: int) -> int:
        path = os.fsencode("/".join(parts) or ".")
        how = _OpenHow(flags | os.O_CLOEXEC, 0, resolve)
        for _ in range(_AGAIN_TRIES):
            opened = int(syscall(number, ctypes.c_int(root), ctypes.c_char_p(path), ctypes.byref(how), size))
            if opened >= 0:
                return opened
            fault = ctypes.get_errno()
            if fault not in (errno.EAGAIN, errno.EINTR):
                break
        raise OSError(fault, os.strerror(fault))

    return open_beneath


def opener(root: int, *, kernel: bool = True) -> OpenBeneath:
    """The best way to open beneath `root` on this system; `kernel=False` asks for the walk.

    Tries `openat2` on the root once: kernels without it say ENOSYS, and filters of containers say EPERM.
    """
    open_beneath = by_openat2() if kernel else None
    if open_beneath is None:
        return walk
    try:
        os.close(open_beneath(root, (), PATH_ONLY | os.O_DIRECTORY))
    except OSError:
        return walk
    return open_beneath


_CODES: dict[int, tuple[str, str]] = {
    errno.ENOENT: ("not_found", "there is no {}"),
    errno.ELOOP: ("symlink", "{} leads through a symbolic link; links are not followed"),
    errno.EXDEV: ("outside_workspace", "{} leads out of the workspace"),
    errno.ENOTDIR: ("not_directory", "a part of {} is not a folder"),
    errno.EISDIR: ("is_directory", "{} is a folder"),
    errno.EACCES: ("permission", "no permission for {}"),
    errno.EPERM: ("permission", "no permission for {}"),
    errno.EROFS: ("permission", "{} is on a read-only file system"),
    errno.ENAMETOOLONG: ("path_too_long", "the path {} is too long"),
    errno.ENXIO: ("not_regular", "{} is no regular file"),
    errno.EEXIST: ("exists", "{} exists already"),
    errno.ENOSPC: ("no_space", "no space left to write {}"),
    errno.EDQUOT: ("no_space", "the quota leaves no space to write {}"),
    errno.EFBIG: ("no_space", "a limit of file size leaves no space to write {}"),
    errno.EAGAIN: ("busy", "{} was being moved while it was opened; try again"),
}


def path_error(error: OSError, path: str) -> PathError:
    """What `error` means for `path`, as the error that a tool turns into a result; unknown faults are `io_error`."""
    shown = visible(path)
    code, words = _CODES.get(error.errno or 0, ("io_error", f"{{}}: {error.strerror or error}"))
    return PathError(code, words.replace("{}", shown), shown)


def kind_error(status: os.stat_result, path: str) -> PathError | None:
    """None for a regular file, else the refusal: only these are read or replaced, whatever else has the name."""
    mode = status.st_mode
    if stat.S_ISREG(mode):
        return None
    shown = visible(path)
    if stat.S_ISDIR(mode):
        return PathError("is_directory", f"{shown} is a folder", shown)
    if stat.S_ISLNK(mode):
        return PathError("symlink", f"{shown} is a symbolic link; links are not followed", shown)
    return PathError("not_regular", f"{shown} is no regular file (a pipe, socket or device)", shown)
