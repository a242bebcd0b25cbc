"""Calls written as a list of Python calls: literals only, and nothing is evaluated."""

from __future__ import annotations

import ast
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from inline_run import WRITE, Run, check

from sluice.wire.inline_python import python_literal

CASES: list[tuple[str, str, list[tuple[str, Any, str]]]] = [
    ('[write(path="a.py", lines=3)]', "", [("write", {"path": "a.py", "lines": 3}, "whole")]),
    ("<|python_start|>[f(a='x'), g()]<|python_end|>", "", [("f", {"a": "x"}, "whole"), ("g", {}, "whole")]),
    ("So: <|python_start|>[f( a = 1 , )]", "So: ", [("f", {"a": 1}, "whole")]),
    ("\n [ write ( ) , write(), ]\nend", "\nend", [("write", {}, "whole"), ("write", {}, "whole")]),
    (
        "[write(deep={'k': [1, (2, None)], \"l\": True}, note='say \"hi\", ok)]')]",
        "",
        [("write", {"deep": {"k": [1, [2, None]], "l": True}, "note": 'say "hi", ok)]'}, "whole")],
    ),
    ('[write(note="""a "b"\n""", path=\'\')]', "", [("write", {"note": 'a "b"\n', "path": ""}, "whole")]),
    ("[write(note='it\\'s\\n')]", "", [("write", {"note": "it's\n"}, "whole")]),
    # no call: a list, a link, prose, an unknown tool where tools are known
    ("[1, 2]", "[1, 2]", []),
    ("[see](http://x)", "[see](http://x)", []),
    ("[]", "[]", []),
    ("[other(a=1)]", "[other(a=1)]", []),
    ("text [write(path='a')]", "text [write(path='a')]", []),
    ("```\n<|python_start|>[f()]\n```", "```\n<|python_start|>[f()]\n```", []),
    ('"<|python_start|>[f()]"', '"<|python_start|>[f()]"', []),
    ("<|python_start|>print(1)", "<|python_start|>print(1)", []),
    # broken behind the name: told, not run
    ("[write('a.py')]", "", [("write", "", "malformed")]),
    ("[write(path=open('x'))]", "", [("write", '{"path": "open(\'x\')"', "malformed")]),
    ("[write(path=a.py)] ok", " ok", [("write", '{"path": "a.py"', "malformed")]),
    # the same name twice is one JSON object with a key twice
    ("[write(path='a', path='b')]", "", [("write", '{"path": "a", "path": "b"}', "malformed")]),
    # cut
    ("[write(path='a", "", [("write", '{"path": ', "cut")]),
    ("[write(path='a'", "", [("write", '{"path": ', "cut")]),
    ("[write(path='a',", "", [("write", '{"path": "a"', "cut")]),
    ("[write(", "", [("write", "", "cut")]),
    ("[wri", "[wri", []),
]


@pytest.mark.parametrize(("text", "said", "calls"), CASES)
def test_forms(text: str, said: str, calls: list[tuple[str, Any, str]]) -> None:
    check("pythonic", text, said, "", calls)


def test_without_tools_a_bare_list_needs_a_call_with_names() -> None:
    assert Run("pythonic", ["[f(a=1)]"]).calls == [("f", {"a": 1}, "whole")]
    assert Run("pythonic", ["[f()]"]).calls == [("f", {}, "whole")]
    assert Run("pythonic", ["[f(1)]"]).calls == []
    assert Run("pythonic", ["[f(1)]"], specs=[WRITE]).reply.text == "[f(1)]"


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=300)
@given(values, st.integers(1, 9))
def test_what_python_writes_is_read_as_what_it_meant(value: Any, width: int) -> None:
    text = repr(value)
    assert json.loads(python_literal(text) or "") == value
    call = f"<|python_start|>[f(x={text}, y=1)]"
    pieces = [call[at : at + width] for at in range(0, len(call), width)]
    run = Run("pythonic", pieces)
    assert run.calls == Run("pythonic", [call]).calls
    (found,) = run.reply.tool_calls
    assert found.status == "malformed" or json.loads(found.arguments) == {"x": value, "y": 1}


@settings(max_examples=300)
@given(st.text(st.sampled_from("'\"\\nxu0123aANTrue[](){},: .-+e_"), max_size=12))
def test_what_is_read_is_what_python_reads(text: str) -> None:
    made = python_literal(text)
    if made is None or any(word in text for word in ("true", "false", "null")):
        return
    try:
        wanted = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError):
        return  # what is no Python, such as 007, may still be clear
    except DeprecationWarning:  # an escape that Python has not, and keeps
        return
    assert json.loads(made) == json.loads(json.dumps(wanted))


NO_LITERALS = r"""
x|f()|1 2|[1|{1: 2}|{'a': 1, 'a': 2}|{'a'}|1e999|'a' 'b'|1+1|-|b'x'|'\U00110000'|...|(1,,)|'a
""".strip().split("|")


@pytest.mark.parametrize("text", [*NO_LITERALS, "", "[" * 200 + "]" * 200, "9" * 5000])
def test_what_is_no_literal_is_none(text: str) -> None:
    assert python_literal(text) is None


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("(1)", 1),
        ("(1,)", [1]),
        ("()", []),
        ("1_000", 1000),
        ("-.5", -0.5),
        ("null", None),
        (r"'\x41\u00e9\101\q'", r"Aé" + r"A\q"),
        ("'a\\\nb'", "ab"),
        (r"'\ud83c\udf78'", "🍸"),
        (r"'\a\0'", "\a\0"),
    ],
)
def test_forms_of_literals(text: str, wanted: Any) -> None:
    assert json.loads(python_literal(text) or "") == wanted
