"""Files that no file tool writes, because another program will obey them later.

A path is compared by what any file system might take it for: case folded, characters that file systems ignore dropped,
trailing dots and spaces dropped, NTFS streams and short names seen through. Existing or not makes no difference.

Not protected, on purpose: build files (`Makefile`, `setup.cfg`, …), version pins and instruction files (`AGENTS.md`). To
change those is ordinary work that the approval of a mutating call covers, and running them needs an approval of its own.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Iterable
from typing import Literal

import msgspec

Group = Literal["git", "sluice", "shell", "editor", "agent", "ci", "packages", "startup"]

NEVER_ALLOWED: frozenset[Group] = frozenset({"git", "sluice"})
"""Groups that no rule opens: git's own files are code for the next git command, and ours hold the rules themselves."""


class Protection(msgspec.Struct, frozen=True):
    """Why a path is protected: its group, and the protected name that it matched."""

    group: Group
    name: str


# Unicode's Default_Ignorable_Code_Point: HFS+ and case-folding ext4 have compared names without (many of) them.
_IGNORABLE_RANGES = (
    (0x00AD, 0x00AD),
    (0x034F, 0x034F),
    (0x061C, 0x061C),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x200B, 0x200F),
    (0x202A, 0x202E),
    (0x2060, 0x206F),
    (0x3164, 0x3164),
    (0xFE00, 0xFE0F),
    (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0),
    (0xFFF0, 0xFFF8),
    (0x1BCA0, 0x1BCA3),
    (0x1D173, 0x1D17A),
    (0xE0000, 0xE0FFF),
)

# Names are components, joined by "/", that match anywhere in the path together with all that lies under them.
_NAMES: dict[Group, tuple[str, ...]] = {
    "git": (".git", ".gitmodules", ".gitconfig", ".config/git"),
    "sluice": (
        ".sluice",
        ".config/sluice",
        ".local/share/sluice",
        ".local/state/sluice",
        ".cache/sluice",
        "library/application support/sluice",
        "library/preferences/sluice",
        "library/caches/sluice",
    ),
    "shell": (
        ".bashrc",
        ".bash_profile",
        ".bash_login",
        ".bash_logout",
        ".bash_aliases",
        ".profile",
        ".zshrc",
        ".zshenv",
        ".zprofile",
        ".zlogin",
        ".zlogout",
        ".kshrc",
        ".cshrc",
        ".tcshrc",
        ".login",
        ".inputrc",
        ".envrc",
        ".config/fish",
        ".config/direnv",
    ),
    "editor": (
        ".vscode",
        ".idea",
        ".fleet",
        ".zed",
        ".vs",
        ".vimrc",
        ".exrc",
        ".nvimrc",
        ".vim",
        ".config/nvim",
        ".emacs",
        ".emacs.d",
        ".dir-locals.el",
        ".devcontainer",
        ".devcontainer.json",
    ),
    "agent": (
        ".mcp.json",
        "mcp.json",
        ".claude/agents",
        ".claude/commands",
        ".claude/hooks",
        ".claude/plugins",
        ".claude/settings.json",
        ".claude/settings.local.json",
        ".claude/skills",
        ".claude.json",
        ".codex",
        ".cursor",
        ".cursorrules",
        ".gemini",
        ".windsurf",
        ".continue",
        ".roo",
        ".cline",
        ".amazonq",
        ".opencode",
        "opencode.json",
        ".aider.conf.yml",
        ".goose",
    ),
    "ci": (
        ".github/workflows",
        ".github/actions",
        ".gitlab-ci.yml",
        ".circleci",
        ".travis.yml",
        ".woodpecker.yml",
        ".woodpecker",
        ".drone.yml",
        "azure-pipelines.yml",
        "bitbucket-pipelines.yml",
        "jenkinsfile",
        ".pre-commit-config.yaml",
        ".husky",
        ".lefthook.yml",
        "lefthook.yml",
    ),
    "packages": (
        ".npmrc",
        ".yarnrc",
        ".yarnrc.yml",
        ".pnpmfile.cjs",
        ".pypirc",
        ".pip",
        ".config/pip",
        ".cargo/config",
        ".cargo/config.toml",
        ".ripgreprc",
        "sitecustomize.py",
        "usercustomize.py",
        ".pythonrc",
        ".pythonstartup",
    ),
    "startup": (
        ".ssh",
        ".gnupg",
        ".aws",
        ".netrc",
        ".config/autostart",
        ".config/systemd",
        "library/launchagents",
        ".pam_environment",
        ".xinitrc",
        ".xprofile",
        ".xsession",
        ".xsessionrc",
        ".gdbinit",
        ".lldbinit",
        ".tmux.conf",
        ".screenrc",
    ),
}

_SHORT_NAME = re.compile(r"git~\d+|gi[0-9a-f]{4}~\d+|gitmod~\d+|gitcon~\d+")
_OUR_SHORT_NAME = re.compile(r"sluice~\d+")
_SEPARATORS = re.compile(r"[/\\]")


@functools.cache
def _ignored() -> dict[int, None]:
    return {code: None for first, last in _IGNORABLE_RANGES for code in range(first, last + 1)}


@functools.cache
def _by_last_name() -> dict[str, list[tuple[tuple[str, ...], Group, str]]]:
    index: dict[str, list[tuple[tuple[str, ...], Group, str]]] = {}
    for group, names in _NAMES.items():
        for name in names:
            parts = tuple(name.split("/"))
            index.setdefault(parts[-1], []).append((parts, group, name))
    return index


def folded(component: str) -> str:
    """The one spelling under which all spellings of a file name meet that some file system takes for the same file."""
    if component.isascii():
        text = component.lower()
    else:
        text = unicodedata.normalize("NFKC", component.translate(_ignored()))
        text = unicodedata.normalize("NFKC", text.casefold()).translate(_ignored())
    # NTFS: what follows a colon names a stream of the same file.
    if ":" in text[1:]:
        text = text[: text.index(":", 1)]
    return text.rstrip(" .\t")


def folded_parts(path: str) -> tuple[str, ...]:
    """The folded components of a path; a backslash separates too, as it does for a client on another system."""
    return tuple(part for part in map(folded, _SEPARATORS.split(path)) if part)


def is_private(path: str, private: Iterable[tuple[str, ...]]) -> bool:
    """Whether relative `path` is one of the places with these folded components, or lies in one."""
    parts = folded_parts(path)
    return any(parts[: len(own)] == own for own in private if own)


def protection(path: str, private: Iterable[tuple[str, ...]] = ()) -> Protection | None:
    """What protects relative `path` from being written, or None. Touches no file.

    `private` holds folded components of further places that are ours (state and configuration inside the workspace).
    """
    parts = folded_parts(path)
    for own in private:
        if own and parts[: len(own)] == own:
            return Protection("sluice", "/".join(own))
    last = len(parts) - 1
    for at, part in enumerate(parts):
        # A bare repository goes by `name.git/`; its config and hooks are as dangerous as those in `.git`.
        if _SHORT_NAME.fullmatch(part) or (part.endswith(".git") and at < last):
            return Protection("git", ".git")
        if _OUR_SHORT_NAME.fullmatch(part):
            return Protection("sluice", ".sluice")
        for name, group, spelled in _by_last_name().get(part, ()):
            if at + 1 >= len(name) and parts[at + 1 - len(name) : at + 1] == name:
                return Protection(group, spelled)
    return None
