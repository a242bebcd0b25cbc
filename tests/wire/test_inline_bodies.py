"""The newer forms of calls inside text: every marker split at every place, fences, quotes, and what the reply's end cuts."""

from __future__ import annotations

from typing import Any

import pytest
from inline_run import Run, check

D = "｜DSML｜"
DD = "｜｜DSML｜｜"


def dsml(*calls: str, outer: str = "function_calls", token: str = D) -> str:
    inner = "\n".join(calls)
    return f"<{token}{outer}>\n{inner}\n</{token}{outer}>".replace("DSML:", token)


def invoke(name: str, *parameters: str) -> str:
    return "\n".join((f'<DSML:invoke name="{name}">', *parameters, "</DSML:invoke>"))


def parameter(name: str, value: str, said: str = ' string="true"') -> str:
    return f'<DSML:parameter name="{name}"{said}>{value}</DSML:parameter>'


BOTH = invoke("write", parameter("path", "a <b>\n.py"), parameter("lines", "3", ' string="false"'))
KIMI = "<|tool_calls_section_begin|>{}<|tool_calls_section_end|>"


def kimi(name: str, arguments: str) -> str:
    return f"<|tool_call_begin|>{name}<|tool_call_argument_begin|>{arguments}<|tool_call_end|>"


CASES: list[tuple[str, str, str, list[tuple[str, Any, str]]]] = [
    # -- DeepSeek V3.2 and later
    (
        "deepseek_v32",
        "I look.\n\n" + dsml(BOTH),
        "I look.\n\n",
        [("write", {"path": "a <b>\n.py", "lines": 3}, "whole")],
    ),
    (
        "deepseek_v32",
        dsml(BOTH, outer="tool_calls", token=DD),
        "",
        [("write", {"path": "a <b>\n.py", "lines": 3}, "whole")],
    ),
    ("deepseek_v32", dsml(invoke("a"), invoke("b")) + " done", " done", [("a", {}, "whole"), ("b", {}, "whole")]),
    ("deepseek_v32", dsml(invoke("a", '{"x": 1}')), "", [("a", {"x": 1}, "whole")]),
    ("deepseek_v32", invoke("a").replace("DSML:", D), "", [("a", {}, "whole")]),
    # what says nothing of a string goes by the tool's schema; what says JSON and is none is a string
    ("deepseek_v32", dsml(invoke("write", parameter("lines", "4", ""))), "", [("write", {"lines": 4}, "whole")]),
    ("deepseek_v32", dsml(invoke("write", parameter("path", "4", ""))), "", [("write", {"path": "4"}, "whole")]),
    ("deepseek_v32", dsml(invoke("f", parameter("x", "4"))), "", [("f", {"x": "4"}, "whole")]),
    ("deepseek_v32", dsml(invoke("f", parameter("x", "a b", ' string="false"'))), "", [("f", {"x": "a b"}, "whole")]),
    ("deepseek_v32", f"<{D}function_calls> is a tag", f"<{D}function_calls> is a tag", []),
    ("deepseek_v32", f'<{D}invoke name="f', f'<{D}invoke name="f', []),
    ("deepseek_v32", f'`<{D}invoke name="f">`', f'`<{D}invoke name="f">`', []),
    ("deepseek_v32", "```\n" + dsml(invoke("f")) + "\n```\n", "```\n" + dsml(invoke("f")) + "\n```\n", []),
    ("deepseek_v32", f'<{D}invoke name="f"><{D}parameter name="x" string="true">ab', "", [("f", '{"x": "ab', "cut")]),
    ("deepseek_v32", f'<{D}invoke name="f"></{D}invoke', f'<{D}invoke name="f"></{D}invoke', []),
    # -- Kimi K2
    ("kimi_k2", "So.\n" + KIMI.format(kimi("functions.f:0", '{"x": 1}')), "So.\n", [("f", {"x": 1}, "whole")]),
    (
        "kimi_k2",
        KIMI.format("\n" + kimi("functions.a.b:0", "{}") + "\n" + kimi("functions.c:11", " {} ") + "\n") + "end",
        "end",
        [("a.b", {}, "whole"), ("c", {}, "whole")],
    ),
    ("kimi_k2", kimi("f", "{}") + kimi("g:1", "{}"), "", [("f", {}, "whole"), ("g", {}, "whole")]),
    ("kimi_k2", kimi("functions.f:0", '{"x":"<|tool_call_end|>"}'), "", [("f", {"x": "<|tool_call_end|>"}, "whole")]),
    ("kimi_k2", kimi("functions.f:0", '{"x": oops}') + "ok", "ok", [("f", '{"x": oops}', "malformed")]),
    ("kimi_k2", "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{", "", [("f", "{", "cut")]),
    (
        "kimi_k2",
        "<|tool_call_begin|>functions.f:0<|tool_call_arg",
        "<|tool_call_begin|>functions.f:0<|tool_call_arg",
        [],
    ),
    ("kimi_k2", "<|tool_call_begin|> begins a call", "<|tool_call_begin|> begins a call", []),
    ("kimi_k2", "say '<|tool_call_begin|>f'", "say '<|tool_call_begin|>f'", []),
    ("kimi_k2", "~~~\n" + kimi("f", "{}") + "\n~~~", "~~~\n" + kimi("f", "{}") + "\n~~~", []),
]


@pytest.mark.parametrize(("form", "text", "said", "calls"), CASES)
def test_forms(form: str, text: str, said: str, calls: list[tuple[str, Any, str]]) -> None:
    check(form, text, said, "", calls)


@pytest.mark.parametrize(
    ("form", "text", "said", "calls"), [case for case in CASES if case[3] and case[3][0][2] == "whole"]
)
def test_a_reply_that_ends_anywhere_inside_runs_nothing_that_is_not_there(
    form: str, text: str, said: str, calls: list[tuple[str, Any, str]]
) -> None:
    """At every cut: a call is whole only with all of its arguments, and what is no call yet comes out as text."""
    for end in range(len(text)):
        run = Run(form, [text[:end]])
        for at, found in enumerate(run.calls):
            if found[2] == "whole":
                assert found[0] == calls[at][0]
        if not run.calls:
            assert text.startswith(run.reply.text)


def test_deepseek_v3_and_kimi_may_leave_their_outer_marks_away() -> None:
    old = '<｜tool▁call▁begin｜>f<｜tool▁sep｜>{"x":1}<｜tool▁call▁end｜>'
    for run in (Run("deepseek", [old]), Run("kimi_k2", [kimi("f", '{"x":1}')])):
        assert (run.reply.text, run.calls) == ("", [("f", {"x": 1}, "whole")])


def test_an_end_mark_is_no_text_where_the_reply_ends_behind_it() -> None:
    run = Run("function_tag", ['<function=f>{"x":1}</function></tool_c'])
    assert (run.reply.text, run.calls) == ("</tool_c", [("f", {"x": 1}, "whole")])
