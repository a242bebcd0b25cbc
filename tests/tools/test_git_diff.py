"""`git_diff`: the patch, its structure, and what pathspecs may say."""

from __future__ import annotations

from typing import Any

import pytest
from git_repositories import make_repository, plain_git

from sluice.errors import PathError
from sluice.tools import git_diff
from sluice.tools.workspace import Workspace

pytestmark = pytest.mark.parametrize("bench", ["openat2"], indirect=True)


def test_unstaged_and_staged_changes(bench: Any) -> None:
    make_repository(bench.root, a_txt="".join(f"{n}\n" for n in range(40)), b_txt="b\n")
    (bench.root / "b.txt").write_text("staged\n")
    plain_git(bench.root, "add", "b.txt")
    (bench.root / "a.txt").write_text("".join(f"{n}\n" for n in range(40)).replace("5\n", "five\n"))
    result = bench.call(git_diff)
    assert result.ok
    assert "-5\n+five\n" in result.content
    assert "staged" not in result.content
    (file,) = result.facts["files"]
    assert (file["path"], file["state"], file["added"], file["deleted"]) == ("a.txt", "modified", 4, 4)
    assert [hunk["old_start"] for hunk in file["hunks"]] == [3, 13, 23, 33]
    staged = bench.call(git_diff, cached=True)
    assert [file["path"] for file in staged.facts["files"]] == ["b.txt"]
    assert "-b\n+staged" in staged.content
    assert (staged.facts["added"], staged.facts["deleted"]) == (1, 1)


def test_nothing_changed_is_said(bench: Any) -> None:
    make_repository(bench.root)
    assert bench.call(git_diff).content == "(nothing is changed here; untracked files are not part of a diff)"
    assert bench.call(git_diff, cached=True).content.startswith("(nothing is staged here")


def test_context_lines(bench: Any) -> None:
    make_repository(bench.root, a_txt="1\n2\n3\n4\n5\n6\n7\n8\n9\n")
    (bench.root / "a.txt").write_text("1\n2\n3\n4\nx\n6\n7\n8\n9\n")
    for wanted, lines in ((None, 7), (0, 1), (1, 3), (1000, 9)):
        hunk = bench.call(git_diff, context_lines=wanted).facts["files"][0]["hunks"][0]
        assert hunk["old_lines"] == lines
    for wrong in (-1, 1001, 2**62):
        result = bench.call(git_diff, context_lines=wrong)
        assert (result.ok, result.error.code, result.error.path) == (False, "invalid_context_lines", "$.context_lines")


def test_pathspecs_choose(bench: Any) -> None:
    make_repository(bench.root, a_txt="a\n", b_py="b\n", **{"d/c.py": "c\n", ":x": "odd\n", "-p": "odd\n"})
    for path in bench.root.rglob("*"):
        if path.is_file() and ".git" not in path.parts:
            path.write_text("changed\n")

    def changed(*specs: str) -> list[str]:
        return sorted(file["path"] for file in bench.call(git_diff, pathspecs=list(specs)).facts["files"])

    assert changed("a.txt") == ["a.txt"]
    assert changed("d") == changed("./d/") == ["d/c.py"]
    assert changed("*.py") == ["b.py", "d/c.py"]
    assert changed("./:x") == [":x"]
    assert changed("-p") == ["-p"]
    assert changed("--output=made") == changed("--no-index") == changed("no/such") == []
    assert not (bench.root / "made").exists()
    assert "d/c.py" in changed(".")


@pytest.mark.parametrize(
    "spec", ["/etc", "..", "../x", "a/../../x", "~/x", "a\0b", "", "\ud800", "x" * 10**7, "a/" * 5000]
)
def test_pathspecs_that_lead_out_are_refused(bench: Any, spec: str) -> None:
    make_repository(bench.root)
    with pytest.raises(PathError):
        bench.call(git_diff, pathspecs=["f.txt", spec])


@pytest.mark.parametrize("spec", [":/", ":(top)", ":(exclude)f.txt", ":!f.txt", ":^x", ":(attr:x)", ":"])
def test_magic_words_are_refused(bench: Any, spec: str) -> None:
    make_repository(bench.root)
    result = bench.call(git_diff, pathspecs=[spec])
    assert (result.ok, result.error.code, result.error.path) == (False, "magic_pathspec", spec)
    assert bench.call(git_diff, pathspecs=[]).error.code == "no_pathspecs"
    assert bench.call(git_diff, pathspecs=["a"] * 101).error.code == "too_many_pathspecs"


def test_a_long_patch_keeps_head_and_tail_and_can_be_read_whole(bench: Any) -> None:
    make_repository(bench.root, a_txt="old\n")
    (bench.root / "a.txt").write_text("".join(f"line {n}\n" for n in range(20_000)))
    result = bench.call(git_diff)
    assert (result.ok, result.truncated) == (True, True)
    assert len(result.content.encode()) <= 16 * 1024
    assert result.content.startswith("[too long:")
    assert result.content.endswith("+line 19999")
    assert result.facts["added"] == 20_000
    with bench.context.spill.open(int(result.facts["handle"].partition(":")[2])) as file:
        assert file.read().endswith(b"+line 19999\n")


def test_a_workspace_inside_a_repository_sees_only_itself(bench: Any) -> None:
    make_repository(bench.root, **{"sub/in.txt": "a\n", "out.txt": "a\n"})
    (bench.root / "sub/in.txt").write_text("changed\n")
    (bench.root / "out.txt").write_text("changed\n")
    bench.workspace.close()
    bench.context.workspace = bench.workspace = Workspace(str(bench.root / "sub"))
    result = bench.call(git_diff)
    assert [file["path"] for file in result.facts["files"]] == ["in.txt"]
    assert "out.txt" not in result.content


def test_line_ends_follow_harmless_attributes_and_settings(bench: Any) -> None:
    make_repository(bench.root, a_txt="a\nb\n", **{".gitattributes": "*.txt text eol=crlf\n"})
    (bench.root / "a.txt").write_bytes(b"a\r\nb\r\n")
    assert bench.call(git_diff).facts["total_files"] == 0
    (bench.root / "a.txt").write_bytes(b"a\r\nc\r\n")
    assert bench.call(git_diff).facts["added"] == 1
