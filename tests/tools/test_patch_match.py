from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sluice.tools.file_diff import lines_of, written
from sluice.tools.patch_match import MAX_PLACES, Edits, Misfit, line_changes
from sluice.tools.text_file import decode


def test_one_exact_place_is_replaced() -> None:
    edits = Edits("a b c")
    assert edits.apply("b", "xyz") is False
    assert edits.text == "a xyz c"


def test_no_place_and_several_places_change_nothing() -> None:
    edits = Edits("aaa b")
    assert edits.apply("c", "x") == Misfit()
    assert edits.apply("aa", "x") == Misfit((0, 1))
    assert edits.text == "aaa b"
    assert edits.changes == []


def test_a_text_that_is_everywhere_is_not_searched_for_ever() -> None:
    misfit = Edits("a" * 4_000_000).apply("a", "b")
    assert isinstance(misfit, Misfit)
    assert len(misfit.places) == MAX_PLACES


@pytest.mark.parametrize(
    ("text", "old", "new", "after"),
    [
        ("a\r\nb\r\nc\r\n", "a\nb\n", "a\nx\nb\n", "a\r\nx\r\nb\r\nc\r\n"),
        ("a\nb\nc\n", "a\r\nb", "a\r\nx\r\nb", "a\nx\nb\nc\n"),
        ("a\rb\rc", "a\nb", "a\nx\nb", "a\rx\rb\rc"),
        ("a\r\nb\nc\r\nd", "a\nb\nc\nd", "a\nb\nX\nd", "a\r\nb\nX\r\nd"),
        ("a\r\nb\nc\nd\n", "b\nc\n", "b\n", "a\r\nb\nd\n"),
        ("x\r\n\r\ny", "x\n\ny", "x\ny", "x\r\ny"),
        ("a\r\nb\r\n", "a\nb\n", "", ""),
    ],
)
def test_line_ends_may_differ_and_the_files_own_are_kept(text: str, old: str, new: str, after: str) -> None:
    edits = Edits(text)
    if old in text:
        assert edits.apply(old, new) is False
    else:
        assert edits.apply(old, new) is True
    assert edits.text == after


def test_a_line_end_is_never_cut_in_two() -> None:
    assert Edits("a\r\nb").apply("a\r\r", "x") == Misfit()
    assert Edits("a\r\nb").apply("a\n\nb", "x") == Misfit()
    edits = Edits("a\r\n\r\nb\r\nc\n")
    assert edits.apply("\n\nb\n", "\nB\n") is True
    assert edits.text == "a\r\nB\r\nc\n"


def test_an_exact_place_goes_before_a_loose_one() -> None:
    edits = Edits("a\r\nb a\nb")
    assert edits.apply("a\nb", "x") is False
    assert edits.text == "a\r\nb x"


def test_several_loose_places_are_a_misfit() -> None:
    assert Edits("a\r\nb a\r\nb").apply("a\nb", "x") == Misfit((0, 5))


@given(st.binary(max_size=60), st.binary(max_size=60), st.text("xy文\n", max_size=8), st.data())
def test_bytes_that_an_edit_does_not_name_stay(head: bytes, tail: bytes, new: str, data: st.DataObject) -> None:
    old = "<old>"
    text = decode(head + old.encode() + tail)
    assume(text is not None and text.codec in ("utf-8", "latin-1", "gb18030"))
    assert text is not None
    assume(text.text.count(old) == 1)
    edits = Edits(text.text)
    assert edits.apply(old, new) is False
    try:
        after = edits.encode(text)
    except UnicodeEncodeError:
        return
    assert after == head + text.encode(new) + tail


CODECS = ["utf-8", "utf-8-sig", "utf-16", "gbk", "latin-1"]


@given(
    st.lists(st.sampled_from(["alpha", "beta\r\n", "gamma\n", "délta\n", "\n"]), max_size=20), st.sampled_from(CODECS)
)
def test_edits_are_exact_in_every_encoding(pieces: list[str], codec: str) -> None:
    if codec == "gbk":
        pieces = [piece.replace("é", "中文测试文本") for piece in pieces]
    before, after = "".join(pieces) + "[[here]]" + "".join(pieces), "".join(pieces) + "[there]" + "".join(pieces)
    text = decode(before.encode(codec))
    assert text is not None
    edits = Edits(text.text)
    assert edits.apply("[here]", "there") is False
    assert edits.encode(text) == after.encode(codec)


@given(
    st.text("ab\n", min_size=1, max_size=40),
    st.lists(st.tuples(st.integers(0, 40), st.integers(1, 6), st.text("ab\n", max_size=6))),
)
def test_a_series_of_edits_is_tracked_exactly(text: str, wishes: list[tuple[int, int, str]]) -> None:
    """The changes lead from the first text to the last, and the diff made of them does too."""
    edits = Edits(text)
    naive = text
    for start, length, new in wishes:
        old = naive[start : start + length]
        if old and naive.count(old) == 1 and edits.apply(old, new) is False:
            naive = naive.replace(old, new)
    assert edits.text == naive
    rebuilt, at = [], 0
    for change in edits.changes:
        assert at <= change.old_start <= change.old_end
        rebuilt += [text[at : change.old_start], naive[change.new_start : change.new_end]]
        at = change.old_end
    assert "".join([*rebuilt, text[at:]]) == naive
    old_lines, new_lines = lines_of(text), lines_of(naive)
    lines, at = [], 0
    for line in line_changes(edits):
        assert at <= line.old_start <= line.old_end
        lines += [*old_lines[at : line.old_start], *new_lines[line.new_start : line.new_end]]
        at = line.old_end
    assert lines + old_lines[at:] == new_lines
    assert (written("f", old_lines, new_lines, line_changes(edits)) == "") == (text == naive)
