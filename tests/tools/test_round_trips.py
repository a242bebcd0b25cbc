"""P6 by properties: any bytes, any edit of a part, through the tools: every byte that the edit does not name is the same."""

from __future__ import annotations

import codecs
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluice.tools import apply_patch, write_file
from sluice.tools.text_file import decode

# An encoding, its mark, and characters that it can say; GBK's are common ones, so that it is recognised.
ENCODINGS = [
    ("utf-8", b"", "aé文\u2028 "),
    ("utf-8", codecs.BOM_UTF8, "aé文\u200b"),
    ("utf-16-le", codecs.BOM_UTF16_LE, "aé文\U0001f600"),
    ("utf-16-be", codecs.BOM_UTF16_BE, "aé文\U0001f600"),
    ("utf-16-le", b"", "abcé"),
    ("utf-16-be", b"", "abcé"),
    ("gb18030", b"", "中文字的一"),
    ("latin-1", b"", "aé\xff\xa0"),
]
ENDS = st.sampled_from(["\n", "\r\n", "\r", ""])
MARK = "EDIT-ME"


# Bytes do not depend on how a file was opened.
pytestmark = pytest.mark.parametrize("bench", ["openat2"], indirect=True)

quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@st.composite
def files(draw: st.DrawFn) -> tuple[str, bytes, str, str, list[bytes]]:
    """A codec, its mark, the text before and after the marked line, and bytes around it that are no text."""
    codec, mark, alphabet = draw(st.sampled_from(ENCODINGS))
    line = st.text(st.sampled_from(alphabet), max_size=6)
    halves = ["".join(a + b for a, b in draw(st.lists(st.tuples(line, ENDS), max_size=5))) for _ in range(2)]
    stray = [b"", b""]
    if codec == "utf-8" and draw(st.booleans()):
        halves[0] = "文字文字文字" + halves[0]  # UTF-8 with a few stray bytes is still taken for UTF-8
        stray = [draw(st.sampled_from([b"", b"\xff", b"\x80\xfe"])) for _ in range(2)]
    return codec, mark, halves[0], halves[1], stray


@given(files(), ENDS, st.sampled_from(["", "x", "new\nline", "a\n\n"]), st.booleans())
@quick
def test_an_edit_changes_only_what_it_names(
    bench: Any, made: tuple[str, bytes, str, str, list[bytes]], end: str, new: str, several: bool
) -> None:
    codec, mark, before, after, stray = made
    left = mark + before.encode(codec) + stray[0] + (end or "\n").encode(codec)
    right = (end or "\n").encode(codec) + stray[1] + after.encode(codec)
    data = left + MARK.encode(codec) + right
    path = bench.root / "f"
    path.write_bytes(data)
    edit = {"old_text": MARK, "new_text": new}
    result = bench.call(apply_patch, path="f", **({"patches": [edit]} if several else edit))
    if not result.ok:
        assert result.error.code == "binary_file"
        assert path.read_bytes() == data
        return
    assert path.read_bytes() in {left + new.encode(kind) + right for kind in (codec, "latin-1", "utf-8", "gb18030")}


@given(files(), ENDS, st.lists(st.sampled_from(["x", "", "new line"]), max_size=3))
@quick
def test_a_hunk_changes_only_its_lines(
    bench: Any, made: tuple[str, bytes, str, str, list[bytes]], end: str, new: list[str]
) -> None:
    codec, mark, before, after, stray = made
    left = mark + before.encode(codec) + stray[0] + "\n".encode(codec)
    right = stray[1] + after.encode(codec)
    data = left + (MARK + end).encode(codec) + (right if end and not after.startswith("\n") else b"")
    path = bench.root / "f"
    path.write_bytes(data)
    lines = ["*** Begin Patch", "*** Update File: f", "@@", f"-{MARK}", *(f"+{line}" for line in new), "*** End Patch"]
    result = bench.call(apply_patch, patch="\n".join(lines))
    if not result.ok:
        assert result.error.code == "binary_file"
        assert path.read_bytes() == data
        return
    held = path.read_bytes()
    assert held.startswith(left)
    assert held.endswith(data[len(left) + len((MARK + end).encode(codec)) :])
    between = held[len(left) : len(held) - len(data) + len(left) + len((MARK + end).encode(codec))]
    assert between.replace(b"\0", b"").decode("latin-1").split() == " ".join(new).split()


@given(st.binary(max_size=120), st.text(st.sampled_from("ab\n"), min_size=1, max_size=5))
@quick
def test_any_bytes_survive_an_append_and_a_refused_edit(bench: Any, data: bytes, more: str) -> None:
    path = bench.root / "any"
    path.write_bytes(data)
    bench.context.seen.forget("any")
    refused = bench.call(apply_patch, path="any", old_text="not in there at all", new_text="x")
    assert refused.error.code in ("no_match", "binary_file")
    assert path.read_bytes() == data
    bench.context.seen.mark("any", bench.workspace.read("any", 1000).digest)
    assert bench.call(write_file, path="any", content=more, mode="append").ok
    held = path.read_bytes()
    text = decode(data)
    assert held == data + more.encode(text.codec if text is not None and data else "utf-8")


@given(st.binary(max_size=60), st.binary(max_size=60), st.sampled_from([b"\n", b"\r\n", b"\r"]))
@quick
def test_any_bytes_around_an_ascii_line(bench: Any, left: bytes, right: bytes, end: bytes) -> None:
    data = left + end + MARK.encode() + end + right
    path: Path = bench.root / "any"
    path.write_bytes(data)
    result = bench.call(apply_patch, path="any", old_text=MARK, new_text="done")
    if result.ok:
        assert path.read_bytes() == left + end + b"done" + end + right
    else:
        assert result.error.code in ("binary_file", "no_match", "multiple_matches")
        assert path.read_bytes() == data
