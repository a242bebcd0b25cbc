"""Output items of the Responses API: what one says, and when a reply's items are kept."""

from __future__ import annotations

import json
from typing import Any

import pytest
from responses_streams import said

from sluice.values.messages import Usage
from sluice.wire.dialects.responses_items import (
    arguments_of,
    id_of,
    index_of,
    native_text,
    part_of,
    reasoning_of,
    refusal_of,
    text_of,
    usage_of,
)

MESSAGE = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": said("t")}
CALL = {"type": "function_call", "id": "f", "call_id": "c", "name": "f", "arguments": "{}", "status": "completed"}


@pytest.mark.parametrize(
    "content", [None, "x", 3, {}, [None, 3, "x", {"type": "output_text"}, {"type": "x", "text": "y"}]]
)
def test_content_of_another_form_says_nothing(content: Any) -> None:
    raw = {"content": content, "summary": content}
    assert (text_of(raw), refusal_of(raw), reasoning_of(raw)) == ("", "", "")


def test_parts_are_joined_and_paragraphs_stay_apart() -> None:
    assert text_of({"content": [*said("a"), {"type": "refusal", "refusal": "r"}, *said("b")]}) == "ab"
    assert refusal_of({"content": [{"type": "refusal", "refusal": "\ud83c\udf78\ud800"}]}) == "🍸\ufffd"
    summary = [{"type": "summary_text", "text": t} for t in ("one", "two")]
    assert reasoning_of({"summary": summary}) == "one\n\ntwo"
    words = [{"type": "reasoning_text", "text": "own"}]
    assert reasoning_of({"summary": summary, "content": words}) == "own"


@pytest.mark.parametrize(
    ("value", "text", "odd"),
    [("{}", "{}", False), (None, "", False), ({"é": [1]}, '{"é":[1]}', True), ([], "[]", True), (0, "0", True)],
)
def test_arguments_that_are_no_text_are_serialised_once(value: Any, text: str, odd: bool) -> None:
    assert arguments_of({"arguments": value}, "arguments") == (text, odd)


@pytest.mark.parametrize("value", [None, "0", -1, True, 1.0, []])
def test_an_index_is_a_whole_number_that_is_not_negative(value: Any) -> None:
    assert index_of({"output_index": value}) is None
    assert index_of({"output_index": 7}) == 7


def test_ids_and_parts() -> None:
    assert [id_of(v) for v in ("a", "", None, 3, "\ud800")] == ["a", None, None, None, "\ufffd"]
    assert [part_of({"content_index": v}) for v in (2, None, "x")] == [2, 0, 0]


@pytest.mark.parametrize(
    ("items", "kept"),
    [
        ([], False),
        ([MESSAGE, CALL], False),
        ([{"type": "reasoning", "id": "r", "summary": []}], False),
        ([{**MESSAGE, "content": None}], False),
        ([MESSAGE, {"type": "reasoning", "encrypted_content": "S"}], True),
        ([{**MESSAGE, "phase": "commentary"}], True),
        ([{**MESSAGE, "content": said("t", {"type": "url_citation"})}], True),
        ([{**MESSAGE, "content": [{"type": "refusal", "refusal": "no"}]}], True),
        ([{**MESSAGE, "content": 3}], True),
        ([{**MESSAGE, "content": [3]}], True),
        ([{**MESSAGE, "news": 1}], True),
        ([{**CALL, "namespace": "n"}], True),
        ([{"type": "web_search_call"}], True),
        ([{"type": "web_search_call", "score": float("inf")}], False),
    ],
)
def test_items_are_kept_where_neutral_fields_cannot_carry_them(items: list[dict[str, Any]], kept: bool) -> None:
    text = native_text(items)
    assert (text is not None) is kept
    assert text is None or json.loads(text) == items


def test_kept_items_can_be_stored_and_sent() -> None:
    text = native_text([{"type": "x", "a": "\ud83c", "b": "🍸"}])
    assert text is not None
    assert json.loads(text.encode()) == [{"type": "x", "a": "\ufffd", "b": "🍸"}]


@pytest.mark.parametrize("odd", [True, -1, 2**64, 1.5, "3", None, [], {}])
def test_counts_that_cannot_be_are_nought(odd: Any) -> None:
    assert usage_of({"input_tokens": odd, "output_tokens": 2, "cost": odd if odd != 1.5 else -1.5}) == Usage(
        output_tokens=2
    )
    assert usage_of({"input_tokens_details": odd, "output_tokens_details": odd}) is None
