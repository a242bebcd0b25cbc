"""Folders of ours are for the user alone, and so are those above that we had to make (XDG Base Directory, section 3)."""

from __future__ import annotations

import contextlib
import os
import stat


def make_private_folder(folder: str | os.PathLike[str]) -> None:
    """Makes the folder and those above it that are missing, each with mode 0700. One that is there stays as it is.

    Raises `OSError`.
    """
    path = os.path.abspath(folder)
    missing = []
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for one in reversed(missing):
        with contextlib.suppress(FileExistsError):
            os.mkdir(one, 0o700)


def take_others_rights(folder: str | os.PathLike[str]) -> None:
    """Gives a folder of ours that is there the mode 0700. One of another user, or that cannot be changed, stays as it is."""
    with contextlib.suppress(OSError):
        found = os.stat(folder)
        if found.st_uid == os.geteuid() and found.st_mode & 0o077:
            os.chmod(folder, stat.S_IMODE(found.st_mode) & 0o700)
