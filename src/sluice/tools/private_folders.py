"""The private folders of one session's commands: their temp and, where the real one is hidden, their home (P8)."""

from __future__ import annotations

import contextlib
import os
import tempfile


def make_private_folders() -> str:
    """A new folder with `temp` and `home` in it, all of mode 0700."""
    folder = tempfile.mkdtemp(prefix="sluice-box-")
    os.mkdir(f"{folder}/temp", 0o700)
    os.mkdir(f"{folder}/home", 0o700)
    return folder


def remove_folder(folder: str) -> None:
    """Removes a folder whatever lies in it: each inner folder is first moved up, so depth needs neither stack nor path."""
    moved = 0
    waiting = [folder]
    with contextlib.suppress(OSError):
        os.chmod(folder, 0o700)
    while waiting:
        current = waiting.pop()
        with contextlib.suppress(OSError), os.scandir(current) as entries:
            for entry in list(entries):
                with contextlib.suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        moved += 1
                        os.chmod(entry.path, 0o700)  # a command may have closed it, and then it cannot be moved
                        os.rename(entry.path, f"{folder}.{moved}")
                        waiting.append(f"{folder}.{moved}")
                    else:
                        os.unlink(entry.path)
        with contextlib.suppress(OSError):
            os.rmdir(current)
