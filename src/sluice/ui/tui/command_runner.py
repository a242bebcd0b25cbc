"""Carries out the commands that begin with a slash: each asks the interaction, and shows what it says."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from time import time as now
from typing import Any, Literal, Protocol, TypeVar

from textual.screen import Screen

from sluice.run.interaction import Interaction
from sluice.ui.tui.choice_screen import Choice, ChoiceScreen
from sluice.ui.tui.info_screen import InfoScreen
from sluice.ui.tui.said_blocks import Kind
from sluice.ui.tui.session_picker import session_screen
from sluice.ui.tui.slash_commands import help_lines

T = TypeVar("T")

KEYS = (
    "Enter             sends; while a run goes on, the prompt waits for its turn",
    "Ctrl-S            sends into the run that is going, for its next turn",
    "Ctrl-J            a new line; so do Alt-Enter, and \\ before Enter",
    "Up, Down          earlier prompts",
    "@                 names a file; Tab or Enter completes",
    "Tab               to a question or to the prompts that wait, and back",
    "Esc               closes a list or a panel",
    "Ctrl-C            ends the run, keeps everything; twice in a second leaves",
    "Ctrl-D            leaves, where nothing is typed",
    "Ctrl-O            more or less of reasoning and output",
    "Ctrl-B            moves the command that runs to the background",
    "Ctrl-R            goes on with the last session, at the start",
    "PgUp, PgDn        scroll what was said",
    "Ctrl-_            takes back a change in the input",
)


class Face(Protocol):
    """What a command needs of the app."""

    interaction: Interaction

    def say(self, words: str, kind: Kind = "note") -> None:
        """One line in the transcript."""
        ...

    async def wait_for(self, words: str, work: Awaitable[T]) -> T | None:
        """Awaits, shows that it takes long, and says an error."""
        ...

    def attempt(self, request: Callable[[], T]) -> T | None:
        """Asks, and says an error."""
        ...

    def show_screen(self, screen: Screen[Any], then: Callable[[Any], None] | None = None) -> None:
        """Puts a screen above, and calls `then` with its result."""
        ...

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Lets work go on by itself."""
        ...

    def show_queue(self) -> bool:
        """Goes to the prompts that wait; false if there are none."""
        ...

    def leave(self, code: int) -> None:
        """Stores, and leaves."""
        ...


class CommandRunner:
    """Nothing raises for what a person can mend; that is said in one line."""

    def __init__(self, face: Face) -> None:
        self._face = face
        self._ask = face.interaction

    async def run(self, name: str, argument: str) -> None:
        """Carries out one command of `slash_commands.COMMANDS`."""
        await getattr(self, f"_{name}")(argument)

    async def _help(self, _argument: str) -> None:
        self._show("Help", [*KEYS, "", *help_lines()])

    async def _model(self, argument: str) -> None:
        if argument:
            self._use_model(argument)
            return
        models = self._face.attempt(self._ask.models)
        now = self._ask.situation().model
        choices = [Choice(model, model, "in use" if model == now else "") for model in models or ()]
        self._face.show_screen(ChoiceScreen(f"Models (now {now})", choices), self._use_model)

    def _use_model(self, model: str | None) -> None:
        if model is None:
            return

        def change() -> bool:
            self._ask.set_model(model)
            return True

        if self._face.attempt(change):
            self._face.say(f"from the next turn on: {model}")

    async def _tools(self, _argument: str) -> None:
        tools = self._face.attempt(self._ask.tools)
        if tools is not None:
            wide = max((len(name) for name, _category, _fate in tools), default=0)
            self._show("Tools", [f"{name:<{wide}}  {category:<10}  {fate}" for name, category, fate in tools])

    async def _policy(self, _argument: str) -> None:
        self._show("Policy", self._face.attempt(self._ask.policy_lines))

    async def _cost(self, _argument: str) -> None:
        self._show("Tokens and money", self._face.attempt(self._ask.cost_lines))

    async def _doctor(self, _argument: str) -> None:
        lines = await self._face.wait_for("looking at this machine", self._ask.doctor())
        for line in lines or ():  # in the transcript: a screen would open over what has been typed meanwhile
            self._face.say(line)

    async def _sessions(self, _argument: str) -> None:
        rows = self._face.attempt(self._ask.sessions)
        if not rows:
            self._face.say("there is no stored session of this workspace")
            return
        self._face.show_screen(session_screen(rows, now()), self._opened)

    def _opened(self, session: str | None) -> None:
        if session is not None:
            self._face.begin(self._open(session))

    async def _open(self, session: str | None) -> None:
        await self._face.wait_for("opening the session", self._ask.open_session(session))

    async def _resume(self, argument: str) -> None:
        if argument:
            await self._open(argument)
            return
        now = self._ask.situation().session
        rows = [row for row in self._face.attempt(self._ask.sessions) or () if row.session != now]
        if rows:
            await self._open(rows[0].session)
        else:
            self._face.say("there is no other stored session of this workspace")

    async def _new(self, _argument: str) -> None:
        await self._open(None)

    async def _fork(self, argument: str) -> None:
        if argument and not (argument.isascii() and argument.isdigit() and int(argument[:9]) > 0):
            self._face.say("/fork takes a message number, counted from 1", "warning")
            return
        upto = int(argument[:9]) if argument else None
        copy = await self._face.wait_for("copying the session", self._ask.fork(upto))
        if copy is not None:
            await asyncio.sleep(0)  # the copy is shown first, and this line below it
            self._face.say(f"this is a copy now: session {copy}")

    async def _undo(self, _argument: str) -> None:
        done = await self._face.wait_for("taking file changes back", self._ask.undo())
        if done is None:
            return
        restored, left = done
        self._face.say(f"taken back: {', '.join(restored)}" if restored else "nothing was taken back")
        for line in left:
            self._face.say(line, "warning")

    async def _export(self, argument: str) -> None:
        path = argument or f"session-{self._ask.situation().session}.md"
        form: Literal["json", "md"] = "json" if path.endswith(".json") else "md"
        written = await self._face.wait_for("writing the session", self._ask.export(form, path))
        if written is not None:
            self._face.say(f"written to {written}")

    async def _compact(self, _argument: str) -> None:
        sizes = await self._face.wait_for("shrinking the context", self._ask.compact())
        if sizes is not None:
            self._face.say(f"the context went from {sizes[0]:,} to {sizes[1]:,} bytes")

    async def _queue(self, _argument: str) -> None:
        if not self._face.show_queue():
            self._face.say("no prompt waits")

    async def _quit(self, _argument: str) -> None:
        self._face.leave(0)

    def _show(self, title: str, lines: Sequence[str] | None) -> None:
        if lines is not None:
            self._face.show_screen(InfoScreen(title, lines))
