"""A small app around the widgets of the input side, and what they asked of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from textual.app import App, ComposeResult
from textual.message import Message
from textual.pilot import Pilot
from textual.widget import Widget

from sluice.ui.tui import messages
from sluice.ui.tui.prompt_area import PromptArea

KEPT = (
    messages.Submitted, messages.Edited, messages.TakenBack, messages.Answered, messages.CommandGiven,
    messages.LeaveWanted, messages.SteerWanted, PromptArea.NextPanel, PromptArea.Remark,
)  # fmt: skip


class Stage(App[None]):
    """Shows the widgets that it is given, one above the other. `got` lists the messages, as a tuple of name and values."""

    CSS = "Screen { layout: vertical; } .filler { height: 1fr; }"
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, *make: Callable[[], Widget]) -> None:
        super().__init__(ansi_color=True)
        self._make = make
        self.got: list[tuple[Any, ...]] = []
        self.theme = "ansi-dark"

    def compose(self) -> ComposeResult:
        """The widgets."""
        for make in self._make:
            yield make()

    def on_event_kept(self, message: Message) -> None:
        """Writes a message down."""
        values = {key: value for key, value in vars(message).items() if not key.startswith("_") and key != "time"}
        self.got.append((type(message).__name__, *values.values()))

    async def _on_message(self, message: Message) -> None:
        if isinstance(message, KEPT):
            self.on_event_kept(message)
        await super()._on_message(message)


async def typed(pilot: Pilot[Any], text: str) -> None:
    """Types a text without line ends."""
    await pilot.press(*("space" if char == " " else char for char in text))


def rows(app: App[Any]) -> list[str]:
    """The screen as text, one string a row."""
    strips = app.screen._compositor.render_strips()
    return [strip.text for strip in strips]


def screen(app: App[Any]) -> str:
    """The screen as one text, without spaces at the ends of its rows."""
    return "\n".join(row.rstrip() for row in rows(app))
