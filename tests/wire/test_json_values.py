"""Values out of pieces of JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.wire.json_values import half_pair, member_value, strict_value, unescaped


@pytest.mark.parametrize(
    "text",
    ["", " ", '"abc', '"a"b"', '1,"x":2', '1,"":2', "1}", "1 2", "NaN", '"\n"', "tru", "{", "[1", '{"a":1,"a":2}'],
)
def test_what_is_no_value(text: str) -> None:
    assert strict_value(text) is None


@given(st.recursive(st.none() | st.booleans() | st.integers(-99, 99) | st.text(), st.lists, max_leaves=4))
def test_what_is_a_value(value: Any) -> None:
    for text in (json.dumps(value), f" {json.dumps(value, ensure_ascii=False)}\n"):
        try:
            text.encode()
        except UnicodeEncodeError:
            continue
        if "\\ud" in text:
            continue
        assert strict_value(text) == (value,)
        assert member_value(text.strip(" \n")) == (value,)


def test_halves_of_pairs() -> None:
    assert member_value('"\ud83d\ude00"') == ("\N{GRINNING FACE}",)
    assert member_value('"\ud83d"') is None
    assert member_value('"\\ud83d"') is None
    assert unescaped("\\ud83d") == "\ufffd"
    assert unescaped("\\ud83d\\ude00") == "\N{GRINNING FACE}"
    assert [half_pair(t, 0, len(t)) for t in ("a", "\ud83d", "\\ud83d", "\\\\ud83d", "\\\\\\ud83d", "\\ude00")] == [
        0,
        1,
        6,
        0,
        6,
        0,
    ]
