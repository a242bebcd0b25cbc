from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from sluice.tools import apply_patch, read_file, write_file


def test_one_edit_changes_only_what_it_names(bench: Any) -> None:
    (bench.root / "ok.txt").chmod(0o755)
    result = bench.call(apply_patch, path="ok.txt", old_text="two", new_text="2\n2")
    assert result.ok
    assert (bench.root / "ok.txt").read_bytes() == b"one\n2\n2\nthree\n"
    assert (bench.root / "ok.txt").stat().st_mode & 0o777 == 0o755
    assert result.facts["diff"] == "--- a/ok.txt\n+++ b/ok.txt\n@@ -1,3 +1,4 @@\n one\n-two\n+2\n+2\n three\n"
    assert "line 2" in result.content


def test_a_batch_is_applied_in_order_and_all_or_none(bench: Any) -> None:
    edits = [{"old_text": "one", "new_text": "1 two"}, {"old_text": "1 two\ntwo", "new_text": "2"}]
    assert bench.call(apply_patch, path="ok.txt", patches=edits).ok
    assert (bench.root / "ok.txt").read_bytes() == b"2\nthree\n"
    bad = bench.call(
        apply_patch,
        path="ok.txt",
        patches=[{"old_text": "three", "new_text": "3"}, {"old_text": "three", "new_text": "4"}],
    )
    assert (bad.error.code, bad.error.path) == ("no_match", "$.patches[1].old_text")
    assert (bench.root / "ok.txt").read_bytes() == b"2\nthree\n"


@pytest.mark.parametrize(
    ("arguments", "code", "status"),
    [
        ({"old_text": "", "new_text": "x"}, "empty_old_text", "failed"),
        ({"old_text": "four", "new_text": "x"}, "no_match", "failed"),
        ({"old_text": "t", "new_text": "x"}, "multiple_matches", "failed"),
        ({"patches": []}, "invalid_batch_entry", "failed"),
        ({"patches": [{"old_text": "", "new_text": "x"}]}, "empty_old_text", "failed"),
        ({"old_text": "one"}, "invalid_arguments", "invalid"),
        ({"new_text": "one"}, "invalid_arguments", "invalid"),
        ({}, "invalid_arguments", "invalid"),
        ({"old_text": "a", "patches": []}, "invalid_arguments", "invalid"),
        ({"path": "missing", "old_text": "a", "new_text": "b"}, "file_read_failure", "failed"),
        ({"path": "folder", "old_text": "a", "new_text": "b"}, "file_read_failure", "failed"),
        ({"path": "pipe", "old_text": "a", "new_text": "b"}, "file_read_failure", "failed"),
        ({"path": "binary", "old_text": "a", "new_text": "b"}, "binary_file", "failed"),
        ({"path": "big", "old_text": "a", "new_text": "b"}, "truncated_file", "failed"),
        ({"path": "../outside/secret.txt", "old_text": "SECRET", "new_text": "b"}, "parent_path", "failed"),
        ({"path": "link/secret.txt", "old_text": "SECRET", "new_text": "b"}, "symlink", "failed"),
        ({"path": "hard", "old_text": "SECRET", "new_text": "b"}, "hard_link", "failed"),
        ({"path": ".git/config", "old_text": "a", "new_text": "b"}, "protected", "failed"),
    ],
)
def test_each_refusal_has_its_code_and_changes_nothing(
    bench: Any, outside: Path, look: Any, arguments: dict[str, Any], code: str, status: str
) -> None:
    (bench.root / "folder").mkdir()
    os.mkfifo(bench.root / "pipe")
    (bench.root / "binary").write_bytes(b"a\0b")
    (bench.root / "link").symlink_to(outside)
    (bench.root / ".git").mkdir()
    (bench.root / ".git" / "config").write_bytes(b"a")
    os.link(outside / "secret.txt", bench.root / "hard")
    with open(bench.root / "big", "wb") as file:
        file.truncate(5 * 1024 * 1024)
    before = look(bench.root)
    result = bench.call(apply_patch, **{"path": "ok.txt", **arguments})
    assert (result.ok, result.error.code, result.status) == (False, code, status)
    assert result.failure == "needs_inspection"
    assert "canary" not in result.content
    assert look(bench.root) == before
    assert bench.call(apply_patch, path="ok.txt", old_text="one", new_text="1").ok


@pytest.mark.parametrize("step", ["rename", "fsync", "write"])
def test_a_failed_write_is_fatal_and_leaves_the_file(
    bench: Any, look: Any, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = look(bench.root)

    def fails(*arguments: Any, **named: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, step, fails)
        result = bench.call(apply_patch, path="ok.txt", old_text="one", new_text="1")
    assert (result.error.code, result.failure) == ("writeback_failure", "fatal")
    assert look(bench.root) == before


def test_a_miss_shows_the_nearest_lines_and_several_matches_their_places(bench: Any) -> None:
    miss = bench.call(apply_patch, path="ok.txt", old_text="one\n  two", new_text="x")
    assert "indentation" in miss.content
    assert "file line 2 is: two" in miss.content
    many = bench.call(apply_patch, path="ok.txt", old_text="t", new_text="x")
    assert "line 2: two\nline 3: three" in many.content


def test_a_file_never_read_may_be_edited_but_not_then_overwritten(bench: Any) -> None:
    assert bench.call(apply_patch, path="ok.txt", old_text="one", new_text="1").ok
    assert bench.call(write_file, path="ok.txt", content="x").error.code == "unread"


def test_a_file_that_changed_since_it_was_read_is_stale(bench: Any) -> None:
    bench.call(read_file, path="ok.txt")
    (bench.root / "ok.txt").write_bytes(b"one more\n")
    assert bench.call(apply_patch, path="ok.txt", old_text="one", new_text="1").error.code == "stale"
    bench.call(read_file, path="ok.txt")
    assert bench.call(apply_patch, path="ok.txt", old_text="one", new_text="1").ok
    assert bench.call(apply_patch, path="ok.txt", old_text="more", new_text="2").ok
    assert bench.call(write_file, path="ok.txt", content="x").ok


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"\xef\xbb\xbfa\r\nold\r\nb", b"\xef\xbb\xbfa\r\nnew\r\nline\r\nb"),
        ("a\nold\n文".encode("utf-16"), "a\nnew\nline\n文".encode("utf-16")),
        ("这是中文\nold\n这是中文".encode("gbk"), "这是中文\nnew\nline\n这是中文".encode("gbk")),
        (b"\xe9\nold\nb", b"\xe9\nnew\nline\nb"),
        (b"a\r\nold\nb\rc", b"a\r\nnew\nline\nb\rc"),
        ("文字\n".encode() + b"\xff\xfe\nold\n", "文字\n".encode() + b"\xff\xfe\nnew\nline\n"),
    ],
)
def test_every_other_byte_stays_in_every_encoding(bench: Any, before: bytes, after: bytes) -> None:
    (bench.root / "f").write_bytes(before)
    result = bench.call(apply_patch, path="f", old_text="old\n", new_text="new\nline\n")
    assert result.ok
    assert (bench.root / "f").read_bytes() == after


def test_line_ends_that_were_let_differ_are_named(bench: Any) -> None:
    (bench.root / "f").write_bytes(b"a\r\nb\r\n")
    result = bench.call(apply_patch, path="f", old_text="a\nb", new_text="a\nc\nb")
    assert (bench.root / "f").read_bytes() == b"a\r\nc\r\nb\r\n"
    assert result.facts["line_ends_adapted"] == 1
    assert "line ends" in result.content


def test_what_the_encoding_cannot_say_is_refused(bench: Any) -> None:
    (bench.root / "f").write_bytes(b"\xe9 old\n")
    assert bench.call(apply_patch, path="f", old_text="old", new_text="文").error.code == "not_encodable"
    assert (bench.root / "f").read_bytes() == b"\xe9 old\n"


def test_an_edit_that_changes_nothing_writes_nothing(bench: Any) -> None:
    inode = (bench.root / "ok.txt").stat().st_ino
    result = bench.call(apply_patch, path="ok.txt", old_text="one", new_text="one")
    assert result.ok
    assert "nothing was written" in result.content
    assert (bench.root / "ok.txt").stat().st_ino == inode


def test_many_edits_of_a_large_file_are_quick_enough_to_test(bench: Any) -> None:
    (bench.root / "big").write_text("".join(f"line {n};\n" for n in range(100_000)))
    edits = [{"old_text": f"line {n};", "new_text": f"LINE {n}"} for n in range(0, 100_000, 1000)]
    result = bench.call(apply_patch, path="big", patches=edits)
    assert result.ok
    assert result.facts["edits"] == 100
    assert result.facts["diff"].count("\n") <= 200
