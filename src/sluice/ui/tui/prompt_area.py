"""Where a person types: several lines, earlier prompts, long pastes as labels, a command or a prompt on Enter."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.document._document import EditResult, Selection
from textual.document._edit import Edit
from textual.message import Message
from textual.widgets import TextArea

from sluice.run.prompt_history import PromptHistory
from sluice.ui.tui import messages
from sluice.ui.tui.completion import Completion
from sluice.ui.tui.history_walk import HistoryWalk
from sluice.ui.tui.matches import Match, Wanted
from sluice.ui.tui.pastes import Pastes
from sluice.ui.tui.slash_commands import given

PLACEHOLDER = "Ask for something · / commands · @ files"


class PromptArea(TextArea):
    """Posts `Submitted`, `CommandGiven`, `Edited` and `LeaveWanted` of `messages.py`, and its own of what it cannot do.

    What is sent leaves the input; `put_back` brings it back where that was refused. It shows nothing that a terminal
    would obey: such text becomes a label.
    """

    class NextPanel(Message):
        """Tab, where nothing is to be completed."""

    class Remark(Message):
        """A line for the person."""

        def __init__(self, words: str) -> None:
            super().__init__()
            self.words = words

    class EditingChanged(Message):
        """A waiting prompt is edited now, or no more (`None`)."""

        def __init__(self, number: int | None) -> None:
            super().__init__()
            self.number = number

    DEFAULT_CSS = """
    PromptArea, PromptArea:focus {
        border: none; padding: 0; height: auto; max-height: 10; background: transparent; color: ansi_default;
    }
    PromptArea .text-area--cursor, PromptArea:ansi .text-area--cursor {
        color: ansi_default; background: ansi_default; text-style: reverse;
    }
    PromptArea .text-area--cursor-line { background: transparent; }
    PromptArea .text-area--placeholder { color: ansi_default; text-style: dim; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+z", "app.suspend_process", show=False),  # as every program in a terminal; ctrl+underscore undoes
        Binding("ctrl+underscore", "undo", show=False),
    ]

    def __init__(self, history: PromptHistory, completion: Completion) -> None:
        self._past = history
        self._completion = completion
        self._pastes = Pastes()
        self._walk: HistoryWalk | None = None
        self._editing: int | None = None
        self._kept_draft = ""
        self._recalled = ""  # the earlier prompt that stands in the input, unchanged
        super().__init__(
            id="prompt", compact=True, highlight_cursor_line=False, placeholder=PLACEHOLDER, show_line_numbers=False
        )
        self.cursor_blink = False  # nothing moves by itself: calmer, and quiet over a slow line
        self._keys: dict[str, Callable[[], bool]] = {
            "enter": self._enter,
            "ctrl+j": self._newline,
            "alt+enter": self._newline,
            "shift+enter": self._newline,
            "ctrl+s": self._steer,
            "ctrl+d": self._leave,
            "tab": self._tab,
            "escape": self._escape,
            "up": self._up,
            "down": self._down,
        }

    # -- for the app

    @property
    def draft(self) -> str:
        """What stands in the input, with labels replaced by what they stand for."""
        return self._pastes.expanded(self.text)

    @property
    def editing(self) -> int | None:
        """The number of the waiting prompt that is edited."""
        return self._editing

    def put_back(self, *texts: str) -> None:
        """Puts prompts in front of what is typed; nothing that is there is lost."""
        whole = [text for text in (*texts, self.draft) if text.strip()]
        self._fill("\n\n".join(self._pastes.take(text) for text in whole))

    def edit_waiting(self, number: int, text: str) -> None:
        """Edits the prompt that waits under this number; the draft comes back afterwards."""
        if self._editing is None:
            self._kept_draft = self.text
        self._set_editing(number)
        self._fill(self._pastes.take(text))
        self.focus()

    def insert_text(self, text: str) -> None:
        """Inserts a text at the cursor: what was pasted."""
        self._replace_selection(self._pastes.take(text))

    # -- keys

    def on_key(self, event: events.Key) -> None:
        """Our own keys first; all others are the text area's."""
        act = self._keys.get(event.key)
        if act is not None and act():
            event.stop()
            event.prevent_default()
        elif event.key not in ("up", "down"):
            self._walk = None

    def on_paste(self, event: events.Paste) -> None:
        """Takes what was pasted, whatever it holds."""
        event.stop()
        event.prevent_default()
        self.insert_text(event.text)

    def on_text_area_changed(self) -> None:
        """Something else may complete it now."""
        self._look()

    def on_text_area_selection_changed(self) -> None:
        """The cursor stands elsewhere."""
        self._look()

    def _look(self) -> None:
        if self.text == self._recalled:
            return self._completion.look("", first_line=False)  # nobody wants a word of an old prompt completed
        self._recalled = ""
        row, column = self.cursor_location
        self._completion.look(self.document.get_line(row)[:column], first_line=row == 0)

    def _enter(self) -> bool:
        row, column = self.cursor_location
        if self._completion.open and (chosen := self._completion.chosen()) is not None:
            want, match = chosen
            if want.kind == "command" and not match.insert.endswith(" ") and self.text.strip() == f"/{want.typed}":
                self._complete(want, match)
            elif match.insert.strip() != self.document.get_line(row)[want.start : column]:
                self._complete(want, match)
                return True
        if column and self.document.get_line(row)[:column].endswith("\\"):
            self.delete((row, column - 1), (row, column))
            return self._newline()
        self._send(steering=False)
        return True

    def _newline(self) -> bool:
        self._replace_selection("\n")
        return True

    def _steer(self) -> bool:
        self._send(steering=True)
        return True

    def _leave(self) -> bool:
        if self.text:
            return False  # it deletes to the right, as in every shell
        self.post_message(messages.LeaveWanted())
        return True

    def _tab(self) -> bool:
        if (chosen := self._completion.chosen()) is not None:
            self._complete(*chosen)
        else:
            self.post_message(self.NextPanel())
        return True

    def _escape(self) -> bool:
        if self._completion.open:
            self._completion.close()
        elif self._editing is not None:
            self._end_editing()
        return True

    def _up(self) -> bool:
        if self._completion.open:
            self._completion.move(-1)
            return True
        if self._editing is not None or not self.navigator.is_first_wrapped_line(self.cursor_location):
            return False
        self._walk = self._walk or HistoryWalk(self._past.prompts())
        self._go(self._walk.older(self.draft))
        return True

    def _down(self) -> bool:
        if self._completion.open:
            self._completion.move(1)
            return True
        if self._walk is None or not self.navigator.is_last_wrapped_line(self.cursor_location):
            return False
        self._go(self._walk.newer(self.draft))
        return True

    def _go(self, text: str | None) -> None:
        if text is not None:
            self._fill(self._pastes.take(text))
            self._recalled = self.text

    # -- sending

    def _send(self, *, steering: bool) -> None:
        text = self.draft
        command = given(text) if self._editing is None else None
        text = text.strip()
        if not text:
            return
        if command is not None and command.problem:
            self.post_message(self.Remark(command.problem))
            return
        self._past.add(text)
        self._walk = None
        if command is not None:
            self.post_message(messages.CommandGiven(command.name, command.argument))
        elif self._editing is not None:
            self.post_message(messages.Edited(self._editing, text))
            self._end_editing()
            return
        else:
            self.post_message(messages.Submitted(text, steering))
        self._fill("")
        self._pastes.clear()

    def _set_editing(self, number: int | None) -> None:
        self._editing = number
        self.post_message(self.EditingChanged(number))

    def _end_editing(self) -> None:
        self._set_editing(None)
        self._fill(self._kept_draft)
        self._kept_draft = ""

    # -- text and labels

    def _fill(self, shown: str) -> None:
        self.load_text(shown)
        self.move_cursor(self.document.end)

    def _replace_selection(self, text: str) -> None:
        result = self.replace(text, *self.selection, maintain_selection_offset=False)
        self.move_cursor(result.end_location)

    def _complete(self, want: Wanted, match: Match) -> None:
        row, column = self.cursor_location
        result = self.replace(match.insert, (row, want.start), (row, column), maintain_selection_offset=False)
        self.move_cursor(result.end_location)
        self._look()

    def _labels(self, row: int) -> list[tuple[int, int]]:
        """Where labels stand in a line; a line behind the last one, which the text area may speak of, has none."""
        return self._pastes.spans(self.document.get_line(row)) if row < self.document.line_count else []

    def edit(self, edit: Edit) -> EditResult:
        """An edit that touches a part of a label takes all of it."""
        # Textual's deleting of the last line speaks of the line behind it, and wraps wrongly then.
        top, bottom = min(edit.top, self.document.end), min(edit.bottom, self.document.end)
        if top != bottom:
            for start, end in self._labels(top[0]):
                if start < top[1] < end:
                    top = (top[0], start)
            for start, end in self._labels(bottom[0]):
                if start < bottom[1] < end:
                    bottom = (bottom[0], end)
        if (top, bottom) != (edit.top, edit.bottom):
            edit = replace(edit, from_location=top, to_location=bottom)
        return super().edit(edit)

    def _recompute_cursor_offset(self) -> None:
        try:
            super()._recompute_cursor_offset()  # type: ignore[no-untyped-call]
        except ValueError:  # Textual lost count of the lines when several edits were undone at once
            self.wrapped_document.wrap(self.wrap_width, self.indent_width)
            super()._recompute_cursor_offset()  # type: ignore[no-untyped-call]

    def watch_selection(self, old: Selection, new: Selection) -> None:
        """The cursor never stands inside a label: it steps over it."""
        row, column = new.end
        for start, end in self._labels(row):
            if start < column < end:
                forward = old.end < new.end
                edge = (row, end if forward else start)
                self.selection = Selection(edge if new.start == new.end else new.start, edge)
                return
