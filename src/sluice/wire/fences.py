"""Fenced blocks in a text that arrives in pieces (CommonMark, section 4.5, as far as it says where code begins and ends)."""

from __future__ import annotations

import re

_fence = re.compile(r" {0,3}(`{3}|~{3})").match
_maybe_fence = re.compile(r" {0,3}(?:`{0,2}|~{0,2})").fullmatch


class Fences:
    """`inside` is true in a fenced block, `line_is_blank` while the line has at most three spaces so far."""

    __slots__ = ("_head", "_mark", "_named", "_opened")

    def __init__(self) -> None:
        self._mark = ""  # the character of the open fence
        self._head: str | None = ""  # the line so far, while it may still become a fence
        self._opened = False  # the open fence began on this line
        self._named = False  # and something follows its marks there

    @property
    def inside(self) -> bool:
        """True in a fenced block, its first line included."""
        return bool(self._mark)

    @property
    def line_is_blank(self) -> bool:
        """True at the beginning of a line."""
        return self._head is not None and not self._head.strip(" ")

    def add(self, text: str) -> None:
        """The next piece of the text."""
        pos = 0
        if self._head is None:
            pos = self._line_end(text, 0)
            if not pos:
                return
        elif self._head:
            text = self._head + text
        while True:
            found = _fence(text, pos)
            if found:
                self._toggle(found.group(1)[0])
                start = found.end()
            elif _maybe_fence(text, pos):
                self._head = text[pos:]
                return
            else:
                start = pos
            pos = self._line_end(text, start)
            if not pos:
                self._head = None
                return

    def _toggle(self, mark: str) -> None:
        if not self._mark:
            self._mark = mark
            self._opened = True
            self._named = False
        elif mark == self._mark:
            self._mark = ""

    def _line_end(self, text: str, pos: int) -> int:
        """The position after the line's end, or 0 if it is not there yet."""
        end = text.find("\n", pos)
        if self._opened and self._mark == "`":
            self._info(text[pos : end if end >= 0 else len(text)])
        if end >= 0:
            self._opened = False
            self._head = ""
        return end + 1

    def _info(self, rest: str) -> None:
        """The rest of a fence's first line: a backtick in it says that this was code in a line, and no fence."""
        if not self._named:
            rest = rest.lstrip("`")
        self._named = self._named or bool(rest)
        if "`" in rest:
            self._mark = ""
