"""Markdown that is still arriving: finished blocks are made once and never again, only the last one is made anew.

Text is taken in pieces of any size. What was finished stays as it was shown, so nothing above the last block moves.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from sluice.ui.tui.block import Block, LineBlock
from sluice.ui.tui.code_block import CodeBlock, ends_clean
from sluice.ui.tui.markdown_blocks import blocks_of, parser
from sluice.ui.tui.styles import DIM
from sluice.ui.visible import visible

MAX_OPEN = 4 * 1024  # characters of a block that is made anew with each frame; a longer one is cut in two
MAX_LINES = 60  # lines of a list or paragraph likewise; it is cut before a line that is not indented
MAX_STEP = 16 * 1024  # characters made into blocks in one frame, so that keys are answered in between
MAX_WAITING = 256 * 1024  # characters that may wait to be shown; of more only the last are
MAX_TORN = 8  # characters that may be held back until the next one comes
CODE_LINES = 100  # lines of a fence in one block
_FENCE = re.compile(r" {0,3}(`{3,}(?=[^`\n]*(?:\n|$))|~{3,})[ \t]*([^\n]*)")
_AT_MARGIN = re.compile(r"(?<=\n)(?=\S)")
_TORN_NUMBER = re.compile(r"\n {0,3}\d{1,9}\Z")
_JOINERS = ("\u200c", "\u200d")
_TORN = ("\r", *_JOINERS)  # what belongs to the character after it


class Step(NamedTuple):
    """What one step made: blocks that are finished, and those that stand for the rest until the next step."""

    finished: list[Block]
    open: list[Block]
    more: bool
    """Whether text waits that was not looked at yet."""


class MarkdownStream:
    """One message's text. `feed` pieces, then `step` once a frame; `end`, and `step` until no `more`.

    `begun` says that something stands above its first block.
    """

    def __init__(self, begun: bool = False) -> None:
        self._pieces: list[str] = []
        self._waiting = ""
        self._open = ""  # visible text: what was looked at and is not finished
        self._fence: tuple[str, str] | None = None  # the mark and the language of the fence that is open
        self._heading = ""  # of a table that was cut in two: what follows is its next rows, if they are rows
        self._heading = ""  # of a table that was cut in two: what follows is its next rows, if they are rows
        self._heading = ""  # of a table that was cut in two: what follows is its next rows, if they are rows
        self._begun = begun  # whether there is anything above
        self._code_begun = False
        self._ended = False
        self._last = ""  # the last character that was looked at

    def feed(self, text: str) -> None:
        """Takes the next piece. Costs the same however much has come."""
        self._pieces.append(text)

    def end(self) -> None:
        """No more text comes: the next steps finish what is open."""
        self._ended = True

    def step(self) -> Step:
        """Makes blocks of at most `MAX_STEP` characters of what waits."""
        finished: list[Block] = []
        self._take(finished)
        waiting = self._waiting
        cut = len(waiting)
        if cut > MAX_STEP:
            cut = waiting.rfind("\n", 0, MAX_STEP) + 1 or MAX_STEP
        while len(waiting) - MAX_TORN < cut and not self._ended and cut and waiting[cut - 1] in _TORN:
            cut -= 1
        self._open += self._shown(waiting[:cut])
        self._waiting = waiting[cut:]
        more = len(self._waiting) > MAX_TORN
        last = self._ended and not more
        while self._finish_some(finished, last):
            pass
        return Step(finished, self._draft(), more)

    def _shown(self, text: str) -> str:
        """The text, visible; a joiner at its beginning is judged by what stood before it."""
        before, self._last = self._last, text[-1:] or self._last
        if text.startswith(_JOINERS) and before:
            return visible(before + text).removeprefix(visible(before))
        return visible(text)

    def _take(self, finished: list[Block]) -> None:
        if self._pieces:
            self._waiting += "".join(self._pieces)
            self._pieces.clear()
        over = len(self._waiting) - MAX_WAITING
        if over > 0:
            words = f"… {over:,} characters of this message are not shown here; /export writes it whole"
            if self._open:
                finished += self._made(self._open)
            finished.append(LineBlock(((words, DIM),), gap=self._begun))
            self._open, self._heading, self._fence, self._begun = "", "", None, True
            self._waiting = self._waiting[over:]

    def _finish_some(self, finished: list[Block], last: bool) -> bool:
        """Finishes what is certain of the open text; whether there may be more of it."""
        if self._fence is not None:
            return self._finish_code(finished, last)
        if not self._open:
            return False
        if self._heading and (last or "\n" in self._open):
            self._open, self._heading = self._with_heading(), ""
        fence = self._fence_at_top(self._open)
        if fence is not None:
            return self._begin_fence(fence, finished)
        start = len(self._open) if last else self._last_block(self._open)
        if not start and (start := self._long_block(self._open)):
            self._heading = _table_heading(self._open, start)
        if start > 0:
            source, self._open = self._open[:start], self._open[start:]
            finished += self._made(source)
        return False

    def _fence_at_top(self, text: str) -> re.Match[str] | None:
        """The first fence that opens at top level, with its whole line there."""
        if "```" not in text and "~~~" not in text:
            return None
        lines = text.split("\n")
        for token in parser().parse(text):
            if token.type == "fence" and token.level == 0 and token.map:
                line = token.map[0]
                if line + 1 >= len(lines):
                    return None
                return _FENCE.match(text, sum(len(one) + 1 for one in lines[:line]))
        return None

    def _begin_fence(self, fence: re.Match[str], finished: list[Block]) -> bool:
        before = self._open[: fence.start()]
        if before.strip():
            finished += self._made(before)
        words = fence[2].split()
        self._fence = (fence[1], words[0] if words else "")
        self._code_begun = False
        self._open = self._open[fence.end() + 1 :]
        return True

    def _finish_code(self, finished: list[Block], last: bool) -> bool:
        assert self._fence is not None
        mark, language = self._fence
        close = re.search(rf"^ {{0,3}}{re.escape(mark)}{re.escape(mark[0])}*[ \t]*(?:\n|\Z)", self._open, re.M)
        whole = close is not None and (close[0].endswith("\n") or last)
        lines = self._open[: close.start()] if close is not None and whole else self._open
        while lines.count("\n") >= CODE_LINES or len(lines) > MAX_OPEN:
            cut = 0
            for _line in range(CODE_LINES):
                found = lines.find("\n", cut)
                if found < 0 or found > MAX_OPEN:
                    break
                cut = found + 1
            cut = cut or min(MAX_OPEN, len(lines))
            self._code(lines[:cut], language, finished)
            language = self._fence[1]
            lines, self._open = lines[cut:], self._open[cut:]
            if close is not None and whole:
                close = re.search(rf"^ {{0,3}}{re.escape(mark)}{re.escape(mark[0])}*[ \t]*(?:\n|\Z)", self._open, re.M)
        if close is not None and whole:
            self._code(lines, language, finished)
            self._open, self._fence = self._open[close.end() :], None
            return bool(self._open)
        if last:
            self._code(lines, language, finished)
            self._open, self._fence = "", None
        return False

    def _code(self, code: str, language: str, finished: list[Block]) -> None:
        if code or not self._code_begun:
            text = code.removesuffix("\n")
            finished.append(CodeBlock(text, language, gap=self._begun and not self._code_begun))
            if self._fence is not None and not ends_clean(text, language):
                self._fence = (self._fence[0], "")  # a colour that might be wrong is none
            self._begun = self._code_begun = True

    def _made(self, source: str) -> list[Block]:
        blocks = blocks_of(parser().parse(source), gap=self._begun)
        self._begun = self._begun or bool(blocks)
        return blocks

    def _with_heading(self) -> str:
        """The open text below the heading of its table, if its first line is a row of that."""
        below = self._heading + self._open
        first = self._heading + self._open.partition("\n")[0]
        return below if any(token.type == "tbody_open" for token in parser().parse(first)) else self._open

    def _draft(self) -> list[Block]:
        """What stands for the open text until the next step."""
        if self._fence is not None:
            if not self._open and self._code_begun:
                return []
            code = self._open.removesuffix("\n")
            return [CodeBlock(code, self._fence[1], gap=self._begun and not self._code_begun)]
        if not self._open.strip():
            return []
        return blocks_of(parser().parse(self._with_heading() if self._heading else self._open), gap=self._begun)

    @staticmethod
    def _long_block(text: str) -> int:
        """Where a block that grows too long is cut; 0 if it is not."""
        if len(text) > MAX_OPEN:
            return text.rfind("\n") + 1 or text.rfind(" ") + 1 or len(text)
        if text.count("\n") <= MAX_LINES or text.lstrip().startswith("|"):
            return 0
        cuts = [found.start() for found in _AT_MARGIN.finditer(text)]
        return cuts[-1] if cuts else 0

    @staticmethod
    def _last_block(text: str) -> int:
        """Where the last top-level block begins, which may still grow."""
        torn = _TORN_NUMBER.search(text)  # it may be the next item of the list above
        if torn is not None:
            text = text[: torn.start() + 1]
        starts = [
            token.map[0] for token in parser().parse(text) if token.level == 0 and token.map and token.nesting >= 0
        ]
        if not starts or not starts[-1]:
            return 0
        at = 0
        for _line in range(starts[-1]):
            at = text.find("\n", at) + 1
            if not at:
                return 0
        return at


def _table_heading(text: str, cut: int) -> str:
    """The lines of the heading if this one block is a table that is cut among its rows; else nothing."""
    first = parser().parse(text)[0]
    if first.type != "table_open" or not first.map:
        return ""
    lines = text.split("\n", first.map[0] + 2)[first.map[0] :]
    heading = f"{lines[0]}\n{lines[1]}\n"
    begins = text.index(heading)
    return heading if begins + len(heading) < cut and len(heading) <= MAX_OPEN // 4 else ""
