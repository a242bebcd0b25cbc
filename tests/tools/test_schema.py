"""Schema and check come from one struct, so they must agree."""

from __future__ import annotations

import json
from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.errors import RegistrationError
from sluice.tools.schema import decode, json_schema
from sluice.values.results import ErrorInfo


class Edit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One edit."""

    old: Annotated[str, msgspec.Meta(description="the old text")]


class Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The docstring stays ours."""

    path: Annotated[str, msgspec.Meta(description="a path", min_length=1)]
    count: Annotated[int | None, msgspec.Meta(description="a number")] = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=9)] | None = None
    edits: Annotated[list[Edit], msgspec.Meta(description="edits")] | None = None
    one: Edit | None = None


def walk(node: Any) -> Any:
    yield node
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from walk(child)


def test_one_inlined_object_that_refuses_unknown_keys_everywhere() -> None:
    schema = json_schema(Arguments)
    text = json.dumps(schema)
    assert "$ref" not in text
    assert "$defs" not in text
    assert "title" not in text
    assert "anyOf" not in text
    objects = [node for node in walk(schema) if isinstance(node, dict) and node.get("type") == "object"]
    assert len(objects) == 3
    assert all(node["additionalProperties"] is False for node in objects)
    assert schema["required"] == ["path"]
    assert schema["properties"]["path"]["description"] == "a path"
    assert schema["properties"]["count"] == {"type": "integer", "description": "a number"}
    assert schema["properties"]["edits"]["description"] == "edits"
    assert schema["properties"]["edits"]["items"]["properties"]["old"]["description"] == "the old text"
    assert "description" not in schema


def test_a_property_may_be_called_title() -> None:
    struct = msgspec.defstruct("Titled", [("title", str)], forbid_unknown_fields=True)
    assert json_schema(struct)["properties"] == {"title": {"type": "string"}}


def test_no_arguments_are_an_empty_object() -> None:
    struct = msgspec.defstruct("Nothing", [], forbid_unknown_fields=True)
    assert json_schema(struct) == {"type": "object", "properties": {}, "required": [], "additionalProperties": False}


@pytest.mark.parametrize("field", [Edit, dict[str, str], msgspec.defstruct("Loose", [("a", int)])])
def test_objects_that_would_take_unknown_keys_are_refused(field: Any) -> None:
    loose = msgspec.defstruct("Outer", [("inner", field)], forbid_unknown_fields=field is not Edit)
    with pytest.raises(RegistrationError, match="forbid_unknown_fields"):
        json_schema(loose)


class Endless(msgspec.Struct, forbid_unknown_fields=True):
    next: Endless | None = None


def test_endless_arguments_are_refused() -> None:
    with pytest.raises(RegistrationError, match="refers to itself"):
        json_schema(Endless)


@pytest.mark.parametrize(
    ("text", "path", "said"),
    [
        ("{}", "$.path", "missing"),
        ('{"path": 1}', "$.path", "`str`"),
        ('{"path": ""}', "$.path", ">= 1"),
        ('{"path": "a", "zz": 1}', "$.zz", "unknown"),
        ('{"path": "a", "edits": [{"old": "x"}, {}]}', "$.edits[1].old", "missing"),
        ('{"path": "a", "edits": [{"old": "x", "y": 1}]}', "$.edits[0].y", "unknown"),
        ('{"path": "a", "edits": {"old": "x"}}', "$.edits", "array"),
        ('{"path": "a", "count": "3"}', "$.count", "`int | null`"),
        ('{"path": "a", "count": true}', "$.count", "`int | null`"),
        ('{"path": "a", "limit": 0}', "$.limit", ">= 1"),
        ('{"path": "a", "path": "b"}', "$", "strict"),
        ('{"path": NaN}', "$", "strict"),
        ("[]", "$", "strict"),
        ("", "$", "strict"),
        ("[" * 100_000, "$", "strict"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(text: str, path: str, said: str) -> None:
    error = decode(Arguments, text)
    assert isinstance(error, ErrorInfo)
    assert error.code == "invalid_arguments"
    assert error.path == path
    assert said in error.message
    assert len(error.message) < 1000


def test_cut_json_names_the_position_and_quotes_the_end() -> None:
    text = '{"path": "' + "x" * 200 + 'the end"'
    error = decode(Arguments, text)
    assert isinstance(error, ErrorInfo)
    assert "position 218" in error.message
    assert json.dumps(text[-64:]) in error.message


def test_whole_arguments_come_back_typed() -> None:
    got = decode(Arguments, '{"path": "a", "edits": [{"old": "\\n"}], "one": {"old": ""}, "count": null}')
    assert got == Arguments(path="a", edits=[Edit(old="\n")], one=Edit(old=""))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 20) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["old", "path", "x"]), inner, max_size=3)
    ),
    max_leaves=5,
)


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.sampled_from(["path", "count", "limit", "edits", "one", "what`s - at `$.x`"]), json_values))
def test_any_object_is_taken_or_told_why(data: dict[str, Any]) -> None:
    got = decode(Arguments, json.dumps(data))
    if isinstance(got, ErrorInfo):
        assert got.path is not None
        assert got.path.startswith("$")
        assert "\n" not in got.message
    else:
        assert got.path == data["path"]
        assert set(data) <= {"path", "count", "limit", "edits", "one"}
