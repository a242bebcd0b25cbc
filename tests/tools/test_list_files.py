"""Listing: sorted, bounded, without ignored files, never out of the workspace."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from sluice.errors import PathError
from sluice.tools import list_files


def make(root: Path, *paths: str) -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(b"x\n")


def listed(result: Any) -> list[str]:
    lines: list[str] = result.content.splitlines()
    return lines


def test_files_are_sorted_and_relative_to_the_workspace(bench: Any) -> None:
    make(bench.root, "b/c.py", "b.txt", "a/z.md", "b/a.py")
    result = bench.call(list_files)
    assert listed(result) == ["a/z.md", "b.txt", "b/a.py", "b/c.py", "ok.txt"]
    assert (result.ok, result.truncated, result.facts) == (True, False, {"total": 5, "shown": 5})
    assert listed(bench.call(list_files, directory="b")) == ["b/a.py", "b/c.py"]
    assert listed(bench.call(list_files, directory="./b/")) == ["b/a.py", "b/c.py"]


def test_ignored_files_are_left_out_and_hidden_ones_are_not(bench: Any) -> None:
    make(bench.root, "build/x", "keep", "a.log", ".github/ci.yml", ".git/config", "sub/.GIT/hooks/x", "sub/b.tmp")
    (bench.root / ".gitignore").write_text("build/\n*.log\n")
    (bench.root / "sub/.ignore").write_text("*.tmp\n")
    assert listed(bench.call(list_files)) == [".github/ci.yml", ".gitignore", "keep", "ok.txt", "sub/.ignore"]


def test_ignore_files_hold_without_a_repository_too(bench: Any) -> None:
    make(bench.root, "a.log")
    (bench.root / ".gitignore").write_text("*.log\n")
    assert listed(bench.call(list_files)) == [".gitignore", "ok.txt"]


def test_extensions_choose(bench: Any) -> None:
    make(bench.root, "a.py", "b.PY", "c.pyc", "py", "d.tar.gz", "e.md")
    assert listed(bench.call(list_files, extensions=["py"])) == ["a.py", "b.PY"]
    assert listed(bench.call(list_files, extensions=[".md", "tar.gz"])) == ["d.tar.gz", "e.md"]
    assert bench.call(list_files, extensions=["zz"]).content == "(no files)"
    for wrong in ("", ".", "*", "a/b", "--pre=x", "a\nb", "x" * 99):
        result = bench.call(list_files, extensions=["py", wrong])
        assert (result.status, result.error.path) == ("invalid", "$.extensions[1]")


def test_results_are_bounded_and_the_rest_is_counted(bench: Any) -> None:
    make(bench.root, *(f"f{n:04}" for n in range(700)))
    result = bench.call(list_files)
    assert listed(result)[:100] == [f"f{n:04}" for n in range(100)]
    assert listed(result)[100:] == ["[100 of 701 files are shown; name a directory or extensions to see others]"]
    assert (result.ok, result.truncated, result.facts) == (True, True, {"total": 701, "shown": 100})
    assert len(listed(bench.call(list_files, max_results=500))) == 501
    for wrong in (0, -1, 501, 2**62):
        assert bench.call(list_files, max_results=wrong).error.path == "$.max_results"


def test_the_first_of_many_are_the_smallest_of_all() -> None:
    finds = list_files._Smallest(10, ())
    names = [b"%06d" % (n * 7919 % 50_000) for n in range(50_000)]
    data = b"\0".join(names) + b"\0"
    for start in range(0, len(data), 1000):
        assert not finds.feed(data[start : start + 1000])
        assert len(finds._paths) < 3000
    assert finds.paths() == sorted(names)[:10]
    assert finds.total == 50_000


def test_output_bytes_are_bounded(bench: Any) -> None:
    make(bench.root, *(f"{'d' * 100}/{n:04}{'n' * 100}" for n in range(200)))
    bench.limits(max_tool_output_bytes=2000)
    result = bench.call(list_files, max_results=500)
    assert len(result.content.encode()) <= 2000
    assert result.truncated
    assert f"[{result.facts['shown']} of 201 files" in result.content


def test_names_that_are_no_plain_text_stay_on_one_line(bench: Any) -> None:
    for name in (b"a\nb", b"esc\x1b[2J", b"bad\xff", b"\xc3\xa9.txt", b'"q', "bidi\u202e".encode()):
        fd = os.open(bytes(bench.root) + b"/" + name, os.O_CREAT | os.O_WRONLY, 0o644)
        os.close(fd)
    lines = listed(bench.call(list_files))
    assert lines == ['"\\"q"', '"a\\x0ab"', '"bad\\xff"', '"bidi\\xe2\\x80\\xae"', '"esc\\x1b[2J"', "ok.txt", "é.txt"]


def test_links_are_not_followed(bench: Any, outside: Path) -> None:
    (bench.root / "link").symlink_to(outside)
    (bench.root / "file").symlink_to(outside / "secret.txt")
    assert listed(bench.call(list_files)) == ["ok.txt"]
    with pytest.raises(PathError):
        bench.call(list_files, directory="link")


@pytest.mark.parametrize("directory", ["..", "/", "/etc", "a/../..", "missing", "ok.txt", "a\0b", "x" * 10_000_000])
def test_folders_that_are_none_are_refused_by_the_wall(bench: Any, directory: str) -> None:
    with pytest.raises(PathError):
        bench.call(list_files, directory=directory)


def test_an_empty_folder(bench: Any) -> None:
    (bench.root / "empty").mkdir()
    result = bench.call(list_files, directory="empty")
    assert (result.ok, result.content, result.facts["total"]) == (True, "(no files)", 0)
