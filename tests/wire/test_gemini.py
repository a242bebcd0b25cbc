"""Replies in Gemini's words: parts, marks, errors, usage, and each tolerance by its name."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from gemini_streams import DONE, call, chunk, end, event, naive_read, read, reading_of, text, thought
from hypothesis import given, settings
from hypothesis import strategies as st

import sluice.wire.dialects
from sluice.limits import DEFAULT_LIMITS
from sluice.testing.splits import in_pieces
from sluice.values.deltas import CallClosed, CallOpened, ReasoningDelta, TextDelta
from sluice.values.messages import KNOWN_STOP_REASONS, Reasoning, Usage
from sluice.wire import ReplyReader
from sluice.wire.dialects.gemini import STOP_REASONS

CODE = {"executableCode": {"language": "PYTHON", "code": "1+1"}}
RESULT = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}}


# -- text, thoughts, calls ----------------------------------------------------------------------------------------------


def test_a_whole_reply() -> None:
    got = read(thought("Hm."), text("Hel", "lo"), chunk(call("read_file", {"path": "a"}, id="c1")), end())
    reply = got.reply
    assert (got.kind, reply.text, reply.reasoning, reply.stop_reason) == (None, "Hello", "Hm.", "end_turn")
    assert [(c.id, c.name, c.arguments, c.status, c.index) for c in reply.tool_calls] == [
        ("c1", "read_file", '{"path": "a"}', "whole", 0)
    ]
    assert (reply.id, reply.model, reply.tolerances, reply.native) == ("r1", "m1", {}, None)
    assert reply.blocks == (Reasoning(text="Hm."),)
    assert got.deltas == [
        ReasoningDelta("Hm."),
        TextDelta("Hel"),
        TextDelta("lo"),
        CallOpened(0, "c1", "read_file"),
        CallClosed(0, "c1", "read_file", "whole"),
    ]


def test_a_call_is_closed_with_its_own_event() -> None:
    got = reading_of([chunk(call("f", {}))])
    assert got.deltas == [CallOpened(0, "", "f"), CallClosed(0, "", "f", "whole")]
    assert got.kind == "incomplete"


def test_several_calls_are_several_and_an_empty_end_loses_none() -> None:
    got = read(chunk(call("f", {"x": 1}), call("f", {"x": 2})), chunk(call("g")), chunk({"text": ""}, finish="STOP"))
    assert [(c.id, c.name, c.arguments) for c in got.reply.tool_calls] == [
        ("call_0", "f", '{"x": 1}'),
        ("call_1", "f", '{"x": 2}'),
        ("call_2", "g", "{}"),
    ]
    assert got.reply.tolerances == {"empty_arguments": 1}


def test_arguments_are_kept_as_they_were_written() -> None:
    body = event(0).replace(
        b"0",
        b'{"responseId":"r","candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{"a":1, "a":2}}}]}}]}',
    )
    (got,) = read(body, end()).reply.tool_calls
    assert (got.arguments, got.status) == ('{"a":1, "a":2}', "malformed")
    (halved,) = read(chunk(call("f", {"a": "\ud83d"})), end()).reply.tool_calls
    assert halved.status == "malformed", "half a surrogate pair"
    (huge,) = read(body.replace(b'{"a":1, "a":2}', b'{"a":1e999}'), end()).reply.tool_calls
    assert huge.status == "malformed"


@pytest.mark.parametrize("args", ["[1]", '"text"', "5"])
def test_arguments_that_are_no_object_are_malformed(args: str) -> None:
    (got,) = read(chunk(call("f", json.loads(args))), end()).reply.tool_calls
    assert got.status == "malformed"


def test_a_call_without_a_usable_name_is_malformed() -> None:
    assert [c.status for c in read(chunk(call(None, {})), chunk(call("a b", {})), end()).reply.tool_calls] == [
        "malformed"
    ] * 2


def test_thirty_two_calls_are_the_most() -> None:
    assert read(*[chunk(call("f", {}))] * 33, end()).error.bound == "max_calls_per_reply"  # type: ignore[union-attr]
    limits = msgspec.structs.replace(DEFAULT_LIMITS, max_arguments_bytes=20)
    assert read(chunk(call("f", {"a": "x" * 20})), limits=limits).error.bound == "max_arguments_bytes"  # type: ignore[union-attr]


def test_parts_are_bounded() -> None:
    body = b"".join(chunk({"text": "a"}, {"text": "b", "thought": True}) for _ in range(5001))
    error = reading_of([body]).error
    assert error is not None
    assert (error.kind, error.bound) == ("limit", "max_output_parts")


def test_only_the_first_candidate_is_read() -> None:
    other = {"index": 2, "content": {"parts": [{"text": "no"}]}, "finishReason": "STOP"}
    first = {"content": {"parts": [{"text": "yes"}]}}
    got = read(event({"candidates": [first, other]}), text("!"), event({"candidates": [other]}))
    assert (got.kind, got.reply.text, got.reply.other_choices) == ("incomplete", "yes!", 2)


def test_nothing_is_kept_if_nothing_is_to_be_kept() -> None:
    got = read(thought("Hm."), text("Hi"), chunk(CODE), chunk(RESULT), chunk(call("f", {})), end(), keep=False)
    reply = got.reply
    assert (got.shown_text, reply.text, reply.reasoning, reply.blocks, reply.native) == ("Hi", "", "", (), None)
    assert [c.arguments for c in reply.tool_calls] == ["{}"]


# -- what goes back -----------------------------------------------------------------------------------------------------


def test_a_signature_stays_on_its_part() -> None:
    got = read(
        thought("a", "b"),
        thought("c", thoughtSignature="s1"),
        text("x", "y"),
        chunk(call("f", {}, thoughtSignature="s2"), call("g", {})),
        text("", thoughtSignature="s3"),
        end(),
    )
    assert got.reply.blocks == (Reasoning(text="ab"), Reasoning(text="c", signature="s1"))
    assert json.loads(got.reply.native or "") == [
        {"text": "ab", "thought": True},
        {"text": "c", "thought": True, "thoughtSignature": "s1"},
        {"text": "xy"},
        call("f", {}, thoughtSignature="s2"),
        call("g", {}),
        {"text": "", "thoughtSignature": "s3"},
    ]


def test_what_the_server_ran_is_kept_and_not_run() -> None:
    tool = {"toolCall": {"toolType": "GOOGLE_SEARCH_WEB", "id": "t"}}
    answer = {"toolResponse": {"toolType": "GOOGLE_SEARCH_WEB", "id": "t", "response": {}}}
    image = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}
    got = read(chunk(CODE), chunk(RESULT, {"text": "2"}), chunk(tool), chunk(answer), chunk(image), end())
    assert (got.kind, got.reply.text, got.reply.tool_calls, got.reply.tolerances) == (None, "2", (), {})
    assert json.loads(got.reply.native or "") == [CODE, RESULT, {"text": "2"}, tool, answer, image]


def test_an_unknown_part_is_kept_and_counted() -> None:
    new = {"news": {"a": 1}}
    got = read(chunk(new), chunk({"text": "x", "partMetadata": {"k": 1}}), text("y"), end())
    assert (got.reply.text, got.reply.tolerances) == ("xy", {"unknown_part": 1})
    assert json.loads(got.reply.native or "") == [new, {"text": "x", "partMetadata": {"k": 1}}, {"text": "y"}]


# -- the end ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("word", "reason"), STOP_REASONS.items())
def test_stop_reasons(word: str, reason: str) -> None:
    assert reason in KNOWN_STOP_REASONS
    assert read(text("x"), end(word)).reply.stop_reason == reason


@pytest.mark.parametrize("word", ["MALFORMED_FUNCTION_CALL", "LANGUAGE", "OTHER", "UNEXPECTED_TOOL_CALL", "NEW"])
def test_another_word_is_kept(word: str) -> None:
    got = read(event({"candidates": [{"content": {}, "finishReason": word, "finishMessage": "why"}]}))
    assert (got.kind, got.reply.stop_reason) == (None, word)
    assert word not in KNOWN_STOP_REASONS, "so no call of the reply is run"


def test_a_call_cut_for_length_is_cut_unless_it_came_whole() -> None:
    calls = read(chunk(call("f", {"a": 1})), chunk(call("g")), end("MAX_TOKENS")).reply.tool_calls
    assert [c.status for c in calls] == ["whole", "cut"]


def test_a_blocked_prompt_is_a_mark_of_its_own() -> None:
    got = read(event({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 3}}))
    assert (got.kind, got.reply.stop_reason, got.reply.text) == (None, "content_filter", "")
    assert read(text("x"), event({"promptFeedback": {"blockReason": "OTHER"}}), end()).reply.stop_reason == (
        "content_filter"
    )
    nothing = event({"promptFeedback": {"safetyRatings": []}})
    assert read(text("x"), nothing).kind == "incomplete"
    assert read(text("x"), event({"promptFeedback": {"blockReason": "BLOCK_REASON_UNSPECIFIED"}})).kind == "incomplete"


def test_a_stop_after_code_waits_for_its_result() -> None:
    pieces = [chunk(CODE, finish="STOP"), chunk(RESULT), text("2"), end()]
    assert read(*pieces).reply.tolerances == {"finish_before_result": 1}
    for cut in range(1, 4):
        assert read(*pieces[:cut]).kind == "incomplete"


def test_content_after_a_mark_takes_the_mark_back() -> None:
    pieces = [text("a"), end(), text("b")]
    assert read(*pieces).kind == "incomplete"
    got = read(*pieces, end("MAX_TOKENS"))
    assert (got.reply.text, got.reply.stop_reason) == ("ab", "max_tokens")
    assert got.reply.tolerances == {"continued_after_finish": 1}
    late = read(text("a"), end(), chunk(call("f", {})), end())
    assert [c.status for c in late.reply.tool_calls] == ["whole"]


def test_what_says_nothing_after_a_mark_changes_nothing() -> None:
    got = read(text("a"), end(), chunk({"text": ""}), event({"usageMetadata": {"promptTokenCount": 7}}), DONE)
    assert (got.kind, got.reply.stop_reason, got.reply.tolerances) == (None, "end_turn", {})
    assert got.reply.usage == Usage(input_tokens=7)


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [("STOP", "SAFETY", "content_filter"), ("SAFETY", "STOP", "content_filter"), ("NEW", "MAX_TOKENS", "NEW")],
)
def test_of_two_marks_the_more_careful_one_stands(first: str, second: str, reason: str) -> None:
    got = read(text("a"), end(first), end(second))
    assert (got.reply.stop_reason, got.reply.tolerances) == (reason, {"second_finish_reason": 1})


def said(words: Any, reason: str = "SAFETY") -> bytes:
    return event({"candidates": [{"finishReason": reason, "finishMessage": words}]})


def test_what_the_provider_says_about_its_stop_is_kept() -> None:
    assert read(text("a"), said(" too sharp ")).reply.stop_words == "too sharp"
    blocked = {"promptFeedback": {"blockReason": "OTHER", "blockReasonMessage": "not this"}}
    assert read(event(blocked)).reply.stop_words == "not this"
    assert read(event({"promptFeedback": {"blockReason": "OTHER"}})).reply.stop_words == "OTHER"
    assert read(text("a"), said(7)).reply.stop_words == ""
    assert read(text("a"), said("first", "NEW"), said("second", "NEW")).reply.stop_words == "first"


def test_done_without_a_mark_is_incomplete() -> None:
    got = read(text("a"), DONE, end())
    assert got.kind == "incomplete"
    assert "[DONE]" in str(got.error)
    assert read(text("a"), b"data:  [DONE]\n\n", end()).kind == "incomplete"


def test_odd_words_for_the_end() -> None:
    got = read(text("a"), end(1))
    assert (got.reply.stop_reason, got.reply.tolerances) == ("1", {"odd_finish_reason": 1})
    got = read(text("a"), end("FINISH_REASON_UNSPECIFIED"))
    assert (got.kind, got.reply.tolerances) == ("incomplete", {"unspecified_finish_reason": 1})


# -- errors and odd events ----------------------------------------------------------------------------------------------


def test_an_error_in_the_stream_wins() -> None:
    error = {"error": {"code": 429, "message": "Quota exceeded", "status": "RESOURCE_EXHAUSTED"}}
    for pieces in ([text("a"), event(error)], [event(error)], [text("a"), end(), event(error)]):
        got = read(*pieces)
        assert (got.kind, got.error and got.error.code) == ("provider_error", "RESOURCE_EXHAUSTED")
        assert "Quota exceeded" in str(got.error)


def test_context_overflow_is_a_kind_of_its_own() -> None:
    words = "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."
    error = read(event({"error": {"code": 400, "message": words, "status": "INVALID_ARGUMENT"}})).error
    assert error is not None
    assert (error.code, words in str(error)) == ("context_overflow", True)


def test_a_plain_error_body_keeps_the_providers_words() -> None:
    for body in ({"error": {"message": "no such model"}}, [{"error": {"message": "no such model"}}]):
        got = reading_of([json.dumps(body).encode()])
        assert (got.kind, "no such model" in str(got.error)) == ("not_a_stream", True)


@pytest.mark.parametrize(
    "body",
    [
        b"data: nothing\n\n",
        b"data: [1]\n\n",
        b'data: {"candidates": 5}\n\n',
        b'data: {"candidates": [5]}\n\n',
        b'data: {"candidates": [{"content": []}]}\n\n'.replace(b"[]", b"[1]"),
        b'data: {"candidates": [{"content": {"parts": [5]}}]}\n\n',
        b'data: {"candidates": [{"content": {"parts": [{"text": 5}]}}]}\n\n',
        b'data: {"candidates": [{"content": {"parts": [{"functionCall": 5}]}}]}\n\n',
        b'data: {"candidates": [{"content": {"parts": [{"text": "", "thoughtSignature": 5}]}}]}\n\n',
        b'data: {"candidates": [{"content": {"parts": [{"news": 1e999}]}}]}\n\n',
        b'data: {"candidates": [{"content": {"parts": [{"text": NaN}]}}]}\n\n',
        b'data: {"candidates": ' + b"[" * 100_000 + b"\n\n",
        b'data: {"choices": [], "id": "x"}\n\n',
    ],
)
def test_events_that_cannot_be_meant_stop_the_stream(body: bytes) -> None:
    for pieces in ([body], [text("x"), body]):
        if b"choices" in body and len(pieces) > 1:
            continue  # only a first event is looked at for that
        got = reading_of([*pieces, end()])
        assert got.kind == "malformed_event"
        assert f"event {len(pieces)} " in str(got.error)


def test_odd_counts_and_members_do_no_harm() -> None:
    usage = {"promptTokenCount": "x", "candidatesTokenCount": -1, "thoughtsTokenCount": True, "totalTokenCount": 2**70}
    got = read(text("a"), chunk({"text": "b"}, usageMetadata=usage), end(usageMetadata=7))
    assert (got.kind, got.reply.text, got.reply.usage) == (None, "ab", None)


def test_usage_is_of_the_whole_reply() -> None:
    early = {"promptTokenCount": 10, "cachedContentTokenCount": 4, "thoughtsTokenCount": 5}
    late = {"promptTokenCount": 10, "candidatesTokenCount": 7, "toolUsePromptTokenCount": 3}
    got = read(chunk({"text": "a"}, usageMetadata=early), chunk({"text": "a"}, usageMetadata=early), end())
    assert got.reply.usage == Usage(input_tokens=10, output_tokens=5, cached_tokens=4, reasoning_tokens=5)
    got = read(chunk({"text": "a"}, usageMetadata=early), end(usageMetadata=late))
    assert got.reply.usage == Usage(input_tokens=13, output_tokens=12, cached_tokens=4, reasoning_tokens=5)


def tolerated(*parts: bytes) -> dict[str, int]:
    got = read(*parts, end())
    assert got.kind is None
    return got.reply.tolerances


def test_each_tolerance_of_events() -> None:
    assert tolerated(b"data:\n\n", text("a")) == {"empty_event": 1}
    assert tolerated(event({"news": 1}), text("a")) == {"unknown_event": 1}
    assert tolerated(text("a"), event({"choices": []})) == {"unknown_event": 1}
    assert tolerated(chunk({}), text("a")) == {"empty_part": 1}
    assert tolerated(chunk(call("f", '{"a":1}'))) == {"string_arguments": 1}
    assert tolerated(chunk({"text": "\ud83d"}), chunk({"text": "\ude00"})) == {"torn_surrogate": 1}


def test_torn_pairs_are_put_together() -> None:
    got = read(text("a\ud83d", "\ude00b"), thought("\ud83d"), text("c", thoughtSignature="s"), end())
    assert (got.reply.text, got.reply.reasoning) == ("a\N{GRINNING FACE}bc", "\N{REPLACEMENT CHARACTER}")
    assert got.shown_text == got.reply.text
    assert json.loads(got.reply.native or "")[0] == {"text": "a\N{GRINNING FACE}b"}


def test_arguments_in_parts_are_never_taken_for_an_empty_call() -> None:
    first = {"functionCall": {"name": "f", "willContinue": True, "id": "c"}}
    more = {"functionCall": {"partialArgs": [{"jsonPath": "$.a", "stringValue": "x"}], "willContinue": True}}
    last: dict[str, Any] = {"functionCall": {}}
    got = read(chunk(first), chunk(more), chunk(last), chunk(call("g", {})), end())
    assert [(c.name, c.status) for c in got.reply.tool_calls] == [("f", "malformed"), ("g", "whole")]
    assert got.reply.tolerances == {"partial_arguments": 1}
    assert "JSON path" in (got.reply.tool_calls[0].problem or "")


def test_every_tolerance_is_named_in_a_test() -> None:
    folder = Path(sluice.wire.dialects.__file__).parent
    rules = set()
    for name in ("gemini.py", "gemini_parts.py", "whole_arguments.py"):
        rules |= set(re.findall(r'(?:tolerate|count)\("(\w+)"\)', (folder / name).read_text("utf-8")))
    here = Path(__file__).read_text("utf-8")
    assert rules
    assert [rule for rule in sorted(rules) if f'"{rule}"' not in here] == []


# -- properties ---------------------------------------------------------------------------------------------------------

words = st.text(max_size=6)
parts = st.one_of(
    st.builds(lambda t: {"text": t}, words),
    st.builds(lambda t: {"text": t, "thought": True}, words),
    st.builds(lambda t, s: {"text": t, "thoughtSignature": s}, words, st.sampled_from(["s1", "s2"])),
    st.builds(lambda n, a: call(n, a), st.sampled_from(["f", "g"]), st.dictionaries(words, words, max_size=2)),
)
streams = st.lists(st.lists(parts, max_size=3), min_size=1, max_size=6)


@settings(deadline=None)
@given(streams, st.integers(1, 40))
def test_any_split_gives_the_same_and_a_naive_reader_agrees(made: list[list[dict[str, Any]]], size: int) -> None:
    body = b"".join(chunk(*some) for some in made) + end()
    got = reading_of([body])
    assert reading_of(in_pieces(body, size)).result == got.result
    reply, naive = got.reply, naive_read(body)
    assert naive is not None
    assert got.kind is None
    assert (got.shown_text, got.shown_reasoning) == (reply.text, reply.reasoning)
    assert (reply.text, reply.reasoning, reply.stop_reason) == (naive["text"], naive["reasoning"], naive["stop"])
    assert [(c.name, json.loads(c.arguments)) for c in reply.tool_calls] == naive["calls"]
    native = json.loads(reply.native or "[]")
    assert [p["thoughtSignature"] for p in native if "thoughtSignature" in p] == naive["signatures"]


@settings(deadline=None)
@given(streams, st.data())
def test_any_prefix_is_incomplete(made: list[list[dict[str, Any]]], data: st.DataObject) -> None:
    body = b"".join(chunk(*some) for some in made)
    cut = data.draw(st.integers(0, len(body)))
    assert reading_of([body[:cut]]).kind == "incomplete"


@settings(deadline=None)
@given(streams, st.data())
def test_a_damaged_byte_ends_in_a_reply_or_one_of_our_errors(
    made: list[list[dict[str, Any]]], data: st.DataObject
) -> None:
    body = bytearray(b"".join(chunk(*some) for some in made) + end())
    body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    got = reading_of([bytes(body)])
    assert got.kind in (None, "incomplete", "malformed_event", "provider_error", "not_a_stream")
    for made_call in got.reply.tool_calls:
        assert made_call.status != "whole" or isinstance(json.loads(made_call.arguments), dict)


def test_intent_tells_the_members_of_a_call() -> None:
    reader = ReplyReader("gemini", intent=True)
    kinds = [type(delta).__name__ for delta in reader.feed(chunk(call("f", {"path": "a"})))]
    assert kinds == ["CallOpened", "CallArgument", "CallProgress", "CallClosed"]
