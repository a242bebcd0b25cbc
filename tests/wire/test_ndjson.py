"""Line framing: what a line is, under every split, and its bound."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.wire.ndjson import LineDecoder
from sluice.wire.sse import EventTooLarge


def lines_of(pieces: list[bytes], limit: int = 1 << 20) -> tuple[list[bytes], list[bytes], int | None]:
    """Lines that were complete, the last one without its end, and the size at which the bound was met."""
    decoder = LineDecoder(limit)
    got: list[bytes] = []
    try:
        for piece in pieces:
            got += [data for _, data, _ in decoder.feed(piece)]
    except EventTooLarge as large:
        return got + [data for _, data, _ in large.events], [], large.seen
    return got, [data for _, data, _ in decoder.close()], None


@pytest.mark.parametrize(
    ("body", "lines", "last"),
    [
        (b'{"a":1}\n{"b":2}\n', [b'{"a":1}', b'{"b":2}'], []),
        (b'{"a":1}\r\n\r\n \t\n\n{"b":2}\r\n', [b'{"a":1}\r', b'{"b":2}\r'], []),
        (b'{"a":1}\n{"b"', [b'{"a":1}'], [b'{"b"']),
        (b"\xef\xbb\xbf{}\n", [b"{}"], []),
        (b"\xef\xbb", [], []),
        (b"", [], []),
        (b" \r\n ", [], []),
        ('"\N{LINE SEPARATOR}\x85\x0b\x0c\r"\n'.encode(), ['"\N{LINE SEPARATOR}\x85\x0b\x0c\r"'.encode()], []),
    ],
)
def test_what_a_line_is(body: bytes, lines: list[bytes], last: list[bytes]) -> None:
    assert lines_of([body]) == (lines, last, None)
    assert lines_of([bytes([b]) for b in body]) == (lines, last, None)


@given(
    st.lists(st.sampled_from([b"\n", b"\r\n", b"\r", b" ", b"ab", b"{}", b"\xef\xbb\xbf", b"\xe2\x80\xa8"])), st.data()
)
def test_any_split_gives_the_same_lines_and_the_same_bound(parts: list[bytes], data: st.DataObject) -> None:
    body = b"".join(parts)
    limit = data.draw(st.integers(0, 8))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=4)))
    pieces = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]
    whole, split = lines_of([body], limit), lines_of(pieces, limit)
    assert (whole[:2], whole[2] is None) == (split[:2], split[2] is None)


def test_the_bound_is_exact_and_earlier_lines_count() -> None:
    assert lines_of([b"ok\n12345\n"], 5) == ([b"ok", b"12345"], [], None)
    assert lines_of([b"ok\n123456\n"], 5) == ([b"ok"], [], 6)
    assert lines_of([b"ok\n123456"], 5) == ([b"ok"], [], 6)
    assert lines_of([b"123", b"456"], 5) == ([], [], 6)
    assert lines_of([b"12\n" * 100], 5)[2] is None, "a read may hold many lines"


def test_only_the_unfinished_line_is_held() -> None:
    decoder = LineDecoder(100)
    decoder.feed(b"a" * 50 + b"\nbcd")
    assert decoder.unfinished == 3


def test_no_line_is_strange_here() -> None:
    decoder = LineDecoder(9)
    decoder.feed(b"x\n \n{}\n")
    assert decoder.strange == 0
