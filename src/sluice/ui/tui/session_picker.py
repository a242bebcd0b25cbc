"""Stored sessions: the last one offered at the start, and all of them to choose from."""

from __future__ import annotations

from collections.abc import Sequence

from textual.widgets import Static

from sluice.run.interaction import Event, PromptBegan, SessionOpened, SessionRow
from sluice.run.question import counted
from sluice.ui.tui.choice_screen import Choice, ChoiceScreen
from sluice.ui.visible import one_line

_UNITS = ((86400.0, "day"), (3600.0, "hour"), (60.0, "minute"))


def session_screen(rows: Sequence[SessionRow], now: float) -> ChoiceScreen:
    """The list of sessions; returns the id of the one that is chosen."""
    return ChoiceScreen(
        "Sessions of this workspace",
        [
            Choice(
                row.session,
                row.title or "(nothing said)",
                f"{ago(now - row.used)}, {_size(row)}{_state(row)}",
            )
            for row in rows
        ],
    )


def ago(seconds: float) -> str:
    """`3 hours ago`."""
    for unit, name in _UNITS:
        if seconds >= unit:
            return f"{counted(int(seconds // unit), name)} ago"
    return "just now"


class SessionOffer(Static):
    """One line that offers the last session, until a prompt is sent or a session opened. `session` is its id."""

    DEFAULT_CSS = "SessionOffer { height: 1; display: none; padding: 0 0 0 1; }"

    def __init__(self) -> None:
        super().__init__(id="offer", markup=False)
        self.session: str | None = None
        self._instead_of = ""

    def offer(self, row: SessionRow, now: float, instead_of: str) -> None:
        """Offers a session, instead of the new one that is open."""
        self.session, self._instead_of = row.session, instead_of
        self.update(f"Ctrl-R goes on with the last session ({ago(now - row.used)}{_state(row)}): {one_line(row.title)}")
        self.display = True

    def hear(self, event: Event) -> None:
        """Goes away when it is too late."""
        opened = isinstance(event, SessionOpened) and event.session != self._instead_of
        if opened or isinstance(event, PromptBegan):
            self.session = None
            self.display = False


def _size(row: SessionRow) -> str:
    return counted(row.messages, "message")


def _state(row: SessionRow) -> str:
    if row.held:
        return ", open in another program"
    return ", waits for you" if row.waits else ""
