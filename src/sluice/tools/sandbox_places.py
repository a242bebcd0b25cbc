"""What a sandboxed command may see and write (P8): which places are hidden, and what stays as it is in the workspace.

Only looks at the file system; `tools/bubblewrap.py` makes mounts of it.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sluice.errors import SluiceError

_HIDDEN = ("/home", "/root", "/run", "/tmp", "/var/tmp", "/var/spool", "/var/mail", "/var/lib/docker", "/mnt", "/media")  # noqa: S108 - hidden, not used
_KEY_FILES = (
    *("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers", "/etc/krb5.keytab"),
    *("/etc/ssl/private", "/etc/sudoers.d", "/etc/kubernetes", "/etc/wireguard", "/etc/NetworkManager"),
)
_KEY_FOLDERS = ("/etc/ssh",)  # files in these whose names end in `_key`
# Below the home folder: programs and libraries, no keys. Without them many a compiler or interpreter is not to be found.
_TOOLCHAINS = (
    *(".pyenv", ".rbenv", ".nodenv", ".goenv", ".asdf", ".nvm", ".volta", ".rustup", ".cargo/bin", ".ghcup", ".sdkman"),
    *(
        ".juliaup",
        ".bun/bin",
        ".deno/bin",
        "go/bin",
        ".local/bin",
        ".local/lib",
        ".local/share/uv",
        ".local/share/mise",
    ),
    *("miniconda3", "anaconda3", "miniforge3"),
)
# Below the home folder: keys and sessions, hidden also where the workspace is the home folder itself.
_SECRETS = (
    *(".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".netrc", ".git-credentials", ".pgpass", ".my.cnf"),
    *(".npmrc", ".pypirc", ".config/gcloud", ".config/gh", ".config/hub", ".config/git/credentials", ".config/sluice"),
    *(".password-store", ".local/share/keyrings", ".local/state/sluice", ".cargo/credentials.toml", ".vault-token"),
    *(".mozilla", ".config/google-chrome", ".config/chromium", ".thunderbird", ".bash_history", ".zsh_history"),
)
_MAX_FOLDERS = 2000  # folders of the workspace that are searched for repositories before each command: about 20 ms
_MAX_REPOSITORIES = 64  # each costs a handful of mounts
_MAX_SOCKETS = 256
_REPOSITORY = frozenset({"HEAD", "objects", "refs"})  # what makes git take any folder for a repository


class UnprotectableError(SluiceError):
    """Something in the workspace has a form in which it cannot be protected. The message names it."""


@dataclass
class Places:
    """The places of one command. Folders and files are absolute and without symbolic links.

    `pinned` are folders that cannot be renamed away with what is protected in them; `read_only` exist; `absent` do not, and
    must not come to be.
    """

    workspace: str
    hidden: list[str] = field(default_factory=list)
    readable: list[str] = field(default_factory=list)
    pinned: list[str] = field(default_factory=list)
    read_only: list[str] = field(default_factory=list)
    absent: list[str] = field(default_factory=list)
    repositories: dict[str, tuple[int, int]] = field(default_factory=dict)
    complete: bool = True


def find_places(workspace: str, private: Sequence[str], environ: Mapping[str, str]) -> Places:
    """The places for a command in `workspace` (absolute, resolved) that may not see `private`.

    Raises `UnprotectableError`: for `/` as workspace, and for links in place of git's or our own files.
    """
    if workspace == "/":
        raise UnprotectableError("the workspace is the root folder, in which nothing can be hidden")
    places = Places(workspace)
    home = os.path.realpath(environ.get("HOME") or os.path.expanduser("~"))
    temp = environ.get("TMPDIR", "")
    wanted = [*_HIDDEN, *_KEY_FILES, *private, home, _login_home(), *([temp] if temp[:1] == "/" else [])]
    for folder in _KEY_FOLDERS:
        with contextlib.suppress(OSError):
            wanted += [f"{folder}/{name}" for name in os.listdir(folder) if name.endswith("_key")]
    hidden = {os.path.realpath(path) for path in wanted if os.path.lexists(path)}
    if workspace == home or home.startswith(workspace + "/"):
        hidden |= {os.path.realpath(f"{home}/{name}") for name in _SECRETS if os.path.lexists(f"{home}/{name}")}
    hidden |= set(_sockets())
    places.hidden = sorted(path for path in hidden if path not in (workspace, "/"))
    homes = {home, os.path.realpath(_login_home())} - {workspace, "/"}
    places.readable = [f"{own}/{name}" for own in homes for name in _TOOLCHAINS if os.path.isdir(f"{own}/{name}")]
    places.repositories, places.complete = find_repositories(workspace)
    _protect(places)
    return places


def find_repositories(workspace: str) -> tuple[dict[str, tuple[int, int]], bool]:
    """What git would take for a repository in the workspace, by path, with its device and inode; and whether that is all.

    Found are `.git` (a folder or a file), bare repositories, and those kept for submodules and worktrees inside one.
    """
    found: dict[str, tuple[int, int]] = {}
    waiting = [workspace]
    looked_at = 0
    while waiting:
        folder = waiting.pop()
        looked_at += 1
        if looked_at > _MAX_FOLDERS or len(found) > _MAX_REPOSITORIES:
            return found, False
        names: set[str] = set()
        with contextlib.suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                names.add(entry.name)
                if entry.name.lower() == ".git":
                    found[entry.path] = _identity(entry.path)
                    waiting += [f"{entry.path}/modules", f"{entry.path}/worktrees"]
                elif entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)
        if names >= _REPOSITORY:
            found[folder] = _identity(folder)
        if "commondir" in names:  # sends git elsewhere for its configuration
            found[f"{folder}/commondir"] = _identity(f"{folder}/commondir")
    return found, True


def planted(before: Places) -> list[str]:
    """Repositories that are new, or other than before, relative to the workspace: what a command may have planted."""
    after, _complete = find_repositories(before.workspace)
    for path in before.repositories:  # `commondir` in a repository that had none is never git's own doing
        extra = f"{path}/commondir"
        if extra not in before.repositories and os.path.lexists(extra):
            after[extra] = (-1, -1)
    changed = [path for path, identity in after.items() if before.repositories.get(path) != identity]
    return sorted(os.path.relpath(path, before.workspace) for path in changed if path not in before.absent)


def _login_home() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_dir or "/"
    except KeyError:  # a user without an entry, as containers have
        return "/"


def _protect(places: Places) -> None:
    root = places.workspace
    repositories = dict.fromkeys((f"{root}/.git", *places.repositories))
    for path in repositories:
        kind = _kind(path)
        if kind == "link":
            raise UnprotectableError(f"{path} is a symbolic link and cannot be protected")
        if kind == "nothing":
            places.absent.append(path)
            continue
        _pin_parents(places, path)
        if kind == "file" or not os.listdir(path):
            places.read_only.append(path)
            continue
        if path != root:
            places.pinned.append(path)
        _protect_in(places, path, ("config", "hooks"), ("config.worktree", "commondir"))
    _protect_in(places, root, (".sluice",), ())
    for names in (places.pinned, places.read_only, places.absent):
        names[:] = sorted(set(names))


def _protect_in(places: Places, folder: str, always: Sequence[str], if_there: Sequence[str]) -> None:
    """Adds what must stay as it is in a folder. A file that is not there cannot be held: it would have to be made."""
    for name in (*always, *if_there):
        path = f"{folder}/{name}"
        kind = _kind(path)
        if kind == "link":
            raise UnprotectableError(f"{path} is a symbolic link and cannot be protected")
        if kind != "nothing":
            places.read_only.append(path)
        elif name in always:
            places.absent.append(path)


def _pin_parents(places: Places, path: str) -> None:
    parent = os.path.dirname(path)
    while len(parent) > len(places.workspace):
        places.pinned.append(parent)
        parent = os.path.dirname(parent)


def _kind(path: str) -> str:
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return "nothing"
    if stat.S_ISLNK(mode):
        return "link"
    return "folder" if stat.S_ISDIR(mode) else "file"


def _identity(path: str) -> tuple[int, int]:
    try:
        status = os.lstat(path)
    except OSError:
        return (0, 0)
    return (status.st_dev, status.st_ino)


def _sockets() -> list[str]:
    """Sockets with a place in the file system: whoever sees one can talk to the service behind it."""
    try:
        with open("/proc/net/unix", encoding="utf-8", errors="surrogateescape") as file:
            paths = {line.split(maxsplit=7)[7].rstrip("\n") for line in file if line.count(" /")}
    except (OSError, IndexError):
        return []
    there = sorted(os.path.realpath(path) for path in paths if path.startswith("/") and os.path.exists(path))
    return there[:_MAX_SOCKETS]
