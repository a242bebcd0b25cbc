"""Strict JSON: what arguments may be, where exactly they go wrong, and that looking costs no more than their length."""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.errors import ArgumentsError
from sluice.wire.strict_json import MAX_DEPTH, is_unfinished, parse_arguments


def refusal(text: str) -> ArgumentsError:
    with pytest.raises(ArgumentsError) as caught:
        parse_arguments(text)
    return caught.value


@pytest.fixture(scope="module")
def suite(shared: Path) -> list[dict[str, Any]]:
    path = shared / "vectors" / "json" / "json_JSONTestSuite.jsonl"
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


# What RFC 8259 leaves open, decided: a value that cannot be carried exactly enough is refused, the rest is read.
OPEN_AND_ACCEPTED = {
    "i_number_double_huge_neg_exp.json",
    "i_number_real_underflow.json",
}

# Sound JSON that is refused on purpose (W15).
STRICTER = {"y_object_duplicated_key.json", "y_object_duplicated_key_and_value.json"}


def accepts(text: str) -> bool:
    try:
        parse_arguments(text)
    except ArgumentsError:
        return False
    return True


def test_every_vector_of_the_json_suite_is_decided(suite: list[dict[str, Any]]) -> None:
    decided = 0
    for row in suite:
        try:
            text = base64.b64decode(row["input_b64"]).decode("utf-8")
        except UnicodeDecodeError:
            continue  # bytes that are no UTF-8 never become a fragment: the event that holds them is malformed
        name = row["test"]
        is_object = text.lstrip(" \t\r\n").startswith("{")
        right = {
            "accept": name not in STRICTER,
            "reject": False,
            "implementation-defined": name in OPEN_AND_ACCEPTED,
        }[row["expected"]]
        assert accepts(text) is (right and is_object), (name, text[:60])
        assert accepts('{"a":' + text + "}") is right, (name, text[:60])
        decided += 1
    assert decided > 280


@pytest.mark.parametrize(
    ("text", "reason", "position"),
    [
        ("", "expecting value", 0),
        ("[]", "the top level is no object", 0),
        ('"{}"', "the top level is no object", 0),
        ("null", "the top level is no object", 0),
        ('{"a":1} {"b":2}', "extra data", 8),
        ('{"a":1,}', "a comma with nothing after it", 6),
        ('{"a":[1 , ]}', "a comma with nothing after it", 8),
        ('{"a":1,', "expecting property name enclosed in double quotes", 7),
        ('{"a":1,,"b":2}', "expecting property name enclosed in double quotes", 7),
        ('{"a":[1,,2]}', "expecting value", 8),
        ('{"a":NaN,"b":"NaN"}', "NaN is no JSON number", 5),
        ('{"b":"-Infinity","a":[-Infinity]}', "-Infinity is no JSON number", 22),
        ('{"a":1e999,"s":"1e999"}', "a number is too large", 5),
        ('{"a":-1e999}', "a number is too large", 5),
        ('{"a":18446744073709551616}', "an integer does not fit into 64 bits", 5),
        ('{"a":-9223372036854775809}', "an integer does not fit into 64 bits", 5),
        ('{"a":1' + "0" * 5000 + "}", "an integer does not fit into 64 bits", 5),
        ('{"a":1,"b":2,"a":3,"c":"a"}', "the key 'a' is there twice", 13),
        ('{"x":[{"k":1},{"k":1,"\\u006b":2}]}', "the key 'k' is there twice", 21),
        ('{"a":1,"a":{"b":1,"b":2}}', "the key 'b' is there twice", 18),
        ('{"a":"x\ud800y"}', "half a surrogate pair", 7),
        ('{"a":"x\\uD800y"}', "half a surrogate pair", 7),
        ('{"a":"\\udc00\\ud800"}', "half a surrogate pair", 6),
        ('{"\\ud800":1}', "half a surrogate pair", 2),
        ('{"a":"tab\tinside"}', "invalid control character", 9),
        ('{"a":"x', "unterminated string starting", 5),
        ('{"a":"\\x"}', "invalid \\escape", 6),
        ("\ufeff{}", "expecting value", 0),
        ('\u00a0{"a":1}', "expecting value", 0),
    ],
)
def test_what_is_refused_and_where(text: str, reason: str, position: int) -> None:
    error = refusal(text)
    assert (error.reason, error.position) == (reason, position)
    assert error.tail == text[-64:]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (' \t\r\n{"a" : 1}\n', {"a": 1}),
        ('{"n":18446744073709551615,"m":-9223372036854775808}', {"n": 2**64 - 1, "m": -(2**63)}),
        ('{"id":2512292042121000001}', {"id": 2512292042121000001}),
        ('{"e":"\\ud83c\\udf78"}', {"e": "🍸"}),
        ('{"e":"\\\\ud800"}', {"e": "\\ud800"}),
        ('{"a":{"k":1},"b":{"k":1}}', {"a": {"k": 1}, "b": {"k": 1}}),
        ('{"code":"if(a){}{b}"}', {"code": "if(a){}{b}"}),
        ('{"line":"a\u2028b\x85c"}', {"line": "a\u2028b\x85c"}),
        ('{"tiny":1e-999}', {"tiny": 0.0}),
    ],
)
def test_what_is_read(text: str, value: dict[str, Any]) -> None:
    assert parse_arguments(text) == value


def test_the_depth_bound_is_exact_and_brackets_in_strings_do_not_count() -> None:
    def nested(levels: int) -> str:
        return '{"a":' * (levels - 1) + "{}" + "}" * (levels - 1)

    assert parse_arguments(nested(MAX_DEPTH))
    error = refusal(nested(MAX_DEPTH + 1))
    assert error.reason == "nested deeper than 128 levels"
    assert error.position == 5 * MAX_DEPTH
    assert parse_arguments(json.dumps({"s": '[{"' * 500, "t": "\\" * 301}))


def test_depth_is_checked_before_anything_can_recurse() -> None:
    for text in ('{"a":' * 100_000, "[" * 100_000, '{"a":[' * 50_000 + '"'):
        assert refusal(text).reason == "nested deeper than 128 levels"


@pytest.mark.parametrize(
    ("text", "unfinished"),
    [
        ('{"a":1', True),
        ('{"a":"x', True),
        ('{"a":"x\\', True),
        ('{"a":"x\\"', True),
        ('{"a":[{"b":tru', True),
        ('{"a":"}"', True),
        ("{", True),
        ("", False),
        ("tru", False),
        ('{"a":1}', False),
        ('{"a":1}}', False),
        ('{"a":[1}', False),
        ("{]", False),
        ('{"a":"[{"} x', False),
    ],
)
def test_cut_is_told_from_wrong(text: str, unfinished: bool) -> None:
    assert is_unfinished(text) is unfinished


def json_values() -> st.SearchStrategy[Any]:
    scalars = (
        st.none()
        | st.booleans()
        | st.integers(-(2**63), 2**64 - 1)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
    )
    keys = st.text(st.characters(exclude_categories=("Cs",)), max_size=6)
    return st.recursive(scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4))


objects = st.dictionaries(st.text(st.characters(exclude_categories=("Cs",)), max_size=6), json_values(), max_size=4)


@given(objects, st.booleans())
@settings(max_examples=150, deadline=None)
def test_what_json_writes_is_read_back_exactly(value: dict[str, Any], ascii_only: bool) -> None:
    assert parse_arguments(json.dumps(value, ensure_ascii=ascii_only)) == value


@given(objects, st.data())
@settings(max_examples=150, deadline=None)
def test_no_proper_prefix_of_an_object_is_an_object_and_each_is_unfinished(
    value: dict[str, Any], data: st.DataObject
) -> None:
    text = json.dumps(value)
    prefix = text[: data.draw(st.integers(1, len(text) - 1))]
    refusal(prefix)
    assert is_unfinished(prefix)


@given(st.text(st.sampled_from('{}[]",:\\ud8a019-+.eNItrufalsn \ud800é'), max_size=40))
@settings(max_examples=400, deadline=None)
def test_any_text_is_an_object_or_an_arguments_error_with_a_position_inside(text: str) -> None:
    position = 0
    try:
        assert isinstance(parse_arguments(text), dict)
    except ArgumentsError as error:
        position = error.position
    assert 0 <= position <= len(text)
    is_unfinished(text)


def _lines_run(text: str) -> int:
    """How many lines of Python are run to judge a text: a cost that no other program on the machine changes."""
    lines = 0

    def trace(frame: Any, event: str, arg: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        parse_arguments(text)
    except ArgumentsError:
        pass
    finally:
        sys.settrace(before)
    is_unfinished(text)
    return lines


@pytest.mark.parametrize(
    "make",
    [
        lambda n: '{"a":"' + "x" * n + '"}',
        lambda n: '{"a":"' + "\\n" * n + '"}',
        lambda n: "{" + ",".join(f'"k{i}":{i}' for i in range(n)) + "}",
        lambda n: '{"a":[' + "[]," * n + "[]]}",
        lambda n: "{" + ",".join(f'"k{i}":{i}' for i in range(n)) + ',"k0":1}',
        lambda n: '{"a":"' + '\\"' * n,
    ],
)
def test_cost_grows_with_the_length_and_not_faster(make: Any) -> None:
    few, many = _lines_run(make(500)), _lines_run(make(5000))
    assert many <= 11 * few


def test_brackets_side_by_side_are_no_depth() -> None:
    assert parse_arguments('{"a":[' + ",".join(["[]"] * (2 * MAX_DEPTH)) + "]}") == {"a": [[]] * (2 * MAX_DEPTH)}


@pytest.mark.parametrize(
    ("text", "at"),
    [('{"a":[1],"a":2}', 9), ('[{"a":1,"a":2}]', 8), ('{"a":"b","b":"a","a":1}', 17), ('{"a":{"a":1},"a":1}', 13)],
)
def test_a_key_that_is_there_twice_is_found_where_it_stands(text: str, at: int) -> None:
    assert refusal(text).position == at
