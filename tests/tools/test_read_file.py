from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluice.tools import read_file


def test_a_plain_file_is_shown_as_it_is_and_counts_as_seen(bench: Any) -> None:
    result = bench.call(read_file, path="ok.txt")
    assert (result.ok, result.status, result.truncated) == (True, "ok", False)
    assert result.content == "one\ntwo\nthree\n"
    assert result.facts["lines"] == 3
    assert bench.context.seen.digest("ok.txt") == result.facts["sha256"]


def test_a_part_says_what_it_is_of(bench: Any) -> None:
    result = bench.call(read_file, path="ok.txt", offset=2, limit=1)
    assert result.content == "[lines 2-2 of 3 lines, 14 bytes in all; read on with offset 3]\ntwo\n"
    assert not result.truncated
    assert bench.call(read_file, path="ok.txt", offset=2).content.endswith("]\ntwo\nthree\n")
    assert bench.call(read_file, path="ok.txt", limit=3).content == "one\ntwo\nthree\n"
    refused = bench.call(read_file, path="ok.txt", offset=4)
    assert refused.error.code == "offset_past_end"
    assert "3 lines" in refused.content


def test_a_long_file_shows_its_beginning_and_can_be_read_on_to_its_end(bench: Any) -> None:
    bench.limits(max_tool_output_bytes=1000)
    whole = "".join(f"line {n}\n" for n in range(500))
    (bench.root / "long.txt").write_text(whole)
    seen, offset = "", 1
    while True:
        result = bench.call(read_file, path="long.txt", offset=offset)
        assert len(result.content.encode()) <= 1000
        header, _, body = result.content.partition("\n")
        seen += body
        if not result.truncated:
            break
        assert f"read on with offset {result.facts['last_line'] + 1}" in header
        offset = result.facts["last_line"] + 1
    assert seen == whole


def test_a_line_that_is_too_long_is_cut_and_said(bench: Any) -> None:
    bench.limits(max_tool_output_bytes=1000)
    (bench.root / "wide.txt").write_text("é" * 5000 + "\nnext\n")
    result = bench.call(read_file, path="wide.txt")
    assert result.truncated
    assert "line 1 is too long" in result.content
    assert "read on with offset 2" in result.content
    assert "\ufffd" not in result.content
    assert bench.call(read_file, path="wide.txt", offset=2).content.endswith("]\nnext\n")


def test_an_empty_file_is_said(bench: Any) -> None:
    (bench.root / "empty").write_bytes(b"")
    result = bench.call(read_file, path="empty")
    assert result.ok
    assert result.content == "[the file is empty]\n"


def test_binary_files_are_named_and_not_dumped(bench: Any) -> None:
    (bench.root / "b").write_bytes(b"\x7fELF\0\0\1" * 100)
    result = bench.call(read_file, path="b")
    assert result.ok
    assert result.facts["binary"] is True
    assert "700 bytes" in result.content
    assert "ELF" not in result.content
    assert bench.context.seen.digest("b") is not None


@pytest.mark.parametrize(
    ("data", "words", "body"),
    [
        ("\ufeffa\r\nb\r\n".encode(), "encoding UTF-8 with BOM; line ends CRLF", "a\r\nb\r\n"),
        ("a文\n".encode("utf-16"), "encoding UTF-16 LE with BOM", "a文\n"),
        ("这是中文文件的内容\n".encode("gbk"), "GBK", "这是中文文件的内容\n"),
        (b"caf\xe9\n", "Latin-1", "café\n"),
        (b"a\nb\r\n", "line ends mixed", "a\nb\r\n"),
        ("文字文字\n".encode() + b"\xff\n", "no UTF-8", "文字文字\n\ufffd\n"),
    ],
)
def test_unusual_files_are_shown_as_text_and_said_in_the_first_line(
    bench: Any, data: bytes, words: str, body: str
) -> None:
    (bench.root / "f").write_bytes(data)
    result = bench.call(read_file, path="f")
    header, _, rest = result.content.partition("\n")
    assert words in header
    assert rest == body


def test_a_kept_output_is_read_in_parts_by_its_handle(bench: Any) -> None:
    handle, file = bench.context.spill.new()
    with file:
        file.write(b"".join(b"out %d\n" % n for n in range(10_000)) + b"\xff end")
    bench.limits(max_tool_output_bytes=1000)
    assert bench.call(read_file, path=handle).content.partition("\n")[2].startswith("out 0\nout 1\n")
    result = bench.call(read_file, path=handle, offset=10_000)
    assert result.content.endswith("out 9999\n\ufffd end")
    assert bench.call(read_file, path="spill:99").error.code == "not_found"
    assert bench.context.seen.digests() == {}


def test_bytes_that_grow_when_they_are_shown_keep_the_bound(bench: Any) -> None:
    handle, file = bench.context.spill.new()
    with file:
        file.write(b"\xff" * 5000)
    bench.limits(max_tool_output_bytes=1000)
    result = bench.call(read_file, path=handle)
    assert result.truncated
    assert "\ufffd" * 150 in result.content
    assert len(result.content.encode()) <= 1000


def test_a_file_named_like_a_handle_is_never_confused_with_one(bench: Any) -> None:
    (bench.root / "spill:1").write_bytes(b"in the workspace")
    assert bench.call(read_file, path="spill:1").error.code == "not_found"
    assert bench.call(read_file, path="./spill:1").content == "in the workspace"


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("missing", "not_found"),
        ("../outside/secret.txt", "parent_path"),
        (".", "is_directory"),
        ("link", "symlink"),
        ("pipe", "not_regular"),
    ],
)
def test_refusals_of_the_wall_are_results(bench: Any, outside: Path, path: str, code: str) -> None:
    (bench.root / "link").symlink_to(outside / "secret.txt")
    os.mkfifo(bench.root / "pipe")
    result = bench.call(read_file, path=path)
    assert (result.ok, result.status, result.error.code) == (False, "failed", code)
    assert result.content.startswith(code)
    assert "canary" not in result.content


def test_a_sparse_terabyte_is_refused_at_once(bench: Any) -> None:
    with open(bench.root / "big", "wb") as file:
        file.truncate(1 << 40)
    assert bench.call(read_file, path="big").error.code == "too_large"


@given(st.binary(max_size=3000), st.integers(500, 900), st.integers(1, 5), st.one_of(st.none(), st.integers(1, 5)))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
def test_the_bound_is_kept_for_any_bytes(bench: Any, data: bytes, most: int, offset: int, limit: int | None) -> None:
    bench.limits(max_tool_output_bytes=most)
    (bench.root / "any").write_bytes(data)
    result = bench.call(read_file, path="any", offset=offset, limit=limit)
    assert len(result.content.encode()) <= most
