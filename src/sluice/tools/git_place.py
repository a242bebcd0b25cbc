"""Which repository a workspace belongs to, found and judged without asking git (P9).

Only the plain form is taken: a folder `.git` at the top of the work tree. A `.git` that is a file or a link names
another place, which a hostile archive can choose freely, so linked work trees and submodules are refused by name.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass

from sluice.tools.relative_path import visible

_MAX_LINKS_LOOKED_AT = 200_000  # entries below refs and logs; more than any repository that a tool could use in time


class GitProblem(Exception):
    """Why git could not do what was asked, as a code and one line that a model can act on.

    Codes of this module: `not_a_repository`, `bare_repository`, `linked_repository`, `foreign_repository`,
    `broken_repository`, `link_in_repository`. Others are told where they are raised.
    """

    def __init__(self, code: str, message: str, path: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.path = path


@dataclass(frozen=True)
class Place:
    """A repository: `top` of its work tree, its `git` folder, and the workspace's `prefix` below `top` (`""` or `"a/"`)."""

    top: str
    git: str
    prefix: bytes


def find_place(workspace: str) -> Place:
    """The repository around the absolute path `workspace`. Raises `GitProblem`.

    The search goes up as git's does: to the root, but not onto another file system. Above the workspace only a
    repository of this very user is taken.
    """
    try:
        device = os.stat(workspace).st_dev
        for folder in _upwards(workspace):
            found = os.stat(folder)
            if found.st_dev != device:
                break
            git = os.path.join(folder, ".git")
            try:
                kind = os.lstat(git)
            except (FileNotFoundError, NotADirectoryError):
                if _looks_bare(folder):
                    raise GitProblem(
                        "bare_repository", "the workspace lies in a repository without a work tree"
                    ) from None
                continue
            _judge(kind, git)
            if folder != workspace and not found.st_uid == kind.st_uid == os.geteuid():
                message = f"the repository {visible(folder)} around the workspace belongs to another user"
                raise GitProblem("foreign_repository", message)
            prefix = os.fsencode(os.path.relpath(workspace, folder))
            return Place(folder, git, b"" if prefix == b"." else prefix + b"/")
    except OSError as error:
        raise GitProblem("broken_repository", f"the repository cannot be read: {error.strerror}") from None
    raise GitProblem("not_a_repository", "the workspace lies in no git repository; a person can make one with git init")


def refuse_links(place: Place) -> None:
    """Raises `GitProblem` (`link_in_repository`) if writing to the repository would write somewhere else.

    git follows links inside its own folder: an archive could bring `.git/logs/HEAD` as a link to a start-up file, and a
    commit would append to that. Files that git appends to or truncates must have one name only, too.
    """
    for name in (
        "HEAD",
        "index",
        "packed-refs",
        "objects",
        "objects/info",
        "objects/pack",
        "refs",
        "logs",
        "COMMIT_EDITMSG",
    ):
        _refuse_link(place, name)
    for number in range(256):
        _refuse_link(place, f"objects/{number:02x}")
    seen = 0
    for folder in ("refs", "logs"):
        for below, folders, files in os.walk(os.path.join(place.git, folder)):
            for name in folders + files:
                seen += 1
                if seen > _MAX_LINKS_LOOKED_AT:
                    raise GitProblem("broken_repository", "the repository has too many refs to be looked through")
                _refuse_link(place, os.path.relpath(os.path.join(below, name), place.git))


def _refuse_link(place: Place, name: str) -> None:
    try:
        found = os.lstat(os.path.join(place.git, name))
    except FileNotFoundError:
        return
    appended = name == "COMMIT_EDITMSG" or name.startswith("logs/")
    several_names = appended and stat.S_ISREG(found.st_mode) and found.st_nlink > 1
    if several_names or not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
        shown = visible(f".git/{name}")
        raise GitProblem("link_in_repository", f"{shown} is a link or no plain file; git would write elsewhere", shown)


def _upwards(folder: str) -> Iterator[str]:
    while True:
        yield folder
        parent = os.path.dirname(folder)
        if parent == folder:
            return
        folder = parent


def _looks_bare(folder: str) -> bool:
    return os.path.isfile(os.path.join(folder, "HEAD")) and all(
        os.path.isdir(os.path.join(folder, name)) for name in ("objects", "refs")
    )


def _judge(kind: os.stat_result, git: str) -> None:
    if not stat.S_ISDIR(kind.st_mode):
        message = "the workspace's .git is a file or link that names another folder (a linked work tree or submodule)"
        raise GitProblem("linked_repository", f"{message}; git tools work only where .git is a folder", ".git")
    if os.path.lexists(os.path.join(git, "commondir")):
        raise GitProblem("linked_repository", "the repository's files lie in another folder (.git/commondir)", ".git")
    for name in ("HEAD", "objects", "refs"):
        if not os.path.lexists(os.path.join(git, name)):
            raise GitProblem(
                "broken_repository", f"the repository is incomplete: there is no .git/{name}", f".git/{name}"
            )
