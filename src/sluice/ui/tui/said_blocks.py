"""Blocks for what a person asked and for one-line notices."""

from __future__ import annotations

from typing import Literal

from textual.strip import Strip

from sluice.ui.tui.block import Block, LineBlock
from sluice.ui.tui.output_rows import head_and_tail
from sluice.ui.tui.styles import BAD, CAUTION, DIM, GOOD, PROMPT
from sluice.ui.tui.wrapping import cut_row, plain_rows
from sluice.ui.visible import one_line, visible

Kind = Literal["note", "good", "warning", "error"]
_MARKS = {"note": ("· ", DIM), "good": ("✓ ", GOOD), "warning": ("! ", CAUTION), "error": ("✗ ", BAD)}
_WORDS = {"note": "", "good": "", "warning": "warning: ", "error": "error: "}
MAX_PROMPT = 4000  # characters of a prompt that are shown while folded
MAX_PROMPT_KEPT = 64 * 1024


class PromptBlock(Block):
    """What a person asked; long ones folded."""

    foldable = True

    def __init__(self, text: str, *, steering: bool = False, images: int = 0) -> None:
        super().__init__(gap=True)
        half = MAX_PROMPT_KEPT // 2
        self._left_out = max(len(text) - MAX_PROMPT_KEPT, 0)
        self._text = f"{text[:half]}\n{text[-half:]}" if self._left_out else text
        self._steering, self._images = steering, images

    @property
    def weight(self) -> int:
        """The characters kept."""
        return len(self._text)

    def draw(self, width: int) -> list[Strip]:
        """The text behind a mark."""
        text = visible(self._text).strip("\n")
        if len(text) > MAX_PROMPT or text.count("\n") > 40 or self._left_out:
            head, tail = (200, 200) if self.details else (12, 6)
            rows = [cut_row((("› ", PROMPT), (f"{len(self._text) + self._left_out:,} characters", DIM)), width)]
            rows += head_and_tail(text, width, head, tail, self._left_out)
        else:
            rows = plain_rows(text, width, PROMPT, "› ")
        if self._steering:
            rows.append(cut_row((("  sent while the run was going", DIM),), width))
        if self._images:
            rows.append(cut_row(((f"  with {self._images} image{'s' if self._images > 1 else ''}", DIM),), width))
        return rows


def note(words: str, kind: Kind = "note", *, gap: bool = False, limit: int = 500) -> Block:
    """One line of the host's own, with a mark and, for warnings and errors, a word: never told by colour alone."""
    mark, style = _MARKS[kind]
    return LineBlock(
        ((_WORDS[kind] + one_line(words, limit), style),), first=((mark, style),), rest=(("  ", style),), gap=gap
    )
