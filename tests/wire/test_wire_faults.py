"""The words of errors: bounded, honest about the shape they came in, and never the cause of another one."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.wire.dialects.faults import CONTEXT_OVERFLOW, any_json, malformed, provider_error


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


@pytest.mark.parametrize(
    "error",
    [
        {"type": "invalid_request_error", "message": "prompt is too long: 210000 tokens > 200000 maximum"},
        {"message": "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"},
        {"code": "context_length_exceeded", "message": "any words"},
        {"message": "This model's maximum context length is 8192 tokens. Please reduce the length of the messages."},
        {"code": 400, "message": "the request (245 tokens) exceeds the available context size (128 tokens)"},
        {"message": "The input token count (2000000) exceeds the maximum number of tokens allowed (1048576)."},
        {"message": "Your input exceeds the context window of this model."},
        "Requested tokens (900) exceed context window of 512",
    ],
)
def test_a_conversation_that_is_too_long_is_recognised_in_the_providers_own_words(error: Any) -> None:
    fault = provider_error(error)
    assert (fault.kind, fault.code) == ("provider_error", CONTEXT_OVERFLOW)
    assert (error if isinstance(error, str) else error["message"]) in str(fault)


@pytest.mark.parametrize(
    "words",
    [
        "Rate limit reached: too many requests",
        "the context window of the browser is closed",
        "max_tokens is too large: 100000",
        "Request too large for model: tokens per minute limit 30000",
    ],
)
def test_other_errors_are_not_taken_for_it(words: str) -> None:
    assert provider_error({"message": words, "code": "c"}).code == "c"
