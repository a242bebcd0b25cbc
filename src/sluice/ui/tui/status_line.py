"""The last line of the screen: model, context, tokens, cost, policy and sandbox in force, and what takes long."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from textual.content import Content
from textual.widgets import Static

from sluice.run.interaction import Event, Situation
from sluice.ui.visible import one_line


class StatusLine(Static):
    """Shows the last `Situation`."""

    def __init__(self, situation: Situation) -> None:
        super().__init__(id="status", markup=False)
        self._situation = situation

    def on_mount(self) -> None:
        """Shows the first one."""
        self._show()

    def hear(self, event: Event) -> None:
        """Takes a new situation."""
        if isinstance(event, Situation):
            self._situation = event
            self._show()

    @contextmanager
    def busy(self, words: str) -> Iterator[None]:
        """Shows `words` while the block takes longer than a second."""
        yield

    def _show(self) -> None:
        self.update(Content(one_line(f"{self._situation.model} · {self._situation.policy}")))
