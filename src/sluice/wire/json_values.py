"""Values of JSON out of the pieces in which they arrive: strict as in `strict_json`, whatever the top level is."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from sluice.errors import ArgumentsError
from sluice.wire.strict_json import parse_arguments
from sluice.wire.surrogates import is_torn, rejoined, storable

_string = msgspec.json.Decoder(str).decode
_high_escape = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}").fullmatch


def half_pair(text: str, pos: int, end: int) -> int:
    """How many characters at the end of a run are the first half of a surrogate pair, escaped (6) or bare (1)."""
    if end > pos and "\ud800" <= text[end - 1] <= "\udbff":
        return 1
    if end - pos >= 6 and text[end - 6] == "\\" and _high_escape(text, end - 6, end):
        before = end - 6
        while before > pos and text[before - 1] == "\\":
            before -= 1
        return 0 if (end - 6 - before) % 2 else 6
    return 0


def unescaped(piece: str) -> str:
    """What a piece of a string says. Halves of surrogate pairs that are alone are shown as U+FFFD."""
    if "\\" not in piece:
        return storable(piece)
    try:
        return _string(f'"{piece}"')
    except (msgspec.DecodeError, UnicodeEncodeError):  # a half that is alone
        return storable(json.loads(f'"{piece}"'))


def member_value(raw: str) -> tuple[Any] | None:
    """The value of a raw one whose grammar the scanner has checked, in a tuple; `None` if strict JSON has none such."""
    if is_torn(raw):
        raw = rejoined(raw)
    if raw[0] == '"' and "\\" not in raw and not is_torn(raw):
        return (raw[1:-1],)
    return _inside_object(raw)


def strict_value(text: str) -> tuple[Any] | None:
    """Any text as `strict_json` reads it, whatever its top level is, in a tuple; `None` if it is no strict JSON."""
    text = text.strip(" \t\n\r")
    if text[:1] != "{":
        return _inside_object(text)
    try:
        return (parse_arguments(text),)
    except ArgumentsError:
        return None


def _inside_object(raw: str) -> tuple[Any] | None:
    try:
        made = parse_arguments('{"":' + raw + "}")
    except ArgumentsError:
        return None
    return (made[""],) if len(made) == 1 else None
