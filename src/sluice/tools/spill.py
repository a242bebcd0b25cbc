"""Private files that hold outputs too long to show, under handles such as `spill:3` (P11).

A handle is the only thing outside the workspace that a file tool opens, so it is a number, never a path.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from types import TracebackType
from typing import BinaryIO

_HANDLE = re.compile(r"spill:([1-9][0-9]{0,8})")


def spill_number(path: str) -> int | None:
    """The number in a handle `spill:N`, or `None` if `path` is no handle."""
    found = _HANDLE.fullmatch(path)
    return int(found[1]) if found else None


class Spill:
    """The spill files of one session: mode 0600, in a folder of mode 0700 that is made when first needed.

    With `directory=None` the folder is a fresh one in the system's temporary place. `close()` removes the files this
    object made, and the folder if it made that too.
    """

    def __init__(self, directory: str | None = None) -> None:
        self._directory = directory
        self._made_directory = False
        self._ready = False
        self._closed = False
        self._last = 0
        self._made: list[int] = []

    def new(self) -> tuple[str, BinaryIO]:
        """A new handle and its empty file, open for writing, unbuffered. The caller closes the file.

        Raises `OSError` if it cannot be made, `ValueError` after `close()`.
        """
        if self._closed:
            raise ValueError("the spill is closed")
        self._prepare()
        while True:
            self._last += 1
            try:
                fd = os.open(self._path(self._last), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            except FileExistsError:
                continue  # left by an earlier run of the same session; its handle may still be in the conversation
            self._made.append(self._last)
            return f"spill:{self._last}", os.fdopen(fd, "wb", buffering=0)

    def open(self, number: int) -> BinaryIO:
        """The file of handle `spill:<number>`, open for reading. Raises `FileNotFoundError` for an unknown number."""
        if self._directory is None or number < 1:
            raise FileNotFoundError(f"no spill:{number}")
        fd = os.open(self._path(number), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        return os.fdopen(fd, "rb")

    def discard(self, handle: str) -> None:
        """Removes one file, whose writing failed half-way; its number is not used again."""
        number = spill_number(handle)
        if number in self._made and number is not None:
            self._made.remove(number)
            with contextlib.suppress(OSError):
                os.unlink(self._path(number))

    def close(self) -> None:
        """Removes what this object made. Calling it twice is fine."""
        self._closed = True
        for number in self._made:
            with contextlib.suppress(OSError):
                os.unlink(self._path(number))
        self._made.clear()
        if self._made_directory and self._directory is not None:
            with contextlib.suppress(OSError):
                os.rmdir(self._directory)
            self._made_directory = False

    def __enter__(self) -> Spill:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _prepare(self) -> None:
        if self._ready:
            return
        if self._directory is None:
            self._directory = tempfile.mkdtemp(prefix="sluice-spill-")
            self._made_directory = True
        else:
            try:
                os.makedirs(os.path.dirname(self._directory) or ".", exist_ok=True)
                os.mkdir(self._directory, 0o700)
                self._made_directory = True
            except FileExistsError:
                os.chmod(self._directory, 0o700)
        self._ready = True

    def _path(self, number: int) -> str:
        if self._directory is None:
            raise FileNotFoundError(f"no spill:{number}")
        return os.path.join(self._directory, str(number))
