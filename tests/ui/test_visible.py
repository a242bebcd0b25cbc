"""Nothing that a model or a tool writes reaches the terminal as a control, and honest text stays as it is."""

from __future__ import annotations

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.ui.visible import one_line, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J\x1b[H", "␛[2J␛[H"),
        ("\x1b]52;c;?\x07", "␛]52;c;?␇"),
        ("\x9b2J", r"\x9b2J"),
        ("a\x7fb", "a␡b"),
        ("rm -rf ~\rls", "rm -rf ~␍ls"),
        ("a\r\nb\r\r\nc", "a\nb␍\nc"),
        ("a\x0bb\x0cc\x85d", "a␋b␌c\\x85d"),
        ("a\u202eb\u2066c\u2069", "a<U+202E>b<U+2066>c<U+2069>"),
        ("r\u200bm r\u2060m r\ufeffm", "r<U+200B>m r<U+2060>m r<U+FEFF>m"),
        ("a\u200eb\u200fc", "a<U+200E>b<U+200F>c"),
        ("a\u200db a\u200cb", "a<U+200D>b a<U+200C>b"),
        ("\ud800", "<U+D800>"),
        ("\U000e0041", "<U+E0041>"),
        ("x\ufdd0", "x<U+FDD0>"),
        ("\0", "␀"),
    ],
)
def test_controls_and_hidden_characters_are_marks(text: str, shown: str) -> None:
    assert visible(text) == shown


@pytest.mark.parametrize(
    "text",
    ["", "plain\n\ttext", "naïve — “quotes” 你好 עברית", "👩‍👩‍👧 ❤️ 👍🏽", "می‌خواهم", "क्‍ष", "a\u00a0b", "\ue0a0"],
)
def test_honest_text_is_unchanged(text: str) -> None:
    assert visible(text) == text


def test_a_question_to_a_person_marks_more() -> None:
    assert visible("ls\u00a0\u3000a\ufe0f\ue000", strict=True) == "ls<U+00A0><U+3000>a<U+FE0F><U+E000>"
    assert "<U+200D>" in visible("👩‍👩", strict=True)


@given(st.text(alphabet=st.characters()) | st.text(alphabet=st.characters(categories=["Cc", "Cf", "Cs", "Zl", "Zp"])))
def test_what_is_shown_holds_no_control_at_any_split(text: str) -> None:
    for piece in (visible(text), "".join(visible(one) for one in text), visible(text, strict=True)):
        piece.encode("utf-8")
        rest = piece.replace("\n", "").replace("\t", "")
        assert not any(unicodedata.category(one) in ("Cc", "Cs", "Zl", "Zp") for one in rest)
        assert not re.search("[\u202a-\u202e\u2066-\u2069\u200e\u200f\u200b\ufeff]", rest)


@given(st.text())
def test_showing_twice_changes_nothing_more(text: str) -> None:
    assert visible(visible(text)) == visible(text)


@given(st.text(), st.integers(min_value=2, max_value=50))
def test_one_line_is_one_line_of_bounded_length(text: str, limit: int) -> None:
    line = one_line(text, limit)
    assert len(line) <= limit
    assert len(line.splitlines()) <= 1
    assert "\n" not in line


def test_one_line_says_that_it_is_cut() -> None:
    assert one_line("abcdef", 4) == "abc…"
    assert one_line("a\nb\n", 10) == "a␊b"
    assert one_line("\u202e\u202e", 10) == "<U+202E><…"
