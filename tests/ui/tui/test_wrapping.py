"""Rows: nothing lost, nothing too wide, and what was full stays as it was when text grows."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.style import Style

from sluice.ui.tui.wrapping import cut_row, plain_rows, row_starts, wrap
from sluice.ui.visible import visible

PLAIN = Style()
WORDS = st.text(st.sampled_from("ab cd  中文，。！éß한👍\u0301)("), max_size=80)


@given(WORDS, st.integers(4, 30))
@settings(max_examples=300, deadline=None)
def test_rows_hold_all_words_and_fit(text: str, width: int) -> None:
    rows = wrap([(text, PLAIN)], width)
    assert "".join(row.text for row in rows).replace(" ", "") == text.replace(" ", "")
    assert all(row.cell_length <= width for row in rows)


@given(WORDS, st.integers(4, 30))
@settings(max_examples=300, deadline=None)
def test_folding_loses_nothing_and_fits(text: str, width: int) -> None:
    rows = wrap([(text, PLAIN)], width, fold=True)
    assert "".join(row.text for row in rows) == text
    assert all(row.cell_length <= width for row in rows)


@given(WORDS, WORDS, st.integers(4, 30))
@settings(max_examples=300, deadline=None)
def test_text_that_grows_changes_its_last_rows_only(text: str, more: str, width: int) -> None:
    """A word that grows can move to the next row; what stands before the last two rows never changes."""
    before, after = row_starts(text, width), row_starts(text + more, width)
    settled = [start for start in before[:-1] if start <= len(text) - 2 * width]
    assert after[: len(settled)] == settled


@given(st.lists(st.tuples(WORDS, st.sampled_from([PLAIN, Style(bold=True)])), max_size=6), st.integers(4, 30))
@settings(max_examples=200, deadline=None)
def test_styles_change_no_row(spans: list[tuple[str, Style]], width: int) -> None:
    text = "".join(piece for piece, _style in spans)
    one = [row.text for row in wrap([(text, PLAIN)], width)]
    assert [row.text for row in wrap(spans, width)] == one


def test_what_stands_before_rows_takes_of_their_width() -> None:
    rows = wrap([("one two three", PLAIN)], 8, (("• ", PLAIN),), (("  ", PLAIN),))
    assert [row.text for row in rows] == ["• one", "  two", "  three"]


def test_wide_characters_break_anywhere_but_before_a_closing_mark() -> None:
    assert [row.text for row in wrap([("中文字符，很长", PLAIN)], 8)] == ["中文字", "符，很长"]


def test_a_word_too_long_for_a_row_is_cut() -> None:
    assert [row.text for row in wrap([("a " + "x" * 10, PLAIN)], 4)] == ["a", "xxxx", "xxxx", "xx"]


def test_emoji_are_not_cut_inside() -> None:
    family = "👨‍👩‍👧"
    assert [row.text for row in wrap([(family * 3, PLAIN)], 4)] == [family * 2, family]


def test_tabs_and_lines() -> None:
    assert [row.text for row in plain_rows("a\tb\n\nc", 20, indent="> ")] == ["> a   b", ">", "> c"]


def test_a_cut_row_says_so() -> None:
    assert cut_row([("abcdef", PLAIN)], 4).text == "abc…"
    assert cut_row([("中文字", PLAIN)], 4).cell_length <= 4
    assert cut_row([("ab", PLAIN)], 4).text == "ab"


def test_marks_of_unsafe_characters_are_cut_like_any_text() -> None:
    assert all(row.cell_length <= 6 for row in plain_rows(visible("\x1b\u202e\x9b" * 9), 6))
