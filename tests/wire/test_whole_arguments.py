"""Arguments that come whole: their text is what the server wrote."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.wire.dialects.whole_arguments import arguments_text


@pytest.mark.parametrize(
    ("value", "written", "text", "counted"),
    [
        ({"a": 1}, b'{"a": 0, "a": 1}', '{"a": 0, "a": 1}', []),
        ({"a": "\N{SNOWMAN}"}, None, '{"a":"\N{SNOWMAN}"}', []),
        ({"a": 1}, b'{"a\xff": 1}', '{"a":1}', []),
        (None, b"null", "", []),
        ('{"a":1}', b'"{}"', '{"a":1}', ["string_arguments"]),
        ([1], b"[1]", "[1]", []),
    ],
)
def test_the_text_of_arguments(value: Any, written: bytes | None, text: str, counted: list[str]) -> None:
    rules: list[str] = []
    assert arguments_text(value, written, rules.append) == text
    assert rules == counted
