"""Long or odd texts in a draft, shown as a label in brackets and sent whole."""

from __future__ import annotations

import re

from sluice.ui.visible import visible

SHORT_CHARACTERS = 1000  # up to here a paste is shown as it is
SHORT_LINES = 10


class Pastes:
    """What the labels of one draft stand for. A label that is deleted with undo comes back with what it stands for."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def take(self, text: str) -> str:
        """What to show for a text: itself if it is short and all of it can be seen, else a new label.

        Line ends become newlines, also those that terminals send for them; nothing else is changed.
        """
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        hidden = _hidden(text)
        if (
            not hidden
            and len(text) <= SHORT_CHARACTERS
            and text.count("\n") < SHORT_LINES
            and not self._like_label(text)
        ):
            return text
        words = f"{len(text):,} characters" + (f", {hidden:,} of them invisible" if hidden else "")
        label, number = f"[pasted {words}]", 1
        while self._texts.get(label, text) != text:
            number += 1
            label = f"[pasted {words}, number {number}]"
        self._texts[label] = text
        return label

    def expanded(self, draft: str) -> str:
        """The draft with every label replaced by what it stands for, once."""
        if not self._texts:
            return draft
        return self._pattern().sub(lambda found: self._texts[found[0]], draft)

    def spans(self, line: str) -> list[tuple[int, int]]:
        """Where labels stand in a line: from, to."""
        return [found.span() for found in self._pattern().finditer(line)] if self._texts else []

    def clear(self) -> None:
        """Forgets all of them."""
        self._texts.clear()

    def _like_label(self, text: str) -> bool:
        return bool(self.spans(text))

    def _pattern(self) -> re.Pattern[str]:
        return re.compile("|".join(map(re.escape, self._texts)))


def _hidden(text: str) -> int:
    """How many characters a terminal would obey or not show."""
    if visible(text) == text:
        return 0
    return sum(text.count(char) for char in set(text) if char != "\n" and visible(char) != char)
