"""JSON Schemas of what `--output stream-json`, `--output json` and `sluice tool` write, and the command that shows them.

The files in `schema/` are made from the notices themselves (`make schemas`); a test keeps them in step.
"""

from __future__ import annotations

from typing import Any

import click

from sluice.ui.options import GroupedCommand

VERSION = 1  # of the notices: their `v`
FORMS = ("stream-json", "json", "tool")
_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def made(form: str) -> dict[str, Any]:
    """The schema of one form of output, made from the structs. Fields may be added to a version, none goes away."""
    import msgspec

    from sluice.values.notices import CallArrived, CallFinished, Notice, RunFinished
    from sluice.values.results import ToolResult

    head = {"$schema": _DIALECT, "$id": f"urn:sluice:{form}:{VERSION}"}
    if form == "tool":
        return {**head, "title": "What `sluice tool` writes", **msgspec.json.schema(ToolResult)}
    if form == "stream-json":
        whole = msgspec.json.schema(Notice)
        whole.pop("discriminator")  # a word of OpenAPI, not of JSON Schema
        _complete(whole["$defs"])
        return {**head, "title": "One line of `sluice --output stream-json`", **whole}
    (finished, arrived, result), definitions = msgspec.json.schema_components(
        [RunFinished, CallArrived, CallFinished], ref_template="#/$defs/{name}"
    )
    _complete(definitions)
    end, call, outcome = (definitions[one["$ref"].rpartition("/")[2]] for one in (finished, arrived, result))
    fields = {name: call["properties"][name] for name in ("turn", "position", "tool", "id", "arguments", "status")}
    fields |= {name: outcome["properties"][name] for name in ("result", "seconds")}
    calls = {
        "type": "array",
        "description": "Every call of the run, in order; one without a result was never finished.",
        "items": {"type": "object", "properties": fields, "required": ["turn", "position", "tool"]},
    }
    end = {
        **end,
        "properties": {**end["properties"], "calls": calls},
        "required": [*end["required"], "calls"],
        "description": f"{end['description']} With it, the list of `calls`.",
    }
    used = {
        name: one for name, one in definitions.items() if name not in ("RunFinished", "CallArrived", "CallFinished")
    }
    return {**head, **end, "title": "The object of `sluice --output json`", "$defs": used}


def shipped(form: str) -> bytes:
    """The schema of this form as the package holds it."""
    from importlib.resources import files

    return files("sluice.ui").joinpath("schema", f"{form}.v{VERSION}.json").read_bytes()


def as_file(schema: dict[str, Any]) -> bytes:
    """A schema as its file holds it."""
    import json

    return json.dumps(schema, indent=2, ensure_ascii=False).encode("utf-8") + b"\n"


def _complete(definitions: dict[str, Any]) -> None:
    """A notice always has all of its fields, and says its version."""
    for one in definitions.values():
        if "v" in one.get("properties", {}):
            one["properties"]["v"] = {"const": VERSION}
            one["required"] = list(one["properties"])


@click.command("schema", cls=GroupedCommand, short_help="Print the JSON Schema of our output.")
@click.argument("form", type=click.Choice(FORMS), default="stream-json")
def schema(form: str) -> int:
    """Show the JSON Schema of what --output FORM writes, or `sluice tool`."""
    import sys

    sys.stdout.buffer.write(shipped(form))
    sys.stdout.buffer.flush()
    return 0
