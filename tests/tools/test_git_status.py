"""`git_status`: porcelain as structure, within bounds, only of the workspace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from git_repositories import make_repository, plain_git
from hypothesis import given
from hypothesis import strategies as st

from sluice.tools import git_status
from sluice.tools.git_status import parse_status
from sluice.tools.workspace import Workspace

ONE = pytest.mark.parametrize("bench", ["openat2"], indirect=True)


@ONE
def test_every_state_is_told(bench: Any) -> None:
    make_repository(bench.root, a_txt="a\n" * 20, b_txt="b\n", c_txt="c\n", d_txt="d\n")
    root = bench.root
    plain_git(root, "mv", "a.txt", "moved.txt")
    (root / "b.txt").write_text("changed\n")
    plain_git(root, "rm", "--quiet", "c.txt")
    (root / "d.txt").unlink()
    (root / "n.txt").write_text("new\n")
    plain_git(root, "add", "n.txt")
    (root / "n.txt").write_text("newer\n")
    (root / "u dir").mkdir()
    (root / "u dir/x").write_text("x")
    result = bench.call(git_status)
    assert result.ok
    assert result.facts["branch"] == "main"
    assert result.facts["commit"] == plain_git(root, "rev-parse", "HEAD").strip()
    files = {file.pop("path"): file for file in result.facts["files"]}
    assert files == {
        "moved.txt": {"staged": "renamed", "old_path": "a.txt"},
        "b.txt": {"unstaged": "modified"},
        "c.txt": {"staged": "deleted"},
        "d.txt": {"unstaged": "deleted"},
        "n.txt": {"staged": "added", "unstaged": "modified"},
        "u dir/": {"state": "untracked"},
    }
    lines = result.content.splitlines()
    assert lines[0] == f"branch main, at {result.facts['commit'][:12]}"
    assert "  renamed: a.txt -> moved.txt" in lines[lines.index("staged:") : lines.index("not staged:")]
    assert lines[lines.index("not staged:") + 1 :] == [
        "  modified: b.txt",
        "  deleted: d.txt",
        "  modified: n.txt",
        "untracked:",
        "  u dir/",
    ]


@ONE
def test_upstream_ahead_and_behind(bench: Any, tmp_path: Path) -> None:
    make_repository(bench.root)
    plain_git(bench.root, "clone", "--quiet", "--bare", ".", str(tmp_path / "up.git"))
    plain_git(bench.root, "remote", "add", "origin", str(tmp_path / "up.git"))
    for message in ("two", "three"):
        plain_git(bench.root, "commit", "--quiet", "--allow-empty", f"--message={message}")
    plain_git(bench.root, "push", "--quiet", "--set-upstream", "origin", "main")
    plain_git(bench.root, "reset", "--quiet", "--hard", "HEAD~2")
    plain_git(bench.root, "commit", "--quiet", "--allow-empty", "--message=own")
    facts = bench.call(git_status).facts
    assert (facts["upstream"], facts["ahead"], facts["behind"]) == ("origin/main", 1, 2)
    assert "upstream origin/main (ahead 1, behind 2)" in bench.call(git_status).content
    plain_git(bench.root, "update-ref", "-d", "refs/remotes/origin/main")
    assert "upstream origin/main (which is gone)" in bench.call(git_status).content


@ONE
def test_a_conflict_a_detached_head_and_a_new_repository(bench: Any) -> None:
    plain_git(bench.root, "init", "--quiet", "--initial-branch=main", ".")
    assert bench.call(git_status).content.startswith("branch main, no commit yet\nuntracked:\n  ok.txt")
    make_repository(bench.root)
    plain_git(bench.root, "checkout", "--quiet", "-b", "side")
    for branch in ("side", "main"):
        plain_git(bench.root, "checkout", "--quiet", branch)
        (bench.root / "f.txt").write_text(f"{branch}\n")
        plain_git(bench.root, "commit", "--quiet", "--all", "--message=x")
    plain_git(bench.root, "merge", "--quiet", "side", check=False)
    result = bench.call(git_status)
    assert "unmerged:\n  both modified: f.txt" in result.content
    plain_git(bench.root, "merge", "--abort")
    plain_git(bench.root, "checkout", "--quiet", "--detach")
    result = bench.call(git_status)
    assert result.content.startswith("no branch (detached HEAD), at ")
    assert result.content.endswith("nothing to commit, the work tree is clean")
    assert result.facts["branch"] is None


@ONE
def test_entries_and_bytes_are_bounded(bench: Any) -> None:
    make_repository(bench.root)
    for number in range(700):
        (bench.root / f"n{number:04}").write_text("x")
    result = bench.call(git_status)
    assert (result.ok, result.truncated, result.facts["total"]) == (True, True, 700)
    assert len(result.facts["files"]) == 500
    assert len(result.content.splitlines()) == 203
    assert result.content.endswith("[200 of 700 entries are shown]")
    bench.limits(max_tool_output_bytes=1000)
    result = bench.call(git_status)
    assert len(result.content.encode()) <= 1000
    assert result.truncated


@ONE
def test_a_workspace_inside_a_repository_sees_only_itself(bench: Any) -> None:
    make_repository(bench.root)
    (bench.root / "sub").mkdir()
    (bench.root / "sub/in.txt").write_text("x")
    (bench.root / "out.txt").write_text("x")
    bench.workspace.close()
    bench.context.workspace = bench.workspace = Workspace(str(bench.root / "sub"))
    result = bench.call(git_status)
    assert [file["path"] for file in result.facts["files"]] == ["./"]
    plain_git(bench.root, "add", "--intent-to-add", "sub")
    result = bench.call(git_status)
    assert [file["path"] for file in result.facts["files"]] == ["in.txt"]
    assert "out.txt" not in result.content


@ONE
def test_odd_names_stay_on_one_line(bench: Any) -> None:
    make_repository(bench.root)
    for name in ("a\nb", "esc\x1b[2J", 'quote"', "-dash", " lead"):
        (bench.root / name).write_text("x")
    lines = bench.call(git_status).content.splitlines()
    assert lines[2:] == ["   lead", "  -dash", '  "a\\x0ab"', '  "esc\\x1b[2J"', '  quote"']


@given(st.binary(max_size=300))
def test_any_bytes_are_read_without_an_error(data: bytes) -> None:
    for start in (b"", b"1 M", b"2 R. N... 1 2 3 4 5 R100 path\0", b"u UU ", b"# branch.x "):
        parse_status(start + data.replace(b"# branch.ab", b"") + b"\0")
