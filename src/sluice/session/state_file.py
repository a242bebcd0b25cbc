"""Files of the state folder as they are found: a crash, another program or a person may have left anything there.

What cannot be read holds nothing. It is never a reason to stop.
"""

from __future__ import annotations

import os
import stat
from typing import BinaryIO, TypeVar

import msgspec

_T = TypeVar("_T")


def opened(path: str) -> BinaryIO:
    """A regular file, to be read. Raises `OSError` for anything else, and for a link; waits for no pipe."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(f"{path} is no regular file")
    return open(fd, "rb")


def parsed(raw: bytes, wanted: type[_T]) -> _T | None:
    """What the JSON in `raw` says, if it is of the type `wanted`."""
    try:
        return msgspec.json.decode(raw, type=wanted)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):  # the last for values nested a thousand deep
        return None
