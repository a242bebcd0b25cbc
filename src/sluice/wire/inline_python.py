"""Calls written as a list of Python calls: `[f(a="x", b=[1, 2]), g()]` (W10).

Sources: Meta's prompt formats of Llama 3.2 and Llama 4 (`<|python_start|>` and `<|python_end|>` may stand around the list),
and the parsers that servers call "pythonic". Nothing is evaluated: only literals are read, and made into JSON. The words
of JSON (`true`, `false`, `null`) are taken too, for models mix the two.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Generator
from typing import Any, Final

from sluice.wire.inline_capture import Body, Capture, Ended, NotACall, blank, literal, named, nothing, peek, until
from sluice.wire.strict_json import MAX_DEPTH
from sluice.wire.surrogates import is_torn

_END = "<|python_end|>"
_plain = re.compile(r"[^'\"()\[\]{},]*+").match
_in_string: Final = {'"': re.compile(r'[^"\\]*+').match, "'": re.compile(r"[^'\\]*+").match}
_space = re.compile(r"[ \t\r\n]*+").match
_number = re.compile(r"[+-]?(?:[0-9][0-9_]*+(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?").match
_escape = re.compile(r"\\(?:\n|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{1,3}|.)", re.DOTALL).sub
_WORDS: Final = {"True": True, "False": False, "None": None, "true": True, "false": False, "null": None}
_word = re.compile(r"[A-Za-z]++").match
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"', "\n": ""}
_ESCAPES_OF_OLD: Final = {"a": "\a", "b": "\b", "f": "\f", "v": "\v"}


def pythonic(cap: Capture) -> Body:
    """The list behind `<|python_start|>`."""
    if (yield from peek(cap)) != "[":
        raise NotACall
    yield from _calls(cap, certain=True)
    yield from blank(cap)
    yield from literal(cap, _END)


def bare_pythonic(cap: Capture) -> Body:
    """The list alone, at the very beginning of what the model says: of known tools where tools are known."""
    yield from _calls(cap, certain=False)


def _calls(cap: Capture, *, certain: bool) -> Body:
    cap.take(cap.pos + 1)
    while True:
        yield from peek(cap)
        name = yield from named(cap)
        yield from blank(cap)
        if (yield from literal(cap, "(")) is None or (not certain and cap.specs and name not in cap.specs):
            raise NotACall
        if certain or cap.specs:
            cap.open(name)
        if not (yield from _arguments(cap, name)):
            return
        yield from blank(cap)
        if (yield from literal(cap, ",", "]")) != ",":
            cap.keep()
            return
        cap.keep()
        if (yield from peek(cap)) == "]":
            cap.take(cap.pos + 1)
            cap.keep()
            return


def _arguments(cap: Capture, name: str) -> Generator[None, None, bool]:
    """Keywords and their values, up to the end of the call. False if they were broken; then the rest was taken."""
    first = True
    while True:
        if (yield from peek(cap)) == ")":
            break
        key = yield from _keyword(cap)
        if key is None and cap.call is None:
            raise NotACall
        cap.open(name)
        if key is None:
            return (yield from _broken(cap, "an argument has no name"))
        cap.write(("{" if first else ", ") + json.dumps(key) + ": ")
        first = False
        text = yield from _value(cap)
        value = python_literal(text)
        if value is None:
            cap.write(json.dumps(text))
            return (yield from _broken(cap, f"the value of {key!r} is no literal"))
        cap.write(value)
        if cap.text[cap.pos] == ",":
            cap.take(cap.pos + 1)
    cap.open(name)
    cap.take(cap.pos + 1)
    cap.write("{}" if first else "}")
    cap.close()
    return True


def _broken(cap: Capture, why: str) -> Generator[None, None, bool]:
    cap.spoil(f"the call written in text is broken: {why}")
    yield from until(cap, "]", nothing)
    cap.close()
    return False


def _keyword(cap: Capture) -> Generator[None, None, str | None]:
    """`name=`, taken; `None` if something else is there."""
    try:
        key = yield from named(cap)
    except NotACall:
        return None
    yield from blank(cap)
    return None if (yield from literal(cap, "=")) is None else key


def _value(cap: Capture) -> Generator[None, None, str]:
    """The text of a value, taken up to the `,` or `)` that ends it, which is there and not taken."""
    parts: list[str] = []
    depth = 0
    while True:
        found = _plain(cap.text, cap.pos)
        end = found.end() if found else cap.pos
        parts.append(cap.take(end))
        if end == len(cap.text):
            if cap.ended:
                raise Ended
            yield
            continue
        char = cap.text[end]
        if char in "'\"":
            yield from _string(cap, char, parts)
            continue
        if not depth and char in ",)":
            return "".join(parts)
        depth += (char in "([{") - (char in ")]}")
        parts.append(cap.take(end + 1))


def _string(cap: Capture, quote: str, parts: list[str]) -> Body:
    """A string with its quotes, one or three, taken as it is written."""
    marks = yield from _quotes(cap, quote)
    if len(marks) == 2:
        parts.append(marks)
        return
    parts.append(marks)
    while True:
        found = _in_string[quote](cap.text, cap.pos)
        parts.append(cap.take(found.end() if found else cap.pos))
        there = cap.text[cap.pos : cap.pos + 2]
        if there.startswith(quote):
            if len(marks) == 1:
                parts.append(cap.take(cap.pos + 1))
                return
            closing = yield from _quotes(cap, quote)
            parts.append(closing)
            if len(closing) == 3:
                return
        elif len(there) == 2:
            parts.append(cap.take(cap.pos + 2))
        elif cap.ended:
            raise Ended
        else:
            yield


def _quotes(cap: Capture, quote: str) -> Generator[None, None, str]:
    """One, two or three of the same quotation mark, as many as there are, taken."""
    while True:
        there = cap.text[cap.pos : cap.pos + 3]
        if len(there) == 3 or cap.ended or there.strip(quote):
            return cap.take(cap.pos + len(there) - len(there.lstrip(quote)))
        yield


def python_literal(text: str) -> str | None:
    """The JSON of a Python literal: a string, number, word, list, tuple or dict with strings for keys.

    `None` if it is anything else, is nested deeper than JSON's bound, or holds what JSON cannot.
    """
    try:
        value, end = _literal(text, _past(text, 0), 0)
        if _past(text, end) != len(text):
            return None
        made = json.dumps(value, ensure_ascii=False, allow_nan=False)
        return json.dumps(value, allow_nan=False) if is_torn(made) else made
    except (ValueError, IndexError):
        return None


def _past(text: str, pos: int) -> int:
    found = _space(text, pos)
    return found.end() if found else pos


def _literal(text: str, pos: int, depth: int) -> tuple[Any, int]:
    char = text[pos]
    if char in "'\"":
        return _text(text, pos)
    if char in "[(":
        return _items(text, pos, depth)
    if char == "{":
        return _members(text, pos, depth)
    number = _number(text, pos)
    if number:
        return _numeral(number.group().replace("_", "")), number.end()
    word = _word(text, pos)
    if word and word.group() in _WORDS:
        return _WORDS[word.group()], word.end()
    raise ValueError


def _numeral(text: str) -> int | float:
    if not text.lstrip("+-").isdigit():
        number = float(text)
        if not math.isfinite(number):
            raise ValueError
        return number
    return int(text)


def _text(text: str, pos: int) -> tuple[str, int]:
    quote = text[pos]
    marks = quote * 3 if text.startswith(quote * 3, pos) else quote
    start = at = pos + len(marks)
    while not text.startswith(marks, at):
        at += 2 if text[at] == "\\" else 1
    return _escape(lambda found: _unescaped(found.group()[1:]), text[start:at]), at + len(marks)


def _unescaped(code: str) -> str:
    if code in _ESCAPES:
        return _ESCAPES[code]
    if code in _ESCAPES_OF_OLD:
        return _ESCAPES_OF_OLD[code]
    if code[0] in "xuU" and len(code) > 1:
        return chr(int(code[1:], 16))  # beyond Unicode: a ValueError, and no literal
    if code[0] in "01234567":
        return chr(int(code, 8))
    return "\\" + code  # as Python reads it


def _items(text: str, pos: int, depth: int) -> tuple[Any, int]:
    if depth >= MAX_DEPTH:
        raise ValueError
    close = "]" if text[pos] == "[" else ")"
    values: list[Any] = []
    comma = False
    pos = _past(text, pos + 1)
    while text[pos] != close:
        value, pos = _literal(text, pos, depth + 1)
        values.append(value)
        pos = _past(text, pos)
        comma = text[pos] == ","
        if comma:
            pos = _past(text, pos + 1)
        elif text[pos] != close:
            raise ValueError
    if close == ")" and len(values) == 1 and not comma:
        return values[0], pos + 1
    return values, pos + 1


def _members(text: str, pos: int, depth: int) -> tuple[dict[str, Any], int]:
    if depth >= MAX_DEPTH:
        raise ValueError
    members: dict[str, Any] = {}
    pos = _past(text, pos + 1)
    while text[pos] != "}":
        key, pos = _literal(text, pos, depth + 1)
        pos = _past(text, pos)
        if not isinstance(key, str) or key in members or text[pos] != ":":
            raise ValueError
        members[key], pos = _literal(text, _past(text, pos + 1), depth + 1)
        pos = _past(text, pos)
        if text[pos] == ",":
            pos = _past(text, pos + 1)
        elif text[pos] != "}":
            raise ValueError
    return members, pos + 1
