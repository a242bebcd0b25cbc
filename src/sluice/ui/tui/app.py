"""The terminal face as a whole: its layout, what is heard from the run, and what is asked of it.

Events go one way, from `Interaction.events()` to `hear` of each widget. What the widgets want comes the other way, as a
message of `messages.py`, and is asked of the interaction here and nowhere else.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, ClassVar, Protocol, TypeVar

from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import Screen
from textual.worker import WorkerFailed

from sluice.errors import SluiceError
from sluice.run.interaction import Event, Interaction
from sluice.run.prompt_history import PromptHistory
from sluice.ui.tui import messages
from sluice.ui.tui.approval_panel import ApprovalPanel
from sluice.ui.tui.command_runner import CommandRunner
from sluice.ui.tui.completion import Files
from sluice.ui.tui.desktop_notification import notification_sequence
from sluice.ui.tui.prompt_area import PromptArea
from sluice.ui.tui.prompt_panel import PromptPanel
from sluice.ui.tui.question_line import QuestionLine
from sluice.ui.tui.queue_panel import QueuePanel
from sluice.ui.tui.said_blocks import Kind
from sluice.ui.tui.session_picker import SessionOffer
from sluice.ui.tui.status_line import StatusLine
from sluice.ui.tui.terminal_driver import TerminalDriver
from sluice.ui.tui.transcript import Transcript
from sluice.ui.tui.trust_screen import TrustScreen
from sluice.values.notices import CallProgressed, ReasoningNotice, TextNotice

T = TypeVar("T")
LEAVE_SECONDS = 1.0  # between two Ctrl-C that leave
PUMP_SECONDS = 0.008  # how long events are taken before keys and the screen have their turn


class Hears(Protocol):
    """A widget that is told every event but the small pieces of text, which only the transcript is told."""

    def hear(self, event: Event) -> None:
        """Takes one event; quick, and never raises for what an event may hold."""
        ...


class TerminalFace(App[int]):
    """A person's face to one `Interaction`. `run_async` returns the exit code; the caller closes the interaction.

    The terminal is given back as it was when it returns, also by an exception.
    """

    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "cancel", "Cancel", priority=True, show=False),
        Binding("ctrl+o", "details", "Details", priority=True),
        Binding("ctrl+b", "background", "To background", priority=True, show=False),
        Binding("ctrl+q", "leave", show=False, priority=True),
        Binding("ctrl+r", "resume_last", show=False, priority=True),
        Binding("ctrl+z", "suspend_process", "Suspend", priority=True, show=False),
        Binding("pageup", "page(-1)", show=False, priority=True),
        Binding("pagedown", "page(1)", show=False, priority=True),
    ]
    CSS = """
    Screen { layout: vertical; }
    Transcript { height: 1fr; min-height: 1; }
    #panels { height: auto; max-height: 70%; }
    PromptPanel { max-height: 50%; }
    """

    def __init__(
        self,
        interaction: Interaction,
        *,
        offer_sessions: bool = False,
        history: PromptHistory | None = None,
        files: Files | None = None,
    ) -> None:
        super().__init__(
            driver_class=TerminalDriver, ansi_color=True
        )  # the terminal's own colours: right on a dark and on a light background
        self.interaction = interaction
        self.offer_sessions = offer_sessions  # whether the sessions that are there are offered at the start
        self._code = 0
        self._leaving = False
        self._fault: Exception | None = None
        self.transcript = Transcript()
        self.status = StatusLine(interaction.situation())
        self.prompt = PromptPanel(history, files, interaction.models)
        self.approval = ApprovalPanel(lambda: self._last_key, self._nobody_types)
        self.queue = QueuePanel()
        self.offer = SessionOffer()
        self.command_runner = CommandRunner(self)
        self._clock: Callable[[], float] = time.monotonic
        self._cancelled_at = -LEAVE_SECONDS
        self._last_key = 0.0
        self.hearers: list[Hears] = [self.transcript, self.status, self.approval, self.queue, self.offer]

    def compose(self) -> ComposeResult:
        """The places, from above: what was said, panels that ask, the input, the status line."""
        yield self.transcript
        yield Vertical(self.approval, self.queue, self.offer, id="panels")
        yield self.prompt
        yield self.status

    def on_mount(self) -> None:
        """Begins to listen."""
        self.theme = "ansi-dark"
        self.app_resume_signal.subscribe(self, self._drawn_anew)
        self.prompt.area.focus()
        self._first_questions()
        self.run_worker(self._pump(), name="events", exit_on_error=True)

    def _drawn_anew(self, _app: object = None) -> None:
        """Draws everything: after a suspension there is nothing of ours on the terminal."""
        self.refresh(layout=True)
        for widget in self.screen.walk_children():
            widget.refresh()

    async def _pump(self) -> None:
        began = time.monotonic()
        async for event in self.interaction.events():
            self.hear(event)
            if time.monotonic() - began > PUMP_SECONDS:
                await asyncio.sleep(0)
                began = time.monotonic()
        self.exit(self._code)

    def hear(self, event: Event) -> None:
        """Gives one event to the widgets that show it."""
        if isinstance(event, TextNotice | ReasoningNotice | CallProgressed):
            self.transcript.hear(event)
            self.status.hear(event)
            return
        for widget in self.hearers:
            widget.hear(event)

    async def on_event(self, event: events.Event) -> None:
        """Notes when a key was pressed, wherever it goes: no question is answered in the middle of typing."""
        if isinstance(event, events.InputEvent | events.Paste) and not self.screen_stack:
            return  # typed while the face was ending
        if isinstance(event, events.Key):
            self._last_key = event.time
        await super().on_event(event)

    def _first_questions(self) -> None:
        """What a folder that is new would have read; the last session."""
        if files := self.attempt(self.interaction.unknown_files):
            self.show_screen(TrustScreen(self.interaction.situation().workspace, files), self._trust)
        if self.offer_sessions:
            now = self.interaction.situation().session
            rows = [row for row in self.attempt(self.interaction.sessions) or () if row.session != now and row.messages]
            if rows:
                self.offer.offer(rows[0], time.time(), now)

    def _trust(self, read: bool | None) -> None:
        if read is not None:
            self.attempt(lambda: self.interaction.trust(read))

    # -- what the widgets want

    def say(self, words: str, kind: Kind = "note") -> None:
        """A line of the face's own in the transcript: `note`, `warning` or `error`."""
        self.transcript.say(words, kind)

    def say_soon(self, words: str, kind: Kind = "warning") -> None:
        """`say`, from any thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self.say, words, kind)

    async def wait_for(self, words: str, work: Awaitable[T]) -> T | None:
        """Awaits `work` and shows `words` with a progress mark while it takes long; an error is one line and `None`."""
        with self.status.busy(words):
            try:
                return await work
            except (SluiceError, OSError) as error:
                self.say(str(error), "error")
                return None

    def on_submitted(self, message: messages.Submitted) -> None:
        """Queues the prompt; one that is refused goes back into the input."""
        self.transcript.scroll_to_end()
        if self.attempt(lambda: self.interaction.submit(message.text, steering=message.steering)) is None:
            self.prompt.area.put_back(message.text)

    def on_edited(self, message: messages.Edited) -> None:
        """Changes a waiting prompt; if it does not wait any more, the text goes back into the input."""
        if not (done := self.attempt(lambda: self.interaction.edit(message.number, message.text))):
            if done is False:
                self.say("that prompt does not wait any more", "warning")
            self.prompt.area.put_back(message.text)

    def on_taken_back(self, message: messages.TakenBack) -> None:
        """Takes a waiting prompt back into the input."""
        text = self.attempt(lambda: self.interaction.take_back(message.number))
        if text is None:
            self.say("that prompt does not wait any more", "warning")
        else:
            self.prompt.area.put_back(text)
            self.prompt.area.focus()

    def on_steer_wanted(self, message: messages.SteerWanted) -> None:
        """Sends a waiting prompt into the run that is going."""
        text = self.attempt(lambda: self.interaction.take_back(message.number))
        if text is None:
            self.say("that prompt does not wait any more", "warning")
        elif self.attempt(lambda: self.interaction.submit(text, steering=True)) is None:
            self.prompt.area.put_back(text)

    def on_queue_panel_edit_wanted(self, message: QueuePanel.EditWanted) -> None:
        """Lets the input edit it."""
        self.prompt.area.edit_waiting(message.queued.number, message.queued.text)

    def on_command_given(self, message: messages.CommandGiven) -> None:
        """Carries it out."""
        self.begin(self.command_runner.run(message.name, message.argument))

    def on_prompt_area_next_panel(self) -> None:
        """Tab: to what asks, else to what waits."""
        if self.approval.asking:
            self.approval.focus()
        elif self.queue.waiting:
            self.queue.focus()

    def on_queue_panel_done(self) -> None:
        """Back to the input."""
        self.prompt.area.focus()

    def on_approval_panel_done(self) -> None:
        """Back to the input, if the question had the focus or it is gone."""
        self._mark_question()
        if not self.queue.has_focus:
            self.prompt.area.focus()

    def on_approval_panel_typed(self, message: ApprovalPanel.Typed) -> None:
        """What was typed is no answer: it begins a prompt."""
        self.prompt.area.focus()
        self.prompt.area.insert_text(message.text)

    def on_approval_panel_focus_wanted(self) -> None:
        """Gives the question the focus, if nobody began to type meanwhile."""
        if self._nobody_types():
            self.approval.focus()

    def on_approval_panel_appeared(self) -> None:
        """Calls the person."""
        self.bell()
        self._mark_question()
        notice = notification_sequence("Sluice asks for an approval", os.environ)
        if notice and not self.is_headless and self._driver is not None:
            self._driver.write(notice)

    def _nobody_types(self) -> bool:
        """Whether taking the focus from the input disturbs nobody."""
        area = self.prompt.area
        return area.has_focus and not area.text and area.editing is None and len(self.screen_stack) == 1

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Lets work go on by itself."""
        self.run_worker(work)

    def show_screen(self, screen: Screen[Any], then: Callable[[Any], None] | None = None) -> None:
        """Puts a screen above this one, and calls `then` with its result."""

        def closed(result: Any) -> None:
            if then is not None:
                then(result)
            self.approval.uncovered()

        self.push_screen(screen, closed)
        self.call_after_refresh(self._mark_question)

    def _mark_question(self) -> None:
        """Says on the screen above, if there is one, whether a question waits behind it."""
        for line in self.screen.query(QuestionLine):
            line.display = self.approval.asking

    def show_queue(self) -> bool:
        """Goes to the prompts that wait; false if there are none."""
        if self.queue.waiting:
            self.queue.focus()
        return bool(self.queue.waiting)

    def on_prompt_area_remark(self, message: PromptArea.Remark) -> None:
        """Says it."""
        self.say(message.words, "warning")

    def on_terminal_gone(self) -> None:
        """Leaves as for SIGHUP, which does not come to a program that was started to outlive its terminal."""
        self.leave(143)

    def on_terminal_caught_up(self) -> None:
        """Draws what the terminal has missed."""
        self._drawn_anew()

    def on_paste_refused(self, message: messages.PasteRefused) -> None:
        """Says why nothing was pasted."""
        self.say(
            f"A paste of {message.characters:,} characters is too long for a prompt, and nothing of it was kept. "
            "Save it in a file and name that with @.",
            "warning",
        )

    def on_answered(self, message: messages.Answered) -> None:
        """Gives the answer on."""
        if not self.attempt(lambda: self.interaction.answer(message.number, message.allowed, message.words)):
            self.approval.ask_again()

    def on_background_wanted(self) -> None:
        """Moves what runs to the background."""
        if not self.attempt(self.interaction.to_background):
            self.say("there is no command that could be moved to the background", "warning")

    def on_cancel_wanted(self) -> None:
        """Ends the run; the prompts that waited come back into the input."""
        if back := self.attempt(self.interaction.cancel):
            self.prompt.area.put_back(*(prompt.text for prompt in back))

    def on_leave_wanted(self) -> None:
        """Ends what runs, stores it, and leaves."""
        self.leave(0)

    def leave(self, code: int) -> None:
        """Ends what runs, stores it, and leaves with this exit code. Calling it twice is fine."""
        self._code = self._code or code
        if not self._leaving:
            self._leaving = True
            self.run_worker(self._leave(), name="leaving")

    async def _leave(self) -> None:
        await self.wait_for("storing", self.interaction.close())
        self.exit(self._code)

    def attempt(self, request: Callable[[], T]) -> T | None:
        """Asks the interaction; an error is one line and `None`."""
        try:
            return request()
        except (SluiceError, OSError) as error:
            self.say(str(error), "error")
            return None

    # -- keys

    def action_cancel(self) -> None:
        """Ctrl-C. Twice within a second leaves. With text marked by the mouse it copies that instead, as terminals do."""
        if marked := self.screen.get_selected_text():
            self.copy_to_clipboard(marked)
            self.screen.clear_selection()
            return
        now = self._clock()
        twice, self._cancelled_at = now - self._cancelled_at < LEAVE_SECONDS, now
        if twice:
            self.post_message(messages.LeaveWanted())
            return
        if not self.interaction.situation().running:
            self.say("Ctrl-C again leaves")
        self.post_message(messages.CancelWanted())

    def action_leave(self) -> None:
        """Ctrl-Q."""
        self.post_message(messages.LeaveWanted())

    def action_resume_last(self) -> None:
        """Ctrl-R, while a session is offered."""
        if (session := self.offer.session) is not None:
            self.begin(self.command_runner.run("resume", session))

    def action_background(self) -> None:
        """Ctrl-B."""
        self.post_message(messages.BackgroundWanted())

    def action_details(self) -> None:
        """Folds or unfolds reasoning and output."""
        self.transcript.toggle_details()

    def action_page(self, pages: int) -> None:
        """Scrolls the transcript, wherever the focus is."""
        self.transcript.scroll_pages(pages)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Screens above this one, and widgets with `OWN_PAGING`, have the page keys for themselves."""
        if action == "page":
            return len(self.screen_stack) == 1 and not getattr(self.focused, "OWN_PAGING", False)
        return True

    def _handle_exception(self, error: Exception) -> None:
        """Ends the face; the caller gets the exception. Textual would print it with the values of all variables."""
        if isinstance(error, WorkerFailed) and isinstance(error.error, Exception):
            error = error.error
        self._fault = self._fault or error
        super()._handle_exception(error)

    def _fatal_error(self) -> None:
        self._close_messages_no_wait()

    @property
    def fault(self) -> Exception | None:
        """The exception that ended the face, if one did."""
        return self._fault
