"""The system prompt: words from `prompt.md`, facts of this run filled in."""

from __future__ import annotations

import os
import platform
import re
import stat
from collections.abc import Sequence
from datetime import date
from importlib.resources import files
from pathlib import Path

from sluice.errors import ConfigurationError

_MAX_BYTES = 256 * 1024
_HEAD_BYTES = 512  # of .git/HEAD; a branch name is far shorter
_BRANCH = re.compile(r"ref: refs/heads/([\w./-]{1,200})\s*\Z")


def system_prompt(
    *, workspace: str, today: date, blocked: Sequence[str], file: str | None = None, commands: str = ""
) -> str:
    """The system text of a run. `file` replaces our own words as they stand, nothing filled in.

    `blocked` holds words such as `changing files (--allow-mutating-tools)`, `commands` says what they run in, if any can.
    Raises `ConfigurationError` for a file that
    cannot be read, is no UTF-8, or is larger than 256 KiB.
    """
    if file is not None:
        return _own(file)
    text = files("sluice.run").joinpath("prompt.md").read_text("utf-8")
    facts = {
        "date": today.isoformat(),
        "system": f"{platform.system()} {platform.machine()}",
        "workspace": workspace,
        "git": git_state(Path(workspace)),
        "commands": commands or "not in this run",
        "blocked": "; ".join(blocked) if blocked else "nothing",
    }
    return re.sub(r"\{(\w+)\}", lambda m: facts.get(m[1], m[0]), text)


def git_state(workspace: Path) -> str:
    """The branch by name, read from `.git/HEAD` without running git (which would run what the repository configures)."""
    try:
        # What is there comes with the workspace: a pipe must not hold us up, nor a link lead to a device.
        fd = os.open(workspace / ".git" / "HEAD", os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except NotADirectoryError:
        return "a linked worktree or submodule"
    except OSError:
        return "not a git repository"
    with open(fd, "rb") as file:
        head = file.read(_HEAD_BYTES) if stat.S_ISREG(os.fstat(fd).st_mode) else b""
    branch = _BRANCH.match(head.decode("utf-8", "replace"))
    return f"on branch {branch[1]}" if branch else "a repository with a detached HEAD"


def _own(file: str) -> str:
    try:
        with Path(file).open("rb") as opened:
            raw = opened.read(_MAX_BYTES + 1)
        if len(raw) > _MAX_BYTES:
            raise ConfigurationError(f"--system-prompt-file {file!r} is larger than {_MAX_BYTES} bytes")
        return raw.decode("utf-8")
    except OSError as error:
        raise ConfigurationError(f"--system-prompt-file {file!r} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise ConfigurationError(f"--system-prompt-file {file!r} is no UTF-8 text") from None
