"""P11: never over the bound, head and tail kept, mostly tail, the whole on disk."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.tools.output import Bounded, HeadTail, bounded, clipped
from sluice.tools.spill import Spill

GAP = re.compile(r"^\[… (\d+) bytes are not shown here …\]\n", re.MULTILINE)


def parts(text: str) -> tuple[str, str, str]:
    """The first line, the head and the tail of a cut text."""
    first, _, rest = text.partition("\n")
    gap = GAP.search(rest)
    assert gap is not None
    return first, rest[: gap.start()], rest[gap.end() :]


def test_short_output_is_unchanged() -> None:
    assert bounded("a\nb\n", max_bytes=4, max_lines=2) == Bounded("a\nb\n", False, None, 4, 2)
    assert bounded(b"", max_bytes=4) == Bounded("", False, None, 0, 0)


def test_long_output_keeps_head_and_tail_at_line_ends_and_spills_the_whole(tmp_path: Path) -> None:
    whole = b"".join(b"line %d\n" % n for n in range(1, 5001))
    with Spill(str(tmp_path / "s")) as spill:
        got = bounded(whole, max_bytes=2000, max_lines=None, spill=spill)
        first, head, tail = parts(got.text)
        assert got.truncated
        assert got.handle == "spill:1"
        assert len(got.text.encode()) <= 2000
        assert head.startswith("line 1\nline 2\n")
        assert tail.endswith("line 4999\nline 5000\n")
        assert re.fullmatch(r"(line \d+\n)+", head)
        assert re.fullmatch(r"(line \d+\n)+", tail)
        assert len(tail) >= 2 * len(head)
        assert "of 5000 lines" in first
        assert f"of {len(whole)} bytes" in first
        assert "spill:1" in first
        with spill.open(1) as file:
            assert file.read() == whole


def test_a_bound_of_lines_counts_every_line_that_is_shown() -> None:
    whole = "".join(f"{n}\n" for n in range(1, 1001))
    got = bounded(whole, max_bytes=100_000, max_lines=200)
    _, head, tail = parts(got.text)
    assert got.text.count("\n") == 200
    assert head.splitlines() == [str(n) for n in range(1, 67)]
    assert tail.splitlines() == [str(n) for n in range(869, 1001)]


def test_exactly_at_the_bounds_nothing_is_cut_and_one_over_is() -> None:
    lines = "x\n" * 200
    assert not bounded(lines, max_bytes=400, max_lines=200).truncated
    assert bounded(lines + "y", max_bytes=1000, max_lines=200).truncated
    assert bounded(lines, max_bytes=399, max_lines=200).truncated


def test_one_endless_line_is_cut_between_characters() -> None:
    got = bounded("é€😀" * 5000, max_bytes=1000)
    _, head, tail = parts(got.text)
    assert len(got.text.encode()) <= 1000
    assert "\ufffd" not in got.text
    assert len(tail.encode()) > 400
    assert head


def test_bytes_that_are_no_text_grow_when_shown_and_still_keep_the_bound(tmp_path: Path) -> None:
    whole = b"\xff" * 400
    with Spill(str(tmp_path / "s")) as spill:
        got = bounded(whole, max_bytes=600, spill=spill)
        assert got.truncated
        assert len(got.text.encode()) <= 600
        with spill.open(1) as file:
            assert file.read() == whole


def test_memory_is_bounded_whatever_comes(tmp_path: Path) -> None:
    with Spill(str(tmp_path / "s")) as spill:
        collector = HeadTail(max_bytes=1000, max_lines=20, spill=spill, max_spill_bytes=5000)
        for n in range(2000):
            collector.feed(b"%d\n" % n + b"z" * 1000)
            held = len(collector._head) + len(collector._tail) + len(collector._unspilled)
            assert held <= 4 * 1000
        got = collector.finish()
        assert got.total_bytes > 2_000_000
        assert got.total_lines == 2001
        assert (tmp_path / "s" / "1").stat().st_size == 5000
        assert "the first 5000 bytes" in got.text


def test_a_disk_that_fails_is_said_and_stops_nothing(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    with Spill(str(blocked / "s")) as spill:
        got = bounded("x\n" * 1000, max_bytes=500, spill=spill)
    assert got.truncated
    assert got.handle is None
    assert "not kept: Not a directory" in got.text.partition("\n")[0]


def test_a_disk_that_fills_leaves_no_half_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Spill(str(tmp_path / "s")) as spill:

        class Full:
            def write(self, data: object) -> int:
                raise OSError(28, "No space left on device")

            def close(self) -> None:
                file.close()

        handle, file = spill.new()
        monkeypatch.setattr(spill, "new", lambda: (handle, Full()))
        got = bounded("x\n" * 1000, max_bytes=500, spill=spill)
        assert got.handle is None
        assert "No space left" in got.text
        assert list((tmp_path / "s").iterdir()) == []


@settings(max_examples=400, deadline=None)
@given(
    chunks=st.lists(st.binary(max_size=80) | st.text(alphabet="a\n€😀", max_size=80).map(str.encode), max_size=12),
    max_bytes=st.integers(0, 700),
    max_lines=st.none() | st.integers(0, 30),
)
def test_any_chunks_keep_the_bounds_and_equal_the_whole(
    chunks: list[bytes], max_bytes: int, max_lines: int | None
) -> None:
    whole = b"".join(chunks)
    collector = HeadTail(max_bytes=max_bytes, max_lines=max_lines)
    for chunk in chunks:
        collector.feed(chunk)
    got = collector.finish()
    assert got == bounded(whole, max_bytes=max_bytes, max_lines=max_lines)
    assert len(got.text.encode()) <= max_bytes
    clean = whole.decode("utf-8", "replace")
    if not got.truncated:
        assert got.text == clean
        return
    gap = GAP.search(got.text)
    if gap is None:
        return
    _, head, tail = parts(got.text)
    assert clean.endswith(tail)
    assert clean.startswith((head, head.removesuffix("\n")))
    assert len(tail.encode()) >= 2 * (len(head.encode()) - 1)
    if max_lines is not None and max_lines >= 2:
        assert len(got.text.split("\n")) - got.text.endswith("\n") <= max_lines
    shown = len(tail.encode()) + len(head.encode())
    assert len(clean.encode()) - shown <= int(gap[1]) <= len(clean.encode()) - shown + 1


@given(st.text(max_size=50), st.integers(0, 60))
def test_clipped_keeps_its_bound(text: str, max_bytes: int) -> None:
    got = clipped(text, max_bytes)
    assert len(got.encode()) <= max_bytes
    if len(text.encode("utf-8", "replace")) > max_bytes >= 3:
        assert got.endswith("…")
