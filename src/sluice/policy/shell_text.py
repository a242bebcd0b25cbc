"""The value of one piece of a shell word: quotes and backslashes taken away, as bash does it."""

from __future__ import annotations

import re
from typing import NamedTuple

_GLOB = "*?["
_NEVER_BARE = "{}~!$`"  # braces, home folders, history, substitutions: what they become is not known here
_IN_DOUBLE = '$`"\\'
_ANSI = re.compile(
    r"\\(x[0-9a-fA-F]{1,2}|[0-7]{1,3}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}|[abeEfnrtv\\'\"?])|\\", re.DOTALL
)
_ANSI_NAMES = {"a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class Text(NamedTuple):
    """The value of a piece, and whether it holds a pattern that bash would replace by file names."""

    value: str
    globs: bool = False


def word_text(kind: str, source: str, *, plain: bool) -> Text | None:
    """What the piece `source` of the grammar's `kind` comes to; `None` if the shell decides that when it runs.

    `plain`: the grammar found nothing to replace inside it.
    """
    if not plain:
        return None
    if kind in ("word", "number"):
        return _bare(source)
    if kind == "raw_string":
        return Text(source[1:-1]) if len(source) >= 2 and source[0] == source[-1] == "'" else None
    if kind == "string":
        return _double(source)
    if kind == "ansi_c_string":
        return _ansi(source)
    return None


def _bare(source: str) -> Text | None:
    if "\\" not in source:
        if any(char in source for char in _NEVER_BARE) or _breaks(source):
            return None
        return Text(source, any(char in source for char in _GLOB))
    value, globs, at = [], False, 0
    while at < len(source):
        char = source[at]
        if char == "\\":
            at += 1
            if at == len(source):
                return None
            if source[at] != "\n":  # a line that goes on
                value.append(source[at])
        elif char in _NEVER_BARE or _breaks(char):
            return None
        else:
            globs = globs or char in _GLOB
            value.append(char)
        at += 1
    return Text("".join(value), globs)


def _breaks(text: str) -> bool:
    return any(char in text for char in " \t\n'\";|&()<>")


def _double(source: str) -> Text | None:
    if len(source) < 2 or source[0] != '"' or source[-1] != '"':
        return None
    inner, value, at = source[1:-1], [], 0
    if "\\" not in inner:
        return None if "$" in inner or "`" in inner else Text(inner)
    while at < len(inner):
        char = inner[at]
        following = inner[at + 1 : at + 2]
        if char == "\\" and following and following in _IN_DOUBLE + "\n":
            if following != "\n":
                value.append(following)
            at += 2
            continue
        if char in "$`":
            return None
        value.append(char)
        at += 1
    return Text("".join(value))


def _ansi(source: str) -> Text | None:
    if not (source.startswith("$'") and source.endswith("'") and len(source) >= 3):
        return None
    parts, end = [], 0
    inner = source[2:-1]
    for found in _ANSI.finditer(inner):
        name = found[1]
        if name is None:
            return None
        parts.append(inner[end : found.start()])
        parts.append(_ansi_char(name))
        end = found.end()
    value = "".join((*parts, inner[end:]))
    return None if "\0" in value or any("\ud800" <= char <= "\udfff" for char in value) else Text(value)


def _ansi_char(name: str) -> str:
    if name[0] in "xuU":
        code = int(name[1:], 16)
        # A byte over 127 is half of some character: which one, the neighbours say.
        return "\0" if code > 0x10FFFF or (name[0] == "x" and code > 127) else chr(code)
    if name[0].isdigit():
        code = int(name, 8)
        return "\0" if code > 127 else chr(code)
    return _ANSI_NAMES.get(name, name)
