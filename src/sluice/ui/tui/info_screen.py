"""Lines over the whole screen: to be read (`/help`, `/cost`, …) or to be decided about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeVar

from rich.cells import cell_len
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen
from textual.widgets import Static

from sluice.ui.tui.folded_text import FoldedText, Line
from sluice.ui.tui.question_line import QuestionLine
from sluice.ui.tui.row_list import RowList
from sluice.ui.visible import one_line

T = TypeVar("T")


class LinesScreen(ModalScreen[T]):
    """A title, lines that can be scrolled, and the keys. A subclass says what the keys do."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+c", "app.cancel", show=False, priority=True)]
    DEFAULT_CSS = """
    LinesScreen { background: ansi_default; layout: vertical; padding: 0 0 0 1; }
    LinesScreen > Static { height: 1; text-style: bold; width: 1fr; }
    LinesScreen > RowList { height: 1fr; }
    """

    def __init__(self, title: str, lines: Sequence[Line], keys: str, short: str) -> None:
        """`short` are the keys for a narrow screen."""
        super().__init__()
        self._title, self._lines, self._keys, self._short = title, lines, keys, short
        self._list = RowList(choosing=False)
        self._foot = Static("", markup=False)
        self._width = 0
        self._ended = False

    def end(self, result: T) -> None:
        """Closes with this result; keys that come behind the one that closed it change nothing."""
        if not self._ended:
            self._ended = True
            self.dismiss(result)

    def compose(self) -> ComposeResult:
        """From above: the title, the lines, whether a question waits, the keys."""
        yield Static(one_line(self._title, 200), markup=False)
        yield self._list
        yield QuestionLine()
        yield self._foot

    def on_resize(self) -> None:
        """Folds again."""
        self.call_after_refresh(self._fold)

    def _fold(self) -> None:
        if self._list.size.width != self._width:
            self._width = self._list.size.width
            self._list.show_rows(FoldedText(self._lines, self._width), keep_place=True)
        self._say_place()

    def _say_place(self) -> None:
        first, last, rows = self._list.place
        more = last < rows or first > 1
        words = self._keys + (f" · ↑↓ {first}-{last} of {rows}" if more else "")
        short = self._short + (f" {last}/{rows}" if more else "")
        self._foot.update(words if cell_len(words) <= self._list.size.width else short)

    def on_key(self, event: events.Key) -> None:
        """Scrolls."""
        page = max(self._list.size.height - 1, 1)
        steps = {"up": -1, "down": 1, "k": -1, "j": 1, "pageup": -page, "pagedown": page, "space": page}
        steps |= {"home": -(10**9), "end": 10**9}
        if event.key in steps:
            event.stop()
            event.prevent_default()
            self._list.scroll_rows(steps[event.key])
            self._say_place()


class InfoScreen(LinesScreen[None]):
    """Lines to be read; Esc, Enter or q closes."""

    def __init__(self, title: str, lines: Sequence[str]) -> None:
        super().__init__(title, [Line(line, prose=True) for line in lines], "Esc closes", "Esc")

    def on_key(self, event: events.Key) -> None:
        """Closes or scrolls."""
        if event.key in ("escape", "enter", "q"):
            event.stop()
            event.prevent_default()
            self.end(None)
