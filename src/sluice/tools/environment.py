"""What a command is told of its surroundings: an environment by an allow-list (P7)."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

TREE_MARK = "COMMAND_TREE"
"""The variable whose value every process of one command inherits, by which survivors in other sessions are found."""

_KEPT = ("HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR")
_STANDARD_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
_NEVER_STARTS = ("SLUICE_", "NCA_", "GIT_", "LD_", "DYLD_", "PYTHON", "BASH_", "RIPGREP_")
_NEVER_ENDS = ("_KEY", "_TOKEN", "_SECRET", "_PASSWORD", "_CREDENTIALS")
_NEVER = frozenset({"ENV", "IFS", "PS4", "SHELLOPTS", "BASHOPTS", "PROMPT_COMMAND", "CDPATH", "GLOBIGNORE", TREE_MARK})


def environment(source: Mapping[str, str] | None = None, extra: Sequence[str] = ()) -> dict[str, str]:
    """The environment of a command, taken from `source` (default: our own) by an allow-list.

    Kept: who and where the user is, language, time zone, and `extra` names the user asked for. Never kept, whoever asks:
    keys and tokens, our own settings, and names by which a shell, git, Python or the loader runs other code. `PATH` is the
    user's own without relative entries (those would name programs of the workspace), with the standard folders at its end.
    `HOME` is the real one, so that compilers and package tools find their caches.
    """
    own = os.environ if source is None else source
    kept = {name: own[name] for name in (*_KEPT, *extra) if name in own and not _is_never(name)}
    kept.update((name, value) for name, value in own.items() if name.startswith("LC_") and not _is_never(name))
    folders = [folder for folder in own.get("PATH", "").split(":") if folder.startswith("/")]
    kept["PATH"] = ":".join(dict.fromkeys((*folders, *_STANDARD_PATH)))
    kept["TERM"] = "dumb"  # no colours and no cursor games in what a model reads
    kept["PAGER"] = "cat"
    return kept


def _is_never(name: str) -> bool:
    upper = name.upper()
    return upper in _NEVER or upper.startswith(_NEVER_STARTS) or upper.endswith(_NEVER_ENDS)
