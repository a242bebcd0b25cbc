"""The words of errors: bounded, honest about the shape they came in, and never the cause of another one."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.wire.dialects.faults import any_json, malformed, provider_error


def test_a_malformed_event_shows_its_number_and_64_characters() -> None:
    fault = malformed(7, ("é" * 200).encode(), "is no JSON")
    assert fault.kind == "malformed_event"
    assert str(fault) == f"event 7 is no JSON: {'é' * 64!r}"
    assert "\ufffd" in str(malformed(1, b"\xff", "is no JSON"))


@pytest.mark.parametrize(
    ("error", "words", "code"),
    [
        ({"message": "m", "code": "c", "type": "t"}, "m", "c"),
        ({"message": "m", "code": None, "type": "t"}, "m", "t"),
        ({"message": "m", "code": {"x": 1}}, "m", None),
        ({"message": "m", "error": "other"}, "m", None),
        ({"detail": [{"loc": 1}]}, '[{"loc": 1}]', None),
        ({"error": {"error": {"error": "deep"}}}, "deep", None),
        ("text", "text", None),
        (5, "5", None),
        ({"message": "x" * 5000, "code": "y" * 500}, "x" * 2000, "y" * 64),
    ],
)
def test_the_providers_own_words(error: Any, words: str, code: str | None) -> None:
    fault = provider_error(error)
    assert str(fault) == f"the provider reported an error: {words}"
    assert (fault.kind, fault.code) == ("provider_error", code)


def test_an_error_too_deep_to_write_is_still_told() -> None:
    deep: Any = {}
    for _ in range(100_000):
        deep = {"x": deep}
    assert provider_error(deep).kind == "provider_error"
    while deep:  # taken apart by hand: letting go of it at once would recurse as deep
        deep = deep.pop("x")


def test_any_json_never_raises_and_is_bounded() -> None:
    assert any_json(b'{"a":1}') == {"a": 1}
    assert any_json(b"\xff<" + b"x" * 9000) == "\ufffd<" + "x" * 1998
    assert isinstance(any_json(b"[" * 100_000), str)
    assert isinstance(any_json(b"1" * 10_000), str)
