"""The Responses dialect's events: what the documents say, and each departure that servers make."""

from __future__ import annotations

import ast
import inspect
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from responses_streams import (
    DONE,
    added,
    begin,
    call,
    delta,
    done,
    end,
    event,
    message,
    naive_read,
    read,
    reading_of,
    said,
    text,
)

import sluice.wire.dialects
from sluice.limits import Limits
from sluice.values.deltas import CallClosed, CallOpened, ReasoningDelta, TextDelta
from sluice.values.messages import Reasoning, Usage

# -- what the documents say ---------------------------------------------------------------------------------------------


def test_text_reasoning_calls_usage_model_and_id() -> None:
    got = read(
        begin(),
        event("response.in_progress", response={"id": "resp_1"}),
        added(0, "reasoning", summary=[]),
        event("response.reasoning_summary_part.added", output_index=0, item_id="i0", summary_index=0, part={}),
        delta(0, "reasoning_summary_text", "think "),
        delta(0, "reasoning_summary_text", "more"),
        event("response.reasoning_summary_text.done", output_index=0, text="think more"),
        done(0, "reasoning", summary=[{"type": "summary_text", "text": "think more"}]),
        message(1, "Hé", " 🍸"),
        call(2, "a", "f", '{"x":', "1}"),
        call(3, "b", "g", "{}"),
        end(model="m1", usage={"input_tokens": 9, "output_tokens": 4, "cost": 0.5,
            "input_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 1},
            "output_tokens_details": {"reasoning_tokens": 2}},
            output=[{"type": "message", "id": "i1", "content": said("Hé 🍸")}]),
    )  # fmt: skip
    reply = got.whole
    assert reply is not None
    assert (reply.text, reply.reasoning, reply.stop_reason) == ("Hé 🍸", "think more", "tool_use")
    assert [(c.id, c.name, c.arguments, c.status) for c in reply.tool_calls] == [
        ("a", "f", '{"x":1}', "whole"),
        ("b", "g", "{}", "whole"),
    ]
    assert reply.usage == Usage(
        input_tokens=9, output_tokens=4, cached_tokens=3, cache_write_tokens=1, reasoning_tokens=2, cost=0.5
    )
    assert (reply.model, reply.id, reply.dialect, reply.tolerances) == ("m1", "resp_1", "openai_responses", {})
    assert reply.blocks == (Reasoning(text="think more"),)
    assert reply.native is None
    assert [d for d in got.deltas if isinstance(d, (CallOpened, CallClosed))] == [
        CallOpened(0, "a", "f"),
        CallClosed(0, "a", "f", "whole"),
        CallOpened(1, "b", "g"),
        CallClosed(1, "b", "g", "whole"),
    ]


def test_a_delta_is_handed_out_with_the_byte_that_ends_its_event() -> None:
    got = reading_of([begin() + added(0, "message") + text(0, "a", "b")])
    assert [d for d in got.deltas if isinstance(d, TextDelta)] == [TextDelta("a"), TextDelta("b")]


@pytest.mark.parametrize(
    ("mark", "reason"),
    [
        (end(), "end_turn"),
        (end("incomplete", incomplete_details={"reason": "max_output_tokens"}), "max_tokens"),
        (end("incomplete", incomplete_details={"reason": "content_filter"}), "content_filter"),
        (end("incomplete", incomplete_details={"reason": "moon"}), "moon"),
        (end("incomplete", incomplete_details=None), "incomplete"),
        (end("cancelled"), "aborted"),
    ],
)
def test_stop_reasons(mark: bytes, reason: str) -> None:
    got = read(begin(), message(0, "a"), mark, text(0, "never"), b"data: {bad\n\n")
    assert got.whole is not None
    assert (got.whole.stop_reason, got.whole.text) == (reason, "a")
    assert got.reader.ended


def test_a_call_in_a_completed_reply_is_tool_use_and_a_refusal_a_refusal() -> None:
    refused = (
        begin(),
        added(0, "message"),
        delta(0, "refusal", "I "),
        delta(0, "refusal", "won't"),
        event("response.refusal.done", output_index=0, refusal="I won't"),
        done(0, "message", content=[{"type": "refusal", "refusal": "I won't"}]),
    )
    reply = read(*refused, end()).whole
    assert reply is not None
    assert (reply.text, reply.refusal, reply.stop_reason, reply.tolerances["output_missing_at_end"]) == (
        "",
        "I won't",
        "refusal",
        1,
    )
    assert reply.native is not None, "neutral fields have no place for it"
    both = read(*refused, call(1, "a", "f", "{}"), end()).whole
    assert both is not None
    assert both.stop_reason == "tool_use"


@pytest.mark.parametrize("status", ["completed", "incomplete"])
def test_a_call_is_whole_in_a_cut_reply_only_if_its_item_says_so(status: str) -> None:
    mark = end("incomplete", incomplete_details={"reason": "max_output_tokens"})
    reply = read(begin(), call(0, "a", "f", '{"x":1}', status=status), mark).whole
    assert reply is not None
    assert reply.tool_calls[0].status == ("whole" if status == "completed" else "cut")
    half = read(begin(), call(0, "a", "f", '{"x":', status="incomplete"), mark).whole
    assert half is not None
    assert (half.tool_calls[0].status, half.tool_calls[0].arguments) == ("cut", '{"x":')


def test_interleaved_calls_in_any_order_of_indices() -> None:
    reply = read(
        begin(),
        added(2, "function_call", call_id="b", name="g"),
        added(1, "function_call", call_id="a", name="f"),
        delta(1, "function_call_arguments", '{"x"'),
        delta(2, "function_call_arguments", '{"y"'),
        delta(1, "function_call_arguments", ":1}"),
        delta(2, "function_call_arguments", ":2}"),
        end(),
    ).whole
    assert reply is not None
    assert [(c.id, c.arguments, c.index, c.status) for c in reply.tool_calls] == [
        ("a", '{"x":1}', 1, "whole"),
        ("b", '{"y":2}', 2, "whole"),
    ]


def test_free_text_is_its_own_kind_and_never_whole() -> None:
    got = read(
        begin(),
        added(0, "custom_tool_call", call_id="a", name="sql", input=""),
        delta(0, "custom_tool_call_input", "SELECT "),
        delta(0, "custom_tool_call_input", '{"1":1}'),
        event("response.custom_tool_call_input.done", output_index=0, input='SELECT {"1":1}'),
        done(0, "custom_tool_call", call_id="a", name="sql", input='SELECT {"1":1}', status="completed"),
        end(),
    )
    assert got.whole is not None
    (only,) = got.whole.tool_calls
    assert (only.kind, only.name, only.arguments, only.status) == ("custom", "sql", 'SELECT {"1":1}', "malformed")
    assert "free text" in str(only.problem)
    alone = read(begin(), added(0, "custom_tool_call", call_id="a", name="sql", input="{}"), end()).whole
    assert alone is not None
    assert alone.tool_calls[0].status == "malformed", "text that looks like an object is text"


def test_paragraphs_of_a_summary_and_raw_reasoning() -> None:
    part = event("response.reasoning_summary_part.added", output_index=0, item_id="i0")
    got = read(
        begin(),
        added(0, "reasoning"),
        part,
        delta(0, "reasoning_summary_text", "one"),
        part,
        delta(0, "reasoning_summary_text", "two"),
        done(0, "reasoning", summary=[{"type": "summary_text", "text": t} for t in ("one", "two")]),
        added(1, "reasoning"),
        delta(1, "reasoning_text", " raw"),
        event("response.reasoning_text.done", output_index=1, text=" raw"),
        done(
            1, "reasoning", summary=[], content=[{"type": "reasoning_text", "text": " raw"}], encrypted_content="SEAL"
        ),
        message(2, "x"),
        end(),
    )
    assert got.whole is not None
    assert got.whole.reasoning == "one\n\ntwo raw"
    assert got.whole.blocks == (Reasoning(text="one\n\ntwo"), Reasoning(text=" raw", signature="SEAL"))
    assert "SEAL" in str(got.whole.native)


SERVER_SIDE = [
    {"type": "web_search_call", "id": "i1", "status": "completed", "action": {"type": "search", "query": "q"}},
    {"type": "code_interpreter_call", "id": "i1", "code": "1+1", "container_id": "c", "outputs": None},
    {"type": "mcp_call", "id": "i1", "name": "f", "arguments": "{}", "server_label": "s"},
    {"type": "image_generation_call", "id": "i1", "result": "aGk="},
    {"type": "computer_call", "id": "i1", "call_id": "c", "action": {"type": "click"}},
    {"type": "from_the_future", "id": "i1", "anything": [1, {"a": "é"}]},
]


@pytest.mark.parametrize("item", SERVER_SIDE, ids=lambda item: item["type"])
def test_items_that_are_not_ours_are_kept_and_never_run(item: dict[str, Any]) -> None:
    got = read(
        begin(),
        message(0, "a"),
        added(1, item["type"]),
        event("response.web_search_call.searching", output_index=1),
        event("response.mcp_call_arguments.delta", output_index=1, delta="{}"),
        event("response.code_interpreter_call_code.delta", output_index=1, delta="1+1"),
        event("response.shell_call_output_content.delta", output_index=1, delta={"stdout": "x"}),
        event("response.image_generation_call.partial_image", output_index=1, partial_image_b64="aGk="),
        event("response.output_item.done", output_index=1, item=item),
        end(),
    )
    reply = got.whole
    assert reply is not None
    assert (reply.tool_calls, reply.stop_reason, reply.text) == ((), "end_turn", "a")
    native = json.loads(str(reply.native))
    assert [raw["type"] for raw in native] == ["message", item["type"]]
    assert native[1] == item
    assert reply.tolerances == {"output_missing_at_end": 1}


def test_an_item_of_eight_mebibytes_less_a_little_fits_and_a_larger_one_is_a_bound() -> None:
    image = "A" * (6 * 1024 * 1024)
    item = {"type": "image_generation_call", "id": "i0", "result": image}
    fits = reading_of([begin() + event("response.output_item.done", output_index=0, item=item) + end()])
    assert fits.whole is not None
    assert image in str(fits.whole.native)
    item["result"] = image * 2
    large = reading_of([begin() + event("response.output_item.done", output_index=0, item=item) + end()])
    assert (large.kind, large.error and large.error.bound) == ("limit", "max_whole_event_bytes")


# -- errors and ends ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "words", "code"),
    [
        (event("error", code="rate_limit_exceeded", message="slow", param=None), "slow", "rate_limit_exceeded"),
        (event("error", error={"type": "q", "code": "insufficient_quota", "message": "m"}), "m", "insufficient_quota"),
        (event("response.failed", response={"error": {"code": "server_error", "message": "f"}}), "f", "server_error"),
        (event("response.failed", response={"error": None}), "without a word", None),
        (end("completed", error={"code": "x", "message": "late"}), "late", "x"),
        (b'data: {"error": {"message": "bare", "code": 429}}\n\n', "bare", "429"),
        (b'event: error\ndata: {"message": "named"}\n\n', "named", None),
        (b"event: error\ndata: no JSON at all\n\n", "no JSON at all", None),
        (
            event("response.failed", response={"error": {"code": "context_length_exceeded", "message": "too long"}}),
            "too long",
            "context_overflow",
        ),
    ],
)
def test_errors_inside_a_stream_win(body: bytes, words: str, code: str | None) -> None:
    got = read(begin(), text(0, "a"), body, end())
    assert got.kind == "provider_error"
    assert got.error is not None
    assert (words in str(got.error), got.error.code, got.partial.text) == (True, code, "a")


@pytest.mark.parametrize("status", ["incomplete", "failed", "cancelled"])
def test_of_two_words_for_the_end_the_one_that_claims_less_counts(status: str) -> None:
    got = read(begin(), call(0, "a", "f", "{}"), event("response.completed", response={"status": status}))
    if status == "failed":
        assert got.kind == "provider_error"
    else:
        assert got.whole is not None
        assert got.whole.stop_reason == {"incomplete": "incomplete", "cancelled": "aborted"}[status]
    assert got.reply.tolerances["status_differs"] == 1


def test_done_without_a_mark_is_incomplete_and_nothing_is_whole() -> None:
    got = read(begin(), added(0, "function_call", call_id="a", name="f"),
               delta(0, "function_call_arguments", "{}"), DONE, end())  # fmt: skip
    assert got.kind == "incomplete"
    assert got.partial.tool_calls[0].status == "cut"
    assert read(begin(), text(0, "a"), b"data:  [DONE] \n\n").kind == "incomplete"
    assert read(begin(), text(0, "a"), end(), DONE).whole is not None


def test_the_older_name_of_the_mark() -> None:
    reply = read(begin(), message(0, "a"), event("response.done", response={"status": "completed"})).whole
    assert reply is not None
    assert (reply.stop_reason, reply.tolerances["done_for_completed"]) == ("end_turn", 1)


@pytest.mark.parametrize(
    "data",
    [b"{bad", b"[1]", b'"x"', b"3", b"null", b'{"type": 3}', b"{}", b'{"type":"response.x","n":NaN}', b"[" * 100_000],
)
def test_events_that_cannot_be_meant_stop_the_stream(data: bytes) -> None:
    got = reading_of([begin() + text(0, "a") + b"data: " + data + b"\n\n" + end()])
    assert got.kind == "malformed_event"
    assert "event 3 " in str(got.error)
    assert got.partial.text == "a"


@pytest.mark.parametrize(
    "body",
    [
        event("response.output_item.added", output_index=0, item={"id": "x"}),
        event("response.output_item.done", output_index=0, item=[]),
        event("response.output_text.delta", output_index=0, delta=["a"]),
        event("response.function_call_arguments.delta", output_index=0, delta={"a": 1}),
    ],
)
def test_known_events_of_another_form_are_malformed(body: bytes) -> None:
    assert read(begin(), body, end()).kind == "malformed_event"


@pytest.mark.parametrize(
    ("first", "name"),
    [
        (b'data: {"id":"c","choices":[{"delta":{"content":"x"}}]}\n\n', "openai_chat"),
        (b'event: message_start\ndata: {"type":"message_start","message":{}}\n\n', "anthropic_messages"),
        (b'data: {"candidates":[{"content":{"parts":[{"text":"x"}]}}]}\n\n', "gemini"),
        (b'data: {"model":"m","message":{"content":"x"},"done":false}\n\n', "ollama"),
    ],
)
def test_another_dialect_is_named(first: bytes, name: str) -> None:
    got = read(first)
    assert got.kind == "malformed_event"
    assert f"looks like {name}" in str(got.error)


# -- tolerances ---------------------------------------------------------------------------------------------------------

WHOLE_CALL = {"call_id": "a", "name": "f", "status": "completed"}
ENDED = [{"type": "message", "id": "i0", "content": said("ab")}]

# Each: the events after the start, text, calls (id, arguments, status), and what is counted.
TOLERANCES: dict[str, tuple[bytes, str, list[tuple[str, str, str]]]] = {
    "missing_created": (b"", "", []),
    "item_not_opened": (text(0, "a") + done(0, "message", content=said("a")), "a", []),
    "missing_output_index": (
        added(..., "message") + text(..., "a") + done(..., "message", content=said("a")), "a", []),
    "repeated_item": (added(0, "message") + added(0, "message") + text(0, "a"), "a", []),
    "reused_output_index": (
        call(0, "a", "f", '{"x":1}') + call(0, "b", "f", '{"x":2}'), "",
        [("a", '{"x":1}', "whole"), ("b", '{"x":2}', "whole")]),
    "changing_item_id": (
        added(0, "message") + text(0, "a")
        + event("response.output_item.done", output_index=0, item={"type": "message", "id": "z", "content": said("a")}),
        "a", []),
    "changing_response_id": (event("response.in_progress", response={"id": "resp_2"}), "", []),
    "changing_id": (
        added(0, "function_call", call_id="early", name="f") + done(0, "function_call", **WHOLE_CALL, arguments="{}"),
        "", [("a", "{}", "whole")]),
    "text_only_at_end": (added(0, "message") + done(0, "message", content=said("ab")), "ab", []),
    "text_completed_at_end": (message(0, "a")[:0] + added(0, "message") + text(0, "a")
                              + done(0, "message", content=said("ab")), "ab", []),
    "text_differs_at_end": (added(0, "message") + text(0, "ab") + done(0, "message", content=said("xyz")), "ab", []),
    "arguments_only_at_end": (
        added(0, "function_call", call_id="a", name="f", arguments="")
        + done(0, "function_call", **WHOLE_CALL, arguments='{"x":1}'), "", [("a", '{"x":1}', "whole")]),
    "arguments_differ_at_end": (
        added(0, "function_call", call_id="a", name="f") + delta(0, "function_call_arguments", '{"x":1}')
        + done(0, "function_call", **WHOLE_CALL, arguments='{"x":2}'), "", [("a", '{"x":2}', "whole")]),
    "object_arguments": (
        added(0, "function_call", call_id="a", name="f")
        + done(0, "function_call", **WHOLE_CALL, arguments={"x": 1}), "", [("a", '{"x":1}', "whole")]),
    "orphan_fragment": (message(0, "a") + delta(0, "function_call_arguments", "{}"), "a", []),
    "unknown_event": (event("response.from_the_future", output_index=0) + event("keepalive"), "", []),
    "empty_event": (b"data: \n\n", "", []),
    "type_from_event_name": (
        b'event: response.output_text.delta\ndata: {"output_index":0,"delta":"a"}\n\n', "a", []),
    "torn_surrogate": (added(0, "message") + text(0, "\ud83c", "\udf78", "b"), "🍸b", []),
}  # fmt: skip


@pytest.mark.parametrize("rule", TOLERANCES)
def test_each_tolerance_by_name(rule: str) -> None:
    events, words, calls = TOLERANCES[rule]
    start = b"" if rule == "missing_created" else begin()
    got = read(start, events, end())
    assert got.whole is not None
    assert got.whole.text == words
    assert [(c.id, c.arguments, c.status) for c in got.whole.tool_calls] == calls
    assert got.whole.tolerances.get(rule), got.whole.tolerances


# What only the whole reply at the end can show: its `output` after the events.
AT_THE_END: dict[str, tuple[bytes, Any, str, list[str]]] = {
    "output_missing_at_end": (message(0, "ab"), [], "ab", []),
    "output_differs_at_end": (message(0, "xy"), ENDED, "xy", []),
    "item_only_at_end": (b"", ENDED, "ab", []),
    "refusal_only_at_end": (b"", [{"type": "message", "content": [{"type": "refusal", "refusal": "no"}]}], "", []),
    "reasoning_only_at_end": (
        b"", [{"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}], "", []),
    "text_completed_at_end": (added(0, "message") + text(0, "a"), ENDED, "ab", []),
    "arguments_only_at_end": (
        added(0, "function_call", call_id="a", name="f"),
        [{"type": "function_call", **WHOLE_CALL, "arguments": '{"x":1}'}], "", ['{"x":1}']),
}  # fmt: skip


@pytest.mark.parametrize("rule", AT_THE_END)
def test_each_tolerance_of_the_whole_reply_by_name(rule: str) -> None:
    events, output, words, calls = AT_THE_END[rule]
    got = read(begin(), events, end(output=output))
    assert got.whole is not None
    assert got.whole.text == words
    assert [(c.arguments, c.status) for c in got.whole.tool_calls] == [(a, "whole") for a in calls]
    assert got.whole.tolerances.get(rule), got.whole.tolerances


def test_the_lists_of_tolerances_are_complete() -> None:
    named = set()
    folder = Path(inspect.getfile(sluice.wire.dialects)).parent
    for module in ("openai_responses", "responses_output"):
        for node in ast.walk(ast.parse((folder / f"{module}.py").read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                values = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
                if node.func.attr == "tolerate":
                    named.update(values)
                elif node.func.attr == "open" and values:
                    named.add(values[-1])
    tested_apart = {"status_differs", "done_for_completed"}
    assert named - tested_apart <= TOLERANCES.keys() | AT_THE_END.keys()


# -- one item, said more than once --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("held", "fragments", "final"),
    [
        ('{"q":1}', ['{"q"', ":1}"], ""),  # all of it with the opening, and again as deltas
        ('{"q"', [":1}"], ""),  # a beginning with the opening
        ('{"q":1}', [], ""),  # with the opening alone
        ("{}", ['{"q":1}'], ""),  # an empty object in the place of what comes
        ('{"q":1}', ['{"q":1}'], '{"q":1}'),
        ('{"q":9}', [], '{"q":1}'),
        ("", ['{"q":1}'], '{"q":1}'),
        ("", [], '{"q":1}'),
    ],
)
@pytest.mark.parametrize("closed", [True, False])
def test_arguments_said_with_the_opening_in_fragments_and_at_the_end(
    held: str, fragments: list[str], final: str, closed: bool
) -> None:
    opened = added(0, "function_call", call_id="a", name="f", arguments=held)
    pieces = b"".join(delta(0, "function_call_arguments", f) for f in fragments)
    ended = event("response.function_call_arguments.done", output_index=0, arguments=final) if final else b""
    if closed:
        ended += done(0, "function_call", call_id="a", name="f", arguments=final)
    reply = read(begin(), opened, pieces, ended, end()).whole
    assert reply is not None
    (only,) = reply.tool_calls
    assert (only.arguments, only.status) == ('{"q":1}', "whole")


def test_text_is_never_said_twice_however_often_its_end_is() -> None:
    part = event("response.output_text.done", output_index=0, content_index=0, text="ab")
    last = done(0, "message", content=said("ab"))
    for pieces in (text(0, "a", "b"), b""):
        got = read(begin(), added(0, "message"), pieces, part, part, last, last, end(output=ENDED))
        assert got.whole is not None
        assert got.whole.text == "ab"


def test_two_parts_of_a_message_and_two_messages_at_once() -> None:
    second = event("response.output_text.done", output_index=0, content_index=1, text="cd")
    got = read(begin(), added(0, "message"), text(0, "ab"),
               event("response.output_text.done", output_index=0, content_index=0, text="ab"), second,
               done(0, "message", content=said("ab") + said("cd")), end())  # fmt: skip
    assert got.whole is not None
    assert (got.whole.text, got.whole.tolerances["text_only_at_end"]) == ("abcd", 1)
    mixed = read(begin(), added(0, "message"), added(1, "message"), text(0, "a"), text(1, "x"), text(0, "b"),
                 text(1, "y"), done(0, "message", content=said("ab")), done(1, "message", content=said("xy")),
                 end())  # fmt: skip
    assert mixed.whole is not None
    assert (mixed.whole.text, mixed.whole.tolerances) == ("axby", {"output_missing_at_end": 1})
    longer = read(begin(), added(0, "message"), added(1, "message"), text(0, "a"), text(1, "x"), text(0, "b"),
                  done(0, "message", content=said("abc")), end())  # fmt: skip
    assert longer.whole is not None
    assert longer.whole.text == "axb", "a rest that would stand in the wrong place is not handed out"
    assert longer.whole.tolerances["text_differs_at_end"] == 1


def test_ids_that_change_with_every_event() -> None:
    ids = (f"r{n}" for n in range(99))

    def rotated(kind: str, **members: Any) -> bytes:
        return event(kind, output_index=0, item_id=next(ids), **members)

    got = read(
        begin(),
        event("response.output_item.added", output_index=0, item={"type": "message", "id": next(ids)}),
        rotated("response.output_text.delta", delta="a"),
        rotated("response.output_text.delta", delta="b"),
        rotated("response.output_text.done", text="ab"),
        end(id=next(ids), output=[{"type": "message", "id": next(ids), "content": said("ab")}]),
    )
    assert got.whole is not None
    assert (got.whole.text, got.whole.id) == ("ab", "resp_1")


def test_a_call_that_only_its_end_names() -> None:
    got = read(begin(), delta(0, "function_call_arguments", "{}"),
               done(0, "function_call", call_id="a", name="f", arguments="{}"), end())  # fmt: skip
    assert got.whole is not None
    assert [(c.id, c.name, c.status) for c in got.whole.tool_calls] == [("a", "f", "whole")]
    assert CallOpened(0, "a", "f") in got.deltas
    unnamed = read(begin(), delta(0, "function_call_arguments", "{}"), end()).whole
    assert unnamed is not None
    assert unnamed.tool_calls[0].status == "malformed"
    renamed = read(begin(), added(0, "function_call", call_id="a", name="f"),
                   done(0, "function_call", call_id="a", name="rm", arguments="{}"), end()).whole  # fmt: skip
    assert renamed is not None
    assert renamed.tool_calls[0].status == "malformed"


def test_fragments_go_to_no_call_that_is_over_or_another() -> None:
    opened = added(0, "function_call", call_id="a", name="f")
    replaced = read(begin(), opened, added(0, "message"), delta(0, "function_call_arguments", "{}"), end())
    assert replaced.whole is not None
    assert replaced.whole.tolerances["orphan_fragment"] == 1
    ended = read(begin(), opened, done(0, "function_call", call_id="a", name="f", arguments='{"x":1}'),
                 delta(0, "function_call_arguments", "{}"), end())  # fmt: skip
    assert ended.whole is not None
    assert (ended.whole.tool_calls[0].arguments, ended.whole.tolerances["orphan_fragment"]) == ('{"x":1}', 1)


def test_without_indices_ids_tell_items_apart_and_without_both_the_last_open_one_counts() -> None:
    def bare(kind: str, **members: Any) -> bytes:
        return event(f"response.{kind}", **members)

    one = {"type": "function_call", "call_id": "a", "name": "f"}
    two = {"type": "function_call", "call_id": "b", "name": "g"}
    unnamed = read(
        begin(),
        bare("output_item.added", item=one),
        bare("output_item.added", item=two),
        bare("output_item.done", item={**two, "arguments": "{}"}),
        bare("function_call_arguments.delta", delta='{"x":1}'),
        bare("output_item.done", item={**one, "arguments": ""}),
        end(),
    ).whole
    assert unnamed is not None
    assert [(c.id, c.arguments) for c in unnamed.tool_calls] == [("a", '{"x":1}'), ("b", "{}")]
    stray = read(
        begin(),
        bare("output_item.added", item={**one, "id": "i1"}),
        bare("function_call_arguments.delta", item_id="i1", delta='{"x":1}'),
        bare("function_call_arguments.delta", item_id="i2", delta='{"y":2}'),
        end(),
    ).whole
    assert stray is not None
    assert [(c.id, c.arguments, c.status) for c in stray.tool_calls] == [
        ("a", '{"x":1}', "whole"),
        ("call_1", '{"y":2}', "malformed"),
    ]


def test_a_call_that_the_server_ran_itself_is_never_whole() -> None:
    reply = read(begin(), added(0, "function_call", call_id="a", name="f"),
                 done(0, "function_call", call_id="a", name="f", arguments="{}", output="8"), end()).whole  # fmt: skip
    assert reply is not None
    assert reply.tool_calls[0].status == "malformed"
    assert "itself" in str(reply.tool_calls[0].problem)


# -- bounds and what is kept --------------------------------------------------------------------------------------------


def test_bounds() -> None:
    many = b"".join(added(n, "message") for n in range(1025))
    got = reading_of([begin() + many])
    assert (got.kind, got.error and got.error.bound) == ("limit", "max_output_items")
    few = read(begin(), added(0, "message"), added(1, "message"), limits=Limits(max_output_items=1))
    assert "max_output_items is 1 items, seen: 2" in str(few.error)
    tight = Limits(max_arguments_bytes=16, max_calls_per_reply=1)
    opened = begin() + added(0, "function_call", call_id="a", name="f")
    for more in (
        delta(0, "function_call_arguments", "é" * 9),
        done(0, "function_call", call_id="a", name="f", arguments="é" * 9),
    ):
        got = read(opened, more, limits=tight)
        assert (got.kind, got.error and got.error.bound) == ("limit", "max_arguments_bytes")
    two = read(opened, added(1, "function_call", call_id="b", name="f"), limits=tight)
    assert (two.kind, two.error and two.error.bound) == ("limit", "max_calls_per_reply")


@pytest.mark.parametrize(
    ("events", "kept"),
    [
        (message(1, "t"), True),
        (added(1, "message") + text(1, "t") + done(1, "message"), False),  # its end names it and nothing in it
        (added(1, "message") + text(1, "t"), False),  # it has no end
        (added(1, "function_call", call_id="a", name="f"), False),
        (added(1, "message"), True),
    ],
)
def test_items_are_kept_only_if_all_that_was_said_is_in_them(events: bytes, kept: bool) -> None:
    sealed = added(0, "reasoning") + done(0, "reasoning", summary=[], encrypted_content="SEAL")
    reply = read(begin(), sealed, events, end()).whole
    assert reply is not None
    assert (reply.native is not None) is kept


def test_ends_that_name_an_item_and_nothing_in_it_leave_the_word_to_the_whole_reply() -> None:
    output = [
        {
            "type": "reasoning",
            "id": "i0",
            "encrypted_content": "SEAL",
            "summary": [{"type": "summary_text", "text": "hm"}],
        },
        {"type": "message", "id": "i1", "content": said("t")},
    ]
    reply = read(
        begin(),
        added(0, "reasoning"),
        delta(0, "reasoning_summary_text", "hm"),
        done(0, "reasoning"),
        added(1, "message"),
        text(1, "t"),
        done(1, "message"),
        end(output=output),
    ).whole
    assert reply is not None
    assert (reply.text, reply.reasoning, reply.tolerances) == ("t", "hm", {})
    assert reply.blocks == (Reasoning(text="hm", signature="SEAL"),)
    assert json.loads(str(reply.native)) == output


def test_the_whole_reply_is_matched_by_id_by_call_and_by_likeness() -> None:
    def whole(id: str, call_id: str, name: str) -> dict[str, Any]:
        return {"type": "function_call", "id": id, "call_id": call_id, "name": name, "arguments": f'{{"n":"{name}"}}'}

    opened = (
        begin(),
        added(0, "function_call", call_id="a", name="f"),
        added(1, "function_call", call_id="b", name="f"),
        added(2, "function_call", call_id="c", name="h"),
    )
    for output in (
        [whole("i1", "x", "f"), whole("i2", "c", "h"), whole("i0", "y", "f")],
        [whole("z1", "b", "f"), whole("z2", "c", "h"), whole("z0", "a", "f")],
        [whole("z2", "z", "h"), whole("z0", "y", "f"), whole("z1", "x", "f")],
    ):
        reply = read(*opened, end(output=output)).whole
        assert reply is not None
        assert [(c.name, c.arguments, c.status) for c in reply.tool_calls] == [
            (name, f'{{"n":"{name}"}}', "whole") for name in ("f", "f", "h")
        ]
        ids = {"x": "x", "y": "y"} if output[0]["call_id"] != "b" else {"x": "b", "y": "a"}
        assert [c.id for c in reply.tool_calls][:2] == [ids["y"], ids["x"]]


def test_where_nothing_is_kept_deltas_are_the_same() -> None:
    body = (
        begin(),
        added(0, "reasoning"),
        delta(0, "reasoning_summary_text", "hm"),
        done(0, "reasoning", encrypted_content="S", summary=[{"type": "summary_text", "text": "hm"}]),
        added(1, "message"),
        text(1, "a"),
        done(1, "message", content=said("ab")),
        call(2, "a", "f", "{}"),
        end(),
    )
    kept, handed = read(*body), read(*body, keep=False)
    assert kept.deltas == handed.deltas
    assert handed.whole is not None
    assert kept.whole is not None
    assert (handed.whole.text, handed.whole.reasoning, handed.whole.native, handed.whole.blocks) == ("", "", None, ())
    assert handed.whole.tool_calls == kept.whole.tool_calls


def test_half_a_pair_that_nothing_follows() -> None:
    got = read(
        begin(), added(0, "message"), text(0, "a", "\ud83c"), delta(0, "reasoning_summary_text", "\udf78"), end()
    )
    assert got.whole is not None
    assert (got.whole.text, got.whole.reasoning) == ("a\ufffd", "\ufffd")


def test_a_lone_half_in_reasoning_keeps_its_place() -> None:
    pieces = [delta(0, "reasoning_summary_text", piece) for piece in ("\ud83c", "x")]
    reply = read(begin(), added(0, "reasoning"), *pieces, end()).whole
    assert reply is not None
    assert reply.reasoning == "\ufffdx"


def test_an_item_that_ends_as_another_kind_is_another_item() -> None:
    got = read(begin(), added(0, "message"), done(0, "function_call", call_id="a", name="f", arguments="{}"), end())
    assert got.whole is not None
    assert [(c.id, c.status) for c in got.whole.tool_calls] == [("a", "whole")]


def test_kept_items_stand_in_the_order_of_their_indices() -> None:
    sealed = added(0, "reasoning") + done(0, "reasoning", summary=[], encrypted_content="SEAL")
    reply = read(begin(), message(1, "t"), sealed, end()).whole
    assert reply is not None
    assert [raw["id"] for raw in json.loads(str(reply.native))] == ["i0", "i1"]


# -- properties ---------------------------------------------------------------------------------------------------------

words = st.text(max_size=8).map(lambda t: t.encode("utf-8", "replace").decode())
items = st.one_of(
    st.tuples(st.just("message"), st.lists(words.filter(bool), max_size=3)),
    st.tuples(st.just("call"), st.dictionaries(words, words, max_size=2).map(json.dumps)),
)


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """Good streams, made of a few items."""
    made = [begin()]
    for index, (kind, what) in enumerate(draw(st.lists(items, max_size=4))):
        if kind == "message":
            made.append(message(index, *what))
        else:
            cut = draw(st.integers(0, len(what)))
            made.append(call(index, f"c{index}", "f", *(p for p in (what[:cut], what[cut:]) if p)))
    return b"".join([*made, end()])


@settings(deadline=None, max_examples=60)
@given(streams(), st.lists(st.integers(1, 400), max_size=30))
def test_any_split_gives_the_same_reply_and_a_naive_reader_the_same(body: bytes, sizes: list[int]) -> None:
    whole = reading_of([body])
    pieces = []
    rest = body
    for size in sizes:
        pieces.append(rest[:size])
        rest = rest[size:]
    assert reading_of([*pieces, rest]).result == whole.result
    naive = naive_read(body)
    assert naive is not None
    assert whole.whole is not None
    assert whole.whole.text == whole.shown_text == naive["text"]
    assert [(c.id, c.name, c.arguments) for c in whole.whole.tool_calls] == naive["calls"]
    assert all(c.status == "whole" for c in whole.whole.tool_calls)


@settings(deadline=None, max_examples=60)
@given(streams(), st.data())
def test_any_prefix_is_incomplete_and_any_torn_byte_ends_in_a_reply_or_an_error(
    body: bytes, data: st.DataObject
) -> None:
    mark = body.index(b"event: response.completed")
    cut = data.draw(st.integers(0, mark))
    broken = reading_of([body[:cut]])
    assert broken.kind == "incomplete"
    place = data.draw(st.integers(0, len(body) - 1))
    torn = body[:place] + bytes([data.draw(st.integers(0, 255))]) + body[place + 1 :]
    reading = reading_of([torn])
    assert (reading.whole is None) is (reading.kind is not None)
    assert reading.shown_text == reading.reply.text
    assert not [d for d in reading.deltas if isinstance(d, ReasoningDelta)]
