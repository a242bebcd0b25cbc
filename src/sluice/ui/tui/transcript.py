"""What was said and done, oldest first."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static

from sluice.run.interaction import Event
from sluice.ui.visible import one_line, visible
from sluice.values.notices import TextNotice


class Transcript(Static):
    """Shows every event."""

    def __init__(self) -> None:
        super().__init__(id="transcript", markup=False)
        self._said = ""

    def hear(self, event: Event) -> None:
        """Takes one event."""
        self._said += visible(event.text) if isinstance(event, TextNotice) else f"\n{one_line(repr(event))}\n"
        self.update(Content(self._said))

    def say(self, words: str, kind: str) -> None:
        """A line of the face's own."""
        self._said += f"\n{kind}: {one_line(words, 500)}\n"
        self.update(Content(self._said))

    def toggle_details(self) -> None:
        """Folds or unfolds."""

    def scroll_pages(self, pages: int) -> None:
        """Scrolls by so many pages."""
