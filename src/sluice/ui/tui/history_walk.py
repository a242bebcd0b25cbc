"""Going back and forth through earlier prompts, as a shell does: what was typed is there again at the end."""

from __future__ import annotations

from collections.abc import Sequence


class HistoryWalk:
    """One walk, from the draft to older prompts. Changes to a prompt on the way are kept for as long as the walk is."""

    def __init__(self, prompts: Sequence[str]) -> None:
        self._texts = [*prompts, ""]
        self._at = len(prompts)

    def older(self, current: str) -> str | None:
        """The prompt before; `current` is what stands in the input now. `None` at the first one."""
        return self._move(current, -1)

    def newer(self, current: str) -> str | None:
        """The prompt behind; `None` at the draft."""
        return self._move(current, 1)

    def _move(self, current: str, by: int) -> str | None:
        if not 0 <= self._at + by < len(self._texts):
            return None
        self._texts[self._at] = current
        self._at += by
        return self._texts[self._at]
