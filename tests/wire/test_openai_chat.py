"""The Chat dialect's events: what the documents say, and each departure that real servers make."""

from __future__ import annotations

import ast
import base64
import inspect
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from chat_streams import DONE, call, calls, chunk, event, read, text

import sluice.wire
from sluice.values.calls import ToolSpec
from sluice.values.messages import SystemMessage, Usage, UserMessage
from sluice.values.requests import ModelOptions
from sluice.wire import DIALECTS
from sluice.wire.dialects.chat_messages import GIVEN_BACK

STOP = chunk({}, "stop")
CALLS = chunk({}, "tool_calls")


# -- what the documents say ---------------------------------------------------------------------------------------------


def test_text_reasoning_calls_usage_model_and_id() -> None:
    got = read(
        chunk({"role": "assistant", "content": "", "refusal": None}),
        chunk({"reasoning_content": "think "}),
        chunk({"reasoning": "more"}),
        chunk({"content": "Hé", "tool_calls": [call(0, "a", "f", '{"x":')]}),
        chunk({"content": " 🍸", "tool_calls": [call(0, None, None, "1}"), call(1, "b", "g", "{}")]}),
        CALLS,
        event({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 4, "cost": 0.5,
               "prompt_tokens_details": {"cached_tokens": 3}, "completion_tokens_details": {"reasoning_tokens": 2}}}),
        DONE,
    )  # fmt: skip
    reply = got.whole
    assert reply is not None
    assert (reply.text, reply.reasoning, reply.stop_reason) == ("Hé 🍸", "think more", "tool_use")
    assert [(c.id, c.name, c.arguments) for c in reply.tool_calls] == [("a", "f", '{"x":1}'), ("b", "g", "{}")]
    assert reply.usage == Usage(input_tokens=9, output_tokens=4, cached_tokens=3, reasoning_tokens=2, cost=0.5)
    assert (reply.model, reply.id, reply.dialect, reply.tolerances) == ("m1", "c1", "openai_chat", {})
    message = reply.message()
    assert (message.content, [r.text for r in message.reasoning]) == ("Hé 🍸", ["think more"])


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("stop", "end_turn"),
        ("tool_calls", "tool_use"),
        ("function_call", "tool_use"),
        ("length", "max_tokens"),
        ("content_filter", "content_filter"),
        ("eos_token", "eos_token"),
    ],
)
def test_stop_reasons(word: str, reason: str) -> None:
    reply = read(calls(call(0, "a", "f", "{}")), chunk({}, word)).whole
    assert reply is not None
    assert reply.stop_reason == reason
    assert (reply.tool_calls[0].status == "whole") is (reason in ("end_turn", "tool_use"))


def test_the_call_may_stand_in_the_event_of_the_finish_reason() -> None:
    reply = read(calls(call(0, "a", "f", '{"x":1}'), finish="tool_calls")).whole
    assert reply is not None
    assert reply.tool_calls[0].status == "whole"


def test_a_refusal_is_kept_apart_and_names_the_stop_reason() -> None:
    reply = read(chunk({"refusal": "I "}), chunk({"content": "x", "refusal": "won't"}), STOP).whole
    assert reply is not None
    assert (reply.text, reply.refusal, reply.stop_reason) == ("x", "I won't", "refusal")


def test_done_ends_reading_and_alone_makes_nothing_whole() -> None:
    got = read(text("a"), STOP, DONE, DONE, b"data: {bad\n\n", text("never"))
    assert got.whole is not None
    assert got.whole.text == "a"
    assert got.reader.ended
    alone = read(text("a"), calls(call(0, "a", "f", "{}")), DONE)
    assert alone.kind == "incomplete"
    assert "[DONE] without a finish_reason" in str(alone.error)
    assert alone.partial.tool_calls[0].status == "cut"


def test_done_is_a_whole_data_field_and_no_part_of_one() -> None:
    got = read(text("data: [DONE]", "[DONE]"), STOP)
    assert got.whole is not None
    assert got.whole.text == "data: [DONE][DONE]"
    assert read(text("a"), STOP, b"data: [DONE]junk\n\n").kind == "malformed_event"
    assert read(text("a"), STOP, b"data:  [DONE] \n\ndata: {bad\n\n").whole is not None


def test_only_the_first_choice_is_read_and_the_others_are_counted() -> None:
    second = {"index": 2, "delta": {"content": "no", "tool_calls": [call(0, "z", "f", "{}")]}, "finish_reason": "stop"}
    got = read(text("a"), event({"choices": [second, {"index": 0, "delta": {"content": "b"}}]}))
    assert got.kind == "incomplete", "another choice's finish is not ours"
    assert (got.partial.text, got.partial.other_choices, got.partial.tool_calls) == ("ab", 2, ())


# -- errors inside a stream ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "words", "code"),
    [
        (event({"error": {"message": "quota", "code": "insufficient_quota"}}), "quota", "insufficient_quota"),
        (event({"error": {"message": "busy", "type": "overloaded_error"}}), "busy", "overloaded_error"),
        (event({"error": {"message": "no", "code": 429}, "choices": []}), "no", "429"),
        (event({"error": "plain words"}), "plain words", None),
        (event({"error": {"error": {"message": "inner", "code": "c"}}}), "inner", "c"),
        (event({"error": {"metadata": {"raw": 1}}}), '{"metadata": {"raw": 1}}', None),
        (event({"object": "error", "message": "vllm", "code": 400}), "vllm", "400"),
        (event({"message": "flat", "code": "x"}), "flat", "x"),
        (event({"detail": "fastapi"}), "fastapi", None),
        (b'event: error\ndata: {"error": {"message": "named"}}\n\n', "named", None),
        (b'event: error\ndata: {"message": "bare"}\n\n', "bare", None),
        (b"event: error\ndata: not JSON\n\n", "not JSON", None),
        (b"event: error\ndata:\n\n", "", None),
        (chunk({"content": "x"}, error={"message": "beside"}), "beside", None),
        (event({"choices": [{"index": 0, "delta": {}, "error": {"message": "in the choice"}}]}), "in the choice", None),
        (event({"choices": [{"delta": {"content": []}, "error": {"message": "odd choice"}}]}), "odd choice", None),
        (event({"error": {"message": "odd event"}, "choices": 5}), "odd event", None),
        (chunk({}, "error"), "finish_reason 'error'", None),
        (event({"error": {"message": "half \ud800"}}, ascii_only=True), "half \ufffd", None),
    ],
)
def test_an_error_wins_in_every_shape(body: bytes, words: str, code: str | None) -> None:
    for before in (b"", text("partly"), text("partly") + STOP):
        got = read(before, body, STOP, DONE)
        assert got.kind == "provider_error"
        assert got.error is not None
        assert words in str(got.error)
        assert got.error.code == code
        assert got.partial.text.startswith("partly" if before else "")


def test_an_empty_error_member_is_no_error() -> None:
    for empty in (None, "", {}, False):
        assert read(chunk({"content": "a"}, error=empty), STOP).whole is not None
        assert read(event({"id": 5, "choices": [{"delta": {"content": "a"}}], "error": empty}), STOP).whole is not None


def test_an_error_nested_too_deeply_to_show_is_still_an_error() -> None:
    for depth in (90, 400):
        body = b'data: {"error":' + b'{"error":' * depth + b"{}" + b"}" * depth + b"}\n\n"
        assert read(body).kind in ("provider_error", "malformed_event")


@pytest.mark.parametrize("data", [b"{bad", b"[]", b"5", b"null", b'"text"', b"{} {}", b'{"a":NaN}', b'{"c":"\xff"}x',
                                  b'{"choices":[{"delta":{"content":"\xff\xfe"}}]}', b": OPENROUTER PROCESSING",
                                  b'{"choices":5}', b'{"choices":{"delta":{}}}', b'{"choices":[5]}', b"[" * 100_000,
                                  b'{"choices":[{"delta":{"content":5}}]}', b'{"choices":[{"delta":{"tool_calls":5}}]}',
                                  b'{"choices":[{"delta":{"tool_calls":[null]}}]}', b'{"choices":[{"delta":"x"}]}',
                                  b'{"choices":[{"index":1e999,"delta":{}}]}',
                                  b'{"choices":[{"delta":{"tool_calls":[{"function":"f"}]}}]}'])  # fmt: skip
def test_what_cannot_be_an_event_stops_the_stream_at_once(data: bytes) -> None:
    got = read(text("a", "b"), b"data: " + data + b"\n\n", text("c"), STOP)
    assert got.kind == "malformed_event"
    assert str(got.error).startswith("event 3 ")
    assert repr(data[:256].decode("utf-8", "replace")[:64]) in str(got.error), "the first 64 characters"
    assert got.partial.text == "ab"
    assert got.shown_text == "ab"


# -- tolerances, each by its name ---------------------------------------------------------------------------------------


def tolerance_content_parts() -> None:
    parts = [{"type": "text", "text": "a"}, "b", {"type": "thinking", "thinking": [{"type": "text", "text": "t"}, "u"]}]
    reply = read(chunk({"content": parts}), chunk({"content": []}), STOP).whole
    assert reply is not None
    assert (reply.text, reply.reasoning, reply.tolerances) == ("ab", "tu", {"content_parts": 2})


def tolerance_unknown_content_part() -> None:
    reply = read(chunk({"content": [{"type": "image", "url": "x"}, {"type": "text", "text": "a"}]}), STOP).whole
    assert reply is not None
    assert (reply.text, reply.tolerances) == ("a", {"content_parts": 1, "unknown_content_part": 1})


def tolerance_object_arguments() -> None:
    reply = read(calls(call(0, "a", "f", {"x": [1, "é"]})), CALLS).whole
    assert reply is not None
    assert reply.tool_calls[0].arguments == '{"x":[1,"é"]}'
    assert reply.tool_calls[0].status == "whole"
    assert reply.tolerances == {"object_arguments": 1}
    for odd in ([1], 5, 0, True, False):
        reply = read(calls(call(0, "a", "f", odd)), CALLS).whole
        assert reply is not None
        assert (reply.tool_calls[0].status, reply.tool_calls[0].arguments) == ("malformed", json.dumps(odd)), "never {}"


def tolerance_no_choices() -> None:
    azure = event({"id": "", "model": "", "choices": [], "prompt_filter_results": []})
    reply = read(azure, event({"type": "ping"}), event({"choices": None}), text("a"), STOP).whole
    assert reply is not None
    assert (reply.id, reply.model, reply.text) == ("c1", "m1", "a")
    assert reply.tolerances == {"no_choices": 3}


def tolerance_empty_event() -> None:
    reply = read(b"event: ping\ndata: \n\n", text("a"), b"data:\n\n", STOP).whole
    assert reply is not None
    assert (reply.text, reply.tolerances) == ("a", {"empty_event": 2})


def tolerance_legacy_function_call() -> None:
    got = read(
        chunk({"content": "so", "function_call": {"name": "f", "arguments": '{"x"'}}),
        chunk({"function_call": {"arguments": ":1}"}}),
        chunk({}, "function_call"),
    )
    assert got.whole is not None
    assert [(c.id, c.name, c.arguments, c.status) for c in got.whole.tool_calls] == [
        ("call_0", "f", '{"x":1}', "whole")
    ]
    assert got.whole.tolerances == {"legacy_function_call": 2}
    odd = read(chunk({"function_call": {"name": "f", "arguments": {"x": 1}}}), chunk({}, "function_call")).whole
    assert odd is not None
    assert odd.tool_calls[0].arguments == '{"x":1}'


def tolerance_second_finish_reason() -> None:
    for words, reason in (
        (("tool_calls", "stop"), "tool_use"),
        (("stop", "tool_calls"), "tool_use"),
        (("stop", "length"), "max_tokens"),
        (("length", "stop"), "max_tokens"),
        (("tool_calls", "odd_word"), "odd_word"),
    ):
        reply = read(calls(call(0, "a", "f", "{}")), *(chunk({}, w) for w in words)).whole
        assert reply is not None
        assert (reply.stop_reason, reply.tolerances) == (reason, {"second_finish_reason": 1})
        assert (reply.tool_calls[0].status == "whole") is (reason == "tool_use")
    assert read(chunk({}, "stop"), chunk({}, "stop")).reply.tolerances == {}


def tolerance_odd_finish_reason() -> None:
    reply = read(calls(call(0, "a", "f", "{}")), chunk({}, {"type": "stop"})).whole
    assert reply is not None
    assert reply.tolerances == {"odd_finish_reason": 1}
    assert reply.tool_calls[0].status == "cut"


def tolerance_torn_surrogate() -> None:
    reply = read(text("a\ud83c", "\udf78b"), STOP).whole
    assert reply is not None
    assert (reply.text, reply.tolerances) == ("a🍸b", {"torn_surrogate": 2})
    for pieces, right in (
        (("a\ud83c", "b", "c"), "a\ufffdbc"),
        (("a\ud83c",), "a\ufffd"),
        (("\udf78",), "\ufffd"),
        (("\ud83c", "\ud83c", "\udf78"), "\ufffd🍸"),
        (("x \ud83c", "\udf78 y \ud83c", "\udf78"), "x 🍸 y 🍸"),
    ):
        got = read(text(*pieces), STOP)
        assert got.reply.text == got.shown_text == right
        thought = read(*(chunk({"reasoning_content": p}) for p in pieces), STOP)
        assert thought.reply.reasoning == thought.shown_reasoning == right
    everywhere = read(
        chunk({"refusal": "r\ud83c", "tool_calls": [call(0, "i\ud83c", "n\ud83c", '"\ud83c')]}),
        chunk({}, "odd\ud83c"),
    ).reply
    json.dumps(msgspec.to_builtins(everywhere), ensure_ascii=False).encode()  # whatever came can be stored
    msgspec.json.encode(everywhere)


def tolerance_object_reasoning() -> None:
    parts = [chunk({"reasoning": {"text": "a"}}), chunk({"reasoning_content": {"content": "b"}}), text("c"), STOP]
    reply = read(*parts).whole
    assert reply is not None
    assert (reply.reasoning, reply.text, reply.tolerances) == ("ab", "c", {"object_reasoning": 2})


def tolerance_message_for_delta() -> None:
    message = {"content": "all", "reasoning": "why", "tool_calls": [call(0, "a", "f", "{}")]}
    for body in (
        event({"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}),
        event({"id": 5, "choices": [{"message": message, "delta": None, "finish_reason": "tool_calls"}]}),
    ):
        reply = read(body).whole
        assert reply is not None
        assert (reply.text, reply.reasoning, reply.tool_calls[0].status) == ("all", "why", "whole")
        assert reply.tolerances == {"message_for_delta": 1}


def tolerance_message_after_deltas() -> None:
    whole = event({"choices": [{"index": 0, "message": {"content": "ab"}, "finish_reason": "stop"}]})
    reply = read(text("a", "b"), whole).whole
    assert reply is not None
    assert (reply.text, reply.tolerances) == ("ab", {"message_after_deltas": 1})
    beside = event({"choices": [{"index": 0, "delta": {"content": "a"}, "message": {"content": "a"}}]})
    assert read(beside, STOP).reply.text == "a"


def tolerance_call_after_finish() -> None:
    got = read(
        calls(call(0, "a", "f", "{}")), CALLS, calls(call(1, "b", "g", '{"x":1}')), calls(call(2, "c", "h", "{"))
    )
    assert got.whole is not None
    assert [(c.name, c.status) for c in got.whole.tool_calls] == [("f", "whole"), ("g", "whole"), ("h", "cut")]
    assert got.whole.tolerances == {"call_after_finish": 2}
    assert [type(d).__name__ for d in got.deltas] == ["CallOpened", "CallClosed"] + ["CallOpened"] * 2 + [
        "CallClosed"
    ] * 2, "each call is opened and closed once"


TOLERANCES = {
    name.removeprefix("tolerance_"): test
    for name, test in dict(globals()).items()
    if name.startswith("tolerance_") and inspect.isfunction(test)
}


@pytest.mark.parametrize("name", TOLERANCES)
def test_each_tolerance(name: str) -> None:
    TOLERANCES[name]()


def test_every_tolerance_in_the_source_has_its_test() -> None:
    source = Path(sluice.wire.__file__).parent / "dialects" / "openai_chat.py"
    found = set()
    for node in ast.walk(ast.parse(source.read_text("utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "tolerate":
            found |= {a.value for a in node.args if isinstance(a, ast.Constant)}
    assert found == set(TOLERANCES)


# -- small departures that need no name ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "odd",
    [
        chunk(None),
        chunk({"content": None, "tool_calls": None, "reasoning_content": None, "function_call": None}),
        chunk({"content": "", "tool_calls": []}, ""),
        event({"choices": [{"delta": {}}], "usage": {}}),
        event({"choices": [{"delta": {}}], "usage": [1]}),
        event({"choices": [{"delta": {"unknown": {"deep": [1]}}, "logprobs": {"content": []}}], "x": 1}),
        event({"choices": [{"delta": {"tool_calls": [{"index": 0, "function": None}]}}]}).replace(b"0", b"null"),
        b": keep-alive\n\n",
        b"event: message\ndata: " + event({"choices": [{"delta": {}}]})[6:],
    ],
)
def test_events_that_say_nothing_change_nothing(odd: bytes) -> None:
    reply = read(text("a"), odd, text("b"), odd, chunk(None, "stop"), DONE).whole
    assert reply is not None
    assert (reply.text, reply.stop_reason, reply.tool_calls, reply.usage) == ("ab", "end_turn", (), None)


def test_indexes_that_are_no_integers_count_as_missing() -> None:
    for index in ("0", 0.0, True, None):
        entry = {"index": index, "id": "a", "function": {"name": "f", "arguments": "{}"}}
        reply = read(chunk({"tool_calls": [entry]}), CALLS).whole
        assert reply is not None
        assert (reply.tool_calls[0].status, reply.tolerances) == ("whole", {"missing_index": 1})


@pytest.mark.parametrize(
    ("raw", "usage"),
    [
        ({"prompt_tokens": -1, "completion_tokens": "7", "total_tokens": 5}, None),
        ({"prompt_tokens": 1.5, "completion_tokens": True}, None),
        ({"prompt_tokens": 10**400, "cost": 10**400, "completion_tokens": 2}, Usage(output_tokens=2)),
        ({"prompt_tokens": 5, "prompt_cache_hit_tokens": 4, "prompt_tokens_details": None},
         Usage(input_tokens=5, cached_tokens=4)),
        ({"prompt_tokens": 5, "cost": 0}, Usage(input_tokens=5, cost=0.0)),
        ({"prompt_tokens": 5, "cost": -1}, Usage(input_tokens=5)),
    ],
)  # fmt: skip
def test_usage_that_is_no_count_is_not_believed(raw: dict[str, Any], usage: Usage | None) -> None:
    reply = read(text("a"), chunk({}, "stop", usage=raw)).whole
    assert reply is not None
    assert reply.usage == usage


def test_the_last_usage_stands() -> None:
    reply = read(
        chunk({"content": "a"}, usage={"prompt_tokens": 1}), chunk({}, "stop", usage={"prompt_tokens": 2})
    ).whole
    assert reply is not None
    assert reply.usage == Usage(input_tokens=2)
    later = read(text("a"), chunk({}, "stop", usage={"prompt_tokens": 2}), chunk({}, usage={})).whole
    assert later is not None
    assert later.usage == Usage(input_tokens=2), "an empty usage takes nothing back"


def test_a_detail_beside_choices_is_no_error() -> None:
    assert read(event({"detail": "filtered", "choices": []}), text("a"), STOP).whole is not None


# -- vectors of another project -----------------------------------------------------------------------------------------

CODEX_DIFFERS = {
    "0001": "[DONE] alone says only that the server stopped sending (W6)",
    "0007": "the same, with nothing said at all",
}


def test_the_vectors_of_a_chat_client(shared: Path) -> None:
    path = shared / "vectors" / "stream" / "chat_codex.jsonl"
    for line in path.read_text("utf-8").splitlines():
        row = json.loads(line)
        right = row["expected"]
        got = read(base64.b64decode(row["input_b64"]))
        if "error_logged" in right or "error" in right:
            assert got.kind == "malformed_event"
            continue
        same = (
            got.whole is not None
            and got.reply.text == (right.get("text") or "")
            and got.reply.reasoning == right.get("reasoning", "")
            and [(c.id, c.name, c.arguments) for c in got.reply.tool_calls]
            == [(c["id"], c["name"], c["arguments"]) for c in right.get("tool_calls", [])]
        )
        assert same != (row["id"].rsplit("-", 1)[1] in CODEX_DIFFERS), row["id"]


# -- requests -----------------------------------------------------------------------------------------------------------


def body_of(options: ModelOptions, specs: tuple[ToolSpec, ...] = ()) -> dict[str, Any]:
    request = DIALECTS["openai_chat"].request((SystemMessage("s"), UserMessage("u")), specs, options)
    assert (request.path, request.auth, request.headers) == ("/chat/completions", "bearer", ())
    body = json.loads(request.body)
    assert isinstance(body, dict)
    return body


SPEC = ToolSpec(name="f", description="does f", parameters={"type": "object"}, category="read_only")


def test_only_what_is_set_is_sent() -> None:
    assert body_of(ModelOptions(model="m")) == {
        "model": "m",
        "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    assert "tool_choice" not in body_of(ModelOptions(model="m", tool_choice="auto", parallel_tool_calls=True))


def test_everything_that_is_set_is_sent() -> None:
    options = ModelOptions(
        model="m",
        temperature=0.0,
        top_p=0.5,
        seed=0,
        stop=("x",),
        max_output_tokens=7,
        reasoning_effort="low",
        tool_choice="f",
        parallel_tool_calls=False,
    )
    body = body_of(options, (SPEC,))
    assert body["tools"] == [
        {"type": "function", "function": {"name": "f", "description": "does f", "parameters": {"type": "object"}}}
    ]
    assert body["tool_choice"] == {"type": "function", "function": {"name": "f"}}
    assert {k: body[k] for k in ("temperature", "top_p", "seed", "stop", "max_tokens", "reasoning_effort")} == {
        "temperature": 0.0,
        "top_p": 0.5,
        "seed": 0,
        "stop": ["x"],
        "max_tokens": 7,
        "reasoning_effort": "low",
    }
    assert body["parallel_tool_calls"] is False


@pytest.mark.parametrize("word", ["auto", "none", "required"])
def test_a_tool_choice_that_is_a_word(word: str) -> None:
    assert body_of(ModelOptions(model="m", tool_choice=word), (SPEC,))["tool_choice"] == word


@pytest.mark.parametrize(("model", "key"), [("o3-mini", "max_completion_tokens"), ("gpt-5", "max_completion_tokens"),
                                            ("gpt-4o", "max_tokens"), ("llama-3", "max_tokens")])  # fmt: skip
def test_the_output_limit_has_the_name_that_the_model_knows(model: str, key: str) -> None:
    assert body_of(ModelOptions(model=model, max_output_tokens=5))[key] == 5


def test_a_reply_that_brought_reasoning_content_remembers_it_be_it_empty() -> None:
    for delta in ({"reasoning_content": "hm"}, {"reasoning_content": ""}, {"reasoning_content": "\ud800"}):
        assert read(chunk(delta), text("a"), STOP).whole.native == GIVEN_BACK  # type: ignore[union-attr]
    for delta in (
        {"reasoning": "hm"},
        {"reasoning_content": None, "reasoning": "hm"},
        {"reasoning": {"text": "hm"}},
        {},
    ):
        assert read(chunk(delta), text("a"), STOP).whole.native is None  # type: ignore[union-attr]
    assert read(chunk({"reasoning_content": "hm"})).partial.native == GIVEN_BACK
