"""`git_commit`: the id of what was recorded, or why nothing was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from git_repositories import make_repository, plain_git

from sluice.tools import git_commit
from sluice.tools.workspace import Workspace

pytestmark = pytest.mark.parametrize("bench", ["openat2"], indirect=True)


def stage(root: Path, name: str = "n.txt", text: str = "new\n") -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)
    plain_git(root, "add", name)


def head(root: Path) -> str:
    return plain_git(root, "rev-parse", "--verify", "--quiet", "HEAD", check=False).strip()


def test_a_commit_is_made_and_named(bench: Any) -> None:
    make_repository(bench.root)
    stage(bench.root)
    before = head(bench.root)
    result = bench.call(git_commit, message="Add n\n\n# not a comment\n--amend")
    assert result.ok
    assert result.facts == {"commit": head(bench.root), "branch": "main", "total": 1, "files": ["n.txt"]}
    assert result.content == f"committed {head(bench.root)} on main: 1 file"
    assert plain_git(bench.root, "log", "-1", "--format=%P|%an <%ae>|%B").strip() == (
        f"{before}|Ann <ann@example.com>|Add n\n\n# not a comment\n--amend"
    )
    assert "commit: Add n" in (bench.root / ".git/logs/HEAD").read_text()
    assert plain_git(bench.root, "status", "--porcelain", "--untracked-files=no") == ""


def test_the_first_commit_of_a_repository(bench: Any) -> None:
    plain_git(bench.root, "init", "--quiet", "--initial-branch=trunk", ".")
    plain_git(bench.root, "config", "user.name", "Ann")
    plain_git(bench.root, "config", "user.email", "ann@example.com")
    stage(bench.root)
    result = bench.call(git_commit, message="first")
    assert (result.ok, result.facts["branch"], result.facts["commit"]) == (True, "trunk", head(bench.root))
    assert (bench.root / ".git/logs/refs/heads/trunk").is_file()
    plain_git(bench.root, "checkout", "--quiet", "--detach")
    stage(bench.root, text="again\n")
    result = bench.call(git_commit, message="second")
    assert (result.facts["branch"], result.content.endswith("on no branch (detached HEAD): 1 file")) == (None, True)


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("", "empty_message"),
        (" \n\t\n", "empty_message"),
        ("a\0b", "nul_in_message"),
        ("\ud800", "not_utf8"),
        ("x" * 10**7, "message_too_long"),
    ],
)
def test_messages_that_cannot_be_one(bench: Any, message: str, code: str) -> None:
    make_repository(bench.root)
    stage(bench.root)
    before = head(bench.root)
    result = bench.call(git_commit, message=message)
    assert (result.ok, result.error.code, result.error.path) == (False, code, "$.message")
    assert head(bench.root) == before


def test_nothing_staged(bench: Any) -> None:
    make_repository(bench.root)
    (bench.root / "f.txt").write_text("changed, not staged\n")
    before = head(bench.root)
    result = bench.call(git_commit, message="x")
    assert (result.ok, result.error.code, result.failure) == (False, "nothing_staged", "needs_inspection")
    assert head(bench.root) == before


def test_what_is_staged_outside_the_workspace_is_not_committed(bench: Any) -> None:
    make_repository(bench.root)
    stage(bench.root, "sub/in.txt")
    stage(bench.root, "out.txt")
    before = head(bench.root)
    bench.workspace.close()
    bench.context.workspace = bench.workspace = Workspace(str(bench.root / "sub"))
    result = bench.call(git_commit, message="x")
    assert (result.ok, result.error.code, result.error.path) == (False, "staged_outside", "out.txt")
    assert head(bench.root) == before
    plain_git(bench.root, "reset", "--quiet", "out.txt")
    assert bench.call(git_commit, message="x").facts["files"] == ["in.txt"]


def test_a_rename_into_the_workspace_is_two_paths_of_which_one_is_outside(bench: Any) -> None:
    make_repository(bench.root, out_txt="text\n" * 20)
    (bench.root / "sub").mkdir()
    plain_git(bench.root, "mv", "out.txt", "sub/in.txt")
    bench.workspace.close()
    bench.context.workspace = bench.workspace = Workspace(str(bench.root / "sub"))
    assert bench.call(git_commit, message="x").error.code == "staged_outside"


def test_a_rename_out_of_the_workspace_is_seen(bench: Any) -> None:
    make_repository(bench.root, **{"sub/in.txt": "text\n" * 20})
    plain_git(bench.root, "mv", "sub/in.txt", "z.txt")
    (bench.root / "sub").mkdir(exist_ok=True)
    bench.workspace.close()
    bench.context.workspace = bench.workspace = Workspace(str(bench.root / "sub"))
    result = bench.call(git_commit, message="x")
    assert (result.error.code, result.error.path) == ("staged_outside", "z.txt")


def test_no_collection_of_garbage_is_started(bench: Any) -> None:
    make_repository(bench.root)
    loose = bench.root / ".git/objects/17"
    loose.mkdir(exist_ok=True)
    for number in range(60):  # so many in one folder let git believe in more than 6,700
        (loose / f"{number:038x}").write_bytes(b"")
    stage(bench.root)
    assert bench.call(git_commit, message="x").ok
    assert not (bench.root / ".git/gc.log").exists()
    assert not (bench.root / ".git/gc.pid").exists()
    assert [file.name for file in (bench.root / ".git/objects/pack").iterdir()] == []


def test_conflicts_and_merges(bench: Any) -> None:
    make_repository(bench.root)
    plain_git(bench.root, "branch", "side")
    for branch in ("side", "main"):
        plain_git(bench.root, "checkout", "--quiet", branch)
        (bench.root / "f.txt").write_text(f"{branch}\n")
        plain_git(bench.root, "commit", "--quiet", "--all", f"--message={branch}")
    plain_git(bench.root, "merge", "--quiet", "side", check=False)
    result = bench.call(git_commit, message="merge")
    assert (result.ok, result.error.code, result.error.path) == (False, "unmerged", "f.txt")
    plain_git(bench.root, "checkout", "--quiet", "--ours", "f.txt")
    plain_git(bench.root, "add", "f.txt")
    result = bench.call(git_commit, message="merge")  # equal to our side: nothing staged, but a merge waits
    assert result.ok
    assert len(plain_git(bench.root, "log", "-1", "--format=%P").split()) == 2
    assert not (bench.root / ".git/MERGE_HEAD").exists()


def test_who_commits(bench: Any, own_home: Path) -> None:
    make_repository(bench.root)
    plain_git(bench.root, "config", "--unset", "user.name")
    plain_git(bench.root, "config", "--unset", "user.email")
    stage(bench.root)
    assert bench.call(git_commit, message="x").error.code == "no_identity"
    work = own_home / "work"
    (own_home / ".gitconfig").write_text(f'[user]\n\tname = Ulf\n[includeIf "gitdir:{bench.root}/"]\n\tpath = {work}\n')
    work.write_text("[user]\n\temail = ulf@work\n[core]\n\tfsmonitor = /bin/false\n")
    assert bench.call(git_commit, message="x").ok
    assert plain_git(bench.root, "log", "-1", "--format=%an <%ae>|%cn <%ce>").strip() == "Ulf <ulf@work>|Ulf <ulf@work>"
    stage(bench.root, text="again\n")
    plain_git(bench.root, "config", "user.name", "Local")
    assert bench.call(git_commit, message="x").ok
    assert plain_git(bench.root, "log", "-1", "--format=%an").strip() == "Local"


def test_a_lock_of_another_git_is_told(bench: Any) -> None:
    make_repository(bench.root)
    stage(bench.root)
    (bench.root / ".git/index.lock").write_text("")
    result = bench.call(git_commit, message="x")
    assert (result.ok, result.error.code) == (False, "git_failed")
    assert "index.lock" in result.content


def test_packed_and_shallow_repositories(bench: Any, tmp_path: Path) -> None:
    make_repository(tmp_path / "source")
    plain_git(tmp_path / "source", "commit", "--quiet", "--allow-empty", "--message=two")
    plain_git(bench.root, "clone", "--quiet", "--depth=1", f"file://{tmp_path}/source", "x")
    for path in (bench.root / "x").iterdir():
        path.rename(bench.root / path.name)
    plain_git(bench.root, "config", "user.name", "Ann")
    plain_git(bench.root, "config", "user.email", "a@b")
    plain_git(bench.root, "gc", "--quiet")
    stage(bench.root)
    result = bench.call(git_commit, message="x")
    assert (result.ok, result.facts["commit"]) == (True, head(bench.root))
    assert plain_git(bench.root, "fsck").strip() == ""
