"""The prompts that wait, above the input: each can be edited, taken back, or sent into the run that is going."""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import Static

from sluice.run.interaction import Event, QueueChanged, Queued
from sluice.run.question import counted
from sluice.ui.tui.messages import SteerWanted, TakenBack
from sluice.ui.tui.row_list import RowList
from sluice.ui.tui.styles import DIM, PLAIN
from sluice.ui.visible import one_line

_SMALL_HEIGHT = 12  # rows of the screen; below, one row: the number of prompts, or with the focus the chosen one


class QueuePanel(Vertical, can_focus=True):
    """Shown while prompts wait. Posts `TakenBack`, `SteerWanted` and its own messages."""

    OWN_PAGING: ClassVar[bool] = True

    class EditWanted(Message):
        """This prompt is to be edited in the input."""

        def __init__(self, queued: Queued) -> None:
            super().__init__()
            self.queued = queued

    class Done(Message):
        """The person goes back to the input."""

    DEFAULT_CSS = """
    QueuePanel { height: auto; display: none; padding: 0 0 0 1; }
    QueuePanel Static { height: 1; text-style: dim; }
    QueuePanel:focus Static { text-style: bold; }
    QueuePanel RowList { max-height: 5; display: none; }
    """

    def __init__(self) -> None:
        super().__init__(id="queue")
        self.waiting: tuple[Queued, ...] = ()
        self._title = Static("", markup=False)
        self._list = RowList(choosing=True)

    def compose(self) -> ComposeResult:
        """The number and the keys; the prompts."""
        yield self._title
        yield self._list

    def hear(self, event: Event) -> None:
        """Takes another queue. The chosen prompt stays chosen while it waits."""
        if not isinstance(event, QueueChanged):
            return
        chosen = self._chosen()
        self.waiting = event.waiting
        numbers = [queued.number for queued in self.waiting]
        at = numbers.index(chosen.number) if chosen is not None and chosen.number in numbers else self._list.chosen
        self._list.show_rows(
            [
                (("now, to this run: " if queued.steering else "later: ", DIM), (one_line(queued.text), PLAIN))
                for queued in self.waiting
            ],
            chosen=at,
        )
        self.display = bool(self.waiting)
        self._arrange()
        if not self.waiting and self.has_focus:
            self.post_message(self.Done())

    def on_focus(self) -> None:
        """Shows the keys."""
        self.call_later(self._arrange)

    def on_blur(self) -> None:
        """Shows how to come back."""
        self.call_later(self._arrange)

    def on_resize(self) -> None:
        """Shows as much as fits."""
        self._arrange()

    def on_key(self, event: events.Key) -> None:
        """Moves, and does what the key says with the chosen prompt."""
        chosen = self._chosen()
        event.stop()
        event.prevent_default()
        if event.key in ("escape", "tab", "shift+tab") or chosen is None:
            self.post_message(self.Done())
        elif event.key in ("up", "down", "k", "j"):
            self._list.move(-1 if event.key in ("up", "k") else 1)
            self._arrange()
        elif event.key in ("enter", "e"):
            self.post_message(self.EditWanted(chosen))
        elif event.key in ("t", "delete", "backspace"):
            self.post_message(TakenBack(chosen.number))
        elif event.key == "s" and not chosen.steering:
            self.post_message(SteerWanted(chosen.number))

    def _chosen(self) -> Queued | None:
        return self.waiting[self._list.chosen] if self.waiting else None

    def _arrange(self) -> None:
        small = self.is_attached and self.screen.size.height < _SMALL_HEIGHT
        self._list.display = not small
        self._list.show_active(self.has_focus)
        chosen = self._chosen()
        if small and self.has_focus and chosen is not None:  # a question may leave no second row
            self._title.update(f"e t s · {one_line(chosen.text, 400)}")
            return
        words = f"{counted(len(self.waiting), 'prompt')} wait{'s' if len(self.waiting) == 1 else ''}"
        keys = "e edit · t take back · s send to this run · Esc" if self.has_focus else "Tab to change"
        line = f"{words} · {keys}"
        self._title.update(line if not self.size.width or len(line) <= self.size.width else keys)
