"""Strict JSON for call arguments: one function for the reader and for dispatch (W15).

RFC 8259, and beyond it: an object at the top, at most 128 levels, no repeated key, no NaN or Infinity (also not as an
overflowing number), no lone surrogate, no integer outside 64 bits (what stores and other programs can carry).
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from sluice.errors import ArgumentsError

MAX_DEPTH = 128
_MIN_INT, _MAX_INT = -(2**63), 2**64 - 1
_TAIL = 64
_LOOSE_COMMA = "a comma with nothing after it"

# Possessive, so that a long string costs no memory for backtracking.
_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+("?)', re.DOTALL)
_STRING_OR_BRACKET = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', re.DOTALL)
_STRING_OR_MARK = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{},]|[-+\w.]+', re.DOTALL)
_BRACKET = re.compile(r"[\[\]{}]")


class _Refused(Exception):
    """Raised inside the parser's hooks, for a number or word (`literal`) or for a `key` that is there twice."""

    def __init__(self, reason: str, *, literal: str | None = None, key: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.literal = literal
        self.key = key


def parse_arguments(text: str) -> dict[str, Any]:
    """Returns the object that `text` is; raises `ArgumentsError` with reason and position if it is not a strict one.

    Cost is linear in the length of `text`. Integers stay exact.
    """
    _check_text(text)
    _check_depth(text)
    try:
        value = _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise ArgumentsError(*_reason_and_place(text, error), text[-_TAIL:]) from None
    except _Refused as error:
        raise ArgumentsError(error.reason, _position(text, error), text[-_TAIL:]) from None
    if not isinstance(value, dict):
        raise ArgumentsError("the top level is no object", 0, text[-_TAIL:])
    _check_escapes(text, value)
    return value


def _reason_and_place(text: str, error: json.JSONDecodeError) -> tuple[str, int]:
    """What is wrong and where, in the same words whatever version of Python parsed."""
    if error.msg.startswith("Illegal trailing comma"):  # Python 3.13 and later
        return _LOOSE_COMMA, error.pos
    before = text[: error.pos].rstrip(" \t\r\n")
    if before.endswith(",") and text[error.pos : error.pos + 1] in ("}", "]"):
        return _LOOSE_COMMA, len(before) - 1
    return (error.msg[:1].lower() + error.msg[1:]).removesuffix(" at").rstrip(": "), error.pos


def is_unfinished(text: str) -> bool:
    """True if `text` stops inside a string or an open bracket: it was cut, rather than written wrongly."""
    bare, cut = _without_strings(text)
    if cut:
        return True
    open_ones = []
    for bracket in _BRACKET.findall(bare):
        if bracket in "[{":
            open_ones.append(bracket)
        elif not open_ones or open_ones.pop() + bracket not in ("[]", "{}"):
            return False
    return bool(open_ones)


def _without_strings(text: str) -> tuple[str, bool]:
    cut = False

    def blank(match: re.Match[str]) -> str:
        nonlocal cut
        cut = cut or not match.group(1)
        return " "

    return _STRING.sub(blank, text), cut


def _check_depth(text: str) -> None:
    if text.count("{") + text.count("[") <= MAX_DEPTH:
        return
    depth = 0
    # Strings are skipped in place, so that positions stay those of the text.
    for match in _STRING_OR_BRACKET.finditer(text):
        bracket = text[match.start()]
        if bracket in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise ArgumentsError(f"nested deeper than {MAX_DEPTH} levels", match.start(), text[-_TAIL:])
        elif bracket in "]}":
            depth -= 1


def _position(text: str, fault: _Refused) -> int:
    """Where the literal of a fault stands outside of strings, or its key for the second time.

    The text is sound up to there: the parser had read it.
    """
    keys: list[set[str] | None] = []  # the keys of each open object; `None` for an array
    key_next = False
    for match in _STRING_OR_MARK.finditer(text):
        word = match.group()
        if fault.literal is not None:
            if word == fault.literal:
                return match.start()
        elif word[0] == '"' and key_next and keys[-1] is not None:
            key_next = False
            key = json.loads(word, strict=False)
            if key == fault.key and key in keys[-1]:
                return match.start()
            keys[-1].add(key)
        elif word in "[{":
            keys.append(set() if word == "{" else None)
            key_next = word == "{"
        elif word in "]}":
            keys.pop()
        elif word == ",":
            key_next = keys[-1] is not None
    return 0


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _Refused(f"the key {key[:64]!r} is there twice", key=key)
            seen.add(key)
    return made


def _constant(word: str) -> NoReturn:
    raise _Refused(f"{word} is no JSON number", literal=word)


def _integer(digits: str) -> int:
    if len(digits) > 20:
        raise _Refused("an integer does not fit into 64 bits", literal=digits)
    number = int(digits)
    if not _MIN_INT <= number <= _MAX_INT:
        raise _Refused("an integer does not fit into 64 bits", literal=digits)
    return number


def _float(digits: str) -> float:
    number = float(digits)
    if number in (float("inf"), float("-inf")):
        raise _Refused("a number is too large", literal=digits)
    return number


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_constant=_constant, parse_int=_integer, parse_float=_float, strict=True
)


def _check_text(text: str) -> None:
    try:
        text.encode()  # four times as fast as looking for one
    except UnicodeEncodeError as error:
        raise ArgumentsError("half a surrogate pair", error.start, text[-_TAIL:]) from None


def _check_escapes(text: str, value: dict[str, Any]) -> None:
    """Escapes can make half a pair too; only the parsed value shows whether the other half stood beside it."""
    if "\\ud" in text or "\\uD" in text:
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ArgumentsError("half a surrogate pair", max(text.lower().find("\\ud"), 0), text[-_TAIL:]) from None
