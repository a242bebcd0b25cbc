"""JSON as it is being written: where it stands, what is finished, how it could be closed (W9).

The scanner takes fragments of any size. Runs inside strings are skipped by one compiled expression, and no character is
looked at more than a fixed number of times, so the cost is linear in the text for any fragmentation. It says which
members of the top-level object are finished, hands out a growing string as the slice that is new, and knows the shortest
suffix that would close the text. What is not certain is left out: half an escape, half a literal, a number that may go
on, a key without a value.

Grammar: RFC 8259, and the limits of `strict_json` for each finished member.
"""

from __future__ import annotations

import re
from collections.abc import Container
from typing import Any, Final

import msgspec

from sluice.values.healed import HealedArguments
from sluice.values.messages import ToolCall
from sluice.wire.json_values import half_pair, member_value, strict_value, unescaped
from sluice.wire.pieces import Pieces
from sluice.wire.strict_json import MAX_DEPTH
from sluice.wire.surrogates import is_torn, rejoined

# States: what may come next.
_VALUE: Final = 0
_FIRST_ITEM: Final = 1  # a value or `]`
_FIRST_KEY: Final = 2  # a key or `}`
_NEXT_KEY: Final = 3
_KEY: Final = 4  # inside a key
_COLON: Final = 5
_STRING: Final = 6  # inside a string that is a value
_NUMBER: Final = 7
_AFTER: Final = 8  # `,` or a closing bracket
_END: Final = 9

# Possessive, so that a long string costs no memory for backtracking.
_run = re.compile(r'[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*+').match
_begun_escape = re.compile(r"\\(?:u[0-9a-fA-F]{0,4})?").match
_number_part = re.compile(r"[-+.0-9eE]*+").match
_number = re.compile(r"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][-+]?[0-9]++)?").fullmatch
_space = re.compile(r"[ \t\n\r]*+").match
_LITERALS = {"t": "true", "f": "false", "n": "null"}
_CLOSERS = {"{": "}", "[": "]"}
_FOLD = 1024  # fragments between two looks at how many short pieces are held


class Member(msgspec.Struct, frozen=True, gc=False):
    """One finished member of the top-level object; `start` and `end` are the offsets of its raw value in the text."""

    name: str
    value: Any
    start: int
    end: int


class Healed(msgspec.Struct, frozen=True):
    """A text that was closed by us, and its value. For people to look at: it is not what the model wrote.

    `dropped` characters at the end were not certain and are gone; `suffix` was put in their place.
    """

    text: str
    value: Any
    dropped: int
    suffix: str


class JsonScanner:
    """One JSON text in fragments.

    With `keep=False` the text itself is not kept: `known` and `healed` cannot be asked for, members and tails can. With
    `keys` given, any other key of the top-level object makes the text broken.

    `broken` says in words why the text can never become JSON, at the offset `broken_at`; `end` is the offset after the
    top-level value once that is complete. Both depend on the text alone, not on how it was cut. `name` is the key that
    is or was last written at the top level, `value_at` the offset of the value being written for it or `None`.
    """

    __slots__ = (
        "_base",
        "_feeds",
        "_held",
        "_keep",
        "_key",
        "_keys",
        "_member",
        "_names",
        "_path",
        "_stack",
        "_start",
        "_state",
        "_sure",
        "_tail",
        "_text",
        "_token",
        "broken",
        "broken_at",
        "end",
        "name",
        "value_at",
    )

    def __init__(self, *, keep: bool = True, keys: Container[str] | None = None) -> None:
        self.broken: str | None = None
        self.broken_at: int | None = None
        self.end: int | None = None
        self.name = ""
        self.value_at: int | None = None
        self._keep = keep
        self._keys = keys
        self._state: int = _VALUE
        self._stack: list[str] = []  # closing brackets of what is open
        self._path: list[str | int | None] = []
        self._names: set[str] = set()
        self._base = 0  # characters fed
        self._sure = 0  # offset after the last value, or opened bracket, that is certain
        self._held = ""  # the end of what was fed, looked at again with the next fragment: at most 12 characters
        self._text = Pieces()
        self._member = Pieces()  # the raw value being written at the top level, as far as earlier fragments had it
        self._start = 0  # where it begins in the fragment at hand
        self._key: list[str] = []
        self._token: list[str] = []
        self._tail = ""
        self._feeds = 0

    @property
    def depth(self) -> int:
        """How many brackets are open."""
        return len(self._stack)

    @property
    def in_string(self) -> bool:
        """True inside a key or a string."""
        return self._state in (_KEY, _STRING)

    @property
    def size(self) -> int:
        """Characters fed so far."""
        return self._base

    @property
    def awaits(self) -> str | None:
        """The bracket without which no more text can finish a member; `None` if any text may finish one.

        Text that lacks it may be kept back and fed later, in one piece: members and tails are the same.
        """
        if self.value_at is None or len(self._stack) < 2:
            return None
        return self._stack[1]

    @property
    def path(self) -> tuple[str | int, ...]:
        """Keys and indexes that lead to the value being written, or written last."""
        return tuple(step for step in self._path if step is not None)

    def feed(self, fragment: str, done: list[Member]) -> str:
        """Takes the next fragment; members that it finishes go to `done`.

        Returns what the fragment adds, unescaped, to the string that is being written as a member's value at the top
        level: the fragment itself if nothing in it is escaped, `""` if no such string is open at its end. All of these,
        joined, are the beginning of the member's value.
        """
        if self._keep:
            self._text.append(fragment)
        self._feeds += 1
        if self._feeds >= _FOLD:
            self._feeds = 0
            self._text.fold()
            self._member.fold()
        if self.broken is not None:
            self._base += len(fragment)
            return ""
        text = self._held + fragment if self._held else fragment
        if self._state == _STRING:
            # Nearly every fragment lies inside one string.
            found = _run(text)
            if found and found.end() == len(text) and text[-6:-4] != "\\u" and not is_torn(text):
                self._held = ""
                self._base += len(fragment)
                if self.value_at is None:
                    return ""
                self._member.append(text)
                if len(self._stack) > 1:
                    return ""
                return unescaped(text) if "\\" in text else text
        self._tail = ""
        base = self._base - len(self._held)
        self._held = ""
        self._start = 0
        pos = 0
        size = len(text)
        while pos < size and self.broken is None:
            pos = self._step(text, pos, base, done)
        if self.value_at is not None:
            self._member.append(text[self._start : size - len(self._held)])
        self._base = base + size
        return self._tail

    def known(self) -> Any:
        """The value as far as it is certain: no string, number or word that may still go on. `None` if nothing is."""
        text = self._whole()[: self._sure]
        value = strict_value(text + self._closers()) if text else None
        return value[0] if value else None

    def healed(self) -> Healed | None:
        """The text with the shortest suffix that closes it, cut back to what is certain; a begun string is kept.

        `None` if nothing is certain yet, or if the text is broken: then it was written wrongly, not cut.
        """
        if self.broken is not None:
            return None
        whole = self._whole()
        if self._state == _STRING:
            cut = self._base - len(self._held)
            suffix = '"' + self._closers()
        else:
            cut = self._sure
            suffix = self._closers()
        text = whole[:cut] + suffix
        if is_torn(text):
            text = rejoined(text)
        value = strict_value(text) if cut else None
        return Healed(text, value[0], len(whole) - cut, suffix) if value else None

    def _whole(self) -> str:
        if not self._keep:
            raise ValueError("this scanner was told not to keep its text")
        return "".join(self._text)

    def _closers(self) -> str:
        # Brackets open and close only at certain points, so the stack is always that of the last one.
        return "".join(reversed(self._stack))

    def _break(self, reason: str, offset: int) -> None:
        self.broken = reason
        self.broken_at = offset
        self._tail = ""

    def _step(self, text: str, pos: int, base: int, done: list[Member]) -> int:
        """Takes one token, or the part of it that is there, and returns the position after it."""
        state = self._state
        if state in (_STRING, _KEY):
            return self._in_string(text, pos, base, done)
        if state == _NUMBER:
            return self._in_number(text, pos, base, done)
        found = _space(text, pos)
        pos = found.end() if found else pos
        if pos == len(text):
            return pos
        char = text[pos]
        if state == _AFTER:
            return self._after(char, pos, base, text, done)
        if state == _COLON:
            if char != ":":
                self._break("a colon is missing", base + pos)
            self._state = _VALUE
            return pos + 1
        if state == _END:
            self._break("text after the end", base + pos)
            return pos
        if state in (_FIRST_KEY, _NEXT_KEY):
            if char == '"':
                self._state = _KEY
                self._key.clear()
            elif char == "}" and state == _FIRST_KEY:
                self._close(text, pos, base, done)
            else:
                self._break("a key is missing", base + pos)
            return pos + 1
        if char == "]" and state == _FIRST_ITEM:
            self._close(text, pos, base, done)
            return pos + 1
        return self._value(char, text, pos, base, done)

    def _value(self, char: str, text: str, pos: int, base: int, done: list[Member]) -> int:
        word = _LITERALS.get(char)
        if word is not None:
            there = text[pos : pos + len(word)]
            if there != word and word.startswith(there):
                self._held = there
                return len(text)
            if there != word:
                same = next(i for i, (a, b) in enumerate(zip(there, word, strict=False)) if a != b)
                self._break("no word of JSON", base + pos + same)
                return pos
            self._open_value(pos, base)
            self._done(text, pos + len(word), base, done)
            return pos + len(word)
        if char == '"':
            self._open_value(pos, base)
            self._state = _STRING
        elif char in "-0123456789":
            self._open_value(pos, base)
            self._state = _NUMBER
            self._token.clear()
            return pos
        elif char in "{[":
            if len(self._stack) >= MAX_DEPTH:
                self._break(f"nested deeper than {MAX_DEPTH} levels", base + pos)
                return pos
            self._open_value(pos, base)
            self._stack.append(_CLOSERS[char])
            self._path.append(None if char == "{" else 0)
            self._state = _FIRST_KEY if char == "{" else _FIRST_ITEM
            self._sure = base + pos + 1
        else:
            self._break("a value is missing", base + pos)
        return pos + 1

    def _after(self, char: str, pos: int, base: int, text: str, done: list[Member]) -> int:
        closer = self._stack[-1]
        if char == closer:
            self._close(text, pos, base, done)
        elif char != ",":
            self._break(f"a comma or {closer} is missing", base + pos)
        elif closer == "}":
            self._state = _NEXT_KEY
        else:
            step = self._path[-1]
            self._path[-1] = step + 1 if isinstance(step, int) else 0
            self._state = _VALUE
        return pos + 1

    def _close(self, text: str, pos: int, base: int, done: list[Member]) -> None:
        self._stack.pop()
        self._path.pop()
        self._done(text, pos + 1, base, done)

    def _open_value(self, pos: int, base: int) -> None:
        if len(self._stack) == 1 and self._stack[0] == "}":
            self.value_at = base + pos
            self._start = pos

    def _done(self, text: str, end: int, base: int, done: list[Member]) -> None:
        """A value is complete at `end`."""
        if self.value_at is not None and len(self._stack) == 1:
            raw = text[self._start : end]
            if self._member:
                raw = "".join(self._member) + raw
                self._member.replace("")
                self._member.clear()
            value = member_value(raw)
            if value is None:
                self._break("a value that strict JSON has not", base + end)
                return
            done.append(Member(self.name, value[0], self.value_at, base + end))
            self.value_at = None
        self._sure = base + end
        self._tail = ""
        if self._stack:
            self._state = _AFTER
        else:
            self._state = _END
            self.end = base + end

    def _in_string(self, text: str, pos: int, base: int, done: list[Member]) -> int:
        found = _run(text, pos)
        end = found.end() if found else pos
        size = len(text)
        if end < size and text[end] == '"':
            if self._state == _STRING:
                self._done(text, end + 1, base, done)
            else:
                self._key.append(text[pos:end])
                self._key_done(base + end + 1)
            return end + 1
        if end < size:
            begun = _begun_escape(text, end)
            bad = begun.end() if begun else end
            if bad < size:
                self._break("a character that a string cannot hold" if bad == end else "no escape of JSON", base + bad)
                return size
        keep = end - half_pair(text, pos, end)
        self._held = text[keep:]
        if self._state == _KEY:
            self._key.append(text[pos:keep])
        elif len(self._stack) == 1 and self.value_at is not None:
            self._tail = unescaped(text[pos:keep])
        return size

    def _key_done(self, offset: int) -> None:
        key = unescaped("".join(self._key))
        self._path[-1] = key
        self._state = _COLON
        if len(self._stack) > 1:
            return
        self.name = key
        if key in self._names:
            self._break("a key is there twice", offset)
        elif self._keys is not None and key not in self._keys:
            self._break("a key that was not looked for", offset)
        self._names.add(key)

    def _in_number(self, text: str, pos: int, base: int, done: list[Member]) -> int:
        found = _number_part(text, pos)
        end = found.end() if found else pos
        self._token.append(text[pos:end])
        if end == len(text):
            return end
        if _number("".join(self._token)) is None:
            self._break("no number of JSON", base + end)
        else:
            self._done(text, end, base, done)
        return end


def heal(text: str) -> Healed | None:
    """The text closed as `JsonScanner.healed` closes it."""
    scanner = JsonScanner()
    scanner.feed(text, [])
    return scanner.healed()


def healed_arguments(call: ToolCall) -> HealedArguments | None:
    """The arguments of a call that was cut, closed by us; `None` for any other call or if they cannot be closed.

    The type is not that of arguments: nothing that runs a call takes it, but for the one exception of W9.
    """
    healed = heal(call.arguments) if call.status == "cut" else None
    if healed is None or not isinstance(healed.value, dict):
        return None
    return HealedArguments(written=call.arguments, text=healed.text)
