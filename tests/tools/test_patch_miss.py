from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.tools.patch_miss import candidates, nearest

FILE = "def one():\n    return 1\n\n\ndef two():\n    value = \u201cquoted\u201d \u2013 dash\n    return value\n"


@pytest.mark.parametrize(
    ("old", "line", "words"),
    [
        ("def one():  \n    return 1\n", 1, "white space at the ends"),
        ("def two():\nvalue = \u201cquoted\u201d \u2013 dash\n", 5, "indentation"),
        ("def  one( ):\n", 1, "only white space differs"),
        ('    value = "quoted" - dash\n', 6, "look-alike"),
        ("    val\u200bue = \u201cquoted\u201d \u2013 dash\n", 6, "look-alike"),
        ("DEF TWO():\n", 5, "upper and lower case"),
    ],
)
def test_a_near_miss_says_where_and_what_differs(old: str, line: int, words: str) -> None:
    said = nearest(FILE, old)
    assert f"line {line}:" in said or f"line {line}." in said
    assert words in said


def test_the_first_line_that_differs_is_shown_beside_the_files() -> None:
    said = nearest(FILE, "def one():\n    return 2\n")
    assert "old_text line 2 is:     return 2" in said
    assert "file line 2 is:     return 1" in said
    assert "begins at line 1" in said


def test_a_similar_line_is_found_where_none_is_equal() -> None:
    assert "begins at line 2" in nearest("aaa\nthe quick brown fox jumps\nbbb\n", "the quick brown fix jumped")


def test_nothing_alike_is_said() -> None:
    assert nearest(FILE, "zzzzzzzzzzzzz qqqqqqqqqqq") == "Nothing in the file is like it."
    assert nearest("", "x") == "Nothing in the file is like it."


def test_what_cannot_be_seen_is_escaped() -> None:
    assert "\\u200b" in nearest("a\u200bb = 1\n", "ab = 1")
    assert "\\t" in nearest("\tab = 1\n", "    ab = 1")


def test_places_are_listed_with_their_lines() -> None:
    text = "x = 1\ny\nx = 1\n"
    assert candidates(text, [0, 8]) == "line 1: x = 1\nline 3: x = 1"
    assert candidates("a" * 100, range(20)).endswith("… and more")


@given(st.text("ab \t\r\n\u2019'", max_size=60), st.text("ab \t\r\n\u2019'", min_size=1, max_size=30))
def test_any_text_gets_a_short_answer(text: str, old: str) -> None:
    assert len(nearest(text, old)) < 8_000


def test_a_large_file_and_a_large_old_text_are_bounded() -> None:
    lines = "\n".join(f"line number {n} of many" for n in range(100_000))
    assert len(nearest(lines, "line number x of few")) < 5_000
    assert len(nearest(lines, "\n".join(f"other {n}" for n in range(100_000)))) < 5_000
    assert len(nearest("same\n" * 500_000, "same\n" * 3 + "other")) < 5_000
