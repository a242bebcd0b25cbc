"""Taking text that may be a call: what is waited for, what is given back, what is bounded."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from sluice.wire.assembler import Bound, CallAssembler
from sluice.wire.inline_capture import Capture, Ended, NotACall, begun, blank, literal, named, peek, until


def capture(text: str = "", size: int = 1000) -> Capture:
    made = Capture(CallAssembler(8, 1000, lambda rule: None), {}, size, lambda rule: None)
    made.push(text)
    return made


def fed(body: Generator[None, None, Any], cap: Capture, *pieces: str) -> Any:
    """What a reader returns, fed piece by piece; it must wait between them."""
    for piece in pieces:
        next(body)
        cap.push(piece)
    with pytest.raises(StopIteration) as end:
        next(body)
    return end.value.value


def test_a_literal_is_waited_for_only_while_it_may_come() -> None:
    cap = capture()
    assert fed(literal(cap, "<end>", "<enough>"), cap, "<e", "n", "d", ">x") == "<end>"
    assert (cap.text[cap.pos :], "".join(cap.held)) == ("x", "<end>")
    cap = capture("<ex")
    assert fed(literal(cap, "<end>", "<enough>"), cap) is None
    assert (cap.pos, cap.held) == (0, [])


def test_a_name_ends_at_what_is_no_part_of_one() -> None:
    cap = capture()
    assert fed(named(cap), cap, "a.b", "/c-", "1:2(") == "a.b/c-1:2"
    for text in ("(", " a", "é"):
        with pytest.raises(NotACall):
            next(named(capture(text)))
    with pytest.raises(NotACall):
        next(named(capture("x" * 129)))
    assert fed(named(capture("x" * 128 + "(")), capture()) == "x" * 128


def test_white_space_goes_and_the_next_character_stays() -> None:
    cap = capture(" \t")
    assert fed(peek(cap), cap, "\r\n", " x") == "x"
    assert cap.text[cap.pos] == "x"
    cap = capture("  ")
    cap.ended = True
    assert fed(blank(cap), cap) is None


def test_until_hands_on_all_that_cannot_be_the_stop() -> None:
    cap = capture()
    got: list[str] = []
    body = until(cap, "</p>", got.append)
    fed(body, cap, "a<", "/", "q</p", "></p>rest")
    assert ("".join(got), cap.text[cap.pos :]) == ("a</q", "></p>rest"[1:])


@pytest.mark.parametrize(
    "read", [lambda c: literal(c, "<x>"), named, peek, lambda c: until(c, "<x>", lambda piece: None)]
)
def test_the_end_of_the_reply_ends_a_reader_that_waits(read: Any) -> None:
    cap = capture()
    body = read(cap)
    next(body)
    cap.ended = True
    with pytest.raises(Ended):
        next(body)


def test_where_a_marker_may_have_begun() -> None:
    assert [begun(text, 0, "<ab>") for text in ("x", "x<", "x<a", "<<a", "x<b", "<ab", "")] == [1, 1, 1, 1, 3, 0, 0]
    assert begun("<a", 1, "<ab>") == 2


def test_one_capture_is_bounded() -> None:
    cap = capture("abcdef", size=5)
    cap.take(5)
    with pytest.raises(Bound, match="seen: 6"):
        cap.take(6)
