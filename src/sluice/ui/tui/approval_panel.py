"""The question whether a call may run: all of what would run, why it is asked, and the answer by one key.

No key answers by accident, and what is typed besides goes into the input. Keys answer only when the question has been on
the screen for a while in which nothing was typed, only while it has the focus, and only if nothing else is typed right
behind them (a paste comes as keys on some terminals). It never takes the focus from a draft that is being written.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message
from textual.timer import Timer
from textual.widgets import Input, Static

from sluice.run.interaction import Allowed, ApprovalSettled, ApprovalWanted, Event
from sluice.run.question import counted
from sluice.ui.tui.folded_text import FoldedText, Line
from sluice.ui.tui.messages import Answered
from sluice.ui.tui.row_list import RowList
from sluice.ui.tui.styles import CAUTION, DIM
from sluice.ui.visible import one_line

QUIET_SECONDS = 0.3  # without a key before the question listens
ALONE_SECONDS = 0.2  # without a key after an answer before it counts
_SMALL_HEIGHT = 12  # rows of the screen; below, only the text and the keys are shown
_OURS = 5  # rows of the panel beside the text


class WordField(Input):
    """One line for the model. A paste is made visible and cut to its first line."""

    def on_paste(self, event: events.Paste) -> None:
        """Inserts what can be shown."""
        event.stop()
        event.prevent_default()
        self.insert_text_at_cursor(one_line(event.text, 1000))


class ApprovalPanel(Vertical, can_focus=True):
    """Shows the first question that waits; the next one when that is settled. Posts `Answered`.

    `last_key` is when a key was last pressed anywhere, `may_focus` whether nobody is writing a draft.
    """

    OWN_PAGING: ClassVar[bool] = True

    class Appeared(Message):
        """A question waits for a person."""

    class FocusWanted(Message):
        """The question listens now, and nothing speaks against giving it the focus."""

    class Typed(Message):
        """Something was typed that is no answer; it belongs into the input."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Done(Message):
        """Nothing is asked any more, or the person goes back to the input."""

    DEFAULT_CSS = """
    ApprovalPanel { height: auto; display: none; border-top: solid ansi_yellow; padding: 0 0 0 1; }
    ApprovalPanel:focus-within { border-top: heavy ansi_yellow; }
    ApprovalPanel:focus { border-top: heavy ansi_yellow; }
    ApprovalPanel.small { border-top: none; }
    ApprovalPanel Static { height: 1; }
    ApprovalPanel #approval-session { height: auto; max-height: 2; }
    ApprovalPanel #approval-title { text-style: bold; }
    ApprovalPanel #approval-keys { text-style: bold; }
    ApprovalPanel WordField, ApprovalPanel WordField:focus {
        border: none; height: 1; padding: 0; display: none; background: transparent; color: ansi_default;
    }
    """

    def __init__(
        self,
        last_key: Callable[[], float],
        may_focus: Callable[[], bool],
        *,
        quiet: float = QUIET_SECONDS,
        alone: float = ALONE_SECONDS,
    ) -> None:
        super().__init__(id="approval")
        self._last_key, self._may_focus = last_key, may_focus
        self._quiet, self._alone = quiet, alone
        self._waiting: list[ApprovalWanted] = []
        self._shown: ApprovalWanted | None = None
        self._drawn_at = 0.0
        self._width = 0
        self.listening = False
        self._answered = False
        self._pending = ""  # the key of the answer that waits to count
        self._timer: Timer | None = None
        self._chosen: Timer | None = None
        self._title = Static("", id="approval-title", markup=False)
        self._body = RowList(choosing=False)
        self._session = Static("", id="approval-session", markup=False)
        self._keys = Static("", id="approval-keys", markup=False)
        self._field = WordField(placeholder="a word to the model; without one the run ends", select_on_focus=False)

    def compose(self) -> ComposeResult:
        """From above: what is asked, the text, what the session would allow, the keys."""
        yield self._title
        yield self._body
        yield self._session
        yield self._field
        yield self._keys

    # -- what is asked

    def hear(self, event: Event) -> None:
        """Takes a question, or the end of one."""
        if isinstance(event, ApprovalWanted):
            self._waiting.append(event)
        elif isinstance(event, ApprovalSettled):
            self._waiting = [wanted for wanted in self._waiting if wanted.number != event.number]
        else:
            return
        first = self._waiting[0] if self._waiting else None
        if first is not self._shown:
            self._show(first)
        elif first is not None:
            self._label()

    def ask_again(self) -> None:
        """The answer did not arrive: the question on the screen takes another one."""
        self._answered = False
        self._wait()

    def uncovered(self) -> None:
        """A screen that hid the question is closed: from now on it listens as if it were new."""
        if self._shown is not None and not self._answered:
            self._drawn_at = time.monotonic()
            self._wait()

    @property
    def asking(self) -> bool:
        """Whether a question is on the screen."""
        return self._shown is not None

    def _show(self, wanted: ApprovalWanted | None) -> None:
        self._shown = wanted
        self._answered = False
        self._stop_timers()
        self.listening = False
        self._end_words()
        self.display = wanted is not None
        if wanted is None:
            self._body.show_rows(())
            self.post_message(self.Done())
            return
        self._width = 0
        self._label()
        self._fold()
        self._session.display = wanted.session_words is not None and not self.has_class("small")
        self._session.update(f"s allows {one_line(wanted.session_words or '', 400)}")
        self.post_message(self.Appeared())
        self.call_after_refresh(self._drawn)

    def _label(self) -> None:
        wanted = self._shown
        if wanted is None:
            return
        more = f" (1 of {len(self._waiting)} questions)" if len(self._waiting) > 1 else ""
        self._title.update(f"Allow this call of {one_line(wanted.tool, 80)} ({wanted.category})?{more}")
        self._say_keys()

    def _say_keys(self) -> None:
        if self._shown is None:
            return
        first, last, rows = self._body.place
        if self._field.display:
            words, short = "Enter denies · Esc goes back", "Enter · Esc"
        elif not self.has_focus:
            words, short = "Tab goes to this question", "Tab: answer"
        elif not self.listening:
            words, short = "a moment: no key answers yet", "…"
        else:
            session = " · s this session" if self._shown.session_words is not None else ""
            words = f"y once{session} · n deny · Esc to the input"
            short = "y s n" if session else "y n"
        if last < rows or first > 1:
            words += f" · ↑↓ {first}-{last} of {rows} rows"
            short += f" {last}/{rows}"
        self._keys.update(words if len(words) <= self.size.width else short)

    # -- the rows

    def on_resize(self) -> None:
        """Folds again."""
        self.call_after_refresh(self._fold)

    def _fold(self) -> None:
        height = self.screen.size.height
        small = height < _SMALL_HEIGHT
        self.set_class(small, "small")
        self._title.display = not small
        self._session.display = not small and self._shown is not None and self._shown.session_words is not None
        self._body.styles.max_height = max(1, height - 4 if small else height * 7 // 10 - _OURS)
        if self._shown is not None and self.size.width and self.size.width != self._width:
            self._width = self.size.width
            self._body.show_rows(FoldedText(lines_of(self._shown), self._width), keep_place=True)
        self.call_after_refresh(self._say_keys)

    # -- when keys count

    def _drawn(self) -> None:
        self._drawn_at = time.monotonic()
        self._wait()

    def _wait(self) -> None:
        """Waits until nothing was typed for a while."""
        self.listening = False
        self._say_keys()
        self._stop_timers()
        since = time.monotonic() - max(self._drawn_at, self._last_key())
        self._timer = self.set_timer(max(self._quiet - since, 0.001), self._listen)

    def _listen(self) -> None:
        if self._shown is None or self._answered:
            return
        if time.monotonic() - max(self._drawn_at, self._last_key()) < self._quiet:
            self._wait()
            return
        self.listening = True
        if not self.has_focus and self._may_focus():
            self.post_message(self.FocusWanted())
        self._say_keys()

    def on_focus(self) -> None:
        """Says which keys there are; the focus is noted a moment after this is told."""
        self.call_later(self._say_keys)

    def on_blur(self) -> None:
        """Says how to come back; an answer that waits to count is dropped."""
        self._stop_choice()
        self.call_later(self._say_keys)

    def on_key(self, event: events.Key) -> None:
        """Scrolling at any time; an answer only when it can be meant."""
        if self._field.display:
            if event.key == "escape":
                event.stop()
                self._end_words()
                self.focus()
            return
        event.stop()
        event.prevent_default()
        pending = self._pending if self._chosen is not None else ""
        self._stop_choice()
        if not pending and self._scrolled(event.key):
            return
        if event.key in ("escape", "tab", "shift+tab"):
            self.post_message(self.Done())
            return
        typed = event.character if event.is_printable and event.character else ""
        self._pending = typed
        if pending or not self.listening or event.time < self._drawn_at + self._quiet:
            if pending and typed:
                self.post_message(self.Typed(pending + typed))
            self._drawn_at = time.monotonic()
            self._wait()
        elif event.key in ("y", "Y"):
            self._choose("once")
        elif event.key in ("s", "S") and self._shown is not None and self._shown.session_words is not None:
            self._choose("session")
        elif event.key in ("n", "N"):
            self._field.display = True
            self._field.focus()
            self._say_keys()
        elif typed:
            self.post_message(self.Typed(typed))

    def _scrolled(self, key: str) -> bool:
        page = max(self._body.size.height - 1, 1)
        steps = {"up": -1, "down": 1, "k": -1, "j": 1, "pageup": -page, "pagedown": page, "space": page}
        steps |= {"home": -(10**9), "end": 10**9}
        if key not in steps:
            return False
        self._body.scroll_rows(steps[key])
        self._say_keys()
        return True

    # -- answering

    def _choose(self, allowed: Allowed) -> None:
        wanted = self._shown
        assert wanted is not None
        number = wanted.number
        self._chosen = self.set_timer(self._alone, lambda: self._answer(number, allowed))

    def _answer(self, number: int, allowed: Allowed, words: str = "") -> None:
        self._chosen = None
        if self._shown is not None and self._shown.number == number:
            self.listening, self._answered = False, True  # it takes no second answer
            self.post_message(Answered(number, allowed, words))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Denies, with what was written."""
        event.stop()
        words = event.value.strip()
        self._end_words()
        if self._shown is not None:
            self.focus()
            self._answer(self._shown.number, "deny", words)

    def _end_words(self) -> None:
        if self._field.display:
            if self._field.has_focus:
                self.focus()
            self._field.display = False
        self._field.value = ""
        self._say_keys()

    def _stop_choice(self) -> None:
        if self._chosen is not None:
            self._chosen.stop()
            self._chosen = None

    def _stop_timers(self) -> None:
        self._stop_choice()
        if self._timer is not None:
            self._timer.stop()
            self._timer = None


def lines_of(wanted: ApprovalWanted) -> list[Line]:
    """The lines of a question: what would run, whole; then what we know of it."""
    lines = [Line(line) for line in wanted.text.split("\n")]
    lines += [Line(detail, CAUTION, "  ") for detail in wanted.details]
    lines += [
        Line(f"asked because {wanted.reason}", DIM, "  "),
        Line(f"runs in {wanted.folder}", DIM, "  "),
        Line(f"{counted(wanted.characters, 'character')} in all", DIM, "  "),
    ]
    return lines
