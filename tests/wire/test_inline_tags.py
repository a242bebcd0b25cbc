"""Arguments as tags: what a value is, and where it ends."""

from __future__ import annotations

import json

import pytest
from inline_run import WRITE, Run


def qwen(*parameters: tuple[str, str]) -> str:
    tags = "".join(f"<parameter={key}>{value}</parameter>" for key, value in parameters)
    return f"<function=write>{tags}</function>"


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("path", "3", "3"),  # the schema says string
        ("lines", "3", 3),
        ("lines", "three", "three"),  # no integer: the schema check will say so
        ("tags", '["a", 1]', ["a", 1]),
        ("deep", "null", None),
        ("deep", '{"a": NaN}', '{"a": NaN}'),  # no strict JSON
        ("note", "null", None),
        ("note", "3", "3"),  # a string, where it may be one
        ("other", "3", "3"),  # nothing is known of it
        ("path", '\n"quoted" \\ é\n', '"quoted" \\ é'),  # one line break on each side is the form's
        ("path", "\n\n", ""),
        ("path", "\n", ""),
        ("path", "", ""),
    ],
)
def test_a_value_is_what_the_schema_says(key: str, text: str, value: object) -> None:
    whole = qwen((key, text))
    for pieces in ([whole], list(whole)):
        (call,) = Run("qwen3_coder", pieces, specs=[WRITE]).reply.tool_calls
        assert (call.status, json.loads(call.arguments)) == ("whole", {key: value})


def test_a_key_twice_makes_no_object() -> None:
    (call,) = Run("qwen3_coder", [qwen(("path", "a"), ("path", "b"))]).reply.tool_calls
    assert (call.status, call.arguments) == ("malformed", '{"path": "a", "path": "b"}')


def test_a_missing_tag_spoils_the_call_up_to_its_end() -> None:
    run = Run("glm", ["<tool_call>f<arg_key>a</arg_key>oops<arg_value>1</arg_value></tool_call>rest"])
    (call,) = run.reply.tool_calls
    assert (call.status, run.reply.text) == ("malformed", "rest")
    assert "a tag is missing" in str(call.problem)


def test_what_a_value_quotes_of_its_own_end_ends_it() -> None:
    (call,) = Run("qwen3_coder", [qwen(("path", "a</parameter>b"))]).reply.tool_calls
    assert call.status == "malformed"
