"""Markdown as blocks of styled text. Nothing in it can be clicked, opened, or taken for a colour or a mark of ours.

HTML stays literal. A link shows its address beside its words, an image its address: neither is fetched or followed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.style import Style

from sluice.ui.tui.block import Block, LineBlock
from sluice.ui.tui.code_block import CodeBlock
from sluice.ui.tui.styles import BOLD, CODE, DIM, HEADING, ITALIC, LINK, PLAIN, STRIKE
from sluice.ui.tui.table_block import TableBlock
from sluice.ui.tui.wrapping import Span

MAX_NESTING = 20  # levels of lists and quotes that are looked into


@lru_cache(1)
def parser() -> MarkdownIt:
    """The one parser: CommonMark with tables and strikethrough, no HTML, no links that were not written as links."""
    made = MarkdownIt("commonmark", {"html": False, "linkify": False, "maxNesting": MAX_NESTING})
    return made.enable(["table", "strikethrough"])


def blocks_of(tokens: Sequence[Token], *, gap: bool = True) -> list[Block]:
    """The blocks of whole top-level tokens; `gap` is whether an empty row stands before the first."""
    return _Reading(gap).read(tokens)


class _Reading:
    """One walk over a list of tokens."""

    def __init__(self, gap: bool) -> None:
        self.blocks: list[Block] = []
        self._gap = gap
        self._lists: list[int | None] = []  # the next number of each open list; None for bullets
        self._indent: list[Span] = []  # what stands before every row
        self._mark: Span | None = None  # what stands before the next row only, at the end of the indent
        self._in_cell = False
        self._heading: Style | None = None

    def read(self, tokens: Sequence[Token]) -> list[Block]:
        table: list[list[list[Span]]] = []
        for token in tokens:
            kind = token.type
            if kind == "inline":
                if self._in_cell:
                    table[-1].append(spans_of(token.children or ())[0])
                else:
                    self._text(token)
            elif kind in ("fence", "code_block"):
                code = token.content.removesuffix("\n")
                words = token.info.split()
                self._add(CodeBlock(code, words[0] if words else "", indent=self._plain_indent(), gap=self._gap))
            elif kind == "hr":
                self._add(LineBlock((("─" * 20, DIM),), first=self._first(), gap=self._gap))
            elif kind == "table_open":
                table = []
            elif kind == "tr_open":
                table.append([])
            elif kind == "table_close":
                self._add(TableBlock(table, indent=self._plain_indent(), gap=self._gap))
                table = []
            else:
                self._structure(token)
        return self.blocks

    def _structure(self, token: Token) -> None:
        match token.type:
            case "th_open" | "td_open":
                self._in_cell = True
            case "th_close" | "td_close":
                self._in_cell = False
            case "heading_open":
                self._heading = HEADING if token.tag in ("h1", "h2") else BOLD
            case "heading_close":
                self._heading = None
            case "bullet_list_open":
                self._lists.append(None)
            case "ordered_list_open":
                start = token.attrGet("start")
                self._lists.append(int(start) if start is not None else 1)
            case "bullet_list_close" | "ordered_list_close":
                self._lists.pop()
                self._gap = self._gap or not self._lists
            case "list_item_open":
                self._open_item()
            case "list_item_close":
                if self._mark is not None:  # an item without words
                    self._add(LineBlock((), first=self._first(), gap=self._gap))
                self._indent.pop()
            case "blockquote_open":
                self._indent.append(("▎ ", DIM))
            case "blockquote_close":
                self._indent.pop()
            case _:
                pass

    def _open_item(self) -> None:
        number = self._lists[-1]
        if number is None:
            mark = "• "
        else:
            mark = f"{number}. "
            self._lists[-1] = number + 1
        if self._mark is not None:  # an item that begins with a list
            self._add(LineBlock((), first=self._first(), gap=self._gap))
        self._mark = (mark, DIM)
        self._indent.append((" " * len(mark), PLAIN))

    def _text(self, token: Token) -> None:
        for number, line in enumerate(spans_of(token.children or ())):
            if self._heading is not None:
                line = [(text, style + self._heading) for text, style in line]
            gap = self._gap and number == 0
            self._add(LineBlock(line, first=self._first(), rest=tuple(self._indent), gap=gap))

    def _first(self) -> tuple[Span, ...]:
        if self._mark is None:
            return tuple(self._indent)
        mark, self._mark = self._mark, None
        return (*self._indent[:-1], mark)

    def _plain_indent(self) -> str:
        if self._mark is not None:
            self._add(LineBlock((), first=self._first(), gap=self._gap))
        return "".join(text for text, _style in self._indent)

    def _add(self, block: Block) -> None:
        self.blocks.append(block)
        self._gap = not self._lists  # the items of a list stand close together


def spans_of(children: Sequence[Token]) -> list[list[Span]]:
    """The lines of inline text, each a list of styled pieces; never empty."""
    lines: list[list[Span]] = [[]]
    styles: list[Style] = [PLAIN]
    links: list[tuple[str, int, int]] = []
    for token in children:
        match token.type:
            case "text" | "text_special" | "html_inline":
                lines[-1].append((token.content, styles[-1]))
            case "softbreak" | "hardbreak":
                lines.append([])
            case "code_inline":
                lines[-1].append((token.content, styles[-1] + CODE))
            case "em_open":
                styles.append(styles[-1] + ITALIC)
            case "strong_open":
                styles.append(styles[-1] + BOLD)
            case "s_open":
                styles.append(styles[-1] + STRIKE)
            case "link_open":
                styles.append(styles[-1] + LINK)
                links.append((str(token.attrGet("href") or ""), len(lines) - 1, len(lines[-1])))
            case "link_close":
                styles.pop()
                address, line, at = links.pop()
                shown = "".join(text for text, _style in lines[line][at:])
                if address and (shown != address or line != len(lines) - 1):
                    lines[-1].append((f" ({address})", DIM))
            case "em_close" | "strong_close" | "s_close":
                styles.pop()
            case "image":
                address = str(token.attrGet("src") or "")
                lines[-1].append((f"[image: {token.content}] ({address})", DIM))
            case _:
                lines[-1].append((token.content, styles[-1]))
    return [line or [("", PLAIN)] for line in lines]
