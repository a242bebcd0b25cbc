"""The line of a screen that covers the panels, which says that a question waits behind it."""

from __future__ import annotations

from textual.widgets import Static

WORDS = "? a question waits behind this"


class QuestionLine(Static):
    """Hidden until the app, which knows of questions, sets `display`."""

    DEFAULT_CSS = "QuestionLine { display: none; height: 1; color: ansi_yellow; text-style: bold; width: 1fr; }"

    def __init__(self) -> None:
        super().__init__(WORDS, markup=False)
