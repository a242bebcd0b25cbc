"""Replies in Ollama's words: lines, calls, the end, errors, usage, and each tolerance by its name."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ollama_streams import call, calls, end, line, naive_read, read, reading_of, said, text

import sluice.wire.dialects
from sluice.limits import DEFAULT_LIMITS, KIB
from sluice.testing.splits import in_pieces
from sluice.values.deltas import CallClosed, CallOpened, ReasoningDelta, TextDelta
from sluice.values.messages import Usage
from sluice.wire import ReplyReader

# -- text, thoughts, calls ----------------------------------------------------------------------------------------------


def test_a_whole_reply() -> None:
    got = read(
        said(thinking="Hm."),
        text("Hel", "lo"),
        calls(call("read_file", {"path": "a"}, index=0, id="c1")),
        end(prompt_eval_count=5, eval_count=7),
    )
    reply = got.reply
    assert (got.kind, reply.text, reply.reasoning, reply.stop_reason) == (None, "Hello", "Hm.", "end_turn")
    assert [(c.id, c.name, c.arguments, c.status, c.index) for c in reply.tool_calls] == [
        ("c1", "read_file", '{"path": "a"}', "whole", 0)
    ]
    assert (reply.model, reply.tolerances, reply.native) == ("m1", {}, None)
    assert reply.usage == Usage(input_tokens=5, output_tokens=7)
    assert got.deltas == [
        ReasoningDelta("Hm."),
        TextDelta("Hel"),
        TextDelta("lo"),
        CallOpened(0, "c1", "read_file"),
        CallClosed(0, "c1", "read_file", "whole"),
    ]


def test_every_entry_is_a_call_of_its_own() -> None:
    got = read(
        calls(call("f", {"x": 1}), call("f", {"x": 1})), calls(call("g", {}, index=0, id="a")), calls(call("h")), end()
    )
    assert sorted((c.name, c.arguments) for c in got.reply.tool_calls) == [
        ("f", '{"x": 1}'),
        ("f", '{"x": 1}'),
        ("g", "{}"),
        ("h", "{}"),
    ]
    assert got.reply.tolerances == {"repeated_index": 1, "empty_arguments": 1}
    assert len({c.id for c in got.reply.tool_calls}) == 4


def test_calls_are_in_the_order_of_their_numbers() -> None:
    got = read(calls(call("b", {}, index=1)), calls(call("a", {}, index=0)), end())
    assert [c.name for c in got.reply.tool_calls] == ["a", "b"]


def test_arguments_are_kept_as_they_were_written() -> None:
    body = calls(call("f", "0")).replace(b'"0"', b'{"a":1, "a":2}')
    (got,) = read(text("x"), body, end()).reply.tool_calls
    assert (got.arguments, got.status) == ('{"a":1, "a":2}', "malformed")


@pytest.mark.parametrize("arguments", [[1], "text", 5])
def test_arguments_that_are_no_object_are_malformed(arguments: Any) -> None:
    (got,) = read(calls(call("f", arguments)), end()).reply.tool_calls
    assert got.status == "malformed"


def test_bounds_name_themselves() -> None:
    assert read(*[calls(call("f", {}))] * 33).error.bound == "max_calls_per_reply"  # type: ignore[union-attr]
    limits = msgspec.structs.replace(DEFAULT_LIMITS, max_arguments_bytes=20, max_whole_event_bytes=70 * KIB)
    assert read(calls(call("f", {"a": "x" * 20})), limits=limits).error.bound == "max_arguments_bytes"  # type: ignore[union-attr]
    long = text("x" * 80 * KIB)
    for size in (1000, len(long)):
        got = reading_of(in_pieces(text("a") + long, size), limits=limits)
        assert (got.error and got.error.bound, got.reply.text) == ("max_whole_event_bytes", "a")


def test_nothing_is_kept_if_nothing_is_to_be_kept() -> None:
    got = read(said("Hi", thinking="Hm."), calls(call("f", {})), end(), keep=False)
    assert (got.shown_text, got.reply.text, got.reply.reasoning) == ("Hi", "", "")
    assert [c.arguments for c in got.reply.tool_calls] == ["{}"]


# -- the end ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("word", "reason"),
    [("stop", "end_turn"), ("length", "max_tokens"), ("load", "load"), ("unload", "unload"), ("new", "new")],
)
def test_stop_reasons(word: str, reason: str) -> None:
    assert read(text("x"), end(word)).reply.stop_reason == reason


def test_a_call_cut_for_length_is_cut_unless_it_came_whole() -> None:
    made = read(calls(call("f", {"a": 1})), calls(call("g")), end("length")).reply.tool_calls
    assert [c.status for c in made] == ["whole", "cut"]


def test_nothing_after_the_mark_is_read() -> None:
    got = read(text("a"), end(), text("b"), b"nonsense\n")
    assert (got.kind, got.reply.text) == (None, "a")


def test_the_last_line_needs_no_end() -> None:
    assert read(text("a"), end().rstrip(b"\n")).reply.stop_reason == "end_turn"
    got = read(text("a"), end()[:-5])
    assert (got.kind, "in the middle" in str(got.error)) == ("incomplete", True)


def test_a_whole_reply_in_one_line_is_one() -> None:
    message = {"content": "a", "thinking": "t", "tool_calls": [call("f", {})]}
    got = read(line({"model": "m", "message": message, "done": True, "done_reason": "stop"}))
    assert (got.kind, got.reply.text, got.reply.reasoning) == (None, "a", "t")
    assert [c.status for c in got.reply.tool_calls] == ["whole"]


def test_line_ends_and_blank_lines() -> None:
    body = b"\xef\xbb\xbf \r\n" + text("a\N{LINE SEPARATOR}b").replace(b"\n", b"\r\n\r\n") + end()
    assert read(body).reply.text == "a\N{LINE SEPARATOR}b"


def test_done_alone_is_incomplete() -> None:
    for mark in (b"[DONE]\n", b" [DONE] \r\n"):
        got = read(text("a"), mark, end())
        assert (got.kind, "[DONE]" in str(got.error)) == ("incomplete", True)


# -- errors and odd lines -----------------------------------------------------------------------------------------------


def test_an_error_in_the_stream_wins() -> None:
    for pieces in ([line({"error": "model not found"})], [text("a"), line({"error": "model not found"}), end()]):
        got = read(*pieces)
        assert (got.kind, "model not found" in str(got.error)) == ("provider_error", True)
    torn = read(text("a"), line({"error": "model not found"}).rstrip(b"\n"))
    assert torn.kind == "provider_error", "also without the end of its line"


def test_context_overflow_is_a_kind_of_its_own() -> None:
    error = read(line({"error": "the input length exceeds the context length"})).error
    assert error is not None
    assert error.code == "context_overflow"


@pytest.mark.parametrize(
    "body",
    [
        b"nothing\n",
        b"5\n",
        b'{"message": 5}\n',
        b'{"message": {"content": 5}}\n',
        b'{"message": {"content": NaN}}\n',
        b'{"message": {"tool_calls": 5}}\n',
        b'{"message": {"tool_calls": [5]}}\n',
        b'{"message": {"tool_calls": [{"function": 5}]}}\n',
        b'{"message": {}, "done": "yes"}\n',
        b'{"message": ' + b"[" * 100_000 + b"\n",
        b"{\n",
    ],
)
def test_lines_that_cannot_be_meant_stop_the_stream(body: bytes) -> None:
    for pieces in ([body], [text("x"), body]):
        got = reading_of([*pieces, end()])
        assert got.kind == "malformed_event"
        assert f"event {len(pieces)} " in str(got.error)


def test_other_bodies_are_told_apart() -> None:
    assert "looks like openai_chat" in str(reading_of([b'{"choices": []}\n']).error)
    assert "event stream's" in str(reading_of([b"data: {}\n\n"]).error)
    for body in (b"<html>", b"[]", b"\x1f\x8b\x08"):
        assert reading_of([body]).kind == "not_a_stream"
    assert reading_of([]).kind == "incomplete"


def test_odd_counts_do_no_harm() -> None:
    assert read(text("a"), end(prompt_eval_count=-1, eval_count=2**70)).reply.usage is None
    assert read(text("a"), end(prompt_eval_count=True, eval_count="x")).reply.usage is None


def tolerated(*parts: bytes) -> dict[str, int]:
    got = read(*parts)
    assert got.kind is None
    return got.reply.tolerances


def test_each_tolerance_of_lines() -> None:
    assert tolerated(line({"news": 1}), end()) == {"unknown_line": 1}
    assert tolerated(text("a"), line({"choices": []}), end()) == {"unknown_line": 1}
    assert tolerated(text("a"), end(None)) == {"no_done_reason": 1}
    assert tolerated(calls(call("f", '{"a":1}')), end()) == {"string_arguments": 1}
    assert tolerated(text("\ud83d", "\ude00"), end()) == {"torn_surrogate": 1}
    assert tolerated(line({"response": "a", "thinking": "t", "done": False}), end()) == {"response_for_message": 1}
    assert tolerated(said(None, thinking=None, tool_calls=None), end()) == {}  # type: ignore[arg-type]


def test_torn_pairs_are_put_together() -> None:
    got = read(text("a\ud83d", "\ude00b"), said(thinking="\ud83d"), end())
    assert (got.reply.text, got.reply.reasoning) == ("a\N{GRINNING FACE}b", "\N{REPLACEMENT CHARACTER}")
    assert got.shown_text == got.reply.text


def test_every_tolerance_is_named_in_a_test() -> None:
    source = (Path(sluice.wire.dialects.__file__).parent / "ollama.py").read_text("utf-8")
    here = Path(__file__).read_text("utf-8")
    rules = set(re.findall(r'tolerate\("(\w+)"\)', source))
    assert rules
    assert [rule for rule in sorted(rules) if f'"{rule}"' not in here] == []


def test_intent_tells_the_members_of_a_call() -> None:
    reader = ReplyReader("ollama", intent=True)
    kinds = [type(delta).__name__ for delta in reader.feed(calls(call("f", {"path": "a"})))]
    assert kinds == ["CallOpened", "CallArgument", "CallProgress", "CallClosed"]


# -- properties ---------------------------------------------------------------------------------------------------------

words = st.text(max_size=6)
entries = st.builds(
    lambda n, a, id: call(n, a, id=id),
    st.sampled_from(["f", "g"]),
    st.dictionaries(words, words, max_size=2),
    st.sampled_from([None, "a", "b"]),
)
lines = st.one_of(
    st.builds(lambda c: said(c), words),
    st.builds(lambda c, t: said(c, thinking=t), words, words),
    st.builds(lambda made: calls(*made), st.lists(entries, max_size=2)),
)
streams = st.lists(lines, min_size=1, max_size=6).map(b"".join)
LAST = end(prompt_eval_count=5, eval_count=7)


@settings(deadline=None)
@given(streams, st.integers(1, 40))
def test_any_split_gives_the_same_and_a_naive_reader_agrees(body: bytes, size: int) -> None:
    body += LAST
    got = reading_of([body])
    assert reading_of(in_pieces(body, size)).result == got.result
    reply = got.reply
    assert got.kind is None
    assert (got.shown_text, got.shown_reasoning) == (reply.text, reply.reasoning)
    assert reply.usage is not None
    assert naive_read(body) == {
        "text": reply.text,
        "reasoning": reply.reasoning,
        "calls": [(c.name, json.loads(c.arguments)) for c in reply.tool_calls],
        "stop": reply.stop_reason,
        "tokens": (reply.usage.input_tokens, reply.usage.output_tokens),
    }


@settings(deadline=None)
@given(streams, st.data())
def test_any_prefix_is_incomplete(body: bytes, data: st.DataObject) -> None:
    body += LAST
    cut = data.draw(st.integers(0, len(body) - 2))
    assert reading_of([body[:cut]]).kind == "incomplete"


@settings(deadline=None)
@given(streams, st.data())
def test_a_damaged_byte_ends_in_a_reply_or_one_of_our_errors(body: bytes, data: st.DataObject) -> None:
    damaged = bytearray(body + LAST)
    damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    got = reading_of([bytes(damaged)])
    assert got.kind in (None, "incomplete", "malformed_event", "provider_error", "not_a_stream")
    for made in got.reply.tool_calls:
        assert made.status != "whole" or isinstance(json.loads(made.arguments), dict)
