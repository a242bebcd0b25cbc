"""Paths as a person knows them: what lies in the home folder begins with `~`."""

from __future__ import annotations

import os


def from_home(path: str) -> str:
    """An absolute path with `~` for the home folder, also where that is a link; any other text unchanged."""
    home = os.path.expanduser("~")
    for one in (home, os.path.realpath(home)):
        if os.path.isabs(one) and one != os.sep and (path == one or path.startswith(one.rstrip(os.sep) + os.sep)):
            return "~" + path[len(one.rstrip(os.sep)) :]
    return path
