from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.tools.patch_envelope import Hunk, Unreadable, parse
from sluice.tools.patch_hunks import Lines, Misplaced, place_hunks
from sluice.tools.patch_match import Edits


def hunks(*lines: str) -> tuple[Hunk, ...]:
    found = parse("\n".join(["*** Begin Patch", "*** Update File: f", *lines, "*** End Patch"]))
    assert not isinstance(found, Unreadable), found
    return found[0].hunks


def applied(text: str, *lines: str) -> str:
    found = place_hunks(text, hunks(*lines))
    assert not isinstance(found, Misplaced), found
    return Edits.of(text, found[0]).text


def misplaced(text: str, *lines: str) -> Misplaced:
    found = place_hunks(text, hunks(*lines))
    assert isinstance(found, Misplaced), found
    return found


def differs(text: str, *lines: str) -> list[str]:
    found = place_hunks(text, hunks(*lines))
    assert not isinstance(found, Misplaced), found
    return [fit.differs for fit in found[1]]


def test_several_hunks_in_order() -> None:
    assert applied("a\nb\nc\nd\n", "@@", "-b", "+B", "@@", " c", "+x") == "a\nB\nc\nx\nd\n"


def test_a_hunk_is_looked_for_after_the_one_before() -> None:
    assert applied("x\nm\nx\n", "@@", "-m", "+M", "@@", "-x", "+y") == "x\nM\ny\n"
    early = misplaced("a\nb\n", "@@", "-b", "@@", "-a")
    assert early.earlier


def test_a_place_that_is_not_the_only_one_is_refused_with_all_of_them() -> None:
    assert misplaced("x\ny\nx\n", "-x", "+z").lines == (1, 3)
    assert len(misplaced("x\n" * 100, "-x", "+z").lines) == 20


@pytest.mark.parametrize(
    ("text", "how"),
    [
        ("  a b\n", ""),
        ("  a b \t\n", "white space at the ends of lines"),
        ("\ta b\n", "white space around lines"),
        ("  a\u00a0b\n", "punctuation and white space around lines"),
    ],
)
def test_the_order_of_ways(text: str, how: str) -> None:
    assert differs(text, "-  a b", "+x") == [how]
    # The better way decides, though a worse one would fit as well.
    assert applied("  a\u00a0b\n" + "  a b\n", "-  a b", "+x") == "  a\u00a0b\nx\n"


def test_typographic_quotes_and_dashes_are_folded() -> None:
    assert applied("say \u201chi\u201d \u2014 now\n", '-say "hi" - now', "+ok") == "ok\n"


def test_kept_lines_are_the_files_own_however_the_patch_spells_them() -> None:
    assert (
        applied("\tkept \u201ca\u201d  \r\nold\r\n", ' kept "a"', "-old", "+new") == "\tkept \u201ca\u201d  \r\nnew\r\n"
    )


def test_a_header_says_where_to_look() -> None:
    text = "def f():\n    return 1\n\ndef g():\n    return 1\n"
    assert misplaced(text, "-    return 1", "+    return 2").lines == (2, 5)
    assert applied(text, "@@ def g():", "-    return 1", "+    return 2") == text[:-2] + "2\n"
    assert applied(text, "@@ def f():", "-    return 1", "+    return 2").count("return 2") == 1
    assert misplaced(text, "@@ def h():", "-    return 1").what == "the line after '@@'"


def test_a_header_that_leads_to_two_places_is_refused() -> None:
    text = "class A\ndef f\nx\nclass B\ndef f\nx\n"
    assert misplaced(text, "@@ def f", "-x", "+y").lines == (3, 6)
    assert applied(text, "@@ class B", "@@ def f", "-x", "+y") == text[:-2] + "y\n"
    assert misplaced(text, "@@ def f", "+y").lines == (2, 5)
    assert applied("def f\ndef f\nx\n", "@@ def f", "-x", "+y") == "def f\ndef f\ny\n"


def test_pure_additions() -> None:
    assert applied("a\nb\n", "@@", "+c") == "a\nb\nc\n"
    assert applied("", "@@", "+c") == "c\n"
    assert applied("a\nb\n", "@@ a", "+c") == "a\nc\nb\n"
    assert applied("a\r\nb", "@@", "+c", "@@", "+d") == "a\r\nb\r\nc\r\nd\r\n"
    assert applied("a\nb", "@@", "-b", "@@", "+d") == "a\nd\n"


def test_the_end_of_the_file() -> None:
    assert applied("x\ny\nx\n", "@@", "-x", "+z", "*** End of File") == "x\ny\nz\n"
    assert "end" in misplaced("x\ny\n", "@@", "-x", "*** End of File").what
    assert applied("a\nb\n", "@@ a", "+c", "*** End of File") == "a\nb\nc\n"


@pytest.mark.parametrize(
    ("text", "patch", "after"),
    [
        ("a\nb", ["-a", "+A"], "A\nb"),  # a last line that is not replaced keeps its missing line end
        ("a\nb", ["-b", "+B"], "a\nB\n"),
        ("a\nb", [" b", "+c"], "a\nb\nc\n"),
        ("a\nb", ["-b"], "a\n"),
        ("a\r\nb\nc\r\n", [" a", "-b", "+B", " c"], "a\r\nB\r\nc\r\n"),
        ("a\nb\nc\r\n", ["-a", "+A"], "A\nb\nc\r\n"),
        ("a\rb\rc\r", [" a", "+x", " b"], "a\rx\rb\rc\r"),
        ("a\rb\n", ["-a\rb", "+x"], "x\n"),
    ],
)
def test_line_ends(text: str, patch: list[str], after: str) -> None:
    assert applied(text, "@@", *patch) == after


def test_an_empty_last_line_of_a_hunk_may_be_meant_as_space() -> None:
    assert applied("a\nb\n", "@@", "-a", "+A", "") == "A\nb\n"
    assert applied("a\n\nb\n", "@@", "-a", "+A", "") == "A\n\nb\n"
    assert misplaced("x\nx\n", "@@", "-x", "+A", "").lines == (1, 2)


def test_looking_costs_no_more_than_the_text_is_long() -> None:
    """A naive search would compare 200,000 times 50,000 lines."""
    text = "a\n" * 200_000
    assert misplaced(text, "@@", *["-a"] * 50_000, "-b").lines == ()
    assert misplaced("a\n", *["@@", "-a", "+a"] * 5_000).hunk.line == 6


PIECES = st.lists(st.sampled_from(["a", "b", "  a", "b ", "\u201cq\u201d", ""]), min_size=1, max_size=8)
ENDS = st.sampled_from(["\n", "\r\n", "\r"])


@given(PIECES, st.lists(ENDS, min_size=8, max_size=8), st.booleans(), st.data())
def test_what_no_hunk_names_stays(lines: list[str], ends: list[str], final: bool, data: st.DataObject) -> None:
    text = "".join(line + end for line, end in zip(lines, ends, strict=False))
    if not final and lines[-1]:
        text = text[: -len(ends[len(lines) - 1])]
    found = Lines(text)
    at = data.draw(st.integers(0, len(found) - 1))
    wanted = found.all()[at]
    place = place_hunks(text, hunks("@@", "-" + wanted, "+NEW"))
    if isinstance(place, Misplaced):
        assert len(place.lines) > 1
        return
    after = Edits.of(text, place[0]).text
    line = place[1][0].line - 1
    assert after.startswith(text[: found.starts[line]] + "NEW")
    assert after.endswith(text[found.end_of(line) :])
