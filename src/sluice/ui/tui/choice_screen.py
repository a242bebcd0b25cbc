"""A list over the whole screen from which one line is chosen; what is typed narrows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from rich.cells import cell_len
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from sluice.ui.tui.question_line import QuestionLine
from sluice.ui.tui.row_list import RowList
from sluice.ui.tui.styles import DIM, PLAIN
from sluice.ui.visible import one_line


class Choice(NamedTuple):
    """A line: what is returned for it, its words, and more words after them."""

    value: str
    words: str
    more: str = ""


class ChoiceScreen(ModalScreen[str | None]):
    """Returns the value of the chosen line; `None` if none was chosen."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+c", "app.cancel", show=False, priority=True)]
    DEFAULT_CSS = """
    ChoiceScreen { background: ansi_default; layout: vertical; padding: 0 0 0 1; }
    ChoiceScreen Static { height: 1; text-style: bold; }
    ChoiceScreen Horizontal { height: 1; }
    ChoiceScreen Horizontal Static { width: 8; text-style: none; }
    ChoiceScreen Input, ChoiceScreen Input:focus {
        border: none; height: 1; padding: 0; background: transparent; color: ansi_default;
    }
    ChoiceScreen RowList { height: 1fr; }
    """

    def __init__(self, title: str, choices: Sequence[Choice]) -> None:
        super().__init__()
        self._title = title
        self._all = [Choice(choice.value, one_line(choice.words), one_line(choice.more)) for choice in choices]
        self._found = self._all
        self._list = RowList(choosing=True)
        self._ended = False

    def end(self, result: str | None) -> None:
        """Closes with this result; keys that come behind the one that closed it change nothing."""
        if not self._ended:
            self._ended = True
            self.dismiss(result)

    def compose(self) -> ComposeResult:
        """From above: the title, what to search for, the lines, whether a question waits, the keys."""
        yield Static(one_line(self._title), markup=False)
        with Horizontal():
            yield Static("search: ", markup=False)
            yield Input()
        yield self._list
        yield QuestionLine()
        yield Static("Enter chooses · ↑↓ · Esc closes", markup=False)

    def on_mount(self) -> None:
        """Shows all of them."""
        self._show()

    def on_input_changed(self, event: Input.Changed) -> None:
        """Shows the lines that hold every word that was typed."""
        words = event.value.lower().split()
        self._found = [c for c in self._all if all(word in f"{c.words} {c.more} {c.value}".lower() for word in words)]
        self._show()

    def on_input_submitted(self) -> None:
        """Chooses."""
        self.end(self._found[self._list.chosen].value if self._found else None)

    def on_key(self, event: events.Key) -> None:
        """Moves, or closes."""
        page = max(self._list.size.height - 1, 1)
        steps = {"up": -1, "down": 1, "pageup": -page, "pagedown": page}
        if event.key == "escape":
            self.end(None)
        elif event.key in steps:
            self._list.move(steps[event.key])
        else:
            return
        event.stop()
        event.prevent_default()

    def _show(self) -> None:
        width = min(max((cell_len(choice.words) for choice in self._found), default=0), 60)
        self._list.show_rows(
            [
                ((c.words.ljust(width - cell_len(c.words) + len(c.words)), PLAIN), (f"  {c.more}", DIM))
                for c in self._found
            ]
        )
