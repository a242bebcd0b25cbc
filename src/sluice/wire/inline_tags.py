"""Arguments that a model writes as tags, made into one JSON object as they come (W10).

A value is a string unless the tool's schema says otherwise: text has no types. A tag form cannot quote its own end marks,
so a value in which one stands ends there.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from typing import Any

from sluice.values.calls import ToolSpec
from sluice.wire.inline_capture import Body, Capture, NotACall, blank, literal, nothing, until
from sluice.wire.json_values import strict_value


class Tags:
    """The tags of a form: what begins a key, what stands between it and its value, and what ends each."""

    def __init__(
        self,
        key: str,
        key_end: str,
        value: str | None,
        value_end: str,
        end: str,
        *,
        lines: bool,
        says_string: bool = False,
    ) -> None:
        self.key = key
        self.key_end = key_end
        self.value = value
        self.value_end = value_end
        self.end = end
        self.lines = lines  # one line break on each side is no part of a value
        self.says_string = says_string  # up to a `>` behind the key it may say whether the value is a string or JSON


QWEN = Tags("<parameter=", ">", None, "</parameter>", "</function>", lines=True)
GLM = Tags("<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "</tool_call>", lines=False)


_SAID = {'string="true"': frozenset({"string"}), 'string="false"': frozenset({"JSON"})}


def tagged_arguments(cap: Capture, name: str, tags: Tags) -> Body:
    """The arguments of a call and its end. Raises `NotACall` if there is neither a first argument nor an end."""
    first = True
    while True:
        yield from blank(cap)
        found = yield from literal(cap, tags.key, tags.end)
        if found is None and first:
            raise NotACall
        cap.open(name)
        if found == tags.end:
            cap.write("{}" if first else "}")
            cap.close()
            return
        if found is not None:
            found = yield from _tagged(cap, name, tags, first)
        if found is None:
            cap.spoil(f"the call written in text is broken: a tag is missing before {tags.end}")
            yield from until(cap, tags.end, nothing)
            cap.close()
            return
        first = False


def _tagged(cap: Capture, name: str, tags: Tags, first: bool) -> Generator[None, None, str | None]:
    """One key and its value; `None` if a tag is missing."""
    key: list[str] = []
    yield from until(cap, tags.key_end, key.append)
    if tags.value is not None:
        yield from blank(cap)
        if (yield from literal(cap, tags.value)) is None:
            return None
    word = "".join(key).strip()
    cap.write(("{" if first else ", ") + json.dumps(word, ensure_ascii=False) + ": ")
    types = _types(cap.specs.get(name), word)
    if tags.says_string:
        said: list[str] = []
        yield from until(cap, ">", said.append)
        types = _SAID.get("".join(said).strip(), types)
    value = _Text(cap, lines=tags.lines, at_once=types <= {"string"})
    yield from until(cap, tags.value_end, value.add)
    value.end(types)
    return tags.value_end


class _Text:
    """A value between tags. A string goes out as it comes; any other waits for its end and is JSON if it can be."""

    def __init__(self, cap: Capture, *, lines: bool, at_once: bool) -> None:
        self._cap = cap
        self._lines = lines
        self._at_once = at_once
        self._pieces: list[str] = []
        self._held = ""
        self._begun = False
        if at_once:
            cap.write('"')

    def add(self, piece: str) -> None:
        if self._lines and not self._begun:
            piece = piece.removeprefix("\n")
        self._begun = True
        piece = self._held + piece
        self._held = ""
        if self._lines and piece.endswith("\n"):
            self._held = "\n"
            piece = piece[:-1]
        if self._at_once:
            self._cap.write(_escaped(piece))
        else:
            self._pieces.append(piece)

    def end(self, types: frozenset[str]) -> None:
        if self._at_once:
            self._cap.write('"')
            return
        text = "".join(self._pieces)
        value = strict_value(text)
        if value is None or ("string" in types and value[0] is not None):
            text = f'"{_escaped(text)}"'
        self._cap.write(text)


def _escaped(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _types(spec: ToolSpec | None, key: str) -> frozenset[str]:
    """The JSON types that a tool's schema takes for a key; none if it does not say: then a value is a string."""
    properties = spec.parameters.get("properties") if spec is not None else None
    schema = properties.get(key) if isinstance(properties, dict) else None
    return frozenset(_named_types(schema))


def _named_types(schema: Any) -> Sequence[str]:
    if not isinstance(schema, dict):
        return ()
    named = schema.get("type")
    if isinstance(named, str):
        return (named,)
    if isinstance(named, list):
        return tuple(t for t in named if isinstance(t, str))
    inner = schema.get("anyOf") or schema.get("oneOf") or ()
    return tuple(t for part in inner for t in _named_types(part))
