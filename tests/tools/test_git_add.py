"""`git_add`: all or nothing, nothing from outside, no repository inside the repository."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from git_repositories import make_repository, plain_git

from sluice.errors import PathError
from sluice.tools import git_add
from sluice.tools.workspace import Workspace

pytestmark = pytest.mark.parametrize("bench", ["openat2"], indirect=True)


def staged(root: Path) -> list[str]:
    return plain_git(root, "diff", "--cached", "--name-status", "--no-renames").split()


def test_new_changed_and_deleted_files_are_staged(bench: Any) -> None:
    make_repository(bench.root, a_txt="a\n", b_txt="b\n")
    (bench.root / "a.txt").write_text("changed\n")
    (bench.root / "b.txt").unlink()
    (bench.root / "n.txt").write_text("new\n")
    result = bench.call(git_add, pathspecs=["a.txt", "n.txt"])
    assert (result.ok, result.facts) == (True, {"total": 2, "staged": ["n.txt", "a.txt"], "left_out": []})
    assert staged(bench.root) == ["M", "a.txt", "A", "n.txt"]
    result = bench.call(git_add, pathspecs=["."])
    assert (result.ok, result.content) == (True, "staged 1 path:\n  b.txt")
    assert staged(bench.root) == ["M", "a.txt", "D", "b.txt", "A", "n.txt"]
    again = bench.call(git_add, pathspecs=["."])
    assert (again.ok, again.error.code) == (False, "nothing_to_add")


@pytest.mark.parametrize("spec", ["/etc/hostname", "../out", "a/../../out", "~/x", "a\0b", "", "x" * 10**7])
def test_paths_out_of_the_workspace_are_refused(bench: Any, spec: str) -> None:
    make_repository(bench.root)
    (bench.root / "n.txt").write_text("new\n")
    with pytest.raises(PathError):
        bench.call(git_add, pathspecs=["n.txt", spec])
    assert staged(bench.root) == []


@pytest.mark.parametrize("spec", [":/", ":(top)n.txt", ":!f.txt", ":(exclude)x", ":(glob)**"])
def test_magic_words_are_refused(bench: Any, spec: str) -> None:
    make_repository(bench.root)
    (bench.root / "n.txt").write_text("new\n")
    result = bench.call(git_add, pathspecs=["n.txt", spec])
    assert (result.ok, result.error.code) == (False, "magic_pathspec")
    assert staged(bench.root) == []


def test_a_word_that_looks_like_an_option_is_a_path(bench: Any) -> None:
    make_repository(bench.root)
    (bench.root / "--all").write_text("x\n")
    (bench.root / "n.txt").write_text("new\n")
    assert bench.call(git_add, pathspecs=["--all"]).facts["staged"] == ["--all"]
    assert staged(bench.root) == ["A", "--all"]


def test_nothing_is_staged_if_one_path_cannot_be(bench: Any) -> None:
    make_repository(bench.root, **{".gitignore": "*.log\n"})
    (bench.root / "n.txt").write_text("new\n")
    (bench.root / "x.log").write_text("log\n")
    for wrong in ("missing", "x.log", "missing/*.py"):
        result = bench.call(git_add, pathspecs=["n.txt", wrong])
        assert (result.ok, result.error.code) == (False, "git_failed"), wrong
        assert wrong in result.content
        assert staged(bench.root) == []
    assert bench.call(git_add, pathspecs=["x.log"]).error.code == "git_failed"
    assert bench.call(git_add, pathspecs=["."]).facts["staged"] == ["n.txt"]


def test_nothing_is_staged_through_a_link(bench: Any, outside: Path) -> None:
    make_repository(bench.root)
    (bench.root / "link").symlink_to(outside)
    assert bench.call(git_add, pathspecs=["link/secret.txt"]).error.code == "git_failed"
    assert bench.call(git_add, pathspecs=["link"]).ok
    assert plain_git(bench.root, "show", ":link") == str(outside)


def test_repositories_inside_are_left_out(bench: Any) -> None:
    make_repository(bench.root)
    make_repository(bench.root / "inner[1]")
    make_repository(bench.root / "sub")
    plain_git(bench.root, "-c", "advice.addEmbeddedRepo=false", "add", "sub")
    plain_git(bench.root, "commit", "--quiet", "--message=sub")
    (bench.root / "sub/f.txt").write_text("changed\n")
    plain_git(bench.root / "sub", "commit", "--quiet", "--all", "--message=x")
    (bench.root / "n.txt").write_text("new\n")
    result = bench.call(git_add, pathspecs=["."])
    assert (result.ok, result.facts["left_out"]) == (True, ["inner[1]", "sub"])
    assert "[left out, repositories of their own: inner[1], sub]" in result.content
    assert staged(bench.root) == ["A", "n.txt"]
    assert bench.call(git_add, pathspecs=["sub"]).error.code == "nothing_to_add"


def test_a_huge_file_is_refused_before_it_is_read(bench: Any) -> None:
    make_repository(bench.root)
    with open(bench.root / "sparse", "wb") as file:
        file.truncate(2**40)
    result = bench.call(git_add, pathspecs=["."])
    assert (result.ok, result.error.code, result.error.path) == (False, "too_large", "sparse")


def test_a_workspace_inside_a_repository_stages_only_itself(bench: Any) -> None:
    make_repository(bench.root)
    for name in ("sub/in.txt", "out.txt"):
        (bench.root / name).parent.mkdir(exist_ok=True)
        (bench.root / name).write_text("new\n")
    bench.workspace.close()
    bench.context.workspace = bench.workspace = Workspace(str(bench.root / "sub"))
    result = bench.call(git_add, pathspecs=["."])
    assert result.facts["staged"] == ["in.txt"]
    assert staged(bench.root) == ["A", "sub/in.txt"]


def test_many_files_at_once_and_too_many(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    make_repository(bench.root)
    for number in range(3000):
        (bench.root / f"{'n' * 60}{number}").write_text("x")
    monkeypatch.setattr(git_add, "_MAX_FILES", 2999)
    assert bench.call(git_add, pathspecs=["."]).error.code == "too_many_files"
    monkeypatch.setattr(git_add, "_MAX_FILES", 5000)
    result = bench.call(git_add, pathspecs=["."])
    assert (result.ok, result.truncated, result.facts["total"]) == (True, True, 3000)
    assert len(result.content.encode()) <= 16 * 1024
    assert len(staged(bench.root)) == 2 * 3000
