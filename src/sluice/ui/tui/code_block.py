"""Lines of code in a reply, coloured where the language is known. Long code comes as several blocks."""

from __future__ import annotations

import re
from functools import lru_cache

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.token import Comment, Error, Keyword, Name, Number, String, _TokenType
from pygments.util import ClassNotFound
from rich.style import Style
from textual.strip import Strip

from sluice.ui.tui.block import Block
from sluice.ui.tui.styles import BOLD, CODE, DIM, GOOD, PLAIN
from sluice.ui.tui.wrapping import Span, wrap

MAX_COLOURED = 16 * 1024  # characters of one block that are given to a lexer; more are shown plain
_PROBE = "probe"  # a word that is an ordinary one in every language
_OPENING = re.compile(
    r"/\*|<!--|\"\"\"|'''|`|<<[-~]?[\"'\w]"
)  # begin what runs over lines; alone they are other tokens
_KINDS: tuple[tuple[_TokenType, Style], ...] = (
    (Comment, DIM),
    (String, GOOD),
    (Number, CODE),
    (Keyword, BOLD),
    (Name.Function, CODE),
    (Name.Class, CODE),
    (Name.Tag, BOLD),
)


class CodeBlock(Block):
    """`code` is visible text without its last line end; `language` the first word after the fence, any text."""

    def __init__(self, code: str, language: str = "", *, indent: str = "", gap: bool = False) -> None:
        super().__init__(gap=gap)
        self._code, self._language, self._indent = code, language, indent

    @property
    def weight(self) -> int:
        """The characters of the code."""
        return len(self._code)

    def draw(self, width: int) -> list[Strip]:
        """Cut at the width, never by words: what is code stays as it is."""
        edge = ((self._indent, PLAIN), ("│ ", DIM))
        rows: list[Strip] = []
        for line in coloured(self._code, self._language):
            rows += wrap(line, width, edge, edge, fold=True)
        return rows


def coloured(code: str, language: str) -> list[list[Span]]:
    """The lines of the code as styled pieces; plain where the language is unknown or the code is long."""
    code = code.expandtabs(4)
    lexer = _lexer(language[:40].lower()) if language and len(code) <= MAX_COLOURED else None
    if lexer is None:
        return [[(line, PLAIN)] for line in code.split("\n")]
    lines: list[list[Span]] = [[]]
    for kind, value in lexer.get_tokens(code):
        style = next((style for of, style in _KINDS if _is(kind, of)), PLAIN)
        first, *others = value.split("\n")
        lines[-1].append((first, style))
        lines.extend([(text, style)] for text in others)
    wanted = code.count("\n") + 1  # a lexer ends its text with a line end of its own
    return [line or [("", PLAIN)] for line in lines[:wanted]]


def ends_clean(code: str, language: str) -> bool:
    """Whether the code that follows is surely coloured as if it stood alone: no string or comment is open at the end."""
    lexer = _lexer(language[:40].lower()) if language and len(code) <= MAX_COLOURED else None
    if lexer is None:
        return False
    ordinary: list[str] = []
    for at, kind, value in lexer.get_tokens_unprocessed(f"{code}\n{_PROBE}\n"):
        inside = _is(kind, Comment) or _is(kind, String)
        ordinary.append(" " if inside else value)
        if at + len(value) > len(code) + 1:  # the probe, or what it became a part of
            return not inside and _OPENING.search("".join(ordinary)) is None
        if _is(kind, Error):
            return False
    return False


def _is(kind: _TokenType, of: _TokenType) -> bool:
    return kind in of  # type: ignore[comparison-overlap]


@lru_cache(32)
def _lexer(language: str) -> Lexer | None:
    try:
        return get_lexer_by_name(language, stripnl=False, ensurenl=True)
    except ClassNotFound:
        return None
