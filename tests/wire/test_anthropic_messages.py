"""Replies in Anthropic Messages: blocks, the end, errors, usage, and each tolerance by its name."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from messages_streams import (
    DONE,
    begin,
    call,
    delta,
    end,
    event,
    naive_read,
    read,
    reading_of,
    start,
    stop,
    text,
    thinking,
)

import sluice.wire.dialects
from sluice.limits import DEFAULT_LIMITS
from sluice.testing.splits import in_pieces
from sluice.values.deltas import CallClosed, CallOpened, ReasoningDelta, TextDelta
from sluice.values.messages import KNOWN_STOP_REASONS, Reasoning, Usage
from sluice.wire.dialects.anthropic_messages import STOP_REASONS

ARGS = '{"path": "a"}'


# -- text, reasoning, calls ---------------------------------------------------------------------------------------------


def test_a_whole_reply() -> None:
    got = read(
        begin(),
        thinking(0, "Hm.", "sig"),
        text(1, "Hel", "lo"),
        event("ping"),
        call(2, "toolu_1", "read_file", "", '{"path"', ': "a"}'),
        end("tool_use"),
    )
    reply = got.reply
    assert (got.kind, reply.text, reply.reasoning, reply.stop_reason) == (None, "Hello", "Hm.", "tool_use")
    assert [(c.id, c.name, c.arguments, c.status, c.index) for c in reply.tool_calls] == [
        ("toolu_1", "read_file", ARGS, "whole", 2)
    ]
    assert (reply.id, reply.model, reply.tolerances) == ("msg_1", "m1", {})
    assert reply.blocks == (Reasoning(text="Hm.", signature="sig"),)
    assert got.deltas == [
        ReasoningDelta("Hm."),
        TextDelta("Hel"),
        TextDelta("lo"),
        CallOpened(0, "toolu_1", "read_file"),
        CallClosed(0, "toolu_1", "read_file", "whole"),
    ]


def test_a_call_is_told_when_its_name_is_there_and_when_its_block_is_closed() -> None:
    pieces = [
        begin(),
        start(0, "tool_use", id="a", name="f", input={}),
        delta(0, "input_json_delta", partial_json="{}"),
    ]
    assert reading_of(pieces).deltas == [CallOpened(0, "a", "f")]
    assert reading_of([*pieces, stop(0)]).deltas == [CallOpened(0, "a", "f"), CallClosed(0, "a", "f", "whole")]


def test_interleaved_calls_go_by_index_and_come_in_its_order() -> None:
    got = read(
        begin(),
        start(3, "tool_use", id="b", name="g", input={}),
        start(1, "tool_use", id="a", name="f", input={}),
        delta(3, "input_json_delta", partial_json='{"y"'),
        delta(1, "input_json_delta", partial_json='{"x"'),
        delta(3, "input_json_delta", partial_json=":2}"),
        delta(1, "input_json_delta", partial_json=":1}"),
        stop(1),
        stop(3),
        end("tool_use"),
    )
    assert [(c.id, c.arguments, c.index) for c in got.reply.tool_calls] == [("a", '{"x":1}', 1), ("b", '{"y":2}', 3)]
    assert got.reply.tolerances == {}, "other blocks have numbers too, so a gap is no departure"


def test_interleaved_text_blocks_are_told_apart() -> None:
    got = read(
        begin(),
        start(0, "text", text="a"),
        start(1, "text", text=""),
        delta(1, "text_delta", text="B"),
        delta(0, "text_delta", text="c"),
        delta(1, "citations_delta", citation={"type": "char_location", "cited_text": "x", "file_id": None}),
        end(),
    )
    assert got.reply.text == got.shown_text == "aBc"
    assert json.loads(got.reply.native or "") == [
        {"type": "text", "text": "ac"},
        {"type": "text", "text": "B", "citations": [{"type": "char_location", "cited_text": "x"}]},
    ]


def test_without_arguments_a_call_has_an_empty_object() -> None:
    assert [c.arguments for c in read(begin(), call(0, "a", "f"), end("tool_use")).reply.tool_calls] == ["{}"]


def test_two_calls_with_one_id_are_two() -> None:
    got = read(begin(), call(0, "a", "f", "{}"), call(1, "a", "f", '{"x":1}'), end("tool_use"))
    assert [(c.id, c.arguments) for c in got.reply.tool_calls] == [("a", "{}"), ("a_2", '{"x":1}')]


def test_nothing_is_kept_if_nothing_is_to_be_kept() -> None:
    got = read(begin(), thinking(0, "Hm.", "s"), text(1, "Hi"), call(2, "a", "f", ARGS), end("tool_use"), keep=False)
    reply = got.reply
    assert (got.shown_text, reply.text, reply.reasoning, reply.blocks, reply.native) == ("Hi", "", "", (), None)
    assert [c.arguments for c in reply.tool_calls] == [ARGS]


# -- what goes back -----------------------------------------------------------------------------------------------------


def test_text_and_calls_alone_need_no_form_of_their_own() -> None:
    caller = {"type": "direct"}
    got = read(
        begin(), text(0, "x"), start(1, "tool_use", id="a", name="f", input={}, caller=caller), stop(1), end("tool_use")
    )
    assert got.reply.native is None
    assert read(begin(), thinking(0, "unsigned"), text(1, "x"), end()).reply.native is None
    assert read(begin(), thinking(0, "unsigned"), end()).reply.blocks == (Reasoning(text="unsigned"),)


def test_what_neutral_fields_cannot_carry_is_kept_in_order() -> None:
    result = {"type": "web_search_result", "url": "u", "encrypted_content": "e"}
    got = read(
        begin(),
        thinking(0, "Hm.", "sig"),
        start(1, "redacted_thinking", data="blob"),
        stop(1),
        start(2, "server_tool_use", id="srv_1", name="web_search", input={}),
        delta(2, "input_json_delta", partial_json='{"query":'),
        delta(2, "input_json_delta", partial_json='"x"}'),
        stop(2),
        start(3, "web_search_tool_result", tool_use_id="srv_1", content=[result]),
        stop(3),
        text(4, "Found."),
        start(5, "compaction", content=None),
        delta(5, "compaction_delta", content=None),
        delta(5, "compaction_delta", content="Summary.", encrypted_content="c"),
        stop(5),
        start(
            6, "tool_use", id="a", name="f", input={}, caller={"type": "code_execution_20250825", "tool_id": "srv_1"}
        ),
        delta(6, "input_json_delta", partial_json=ARGS),
        stop(6),
        end("tool_use"),
    )
    assert got.reply.blocks == (Reasoning(text="Hm.", signature="sig"), Reasoning(redacted="blob"))
    assert [c.name for c in got.reply.tool_calls] == ["f"], "what the server runs is no call of ours"
    assert json.loads(got.reply.native or "") == [
        {"type": "thinking", "thinking": "Hm.", "signature": "sig"},
        {"type": "redacted_thinking", "data": "blob"},
        {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "x"}},
        {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [result]},
        {"type": "text", "text": "Found."},
        {"type": "compaction", "content": "Summary.", "encrypted_content": "c"},
        {
            "type": "tool_use",
            "id": "a",
            "name": "f",
            "input": {},
            "caller": {"type": "code_execution_20250825", "tool_id": "srv_1"},
        },
    ]
    assert got.reply.tolerances == {}


def test_what_would_be_refused_does_not_go_back() -> None:
    got = read(
        begin(),
        thinking(0, "unsigned"),
        text(1, " "),
        thinking(2, "signed", "s"),
        start(3, "server_tool_use", id="srv_1", name="web_search", input={}),
        delta(3, "input_json_delta", partial_json='{"query": "cu'),
        end("max_tokens"),
    )
    assert json.loads(got.reply.native or "") == [{"type": "thinking", "thinking": "signed", "signature": "s"}]


def test_a_partial_reply_has_no_form_of_its_own() -> None:
    got = read(begin(), thinking(0, "Hm.", "sig"), text(1, "x"))
    assert (got.kind, got.partial.native) == ("incomplete", None)
    assert got.partial.blocks == (Reasoning(text="Hm.", signature="sig"),)


# -- the end ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", [*STOP_REASONS, "something_new"])
def test_stop_reasons(word: str) -> None:
    reason = read(begin(), text(0, "x"), end(word)).reply.stop_reason
    assert reason == STOP_REASONS.get(word, word)
    assert (reason in KNOWN_STOP_REASONS) == (word in STOP_REASONS)


def test_a_stop_reason_alone_is_not_the_end() -> None:
    parts = [begin(), text(0, "x"), event("message_delta", delta={"stop_reason": "end_turn"}, usage={})]
    for more in (b"", DONE):
        got = read(*parts, more)
        assert (got.kind, got.partial.text, got.partial.stop_reason) == ("incomplete", "x", None)


def test_message_stop_without_a_reason_is_not_the_end_either() -> None:
    got = read(begin(), text(0, "x"), event("message_stop"), b": more\n\n")
    assert (got.kind, got.partial.stop_reason) == ("incomplete", None)


def test_nothing_after_message_stop_is_read() -> None:
    whole = read(begin(), text(0, "x"), end())
    for more in (
        DONE,
        b"event: data\n" + DONE,
        begin(id="msg_2") + text(0, "y") + end(),
        event("error", error={}),
        b"\xff",
    ):
        assert read(begin(), text(0, "x"), end(), more).reply == whole.reply


def test_any_prefix_is_incomplete() -> None:
    body = begin() + thinking(0, "Hm.", "s") + text(1, "é🙂") + call(2, "a", "f", ARGS) + end("tool_use")
    last = body.rindex(b"}")
    for cut in range(last):
        got = reading_of([body[:cut]])
        assert got.kind == "incomplete", cut
        assert "whole" not in {c.status for c in got.partial.tool_calls} or body[:cut].count(b"content_block_stop") > 2
    assert reading_of([body[: last + 1]]).kind is None, "the last event needs no blank line"


@pytest.mark.parametrize(
    ("fragments", "status"), [((ARGS,), "whole"), (('{"path": "a',), "cut"), ((), "cut"), (('{"a":1}x',), "malformed")]
)
def test_when_the_reply_was_cut_a_stopped_block_is_whole_only_if_its_arguments_are(
    fragments: tuple[str, ...], status: str
) -> None:
    got = read(begin(), call(0, "a", "f", *fragments), end("max_tokens"))
    assert [c.status for c in got.reply.tool_calls] == [status]
    assert [d.status for d in got.deltas if isinstance(d, CallClosed)] == [status]


def test_a_block_that_was_not_stopped_is_cut_with_the_reply() -> None:
    open_call = start(0, "tool_use", id="a", name="f", input={}) + delta(0, "input_json_delta", partial_json=ARGS)
    assert [c.status for c in read(begin(), open_call, end("max_tokens")).reply.tool_calls] == ["cut"]
    assert [c.status for c in read(begin(), open_call, end("tool_use")).reply.tool_calls] == ["whole"]


def test_a_refusal_keeps_its_explanation() -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": "Not this."}
    got = read(
        begin(),
        event("message_delta", delta={"stop_reason": "refusal", "stop_details": details}, usage={}),
        event("message_stop"),
    )
    assert (got.reply.stop_reason, got.reply.refusal) == ("refusal", "Not this.")


# -- errors -------------------------------------------------------------------------------------------------------------


def test_an_error_in_the_stream_wins() -> None:
    error = {"type": "overloaded_error", "message": "Overloaded"}
    for said in (
        event("error", error=error),
        b"event: error\ndata: " + json.dumps({"error": error}).encode() + b"\n\n",
    ):
        got = read(begin(), text(0, "x"), call(1, "a", "f", ARGS), said, end())
        assert got.error is not None
        assert (got.kind, got.error.code, got.partial.text) == ("provider_error", "overloaded_error", "x")
        assert "Overloaded" in str(got.error)
    assert read(b"event: error\ndata: not json\n\n").kind == "provider_error"


def test_a_conversation_too_long_for_the_model_is_recognised() -> None:
    got = read(
        event("error", error={"type": "invalid_request_error", "message": "prompt is too long: 9 tokens > 8 maximum"})
    )
    assert got.error is not None
    assert (got.kind, got.error.code) == ("provider_error", "context_overflow")
    assert "9 tokens > 8 maximum" in str(got.error)


@pytest.mark.parametrize(
    "data",
    [
        b"{bad",
        b"[]",
        b"null",
        b'"text"',
        b'{"type":"content_block_start","index":0}',
        b'{"type":"content_block_start","index":0,"content_block":[]}',
        b'{"type":"content_block_start","index":0,"content_block":{}}',
        b'{"type":"content_block_start","index":0,"content_block":{"type":5}}',
        b'{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":5}}',
        b'{"type":"content_block_delta","index":0,"delta":"text"}',
        b'{"type":"message_start"}',
        b'{"type":"message_delta","delta":[1]}',
        b'{"type":"ping","x":NaN}',
        b"[" * 100_000,
        b'{"type":"content_block_start","content_block":{"type":"x","y":' + b"[" * 50_000 + b"]" * 50_000 + b"}}",
    ],
)
def test_an_event_that_cannot_be_meant_stops_the_stream(data: bytes) -> None:
    got = reading_of([begin() + text(0, "x") + b"data: " + data + b"\n\n" + end()])
    assert got.kind == "malformed_event"
    assert got.partial.text == "x"


def test_a_second_message_inside_the_first_stops_the_stream() -> None:
    first = (
        begin()
        + start(0, "tool_use", id="a", name="f", input={})
        + delta(0, "input_json_delta", partial_json='{"x":"Sp')
    )
    for id in ("msg_2", "msg_1"):
        got = read(first, begin(id=id), call(0, "b", "f", '{"x":"Spark"}'), end("tool_use"))
        assert got.kind == "malformed_event"
        assert [(c.id, c.arguments, c.status) for c in got.partial.tool_calls] == [("a", '{"x":"Sp', "cut")]
    assert read(begin(), begin(id="msg_2"), text(0, "x"), end()).kind == "malformed_event"


@pytest.mark.parametrize(
    ("first", "name"),
    [
        ({"id": "c", "object": "chat.completion.chunk", "choices": []}, "openai_chat"),
        ({"type": "response.created", "response": {}}, "openai_responses"),
        ({"candidates": []}, "gemini"),
        ({"model": "m", "message": {}, "done": False}, "ollama"),
    ],
)
def test_another_dialect_is_named(first: dict[str, Any], name: str) -> None:
    got = read(b"data: " + json.dumps(first).encode() + b"\n\n")
    assert (got.kind, str(got.error).endswith(f"looks like {name}")) == ("malformed_event", True)


def test_bounds_hold_for_calls_and_for_what_the_server_runs() -> None:
    limits = msgspec.structs.replace(DEFAULT_LIMITS, max_arguments_bytes=10, max_calls_per_reply=2)
    for kind in ("tool_use", "server_tool_use"):
        opened = begin() + start(0, kind, id="a", name="f", input={})
        fine = opened + delta(0, "input_json_delta", partial_json="0123456789")
        assert read(fine, limits=limits).kind == "incomplete"
        got = read(fine, delta(0, "input_json_delta", partial_json="x"), limits=limits)
        assert got.error is not None
        assert (got.kind, got.error.bound) == ("limit", "max_arguments_bytes")
    got = read(begin(), *(call(i, f"c{i}", "f", "{}") for i in range(3)), limits=limits)
    assert got.error is not None
    assert (got.kind, got.error.bound) == ("limit", "max_calls_per_reply")


# -- usage --------------------------------------------------------------------------------------------------------------


def test_usage_is_cumulative_and_input_includes_the_cached() -> None:
    got = read(
        begin(
            usage={
                "input_tokens": 5,
                "output_tokens": 1,
                "cache_read_input_tokens": 100,
                "cache_creation_input_tokens": 20,
            }
        ),
        text(0, "x"),
        event("message_delta", delta={}, usage={"output_tokens": 4}),
        end(output_tokens=9, input_tokens=7, output_tokens_details={"thinking_tokens": 3}, cost=0.25),
    )
    assert got.reply.usage == Usage(
        input_tokens=127, output_tokens=9, cached_tokens=100, cache_write_tokens=20, reasoning_tokens=3, cost=0.25
    )


def test_usage_that_is_no_count_is_left_out() -> None:
    got = read(
        begin(usage={"input_tokens": "5", "output_tokens": None, "cache_read_input_tokens": True}), text(0, "x"), end()
    )
    assert got.reply.usage == Usage(output_tokens=9)
    assert (
        read(
            begin(usage=None), event("message_delta", delta={"stop_reason": "end_turn"}), event("message_stop")
        ).reply.usage
        is None
    )


def test_a_ping_is_life_and_no_progress() -> None:
    reader = reading_of([begin(), text(0, "x")]).reader
    before = reader.events
    assert reading_of([begin(), event("ping"), text(0, "x"), event("ping")]).reader.events == before


# -- tolerances ---------------------------------------------------------------------------------------------------------

Check = Callable[[Any], bool]
T: dict[str, tuple[list[bytes], Check]] = {
    "empty_event": ([begin(), b"event: ping\ndata: \n\n", text(0, "x"), end()], lambda r: r.text == "x"),
    "type_from_event_name": (
        [begin(), b'event: content_block_start\ndata: {"index":0,"content_block":{"type":"text","text":"x"}}\n\n', end()],
        lambda r: r.text == "x",
    ),
    "unknown_event": ([begin(), event("news", x=1), text(0, "x"), end()], lambda r: r.text == "x"),
    "repeated_message_start": ([begin(), begin(), text(0, "x"), end()], lambda r: r.text == "x"),
    "content_in_message_start": (
        [
            begin(content=[{"type": "text", "text": "x"}, {"type": "tool_use", "id": "a", "name": "f", "input": {"p": 1}}],
                  stop_reason="tool_use"),
            event("message_stop"),
        ],
        lambda r: r.text == "x" and [(c.id, c.arguments) for c in r.tool_calls] == [("a", '{"p":1}')],
    ),
    "no_message_start": ([text(0, "x"), end()], lambda r: r.text == "x"),
    "odd_stop_reason": ([begin(), end(7)], lambda r: r.stop_reason == "7"),
    "second_stop_reason": (
        [begin(), event("message_delta", delta={"stop_reason": "max_tokens"}), end("end_turn")],
        lambda r: r.stop_reason == "max_tokens",
    ),
    "unstopped_block": ([begin(), start(0, "text", text="x"), end()], lambda r: r.text == "x"),
    "unknown_block": (
        [begin(), start(0, "hologram", data=1), stop(0), text(1, "x"), end()],
        lambda r: json.loads(r.native)[0] == {"type": "hologram", "data": 1},
    ),
    "reused_index": (
        [begin(), call(0, "a", "f", '{"x":1}'), call(0, "b", "g", '{"y":2}'), end("tool_use")],
        lambda r: [(c.id, c.arguments, c.status) for c in r.tool_calls]
        == [("a", '{"x":1}', "whole"), ("b", '{"y":2}', "whole")],
    ),
    "missing_index": (
        [begin(), start(0, "text", text="x"), delta(None, "text_delta", text="y"), stop(None), end()],
        lambda r: r.text == "xy",
    ),
    "stop_of_no_block": ([begin(), text(0, "x"), stop(5), end()], lambda r: r.text == "x"),
    "start_input_dropped": (
        [begin(), start(0, "tool_use", id="a", name="f", input={"x": 0}),
         delta(0, "input_json_delta", partial_json='{"x":1}'), stop(0), end("tool_use")],
        lambda r: r.tool_calls[0].arguments == '{"x":1}',
    ),
    "empty_delta": (
        [begin(), event("content_block_delta", index=0, delta=None), text(0, "x"), end()], lambda r: r.text == "x"
    ),
    "delta_without_type": (
        [begin(), start(0, "text", text=""), event("content_block_delta", index=0, delta={"text": "x"}), end()],
        lambda r: r.text == "x",
    ),
    "delta_of_other_kind": (
        [begin(), start(0, "text", text=""), delta(0, "signature_delta", signature="s"),
         delta(0, "thinking_delta", thinking="t"), delta(0, "input_json_delta", partial_json="{"), stop(0), end()],
        lambda r: (r.reasoning, r.tool_calls, r.native) == ("t", (), None),
    ),
    "object_arguments": (
        [begin(), start(0, "tool_use", id="a", name="f", input={}),
         delta(0, "input_json_delta", partial_json={"x": 1}), stop(0), end("tool_use")],
        lambda r: (r.tool_calls[0].arguments, r.tool_calls[0].status) == ('{"x":1}', "whole"),
    ),
    "delta_after_stop": (
        [begin(), call(0, "a", "f", '{"x"'), call(1, "b", "g", "{}"), delta(0, "input_json_delta", partial_json=":1}"),
         end("tool_use")],
        lambda r: [(c.id, c.arguments, c.status) for c in r.tool_calls]
        == [("a", '{"x":1}', "whole"), ("b", "{}", "whole")],
    ),
    "unopened_block": (
        [begin(), delta(0, "text_delta", text="x"), delta(1, "thinking_delta", thinking="t"),
         delta(2, "input_json_delta", partial_json="{}"), end("tool_use")],
        lambda r: (r.text, r.reasoning, [(c.id, c.status) for c in r.tool_calls]) == ("x", "t", [("call_2", "malformed")]),
    ),
    "unknown_delta": ([begin(), start(0, "text", text="x"), delta(0, "glow_delta", x=1), end()], lambda r: r.text == "x"),
    "second_signature": (
        [begin(), thinking(0, "t", "first", "last"), end()], lambda r: r.blocks == (Reasoning(text="t", signature="last"),)
    ),
    "torn_surrogate": (
        [begin(), text(0, "\ud83d", "\ude42!"), thinking(1, "\ud83d", "s"), text(2, "\ude42"), end()],
        lambda r: (r.text, r.reasoning) == ("🙂!\ufffd", "\ufffd"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("rule", T)
def test_tolerance(rule: str) -> None:
    parts, check = T[rule]
    got = read(*parts)
    assert got.kind is None, got.error
    assert rule in got.reply.tolerances
    assert check(got.reply), got.reply
    assert (got.shown_text, got.shown_reasoning) == (got.reply.text, got.reply.reasoning)


def test_every_tolerance_of_this_dialect_has_a_test() -> None:
    folder = Path(sluice.wire.dialects.__file__).parent
    named: set[str] = set()
    for path in folder.glob("anthropic_*.py"):
        named |= set(re.findall(r'tolerate\("(\w+)"\)', path.read_text("utf-8")))
    assert named == set(T)


def test_each_delta_of_another_kind_is_counted() -> None:
    for odd in (
        delta(0, "signature_delta", signature="s"),
        delta(0, "thinking_delta", thinking="t"),
        delta(0, "input_json_delta", partial_json="{"),
        delta(0, "compaction_delta", content="c"),
    ):
        got = read(begin(), start(0, "text", text="x"), odd, stop(0), end())
        assert got.reply.tolerances == {"delta_of_other_kind": 1}


def test_halves_of_a_pair_in_two_blocks_are_no_pair() -> None:
    assert read(begin(), text(0, "\ud83d"), text(1, "\ude42"), end()).reply.text == "\ufffd\ufffd"


def test_a_first_block_without_an_index_is_the_first() -> None:
    got = read(begin(), start(None, "text", text="x"), stop(None), text(1, "y"), end())
    assert (got.reply.text, got.reply.tolerances) == ("xy", {"missing_index": 1})


def test_input_at_the_start_of_a_call_counts_if_nothing_follows() -> None:
    given_input = start(0, "tool_use", id="a", name="f", input={"sql": "SELECT 1"})
    got = read(begin(), given_input, stop(0), end("tool_use"))
    assert [(c.arguments, c.status) for c in got.reply.tool_calls] == [('{"sql":"SELECT 1"}', "whole")]
    assert [c.arguments for c in read(begin(), given_input, end("tool_use")).reply.tool_calls] == ['{"sql":"SELECT 1"}']
    odd = read(begin(), start(0, "tool_use", id="a", name="f", input=[1]), stop(0), end("tool_use"))
    assert [c.status for c in odd.reply.tool_calls] == ["malformed"], "never taken for none"


# -- properties ---------------------------------------------------------------------------------------------------------

words = st.text(st.characters(codec="utf-8"), max_size=6)


@st.composite
def replies(draw: st.DrawFn) -> bytes:
    """Streams of the documented form."""
    parts = [begin()]
    has_call = False
    for index in range(draw(st.integers(0, 5))):
        match draw(st.sampled_from(["text", "thinking", "call", "ping"])):
            case "text":
                parts.append(text(index, *draw(st.lists(words, max_size=3))))
            case "thinking":
                parts.append(thinking(index, draw(words), *draw(st.lists(st.just("sig"), max_size=1))))
            case "call":
                has_call = True
                arguments = json.dumps(draw(st.dictionaries(words, words, max_size=2)))
                cut = draw(st.integers(0, len(arguments)))
                parts.append(call(index, f"c{index}", "f", arguments[:cut], arguments[cut:]))
            case _:
                parts.append(event("ping"))
    return b"".join([*parts, end("tool_use" if has_call else draw(st.sampled_from(list(STOP_REASONS))))])


@settings(deadline=None, max_examples=100)
@given(replies(), st.integers(1, 64))
def test_a_documented_stream_is_read_the_same_under_any_split_and_by_a_naive_reader(body: bytes, size: int) -> None:
    got = reading_of([body])
    assert reading_of(in_pieces(body, size)).result == got.result
    naive = naive_read(body)
    assert naive is not None
    reply = got.reply
    assert got.kind is None
    assert (reply.text, reply.reasoning, reply.stop_reason) == (naive["text"], naive["reasoning"], naive["stop"])
    assert [(c.id, c.name, json.loads(c.arguments)) for c in reply.tool_calls] == [
        (id, name, json.loads(arguments)) for id, name, arguments in naive["calls"]
    ]
    assert [(b.text, b.signature) for b in reply.blocks] == naive["signed"]
    assert (got.shown_text, got.shown_reasoning) == (reply.text, reply.reasoning)


@settings(deadline=None, max_examples=300)
@given(replies(), st.data())
def test_any_corrupted_byte_ends_in_a_reply_or_in_one_of_our_errors(body: bytes, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(body) - 1))
    body = body[:place] + bytes([data.draw(st.integers(0, 255))]) + body[place + 1 :]
    got = reading_of([body])
    assert reading_of(in_pieces(body, 3)).result == got.result
    assert (got.shown_text, got.shown_reasoning) == (got.reply.text, got.reply.reasoning)
    for made in got.reply.tool_calls:
        if made.status == "whole":
            assert isinstance(json.loads(made.arguments), dict)
    assert (
        msgspec.json.decode(msgspec.json.encode(got.reply.message()), type=type(got.reply.message()))
        == got.reply.message()
    )


@settings(deadline=None, max_examples=200)
@given(st.lists(st.sampled_from([
    begin(), text(0, "a"), text(1, "b"), thinking(0, "t", "s"), call(0, "a", "f", ARGS), call(1, "b", "g", "{"),
    start(0, "text", text="x"), start(2, "server_tool_use", id="s", name="n", input={}), start(None, "tool_use"),
    delta(0, "text_delta", text="y"), delta(2, "input_json_delta", partial_json="{"), delta(7, "glow"),
    delta(0, "compaction_delta", content="c"), stop(0), stop(2), stop(9), event("ping"),
    event("news"), end(), end("max_tokens"),
]), max_size=10))  # fmt: skip
def test_events_in_any_order_end_in_a_reply_or_in_one_of_our_errors(parts: list[bytes]) -> None:
    got = reading_of([b"".join(parts)])
    assert reading_of(parts).result == got.result
    assert (got.shown_text, got.shown_reasoning) == (got.reply.text, got.reply.reasoning)
    assert got.kind in (None, "incomplete", "malformed_event")
