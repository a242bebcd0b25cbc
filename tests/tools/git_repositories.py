"""Repositories for tests, made by plain git, and a program that only leaves a mark when somebody runs it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

GIT = "/usr/bin/git"


def plain_git(root: Path, *words: str, check: bool = True, said: bytes = b"", **environment: str) -> str:
    """Runs git as a user would, with the repository's settings in force; `said` is its input."""
    base = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    who = {
        f"GIT_{r}_{w}": v for r in ("AUTHOR", "COMMITTER") for w, v in (("NAME", "Ann"), ("EMAIL", "ann@example.com"))
    }
    ended = subprocess.run(
        [GIT, *words],
        cwd=root,
        env={**base, **who, **environment},
        input=said,
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert not check or ended.returncode == 0, (words, ended.stderr)
    return ended.stdout.decode("utf-8", "surrogateescape")


def make_repository(root: Path, **files: str) -> None:
    """A repository on branch `main` with one commit of these files (`a_txt` stands for `a.txt`) and a known author."""
    root.mkdir(parents=True, exist_ok=True)
    plain_git(root, "init", "--quiet", "--initial-branch=main", ".")
    plain_git(root, "config", "user.name", "Ann")
    plain_git(root, "config", "user.email", "ann@example.com")
    for name, text in (files or {"f_txt": "one\n"}).items():
        path = root / name.replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    plain_git(root, "add", ".")
    plain_git(root, "commit", "--quiet", "--message=first")


def git_at_a_terminal(root: Path, *words: str) -> None:
    """Runs git with a terminal as its output, as pagers want."""
    ours, its = os.openpty()
    try:
        subprocess.run(
            [GIT, *words], cwd=root, stdin=subprocess.DEVNULL, stdout=its, stderr=its, timeout=30, check=False
        )
    finally:
        os.close(ours)
        os.close(its)


class Evil:
    """A program outside the workspace that leaves a mark; `ran()` tells whether it did, once."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.mark = folder / "mark"
        self.path = folder / "evil"
        self.path.write_text(f'#!/bin/sh\necho ran >> "{self.mark}"\nexit 0\n')
        self.path.chmod(0o755)

    def __str__(self) -> str:
        return str(self.path)

    def copy_to(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.path.read_bytes())
        path.chmod(0o755)

    def ran(self) -> bool:
        found = self.mark.exists()
        self.mark.unlink(missing_ok=True)
        return found


def touch(path: Path, seconds: int = 100) -> None:
    """Gives a file another time with the same bytes, so that git must read it again."""
    os.utime(path, (path.stat().st_atime, path.stat().st_mtime - seconds))
