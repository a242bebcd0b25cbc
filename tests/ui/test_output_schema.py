"""The shipped schemas are those of the structs, and every notice that a face writes is valid by them."""

from __future__ import annotations

import io
import json
import types
import typing
from typing import Any, Literal

import msgspec
import pytest
from jsonschema import Draft202012Validator

from sluice.ui.cli import main
from sluice.ui.json_stream import JsonFace, StreamJsonFace, as_json
from sluice.ui.output_schema import FORMS, VERSION, as_file, made, shipped
from sluice.values import notices as n
from sluice.values.results import ToolResult, failed

KINDS = typing.get_args(n.Notice)


def _sample(hint: Any, deep: bool) -> Any:
    """A value of this type: the smallest, or one with everything in it."""
    origin, members = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return members[-1 if deep else 0]
    if origin in (typing.Union, types.UnionType):
        some = [member for member in members if member is not types.NoneType]
        return _sample(some[0], deep) if deep or len(some) == len(members) else None
    if origin is tuple:
        return (_sample(members[0], deep),) if deep else ()
    if origin is dict:
        return {"k\x1b": _sample(members[1], deep)} if deep else {}
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return _struct(hint, deep)
    return {str: "te\ud800xt\u202e" if deep else "", int: 7, float: 0.5, bool: deep, Any: [1]}[hint]


def _struct(kind: Any, deep: bool) -> Any:
    hints = typing.get_type_hints(kind)
    given = {f.name: _sample(hints[f.name], deep) for f in msgspec.structs.fields(kind) if deep or f.required}
    given.pop("v", None)
    return kind(**given)


def _strict(form: str) -> Draft202012Validator:
    schema = json.loads(shipped(form))
    for one in (schema, *schema["$defs"].values()):
        if "properties" in one:
            one["additionalProperties"] = False
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


@pytest.mark.parametrize("form", FORMS)
def test_the_shipped_schema_is_in_step(form: str) -> None:
    assert shipped(form) == as_file(made(form)), "a struct has changed: run `make schemas`, and say so in the changelog"


def test_the_version_is_that_of_the_notices() -> None:
    assert n.TurnStarted(run="r", turn=1).v == VERSION


@pytest.mark.parametrize("deep", [False, True], ids=["bare", "full"])
@pytest.mark.parametrize("kind", KINDS, ids=[kind.__name__ for kind in KINDS])
def test_every_notice_is_valid_as_it_is_written(kind: Any, deep: bool) -> None:
    out = io.BytesIO()
    StreamJsonFace(out).show(_struct(kind, deep))
    lines = out.getvalue().splitlines()
    assert len(lines) == 1
    _strict("stream-json").validate(json.loads(lines[0]))


@pytest.mark.parametrize(
    "wrong",
    [
        {"type": "text", "v": 1, "turn": 1},
        {"type": "text", "v": 2, "turn": 1, "text": "x"},
        {"type": "text", "v": 1, "turn": "1", "text": "x"},
        {"type": "other", "v": 1},
        {"v": 1, "turn": 1, "text": "x"},
        [],
    ],
)
def test_what_is_no_notice_is_not_valid(wrong: Any) -> None:
    assert not Draft202012Validator(json.loads(shipped("stream-json"))).is_valid(wrong)


def test_the_object_at_the_end_is_valid() -> None:
    out = io.BytesIO()
    face = JsonFace(out)
    for kind in (n.CallArrived, n.CallFinished, n.RunFinished):
        face.show(_struct(kind, True))
    found = json.loads(out.getvalue())
    _strict("json").validate(found)
    assert [call["tool"] for call in found["calls"]] == ["te\ud800xt\u202e"]


def test_a_result_is_valid() -> None:
    for result in (failed("t", "c", "m", path="p"), _struct(ToolResult, True), _struct(ToolResult, False)):
        _strict("tool").validate(json.loads(as_json(result)))


@pytest.mark.parametrize("form", FORMS)
def test_the_command_shows_the_schema(form: str, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["schema", form]) == 0
    assert capsysbinary.readouterr().out == shipped(form)
