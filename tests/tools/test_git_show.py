"""`git_show`: a commit or a file of one, and which words may name it."""

from __future__ import annotations

from typing import Any

import pytest
from git_repositories import make_repository, plain_git

from sluice.errors import PathError
from sluice.tools import git_show
from sluice.tools.workspace import Workspace

pytestmark = pytest.mark.parametrize("bench", ["openat2"], indirect=True)


REFUSED = ["", "-p", "--output=x", "HEAD --", "a..b", "HEAD..", "^HEAD", "HEAD^{/x}", "@{-1", "x\0y", "a\nb", "~"]
REFUSED += ["\ud800", "é" * 300, "x" * 10**7, "*", "HEAD@{upstream"]


def two_commits(root: Any) -> None:
    make_repository(root, a_txt="a\n", b_txt="b\n")
    (root / "a.txt").write_text("changed\n")
    (root / "b.txt").write_text("changed too\n")
    plain_git(root, "commit", "--quiet", "--all", "--message=Change both\n\nBecause.")


def test_a_commit_with_its_patch(bench: Any) -> None:
    two_commits(bench.root)
    result = bench.call(git_show, rev="HEAD")
    assert result.ok
    facts = result.facts
    assert facts["commit"] == plain_git(bench.root, "rev-parse", "HEAD").strip()
    assert facts["parents"] == [plain_git(bench.root, "rev-parse", "HEAD~1").strip()]
    assert (facts["subject"], facts["author"]) == ("Change both", "Ann <ann@example.com>")
    assert [file["path"] for file in facts["files"]] == ["a.txt", "b.txt"]
    assert result.content.startswith(f"commit {facts['commit']}\nauthor Ann <ann@example.com>\ndate ")
    assert "\n    Change both\n    \n    Because.\n" in result.content
    assert "-a\n+changed\n" in result.content


def test_what_is_shown_can_be_chosen(bench: Any) -> None:
    two_commits(bench.root)
    stat = bench.call(git_show, rev="main", stat=True, patch=False).content
    assert "2 files changed, 2 insertions(+), 2 deletions(-)" in stat
    assert "+changed" not in stat
    assert "@@" not in bench.call(git_show, rev="main", patch=False).content
    both = bench.call(git_show, rev="main", stat=True, pathspecs=["b.txt"])
    assert "1 file changed" in both.content
    assert [file["path"] for file in both.facts["files"]] == ["b.txt"]
    assert bench.call(git_show, rev="HEAD~1").facts["files"][0]["state"] == "added"
    assert "(no changes here)" in bench.call(git_show, rev="HEAD", pathspecs=["c"]).content


def test_a_file_as_it_was(bench: Any) -> None:
    two_commits(bench.root)
    assert bench.call(git_show, rev="HEAD~1:a.txt").content == "a\n"
    assert bench.call(git_show, rev="HEAD:./a.txt").content == "changed\n"
    for missing in ("HEAD:c.txt", "HEAD:a.txt/x"):
        assert bench.call(git_show, rev=missing).error.code == "not_in_commit"
    for outside in ("HEAD:../x", "HEAD:/etc/passwd", "HEAD:"):
        with pytest.raises(PathError):
            bench.call(git_show, rev=outside)


@pytest.mark.parametrize(
    "rev",
    REFUSED,
)
def test_words_that_name_no_single_commit_are_refused(bench: Any, rev: str) -> None:
    two_commits(bench.root)
    result = bench.call(git_show, rev=rev)
    assert (result.ok, result.error.path) == (False, "$.rev")
    assert result.error.code in ("invalid_rev", "unknown_rev")
    assert result.error.code == "invalid_rev" or "@{" in rev
    assert len(result.content) < 500
    assert not (bench.root / "x").exists()


@pytest.mark.parametrize("rev", [":/Change", ":a.txt", ":0:a.txt"])
def test_searches_and_entries_of_the_index_are_no_commits(bench: Any, rev: str) -> None:
    two_commits(bench.root)
    assert bench.call(git_show, rev=rev).error.code == "invalid_rev"


def test_names_that_do_name_one(bench: Any) -> None:
    two_commits(bench.root)
    plain_git(bench.root, "tag", "--annotate", "v1.0", "--message=one")
    head = plain_git(bench.root, "rev-parse", "HEAD").strip()
    for rev in (
        "HEAD",
        "main",
        "v1.0",
        head,
        head[:10],
        "HEAD^0",
        "main~0",
        "refs/heads/main",
        "@",
        "HEAD@{0}",
        "v1.0^{}",
    ):
        assert bench.call(git_show, rev=rev).facts["commit"] == head, rev
    assert bench.call(git_show, rev="HEAD^").facts["commit"] != head


def test_a_merge_is_shown_with_its_parents(bench: Any) -> None:
    two_commits(bench.root)
    plain_git(bench.root, "checkout", "--quiet", "-b", "side", "HEAD~1")
    plain_git(bench.root, "commit", "--quiet", "--allow-empty", "--message=side")
    plain_git(bench.root, "merge", "--quiet", "--no-edit", "main")
    result = bench.call(git_show, rev="HEAD")
    assert len(result.facts["parents"]) == 2
    assert "\nparents " in result.content


def test_a_long_commit_is_bounded(bench: Any) -> None:
    make_repository(bench.root, a_txt="line\n" * 50_000)  # beside ok.txt and its three lines
    plain_git(bench.root, "commit", "--quiet", "--amend", "--message=" + "word " * 20_000)
    result = bench.call(git_show, rev="HEAD")
    assert len(result.content.encode()) <= 16 * 1024
    assert (result.truncated, result.facts["added"]) == (True, 50_003)
    assert result.content.startswith("commit ")


def test_a_workspace_inside_a_repository_sees_only_itself(bench: Any) -> None:
    make_repository(bench.root, **{"sub/in.txt": "inner\n", "out.txt": "outer\n"})
    bench.workspace.close()
    bench.context.workspace = bench.workspace = Workspace(str(bench.root / "sub"))
    result = bench.call(git_show, rev="HEAD", stat=True)
    assert [file["path"] for file in result.facts["files"]] == ["in.txt"]
    assert "out" not in result.content
    assert bench.call(git_show, rev="HEAD:in.txt").content == "inner\n"
    assert bench.call(git_show, rev="HEAD:out.txt").error.code == "not_in_commit"
