"""The settings that git sees: only those of a list, with values that cannot name a program or another place (P9).

A repository's own configuration can run code in dozens of ways (monitors, filters, diff drivers, hooks, pagers, signing
programs), with new ones in every release. So nothing is switched off by name: git never reads that file, and what is
harmless and needed is copied into one that we write.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping

from sluice.tools.git_place import GitProblem

Settings = dict[str, list[str]]
"""Full names of settings (section and last part in small letters) with all their values, in order."""

_MAX_SETTINGS = 2000  # copied of branches and remotes; a repository with more loses only what it is ahead and behind

_TRUTH = re.compile(r"true|false|yes|no|on|off|0|1", re.IGNORECASE)
_PLAIN = re.compile(r"[^\x00-\x1f\x7f]{1,1000}")
_FROM_REPOSITORY: Mapping[str, re.Pattern[str]] = {
    "core.repositoryformatversion": re.compile(r"[01]"),
    "extensions.objectformat": re.compile(r"sha1|sha256", re.IGNORECASE),
    "core.filemode": _TRUTH,
    "core.ignorecase": _TRUTH,
    "core.symlinks": _TRUTH,
    "core.precomposeunicode": _TRUTH,
    "core.sparsecheckout": _TRUTH,
    "core.sparsecheckoutcone": _TRUTH,
    "core.autocrlf": re.compile(f"input|{_TRUTH.pattern}", re.IGNORECASE),
    "core.eol": re.compile(r"lf|crlf|native", re.IGNORECASE),
    "user.name": _PLAIN,
    "user.email": _PLAIN,
}
FROM_USER = ("core.autocrlf", "core.eol", "core.excludesfile", "core.attributesfile", "user.name", "user.email")
"""What is taken from the user's and the system's own configuration."""

_TRACKING = re.compile(r"(branch\.[^\x00-\x1f\x7f]+\.(remote|merge))|(remote\.[^\x00-\x1f\x7f]+\.fetch)")
_UNDERSTOOD_EXTENSIONS = frozenset(
    {"objectformat", "partialclone", "worktreeconfig", "preciousobjects", "noop", "relativeworktrees"}
)
_OURS: Mapping[str, str] = {
    "core.bare": "false",
    "diff.autorefreshindex": "false",  # a diff would write the index, optional locks or not
    "gc.auto": "0",  # a commit would start a process that works on after it
}


def parse(listing: bytes) -> Settings:
    """The settings in the output of `git config --list -z`."""
    found: Settings = {}
    for entry in listing.split(b"\0"):
        name, has_value, value = entry.decode("utf-8", "surrogateescape").partition("\n")
        if name:
            found.setdefault(name, []).append(value if has_value else "true")
    return found


def kept(repository: Settings, user: Settings) -> Settings:
    """What git may see of both. Raises `GitProblem` for a repository of a form that would be misread.

    Codes: `bare_repository`, `unsupported_repository`.
    """
    for name in repository:
        extension = name.removeprefix("extensions.")
        files = extension == "refstorage" and repository[name][-1].lower() == "files"
        if extension != name and extension not in _UNDERSTOOD_EXTENSIONS and not files:
            raise GitProblem("unsupported_repository", f"the repository uses git's extension {extension[:64]!r}")
    if repository.get("core.bare", ["false"])[-1].lower() in ("true", "yes", "on", "1"):
        raise GitProblem("bare_repository", "the repository says that it has no work tree (core.bare)")
    if "core.worktree" in repository:
        message = "the repository names another folder as its work tree (core.worktree)"
        raise GitProblem("unsupported_repository", message)
    out: Settings = {}
    for name in FROM_USER:
        value = user.get(name, [""])[-1]
        if name.endswith("file"):
            value = os.path.expanduser(value)
            if not value.startswith("/"):
                continue
        if _PLAIN.fullmatch(value):
            out[name] = [value]
    for name, pattern in _FROM_REPOSITORY.items():
        value = repository.get(name, [""])[-1]
        if pattern.fullmatch(value):
            out[name] = [value]
    for name, values in repository.items():
        if _TRACKING.fullmatch(name) and len(out) < _MAX_SETTINGS:
            out[name] = [value for value in values if _PLAIN.fullmatch(value)]
    out.update((name, [value]) for name, value in _OURS.items())
    return out


def filters(repository: Settings) -> tuple[str, ...]:
    """Names of the filters that the repository's own settings would run on its files, sorted."""
    names = (re.fullmatch(r"filter\.(.+)\.(clean|smudge|process)", name, re.DOTALL) for name in repository)
    return tuple(sorted({found[1] for found in names if found}))


def text(settings: Settings) -> str:
    """The settings as the text of a configuration file."""
    lines: list[str] = []
    for name, values in settings.items():
        section, _, rest = name.partition(".")
        subsection, _, key = rest.rpartition(".")
        lines.append(f'[{section} "{_escaped(subsection)}"]' if subsection else f"[{section}]")
        lines.extend(f'\t{key} = "{_escaped(value)}"' for value in values)
    return "\n".join([*lines, ""])


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"')


def identity(settings: Settings) -> tuple[str, str] | None:
    """Name and address for a commit, if both are known."""
    name, address = (_one(settings.get(key, ())) for key in ("user.name", "user.email"))
    return (name, address) if name and address else None


def _one(values: Iterable[str]) -> str:
    return next(iter(values), "").strip()
