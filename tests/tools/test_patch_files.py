"""What the envelope form answers, remembers and refuses; its places and its atomicity have tests of their own."""

from __future__ import annotations

import errno
import os
from typing import Any

import pytest

from sluice.tools import apply_patch, patch_files, read_file, write_file


def patch(bench: Any, *lines: str) -> Any:
    return bench.call(apply_patch, patch="\n".join(["*** Begin Patch", *lines, "*** End Patch"]))


def test_the_facts_say_of_each_file_what_was_done(bench: Any) -> None:
    (bench.root / "gone.txt").write_bytes(b"x\n")
    (bench.root / "old.txt").write_bytes(b"1\n2\n")
    bench.call(read_file, path="gone.txt")
    lines = [
        "*** Add File: n/new.txt",
        "+a",
        "*** Update File: ./ok.txt",
        "@@",
        "-two",
        "+2",
        "*** Delete File: gone.txt",
    ]
    result = patch(bench, *lines, "*** Update File: old.txt", "*** Move to: moved.txt", "@@", "-2", "+two")
    assert result.ok
    assert [(f["path"], f["change"]) for f in result.facts["files"]] == [
        ("n/new.txt", "added"),
        ("ok.txt", "updated"),
        ("gone.txt", "deleted"),
        ("old.txt", "moved_away"),
        ("moved.txt", "moved"),
    ]
    assert result.content.splitlines() == [
        "added n/new.txt: 2 bytes",
        "updated ok.txt, changed at line 2",
        "deleted gone.txt",
        "moved old.txt to moved.txt, changed at line 2",
    ]
    files = {f["path"]: f for f in result.facts["files"]}
    assert files["ok.txt"]["diff"] == "--- a/ok.txt\n+++ b/ok.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
    assert files["gone.txt"]["diff"] == "--- a/gone.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
    assert files["n/new.txt"]["diff"].startswith("--- /dev/null\n+++ b/n/new.txt\n")
    assert files["moved.txt"]["diff"].startswith("rename from old.txt\nrename to moved.txt\n--- a/moved.txt\n")
    assert result.facts["diff"] == "".join(f["diff"] for f in result.facts["files"])


def test_what_was_written_counts_as_seen_and_what_was_only_edited_does_not(bench: Any) -> None:
    (bench.root / "b.txt").write_bytes(b"b\n")
    assert patch(bench, "*** Add File: a.txt", "+a", "*** Update File: ok.txt", "-two", "+2").ok
    assert bench.call(write_file, path="a.txt", content="x").ok
    assert bench.call(write_file, path="ok.txt", content="x").error.code == "unread"
    bench.call(read_file, path="b.txt")
    assert patch(bench, "*** Update File: b.txt", "*** Move to: c.txt").ok
    assert bench.call(write_file, path="c.txt", content="x").ok
    (bench.root / "b.txt").write_bytes(b"new\n")
    assert bench.call(write_file, path="b.txt", content="x").error.code == "unread"


@pytest.mark.parametrize(
    "lines",
    [
        ["*** Delete File: ok.txt"],
        ["*** Add File: ok.txt", "+x"],
        ["*** Update File: other.txt", "*** Move to: ok.txt"],
    ],
)
def test_bytes_are_not_dropped_unseen(bench: Any, look: Any, lines: list[str]) -> None:
    (bench.root / "other.txt").write_bytes(b"o\n")
    before = look(bench.root)
    assert patch(bench, *lines).error.code == "unread"
    bench.call(read_file, path="ok.txt")
    (bench.root / "ok.txt").write_bytes(b"changed\n")
    assert patch(bench, *lines).error.code == "stale"
    (bench.root / "ok.txt").write_bytes(before["ok.txt"][1])
    assert look(bench.root) == before
    assert patch(bench, *lines).ok


def test_sections_of_one_file_follow_each_other(bench: Any) -> None:
    two = ["*** Update File: ok.txt", "-two", "+2", "*** Update File: ok.txt", "-2", "+zwei"]
    assert patch(bench, *two).ok
    assert (bench.root / "ok.txt").read_bytes() == b"one\nzwei\nthree\n"
    chain = ["*** Update File: ok.txt", "*** Move to: a", "*** Update File: a", "*** Move to: b", "-zwei", "+2"]
    result = patch(bench, *chain)
    assert [(f["path"], f["change"]) for f in result.facts["files"]] == [("ok.txt", "moved_away"), ("b", "moved")]
    assert (bench.root / "b").read_bytes() == b"one\n2\nthree\n"
    assert patch(bench, "*** Add File: c", "+1", "*** Add File: c", "+2").error.code == "exists"
    assert patch(bench, "*** Add File: c", "+1", "*** Update File: b", "*** Move to: c").error.code == "exists"
    assert (
        patch(bench, "*** Update File: b", "*** Move to: c", "*** Update File: b", "-2").error.code
        == "file_read_failure"
    )
    assert patch(bench, "*** Add File: c", "+1", "*** Update File: c", "-1", "+2").ok
    assert (bench.root / "c").read_bytes() == b"2\n"


def test_a_moved_file_keeps_its_bytes_and_mode(bench: Any) -> None:
    (bench.root / "tool").write_bytes(b"\0\xff binary")
    (bench.root / "tool").chmod(0o755)
    assert patch(bench, "*** Update File: tool", "*** Move to: bin/tool").ok
    assert (bench.root / "bin/tool").read_bytes() == b"\0\xff binary"
    assert (bench.root / "bin/tool").stat().st_mode & 0o777 == 0o755
    assert patch(bench, "*** Update File: bin/tool", "-x").error.code == "binary_file"


def test_a_patch_that_changes_nothing_writes_nothing(bench: Any) -> None:
    inode = (bench.root / "ok.txt").stat().st_ino
    result = patch(bench, "*** Update File: ok.txt", "-two", "+two")
    assert (result.ok, result.facts["files"]) == (True, [])
    assert (bench.root / "ok.txt").stat().st_ino == inode


def test_a_failed_write_is_fatal_and_changes_nothing(bench: Any, look: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    before = look(bench.root)

    def full(*arguments: Any, **named: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        result = patch(bench, "*** Update File: ok.txt", "-two", "+2", "*** Add File: d/e", "+x")
    assert (result.error.code, result.failure) == ("writeback_failure", "fatal")
    assert look(bench.root) == before


def test_misses_name_the_line_of_the_patch_and_the_lines_of_the_file(bench: Any) -> None:
    result = patch(bench, "*** Update File: ok.txt", "@@", " one", "-tow", "+2")
    assert result.error.code == "no_match"
    assert "the hunk at line 3 of the patch is not in ok.txt" in result.content
    assert "patch line 2 is: tow\nfile line 2 is: two" in result.content
    (bench.root / "ok.txt").write_bytes(b"x\ny\nx\n")
    several = patch(bench, "*** Update File: ok.txt", "@@", "-x", "+z")
    assert several.error.code == "multiple_matches"
    assert "line 1: x\nline 3: x" in several.content


def test_encodings_stay_and_what_they_cannot_say_is_refused(bench: Any) -> None:
    text = "\u6587\r\nold\r\n\u672b"
    (bench.root / "f").write_bytes(text.encode("utf-16"))
    assert patch(bench, "*** Update File: f", "-old", "+new").ok
    assert (bench.root / "f").read_bytes() == text.replace("old", "new").encode("utf-16")
    (bench.root / "f").write_bytes(b"\xe9 a\nold\n")
    assert patch(bench, "*** Update File: f", "-old", "+\u6587").error.code == "not_encodable"
    assert patch(bench, "*** Add File: g", "+\ud800").error.code == "not_encodable"


def test_the_forms_exclude_each_other(bench: Any) -> None:
    whole = "*** Begin Patch\n*** Add File: n\n+x\n*** End Patch"
    both = bench.call(apply_patch, patch=whole, path="ok.txt")
    assert (both.status, both.error.code, both.error.path) == ("invalid", "invalid_arguments", "$.patch")
    none = bench.call(apply_patch, old_text="one", new_text="1")
    assert (none.status, none.error.code, none.error.path) == ("invalid", "invalid_arguments", "$.path")
    assert bench.call(apply_patch, patch=whole).ok


def test_what_a_patch_holds_in_memory_is_bounded(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patch_files, "MAX_HELD_BYTES", 20)
    assert patch(bench, "*** Update File: ok.txt", "-two", "+2", "*** Add File: n", "+x").error.code == "truncated_file"
    bench.limits(max_file_bytes=4)
    assert patch(bench, "*** Add File: n", "+xxxx").error.code == "truncated_file"
    assert not (bench.root / "n").exists()
