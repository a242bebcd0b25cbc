"""Fenced blocks, whole and at every split."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.wire.fences import Fences


def _fed(pieces: list[str]) -> tuple[bool, bool]:
    fences = Fences()
    for piece in pieces:
        fences.add(piece)
    return fences.inside, fences.line_is_blank


@pytest.mark.parametrize(
    ("text", "inside", "blank"),
    [
        ("", False, True),
        ("a", False, False),
        ("a\n", False, True),
        ("a\n  ", False, True),
        ("a\n    ", False, False),
        ("```", True, False),
        ("``", False, False),
        ("   ~~~x\n", True, True),
        ("    ```\n", False, True),
        ("a ```\n", False, True),
        ("```\ncode\n```", False, False),
        ("```\n~~~\n", True, True),
        ("~~~\n```\n~~~\n", False, True),
        ("````py\nx", True, False),
        ("```code``` x", False, False),
        ("```a`b\n", False, True),
        ("~~~a`b\n", True, True),
    ],
)
def test_where_code_is(text: str, inside: bool, blank: bool) -> None:
    for pieces in ([text], list(text), *([text[:i], text[i:]] for i in range(1, len(text)))):
        assert _fed(pieces) == (inside, blank)


@given(st.lists(st.sampled_from(["`", "``", "```", "~~~", " ", "   ", "\n", "a", "py"]), max_size=20))
def test_any_text_one_character_at_a_time(bits: list[str]) -> None:
    assert _fed(list("".join(bits))) == _fed(["".join(bits)]) == _fed(bits)
