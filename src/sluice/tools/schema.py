"""Arguments as typed structs: the JSON Schema the model sees, and the check before policy sees a call (P2).

Both come from one struct class, so what is offered and what is accepted cannot drift apart.
"""

from __future__ import annotations

import json
import re
from typing import Any, TypeVar

import msgspec

from sluice.errors import ArgumentsError, RegistrationError
from sluice.values.results import ErrorInfo
from sluice.wire.strict_json import parse_arguments

S = TypeVar("S", bound=msgspec.Struct)

INVALID_ARGUMENTS = "invalid_arguments"

_PATH = re.compile(r" - at `(\$[^`]*)`\Z")
_MISSING = re.compile(r"\AObject missing required field `([^`]*)`")
_UNKNOWN = re.compile(r"\AObject contains unknown field `(.*)`\Z", re.DOTALL)
_SHOWN_NAME_CHARACTERS = 64  # an unknown key is the model's own text: show enough of it to find it again


def json_schema(arguments: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON Schema of a struct class: one object with everything inlined, refusing unknown keys at every depth.

    Descriptions of fields are kept, titles and the class's own docstring are not. A field that may be `None` is shown
    as plainly optional, because several providers refuse `anyOf`. Raises `RegistrationError` if some object in it
    would accept unknown keys or refers to itself.
    """
    try:
        whole = msgspec.json.schema(arguments)
    except TypeError as error:
        raise RegistrationError(f"no JSON Schema for {arguments.__name__}: {error}") from None
    definitions = whole.pop("$defs", {})
    schema: dict[str, Any] = _inlined(whole, definitions, ())
    schema.pop("description", None)
    schema.setdefault("properties", {})
    return schema


def _inlined(node: Any, definitions: dict[str, Any], open_names: tuple[str, ...]) -> Any:
    if isinstance(node, list):
        return [_inlined(item, definitions, open_names) for item in node]
    if not isinstance(node, dict):
        return node
    reference = node.get("$ref")
    if isinstance(reference, str):
        name = reference.rpartition("/")[2]
        if name in open_names:
            raise RegistrationError(f"{name} refers to itself; arguments must be one finite object")
        beside = {key: value for key, value in node.items() if key != "$ref"}
        return _inlined({**definitions[name], **beside}, definitions, (*open_names, name))
    node = _without_null(node)
    if "$ref" in node:
        return _inlined(node, definitions, open_names)
    out: dict[str, Any] = {}
    for key, value in node.items():
        if key == "properties":
            out[key] = {name: _inlined(field, definitions, open_names) for name, field in value.items()}
        elif key == "default":
            if value is not None:
                out[key] = value
        elif key != "title":
            out[key] = _inlined(value, definitions, open_names)
    if out.get("type") == "object" and out.get("additionalProperties") is not False:
        raise RegistrationError("every object in a tool's arguments must be a struct with forbid_unknown_fields=True")
    return out


def _without_null(node: dict[str, Any]) -> dict[str, Any]:
    """`X | None` as plain X; whatever stood beside the union (a description) stays."""
    choices = node.get("anyOf")
    if not isinstance(choices, list):
        return node
    kept = [choice for choice in choices if choice != {"type": "null"}]
    if len(kept) != 1:
        return node
    beside = {key: value for key, value in node.items() if key != "anyOf"}
    return {**kept[0], **beside}


def decode(arguments: type[S], text: str) -> S | ErrorInfo:
    """The checked arguments, or what is wrong with them in words the model can act on.

    `text` is the raw JSON of a call. It is parsed by the one strict parser (W15) and then checked without any
    conversion between types. In an error `path` is the JSON path concerned (`$.path`), and `$` when the text is no
    strict JSON object: then the message names the position and quotes the last 64 characters.
    """
    try:
        data = parse_arguments(text)
    except ArgumentsError as error:
        message = f"arguments are not one strict JSON object: {error}; they end in {json.dumps(error.tail)}"
        return ErrorInfo(INVALID_ARGUMENTS, message, "$")
    try:
        return msgspec.convert(data, arguments, strict=True)
    except msgspec.ValidationError as error:
        message, path = _place(str(error))
        known = ", ".join(field.encode_name for field in msgspec.structs.fields(arguments))
        return ErrorInfo(INVALID_ARGUMENTS, f"{message} (arguments of this tool: {known or 'none'})", path)


def _place(message: str) -> tuple[str, str]:
    """The message without msgspec's own path, and the path down to the field that is missing or unknown."""
    path = "$"
    found = _PATH.search(message)
    if found:
        path = found[1]
        message = message[: found.start()]
    missing = _MISSING.search(message)
    if missing:
        return f"missing required argument {missing[1]!r}", f"{path}.{missing[1]}"
    unknown = _UNKNOWN.search(message)
    if unknown:
        name = unknown[1]
        if len(name) > _SHOWN_NAME_CHARACTERS:
            name = name[:_SHOWN_NAME_CHARACTERS] + "…"
        return f"unknown argument {json.dumps(name)}", f"{path}.{name}"
    return message, path
