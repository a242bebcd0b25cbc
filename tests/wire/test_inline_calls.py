"""Calls and reasoning inside text: every form, every split, and what stays text."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from inline_run import WRITE, Run, check, cut_at, holds

from sluice.errors import StreamError
from sluice.limits import DEFAULT_LIMITS, Limits
from sluice.values.deltas import (
    CallArgument,
    CallClosed,
    CallOpened,
    CallProgress,
    Delta,
    TextDelta,
)
from sluice.values.messages import Reply
from sluice.wire import inline_bodies
from sluice.wire.inline_calls import INLINE_FORMS, NEXT
from sluice.wire.reply import ReplyReader

_ARGS = '{"path": "a.py", "text": "x</tool_call>\\n{}"}'
_WANT: Any = {"path": "a.py", "text": "x</tool_call>\n{}"}
_PLAIN = '{"path": "a"}'

# form, what the model writes, text, reasoning, calls
_CASES: list[tuple[str, str, str, str, list[tuple[str, Any, str]]]] = [
    (
        "hermes",
        f'Let me see.\n<tool_call>\n{{"name": "write", "arguments": {_ARGS}}}\n</tool_call>',
        "Let me see.\n",
        "",
        [("write", _WANT, "whole")],
    ),
    (
        "hermes",
        '<tool_call>{"name":"a","arguments":{}}</tool_call>\n<tool_call>{"arguments":{"x":1},"name":"b"}</tool_call>\n',
        "",
        "",
        [("a", {}, "whole"), ("b", {"x": 1}, "whole")],
    ),
    (
        "hermes",
        '<think>\nhm <tool_call>\n</think>\n\n<tool_call>{"name":"a"}</tool_call> done',
        " done",
        "\nhm <tool_call>\n",
        [("a", {}, "whole")],
    ),
    (
        "hermes",
        '<tool_call>\n{"name":"a"}\n{"name":"b"}\n</tool_call>',
        "",
        "",
        [("a", {}, "whole"), ("b", {}, "whole")],
    ),
    ("hermes", '<tool_call>{"name":"a","arguments":"{\\"x\\":1}"}</tool_call>', "", "", [("a", {"x": 1}, "whole")]),
    ("hermes", '<tool_call>{"name":"a","arguments":"x"}</tool_call>', "", "", [("a", '"x"', "malformed")]),
    ("hermes", '<tool_call>{"name":"a","arguments":{"x":1', "", "", [("a", '{"x":1', "cut")]),
    ("hermes", '<tool_call>{"name":"a","arguments":{"x":1}', "", "", [("a", '{"x":1}', "cut")]),
    ("hermes", '<tool_call>{"name":"a","arguments":{"x":1}}', "", "", [("a", {"x": 1}, "whole")]),
    (
        "hermes",
        '<tool_call>{"name":"a","arguments":{"x":oops}}</tool_call>ok',
        "ok",
        "",
        [("a", '{"x":oops}}', "malformed")],
    ),
    ("hermes", '<tool_call>{"name":"a","arguments":{"x":1}\n</tool_call>.', ".", "", [("a", '{"x":1}', "malformed")]),
    ("hermes", '<tool_call>{"name":"a b"}</tool_call>', "", "", [("a b", "{}", "malformed")]),
    ("hermes", "<tool_call>{nothing}</tool_call>", "<tool_call>{nothing}</tool_call>", "", []),
    ("hermes", '<tool_call>{"na', '<tool_call>{"na', "", []),
    (
        "qwen3_coder",
        'I write.\n<tool_call>\n<function=write>\n<parameter=path>\na.py\n</parameter>\n<parameter=text>\n\nx = "1"\n\n'
        "</parameter>\n</function>\n</tool_call>",
        "I write.\n",
        "",
        [("write", {"path": "a.py", "text": '\nx = "1"\n'}, "whole")],
    ),
    (
        "qwen3_coder",
        "<function=write>\n<parameter=path>a</parameter></function>\n</tool_call>\n<function=list>\n</function>end",
        "end",
        "",
        [("write", {"path": "a"}, "whole"), ("list", {}, "whole")],
    ),
    ("qwen3_coder", "<function=write><parameter=path>\na", "", "", [("write", '{"path": "a', "cut")]),
    ("qwen3_coder", "<function=w><parameter=p>a</parameter>x</function>", "", "", [("w", '{"p": "a"', "malformed")]),
    (
        "qwen3_coder",
        "<function=w><parameter=p>1</parameter><parameter=p>2</parameter></function>",
        "",
        "",
        [("w", '{"p": "1", "p": "2"}', "malformed")],
    ),
    (
        "glm",
        "Ok.<tool_call>write\n<arg_key>path</arg_key>\n<arg_value>a\n</arg_value>\n<arg_key>lines</arg_key>"
        "<arg_value>3</arg_value>\n</tool_call>\n<tool_call>now</tool_call>",
        "Ok.",
        "",
        [("write", {"path": "a\n", "lines": 3}, "whole"), ("now", {}, "whole")],
    ),
    ("glm", "<tool_call>write\n<arg_key>path</arg_key>x", "", "", [("write", "", "malformed")]),
    ("glm", "<tool_call>a tag</tool_call>", "<tool_call>a tag</tool_call>", "", []),
    ("llama", '{"name": "write", "parameters": {"path": "a"}}', "", "", [("write", {"path": "a"}, "whole")]),
    (
        "llama",
        ' {"type":"function","name":"write","parameters":{}}; {"name":"write","parameters":{"path":"b"}}',
        "",
        "",
        [("write", {}, "whole"), ("write", {"path": "b"}, "whole")],
    ),
    ("llama", '{"name": "Ada", "age": 36}', '{"name": "Ada", "age": 36}', "", []),
    ("llama", '{"name": "Ada", "parameters": {}}', '{"name": "Ada", "parameters": {}}', "", []),
    ("llama", '{"name": "write"}', '{"name": "write"}', "", []),
    ("llama", 'Look: {"name": "write", "parameters": {}}', 'Look: {"name": "write", "parameters": {}}', "", []),
    ("llama", '<|python_tag|>{"name":"f","parameters":{"a":[1]}}', "", "", [("f", {"a": [1]}, "whole")]),
    ("llama", '<|python_tag|>brave.call(q="x")', '<|python_tag|>brave.call(q="x")', "", []),
    (
        "function_tag",
        '<function=f>{"a": "</function>"}</function> ok',
        "ok",
        "",
        [("f", {"a": "</function>"}, "whole")],
    ),
    ("function_tag", '<function=f>{"a": oops}</function>', "", "", [("f", '{"a": oops}', "malformed")]),
    ("function_tag", "the <function=f> form", "the <function=f> form", "", []),
    (
        "mistral",
        'Now.[TOOL_CALLS] [{"name": "f", "arguments": {"a": 1}}, {"name": "g", "arguments": {}}]',
        "Now.",
        "",
        [("f", {"a": 1}, "whole"), ("g", {}, "whole")],
    ),
    (
        "mistral",
        '[TOOL_CALLS]f{"a": 1}[TOOL_CALLS]g[ARGS]{}[TOOL_CALLS]h[CALL_ID]a1B2c3D4e[ARGS]{"b": 2}',
        "",
        "",
        [("f", {"a": 1}, "whole"), ("g", {}, "whole"), ("h", {"b": 2}, "whole")],
    ),
    ("mistral", '[TOOL_CALLS]f{"a": [1, ', "", "", [("f", '{"a": [1, ', "cut")]),
    ("mistral", "[TOOL_CALLS] is a token", "[TOOL_CALLS] is a token", "", []),
    (
        "deepseek",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>write\n```json\n" + _PLAIN + "\n```"
        "<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>list\n```json\n{}\n```<｜tool▁call▁end｜>"
        "<｜tool▁calls▁end｜>",
        "",
        "",
        [("write", {"path": "a"}, "whole"), ("list", {}, "whole")],
    ),
    (
        "deepseek",
        "Hm.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>write<｜tool▁sep｜>" + _PLAIN + "<｜tool▁call▁end｜>"
        "<｜tool▁calls▁end｜>",
        "Hm.",
        "",
        [("write", {"path": "a"}, "whole")],
    ),
    (
        "deepseek",
        "<｜tool▁call▁begin｜>f<｜tool▁sep｜>{oops<｜tool▁call▁end｜>x",
        "x",
        "",
        [("f", "{oops", "malformed")],
    ),
    ("think", "<think>a</thin b</think>c <tool_call>", "c <tool_call>", "a</thin b", []),
    ("think", "  <think>a", "", "a", []),
    ("think", "The <think> tag", "The <think> tag", "", []),
    ("think", "a\n<think>b</think>", "a\n", "b", []),
    ("think", "a </think> b", "a </think> b", "", []),
    ("glm", "<tool_call>" + "n" * 140 + "</tool_call>", "<tool_call>" + "n" * 140 + "</tool_call>", "", []),
    ("llama", '{"age":3,"name":"write","parameters":{}}', '{"age":3,"name":"write","parameters":{}}', "", []),
    ("llama", '{"name":"write","parameters":{}};', "", "", [("write", {}, "whole")]),
    ("hermes", '<tool_call>{"name":"a","arguments":"{\\"x', "", "", [("a", '"{\\"x', "cut")]),
    ("hermes", '<tool_call>{"name":"a","arguments":{"x":1} oops</tool_call>', "", "", [("a", '{"x":1}', "malformed")]),
    # fences and quotes
    (
        "hermes",
        '```xml\n<tool_call>{"name":"a"}</tool_call>\n```\n<tool_call>{"name":"b"}</tool_call>',
        '```xml\n<tool_call>{"name":"a"}</tool_call>\n```\n',
        "",
        [("b", {}, "whole")],
    ),
    (
        "hermes",
        '~~~\n```\n<tool_call>{"name":"a"}</tool_call>',
        '~~~\n```\n<tool_call>{"name":"a"}</tool_call>',
        "",
        [],
    ),
    (
        "hermes",
        '```code``` and <tool_call>{"name":"a"}</tool_call>',
        "```code``` and ",
        "",
        [("a", {}, "whole")],
    ),
    ("hermes", 'Say `<tool_call>{"name":"a"}</tool_call>`', 'Say `<tool_call>{"name":"a"}</tool_call>`', "", []),
    ("hermes", 'Say "<tool_call>"{"name":"a"}', 'Say "<tool_call>"{"name":"a"}', "", []),
    ("hermes", "a < b <tool_ <tool_call> x", "a < b <tool_ <tool_call> x", "", []),
    ("hermes", " " * 65 + '<tool_call>{"name":"a"}', " " * 65, "", [("a", {}, "whole")]),
    ("hermes", "\n", "\n", "", []),
]


@pytest.mark.parametrize(("form", "text", "said", "thought", "calls"), _CASES)
def test_forms(form: str, text: str, said: str, thought: str, calls: list[tuple[str, Any, str]]) -> None:
    check(form, text, said, thought, calls)


_BITS = st.sampled_from(
    [
        "<tool_call>",
        "</tool_call>",
        "<think>",
        "</think>",
        "<function=f>",
        "</function>",
        "<parameter=p>",
        "</parameter>",
        "<arg_key>",
        "</arg_key>",
        "<arg_value>",
        "</arg_value>",
        "<|python_tag|>",
        "[TOOL_CALLS]",
        "[ARGS]",
        "[CALL_ID]",
        "<｜tool▁calls▁begin｜>",
        "<｜tool▁call▁begin｜>",
        "<｜tool▁sep｜>",
        "<｜tool▁call▁end｜>",
        "<｜tool▁calls▁end｜>",
        "<｜DSML｜function_calls>",
        '<｜DSML｜invoke name="f">',
        '<｜DSML｜parameter name="p" string="true">',
        "</｜DSML｜parameter>",
        "</｜DSML｜invoke>",
        "<|tool_calls_section_begin|>",
        "<|tool_call_begin|>",
        "functions.f:0",
        "<|tool_call_argument_begin|>",
        "<|tool_call_end|>",
        "<|python_start|>",
        "[f(a=",
        "'x'",
        "(",
        ")",
        "=",
        "```json",
        "```",
        '{"name":"f","arguments":{"a":"b\\n"}}',
        '{"name":"f",',
        '"parameters":{"x":[1,2]}',
        '"arguments":"',
        "{",
        "}",
        "[",
        "]",
        ";",
        ",",
        '"',
        "`",
        "\\",
        "name",
        "1",
        " ",
        "\n",
        "<",
        "tool",
        "é",
    ]
)


@settings(max_examples=400)
@given(st.sampled_from(sorted(INLINE_FORMS)), st.lists(_BITS, max_size=14), st.lists(st.integers(0, 999), max_size=6))
@example("hermes", ["<tool_call>", '{"name":"f",', "1", "</tool_call>"], [3])
@example("deepseek", ["```", "`", "1"], [3])
def test_any_text_and_any_split(form: str, bits: list[str], at: list[int]) -> None:
    text = "".join(bits)
    whole = Run(form, [text])
    holds(whole, text)
    for pieces in (cut_at(text, at), list(text)):
        run = Run(form, pieces)
        holds(run, text)
        assert run.facts() == whole.facts()


@settings(max_examples=200)
@given(st.sampled_from(sorted(INLINE_FORMS)), st.lists(_BITS, max_size=10))
def test_only_what_may_begin_a_marker_is_held_back(form: str, bits: list[str]) -> None:
    """Outside of calls, after each character, all text is out but white space before, and the beginning of, a marker."""
    text = "".join(bits)
    inline = Run(form, []).inline
    out: list[Delta] = []
    markers = [*INLINE_FORMS[form].markers, "<think>", "</think>"]
    came = ""
    for char in text:
        inline.feed(char, out)
        came += char
        if inline.state == "capture":
            continue
        gone = "".join(piece for _, piece in inline.trace or [])
        held = came[len(gone) :].lstrip(" \n")
        assert came.startswith(gone)
        assert held == "" or any(m.startswith(held) and m != held for m in markers)


def test_plain_text_passes_piece_by_piece() -> None:
    run = Run("hermes", ["Hello", " wor", "ld. 1 < 2", " and <b>x"])
    assert [d.text for d in run.before_end if isinstance(d, TextDelta)] == ["Hello", " wor", "ld. 1 < 2", " and <b>x"]


def test_a_call_is_announced_as_soon_as_its_name_is_there() -> None:
    run = Run("hermes", ['<tool_call>{"name": "f"'])
    assert run.before_end == [CallOpened(0, "", "f")]
    run = Run("glm", ["<tool_call>f\n<arg_key>"])
    assert run.before_end == [CallOpened(0, "", "f")]


def test_values_follow_the_types_of_the_tool() -> None:
    def read(**values: str) -> Any:
        tags = "".join(f"<parameter={k}>\n{v}\n</parameter>\n" for k, v in values.items())
        return Run("qwen3_coder", [f"<function=write>\n{tags}</function>"], specs=[WRITE]).calls[0][1]

    assert read(path="5", lines="5", tags='["a"]', other="5") == {"path": "5", "lines": 5, "tags": ["a"], "other": "5"}
    assert read(lines="five", tags="[") == {"lines": "five", "tags": "["}
    assert read(lines="", tags='[1],"x":[2]') == {"lines": "", "tags": '[1],"x":[2]'}
    assert read(note="null", deep="null") == {"note": None, "deep": None}
    assert read(note="5", path="null", deep='{"a": 1}') == {"note": "5", "path": "null", "deep": {"a": 1}}


def test_without_tools_every_tagged_value_is_a_string() -> None:
    text = "<function=write><parameter=lines>5</parameter></function>"
    assert Run("qwen3_coder", [text]).calls == [("write", {"lines": "5"}, "whole")]


@pytest.mark.parametrize("stop", ["max_tokens", "content_filter", "odd word"])
def test_a_stopped_reply_leaves_an_open_call_cut_and_a_closed_one_whole(stop: str) -> None:
    closed = '<tool_call>{"name":"a","arguments":{"x":1}}</tool_call>'
    run = Run("hermes", [closed + '<tool_call>{"name":"b","arguments":{"y":1}'], stop=stop)
    assert [(c.name, c.status) for c in run.reply.tool_calls] == [("a", "whole"), ("b", "cut")]


def test_bare_json_is_a_call_for_known_names_only_where_tools_are_known() -> None:
    text = '{"name": "Ada", "parameters": {}}'
    assert Run("llama", [text]).calls == [("Ada", {}, "whole")]
    assert Run("llama", [text], specs=[WRITE]).reply.text == text


def test_a_marker_that_was_text_is_counted() -> None:
    assert Run("hermes", ["<tool_call> x"]).reply.tolerances == {"marker_in_text": 1}
    assert Run("hermes", ['<tool_call>{"name":"a","arguments":"{}"}']).reply.tolerances == {"string_arguments": 1}


def test_each_state_has_a_way_back() -> None:
    states = {"idle", "content", "capture", "reasoning"}
    assert {state for state, _ in NEXT} == states
    for start in states:
        reached = {start}
        for _ in states:
            reached |= {end for (state, _), end in NEXT.items() if state in reached}
        assert reached == states


# -- through the reader -----------------------------------------------------------------------------------------------


def _event(text: str | None = None, finish: str | None = None) -> bytes:
    delta = {} if text is None else {"content": text}
    return (
        b"data: " + json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}).encode() + b"\n\n"
    )


def _read(body: bytes, width: int, **how: Any) -> tuple[list[Delta], Reply]:
    reader = ReplyReader("openai_chat", **how)
    deltas: list[Delta] = []
    for start in range(0, len(body), width):
        deltas += reader.feed(body[start : start + width])
    reply = reader.close()
    return deltas + list(reader.closing), reply


_SAID = (
    '<think>hm</think>\n\nOk.\n<tool_call>\n{"name": "write", "arguments": {"path": "a", "text": "b"}}\n</tool_call>'
)


@pytest.mark.parametrize("width", [1, 7, 1460])
@pytest.mark.parametrize("piece", [1, 3, 200])
def test_through_the_reader(width: int, piece: int) -> None:
    body = b"".join(_event(_SAID[i : i + piece]) for i in range(0, len(_SAID), piece))
    body += _event(finish="stop") + b"data: [DONE]\n\n"
    deltas, reply = _read(body, width, inline="hermes")
    assert reply.text == "\n\nOk.\n"
    assert reply.reasoning == "hm"
    (call,) = reply.tool_calls
    assert (call.id, call.name, call.status) == ("call_0", "write", "whole")
    assert call.arguments == '{"path": "a", "text": "b"}'
    assert CallClosed(0, "", "write", "whole") in deltas
    assert "".join(d.text for d in deltas if isinstance(d, TextDelta)) == reply.text
    told, same = _read(body, width, inline="hermes", intent=True)
    assert same == reply
    assert [d for d in told if isinstance(d, CallArgument)] == [
        CallArgument(0, "path", "a"),
        CallArgument(0, "text", "b"),
    ]
    assert any(isinstance(d, CallProgress) for d in told)


def test_off_unless_it_is_asked_for() -> None:
    body = _event(_SAID) + _event(finish="stop")
    assert _read(body, 1460)[1].text == _SAID
    with pytest.raises(KeyError):
        ReplyReader("openai_chat", inline="no such form")


def test_text_and_finish_in_one_event() -> None:
    for finish, status in (("stop", "whole"), ("length", "whole")):
        _, reply = _read(_event(_SAID, finish), 1460, inline="hermes")
        assert [c.status for c in reply.tool_calls] == [status]
    deltas, reply = _read(_event(_SAID[:-20], "stop"), 1460, inline="hermes")
    assert [c.status for c in reply.tool_calls] == ["cut"]
    assert [d.status for d in deltas if isinstance(d, CallClosed)] == ["cut"]


def test_a_broken_stream_leaves_its_text_and_no_whole_call_that_was_open() -> None:
    reader = ReplyReader("openai_chat", inline="hermes")
    reader.feed(_event(_SAID[:-20]))
    with pytest.raises(StreamError) as caught:
        reader.close()
    assert caught.value.kind == "incomplete"
    assert caught.value.partial.text == "\n\nOk.\n"
    assert [c.status for c in caught.value.partial.tool_calls] == ["cut"]


def test_an_error_in_the_same_read_keeps_what_came_before() -> None:
    reader = ReplyReader("openai_chat", inline="hermes")
    deltas = reader.feed(_event("Hello") + b'data: {"error": {"message": "no"}}\n\n')
    assert deltas == [TextDelta("Hello")]
    with pytest.raises(StreamError) as caught:
        reader.close()
    assert caught.value.partial.text == "Hello"


def test_text_that_is_not_kept_is_still_handed_out() -> None:
    body = _event(_SAID) + _event(finish="stop")
    deltas, reply = _read(body, 1460, inline="hermes", keep=False)
    assert reply.text == ""
    assert "".join(d.text for d in deltas if isinstance(d, TextDelta)) == "\n\nOk.\n"
    assert reply.tool_calls[0].status == "whole"


def _bounded(body: bytes, **limits: int) -> str | None:
    small: Limits = msgspec.structs.replace(DEFAULT_LIMITS, **limits)
    reader = ReplyReader("openai_chat", inline="hermes", limits=small)
    reader.feed(body)  # what became known before the bound is returned; `close` raises
    with pytest.raises(StreamError) as caught:
        reader.close()
    return caught.value.bound


def test_the_bounds_of_calls_hold() -> None:
    one = '<tool_call>{"name":"a"}</tool_call>'
    assert _bounded(_event(one * 3), max_calls_per_reply=2) == "max_calls_per_reply"
    long = '<tool_call>{"name":"a","arguments":{"x":"' + "y" * 2000
    assert _bounded(_event(long), max_arguments_bytes=1000) == "max_arguments_bytes"
    never = 'x<tool_call>{"x":"' + "y" * 80_000
    assert _bounded(_event(never), max_arguments_bytes=1000) == "max_arguments_bytes"


def test_the_bound_is_one_of_each_call_and_not_of_all_of_a_list() -> None:
    call = '{"name":"a","arguments":{"x":"' + "y" * 50_000 + '"}}'
    small = msgspec.structs.replace(DEFAULT_LIMITS, max_arguments_bytes=60_000)
    reader = ReplyReader("openai_chat", inline="mistral", limits=small)
    reader.feed(_event(f"[TOOL_CALLS][{call},{call},{call}]") + _event(finish="stop"))
    assert [c.status for c in reader.close().tool_calls] == ["whole"] * 3


def test_given_back_text_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Markers nested in what turns out to be text cost each character a fixed number of looks."""
    fed = 0
    real = inline_bodies.JsonScanner.feed

    def counted(self: Any, fragment: str, done: list[Any]) -> str:
        nonlocal fed
        fed += len(fragment)
        return real(self, fragment, done)

    monkeypatch.setattr(inline_bodies.JsonScanner, "feed", counted)

    def cost(times: int) -> int:
        nonlocal fed
        fed = 0
        text = '<tool_call>{"a":"' * times + "\x01"
        Run("hermes", [text[i : i + 10] for i in range(0, len(text), 10)])
        return fed

    assert cost(800) < 4.4 * cost(200)
