from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.tools.patch_envelope import MAX_SECTIONS, Group, Section, Unreadable, parse


def envelope(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch", ""])


def sections(*lines: str) -> tuple[Section, ...]:
    found = parse(envelope(*lines))
    assert not isinstance(found, Unreadable), found
    return found


def wrong(*lines: str) -> Unreadable:
    found = parse(envelope(*lines))
    assert isinstance(found, Unreadable), found
    return found


def test_the_kinds_of_section() -> None:
    add, delete, update = sections(
        "*** Add File: a b.txt",
        "+one",
        "+",
        "*** Delete File: c",
        "*** Update File: d",
        "*** Move to: e",
        "@@ def f",
        "-x",
    )
    assert (add.kind, add.path, add.lines) == ("add", "a b.txt", ("one", ""))
    assert (delete.kind, delete.path, delete.line) == ("delete", "c", 5)
    assert (update.kind, update.move_to, update.hunks[0].headers) == ("update", "e", ("def f",))
    assert update.hunks[0].groups == (Group(("x",), (), False),)


def test_an_added_file_may_be_empty_and_a_move_may_stand_alone() -> None:
    add, move = sections("*** Add File: a", "*** Update File: b", "*** Move to: c")
    assert (add.lines, move.hunks, move.move_to) == ((), (), "c")


def test_groups_keep_the_order_of_lines() -> None:
    (update,) = sections("*** Update File: a", " k", "-o", "+n", "", " l", "+m")
    assert update.hunks[0].groups == (
        Group(("k",), ("k",), True),
        Group(("o",), ("n",), False),
        Group(("", "l"), ("", "l"), True),
        Group((), ("m",), False),
    )
    assert update.hunks[0].old() == ["k", "o", "", "l"]


def test_headers_may_be_stacked_and_line_numbers_are_not_believed() -> None:
    (update,) = sections("*** Update File: a", "@@ class A", "@@     def f(self):", "-x", "@@ -1,3 +1,4 @@ def g", "+y")
    assert [hunk.headers for hunk in update.hunks] == [("class A", "    def f(self):"), ()]


def test_what_is_tolerated() -> None:
    text = "\n \n  *** Begin Patch \r\n *** Update File:  a.txt \r\n@@ \r\n-x\r\n+y\r\n\n*** End of File \n\n"
    text += "*** End Patch\t\n\n"
    found = parse(text)
    assert isinstance(found, tuple)
    assert (found[0].path, found[0].hunks[0].old()) == ("a.txt", ["x", ""])
    assert found[0].hunks[0].at_end


def test_an_empty_line_at_a_hunks_end_may_be_space_between_sections() -> None:
    update, add = sections("*** Update File: a", "@@", "-x", "", "*** Add File: b", "+y")
    assert update.hunks[0].loose_end
    assert add.lines == ("y",)


def test_marker_words_inside_content_are_content() -> None:
    add, update = sections(
        "*** Add File: a", "+*** End Patch", "+*** Delete File: b", "*** Update File: c", " *** End Patch", "-*** x"
    )
    assert add.lines == ("*** End Patch", "*** Delete File: b")
    assert update.hunks[0].old() == ["*** End Patch", "*** x"]


@pytest.mark.parametrize(
    ("lines", "line"),
    [
        ([], 2),
        (["*** Frobnicate File: a"], 2),
        (["hello"], 2),
        (["*** Add File: a", "no plus"], 3),
        (["*** Delete File: a", "+x"], 3),
        (["*** Update File: a"], 2),
        (["*** Update File: a", "@@"], 4),
        (["*** Update File: a", "@@", "*** Add File: b"], 4),
        (["*** Update File: a", "@@", "-x", "what"], 5),
        (["*** Update File: a", "@@def f", "-x"], 3),
        (["*** Add File: a", "+x", "*** End Patch", "*** Begin Patch", "*** Delete File: b"], 4),
        (["*** Add File: a"] * (MAX_SECTIONS + 1), MAX_SECTIONS + 2),
    ],
)
def test_what_cannot_be_read_is_told_with_its_line(lines: list[str], line: int) -> None:
    assert wrong(*lines).line == line


@pytest.mark.parametrize(
    "text", ["", "\n", "*** Begin Patch", "*** Add File: a\n+x\n*** End Patch", "*** Begin Patch\n+x"]
)
def test_begin_and_end_must_be_there(text: str) -> None:
    found = parse(text)
    assert isinstance(found, Unreadable)
    assert found.words.isprintable()


KINDS = ("*** Add File: a", "*** Update File: b", "*** Delete File: c", "*** Move to: d")
MARKS = ("*** Begin Patch", "*** End Patch", "*** End of File", "*** ", "@@", "@@ x", "@@ -1 +1 @@")
LINES = st.sampled_from([*KINDS, *MARKS, " k", "-o", "+n", "", "  ", "junk", "\r", "+\ud800"])


@given(st.lists(LINES, max_size=12))
def test_any_lines_are_read_or_refused_with_a_line_of_theirs(lines: list[str]) -> None:
    found = parse(envelope(*lines))
    if isinstance(found, Unreadable):
        assert 1 <= found.line <= len(lines) + 3
    else:
        assert found
        for section in found:
            assert section.kind != "update" or section.hunks or section.move_to is not None
