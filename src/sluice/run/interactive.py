"""An interaction over real sessions: what a terminal, or any other face with a person before it, drives.

One task sends the prompts, one at a time. Requests that change what it works with (another session, a smaller context)
run alone, between two prompts. Whatever blocks runs in a thread.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from typing import Any, Literal, TypeVar

from sluice.errors import ConfigurationError
from sluice.run import session_requests, situation
from sluice.run.asking import FaceApprover
from sluice.run.call_details import call_details
from sluice.run.changes import Changes
from sluice.run.doctor import examined, with_kept
from sluice.run.doctor import lines as report_lines
from sluice.run.event_stream import EventStream
from sluice.run.folder_trust import FolderTrust
from sluice.run.instructions import NO_INSTRUCTIONS, Instructions, instructions_for
from sluice.run.interaction import (
    Allowed,
    Event,
    Interaction,
    PromptBegan,
    QueueChanged,
    Queued,
    SessionOpened,
    SessionRow,
    Situation,
    UntrustedFile,
)
from sluice.run.model_in_use import ModelInUse
from sluice.run.open_session import OpenSession, opened_session
from sluice.run.question import Escaped
from sluice.run.scope import words_of
from sluice.run.settings import Settings
from sluice.run.shielding import in_thread, shielded
from sluice.run.waiting_prompts import WaitingPrompts
from sluice.run.wiring import state_folder
from sluice.session.audit import AuditLog
from sluice.session.wish import Wish
from sluice.values import notices as n
from sluice.values.calls import ToolSpec
from sluice.values.messages import Conversation, Usage
from sluice.values.ports import Transport

T = TypeVar("T")


@asynccontextmanager
async def open_interaction(
    settings: Settings,
    *,
    escaped: Escaped,
    environ: Mapping[str, str] | None = None,
    transport: Transport | None = None,
) -> AsyncIterator[Interaction]:
    """An interaction over `settings.workspace` (absolute, existing), in the session that the settings wish for.

    `escaped` makes text safe to show in a question. `environ` is where keys of other models are looked for. A `transport`
    that is given answers in place of the one the settings would make, for every model, and is not closed. Raises
    `ConfigurationError`. Leaving it closes it.
    """
    made = _Live(settings, escaped, os.environ if environ is None else environ, transport)
    try:
        await made.open()
        yield made
    finally:
        await made.close()


class _Live:
    """See `Interaction`, which says what each method does."""

    def __init__(
        self, settings: Settings, escaped: Escaped, environ: Mapping[str, str], transport: Transport | None
    ) -> None:
        self._model = ModelInUse(settings, environ, transport)
        self._stream = EventStream()
        self._prompts = WaitingPrompts()
        self._audit = AuditLog(str(state_folder() / "audit.jsonl"))
        self._approver = FaceApprover(
            self._stream.tell, escaped, folder=settings.workspace, where=self, audit=self._audit
        )
        self._session_now: OpenSession | None = None
        self._asked_in: OpenSession | None = None  # whose waiting calls have been asked about
        self._sandbox = "none"
        self._trust: FolderTrust | None = None
        self._note = ""  # for the model, before the next prompt
        self._running = False
        self._closed = False
        self._wake = asyncio.Event()
        self._changes = Changes(self._wake.set)
        self._trial = Changes(lambda: None)  # goes beside a run
        self._driver: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None

    # -- opening and closing

    async def open(self) -> None:
        """Opens the session and starts to wait for prompts. Raises `ConfigurationError`."""
        await self._model.open()
        self._sandbox = await in_thread(lambda: situation.sandbox_words(self._settings))
        self._trust = await in_thread(self._looked_at_folder)
        self._session_now = await self._opened(self._settings.session)
        self._tell_session(await self._session.history())
        for line in self._trust.problems():  # before the question: what is not there to be read is no part of it
            self._warn(line)
        self._driver = asyncio.get_running_loop().create_task(self._drive())

    def _looked_at_folder(self) -> FolderTrust:
        settings = self._settings
        return FolderTrust(settings.workspace, instructions_for(settings), state_folder())

    async def close(self) -> None:
        """See `Interaction.close`. Being cancelled does not cut it short."""
        if self._ending is None:
            self._ending = asyncio.get_running_loop().create_task(self._end())
        await shielded(self._ending)

    async def _end(self) -> None:
        self._closed = True
        self._stream.wait_for_nobody()
        self._wake.set()
        if self._session_now is not None:
            self._session_now.agent.cancel()
        await self._changes.end()
        await self._trial.end()
        if self._driver is not None:
            await asyncio.wait({self._driver})
        try:
            if self._session_now is not None:
                await self._session_now.close()
        finally:
            await self._model.close()
            self._audit.close()
            self._stream.close()

    @property
    def _settings(self) -> Settings:
        return self._model.settings

    @property
    def _session(self) -> OpenSession:
        if self._session_now is None or self._closed:
            raise ConfigurationError("this interaction is closed")
        return self._session_now

    async def _opened(self, wish: Wish) -> OpenSession:
        return await opened_session(
            self._settings,
            wish,
            approver=self._approver,
            transport=self._model.transport,
            instructions=self._instructions(),
            in_front_changed=self._tell_situation,
        )

    # -- prompts and runs

    def events(self) -> AsyncIterator[Event]:
        return self._stream.read()

    def submit(self, text: str, *, steering: bool = False) -> int:
        """See `Interaction.submit`. Raises `ConfigurationError` for a prompt that is empty or too large."""
        steer = self._session.agent.steer
        prompt = self._prompts.add(text, steer if steering and self._running else None)
        self._queue_changed()
        return prompt.number

    def edit(self, number: int, text: str) -> bool:
        edited = self._prompts.edit(number, text)
        if edited:
            self._queue_changed()
        return edited

    def take_back(self, number: int) -> str | None:
        text = self._prompts.take_back(number)
        if text is not None:
            self._queue_changed()
        return text

    def answer(self, number: int, allowed: Allowed, words: str = "") -> bool:
        return self._approver.answer(number, allowed, words)

    def cancel(self) -> tuple[Queued, ...]:
        """See `Interaction.cancel`. A change that is going (such as a smaller context) is given up as well."""
        back = self._prompts.take_all_back()
        if back:
            self._queue_changed()
        self._changes.cancel()
        self._session.agent.cancel()
        return back

    def to_background(self) -> bool:
        moved = self._session.agent.parts.to_background() is not None
        if moved:
            self._tell_situation()
        return moved

    async def _drive(self) -> None:
        while True:
            while not self._closed and (self._changes.going or not (self._prompts.any() or self._calls_wait())):
                self._wake.clear()
                await self._wake.wait()
            if self._closed:
                return
            self._running = True
            problem = await self._model_problem()
            waited = self._calls_wait()
            self._asked_in = self._session_now
            prompt = None if self._closed or waited else self._prompts.next()
            if prompt is not None or (waited and not self._closed):
                await self._run(prompt, problem)
            self._running = False
            if self._prompts.run_ended():
                self._queue_changed()
            self._tell_situation()

    def _calls_wait(self) -> bool:
        """Whether calls of the session wait for the person, who is asked at once, and once: with the next prompt, then.

        What the files of the folder say comes first, if the person is still to decide about that.
        """
        session = self._session_now
        if self._closed or session is None or session is self._asked_in or self.unknown_files():
            return False
        return bool(session.agent.waiting)

    async def _run(self, prompt: Queued | None, problem: str | None) -> None:
        """Sends one prompt; without one takes up what waits. Between `PromptBegan` and the run nothing is waited for, so a
        cancel always finds one."""
        if prompt is not None:
            self._stream.tell(PromptBegan(number=prompt.number, text=prompt.text))
            self._queue_changed()
        self._session.spending.run_began()
        self._tell_situation()
        if problem is not None:
            self._stream.tell(n.Warned(message=problem))
        ended = False
        try:
            text = None
            if prompt is not None:
                text, self._note = self._note + prompt.text, ""
            async with aclosing(self._session.agent.run(text)) as notices:
                async for notice in notices:
                    self._told(notice)
                    ended = isinstance(notice, n.RunFinished)
                    await self._stream.room()
        except Exception as error:
            if not ended:
                self._stream.tell(_broke(words_of(error)))

    def _told(self, notice: n.Notice) -> None:
        session = self._session_now
        assert session is not None
        if isinstance(notice, n.Steered) and (given := self._prompts.given()) is not None:
            self._stream.tell(PromptBegan(number=given.number, text=given.text, steering=True))
            self._queue_changed()
        self._stream.tell(notice)
        if isinstance(notice, n.TurnFinished | n.Summarised | n.AlsoUsed):
            session.count(notice)
        if isinstance(notice, n.TurnFinished | n.Summarised | n.AlsoUsed | n.CallFinished):
            self._tell_situation()

    # -- telling

    def situation(self) -> Situation:
        """See `Interaction.situation`. After the close it is the last one."""
        assert self._session_now is not None
        return situation.situation(self._model.shown, self._session_now, self._sandbox, self._running)

    def _tell_situation(self) -> None:
        if self._session_now is not None and not self._closed:
            self._stream.tell(self.situation())

    def _queue_changed(self) -> None:
        self._wake.set()
        self._stream.tell(QueueChanged(waiting=self._prompts.shown()))

    def _tell_session(self, history: Conversation) -> None:
        agent = self._session.agent
        subjects = {spec.name: spec.subject for spec in agent.parts.executor.specs()}
        self._stream.tell(SessionOpened(session=agent.session, history=history, subjects=subjects))
        while agent.parts.news:  # a person need not wait for the first run to learn what was found at the opening
            self._warn(agent.parts.news.pop(0))
        self._tell_situation()

    def place(self) -> str:
        """See `asking.Place`."""
        return self._session.agent.parts.place()

    def details(self, spec: ToolSpec, arguments: str) -> tuple[str, ...]:
        """See `asking.Place`."""
        return call_details(self._settings.workspace, spec.name, arguments)

    # -- what runs alone

    async def _alone(self, change: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """What a change returns; it runs while no prompt does. Raises `ConfigurationError` where one does."""
        _ = self._session
        if self._running or self._prompts.any() or self._calls_wait():
            raise ConfigurationError("a run is going: cancel it, or wait for its end")
        return await self._changes.make(change)

    async def open_session(self, session: str | None) -> None:
        if session is not None and session == self._session.agent.session:
            self._tell_session(await self._alone(self._session.history))
            return
        wish = Wish() if session is None else Wish(how="resume", id=session)
        await self._alone(lambda: self._go_to(wish))

    async def fork(self, upto: int | None = None) -> str:
        session = self._session
        if not session.begun:
            raise ConfigurationError("nothing of this session is stored, so there is nothing to fork")
        return await self._alone(lambda: self._go_to(Wish(how="fork", id=session.agent.session, upto=upto)))

    async def _go_to(self, wish: Wish) -> str:
        new = await self._opened(wish)
        try:
            history = await new.history()
        except BaseException:
            await new.close()
            raise
        old, self._session_now, self._note = self._session_now, new, ""
        self._approver.grants.clear()
        self._tell_session(history)
        if old is not None:
            await old.close()
        return new.agent.session

    async def undo(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        restored, left = await self._alone(lambda: session_requests.undo(self._settings, self._session))
        if restored:
            self._note = session_requests.undo_note(restored)
        return restored, left

    async def compact(self) -> tuple[int, int]:
        return await self._alone(self._compact)

    async def _compact(self) -> tuple[int, int]:
        problem = await self._model.use(self._session.agent)
        if problem is not None:
            raise ConfigurationError(problem)
        told = await self._session.agent.compact(self._told)
        if not told.ok:
            raise ConfigurationError(told.message or "nothing of it can be made smaller")
        return told.before, told.after

    async def export(self, form: Literal["json", "md"], path: str) -> str:
        written, why = await session_requests.export(self._settings, self._session, form, path)
        if why:
            self._stream.tell(n.Warned(message=why))
        return written

    async def doctor(self) -> tuple[str, ...]:
        report, bound = await self._trial.make(examined), self._settings.kept_bytes
        return tuple(report_lines(await in_thread(lambda: with_kept(report, bound))))

    # -- models

    def set_model(self, model: str) -> None:
        _ = self._session
        self._model.choose(model)
        self._tell_situation()

    async def _model_problem(self) -> str | None:
        """Why the model that was chosen cannot be asked. A cancel gives it up: it is tried again before the next prompt."""
        try:
            return await self._changes.make(lambda: self._model.use(self._session.agent)) if self._model.waits else None
        except ConfigurationError:
            return None

    def models(self) -> tuple[str, ...]:
        return self._model.offered()

    # -- looking

    def tools(self) -> Sequence[tuple[str, str, str]]:
        return situation.tools(self._session.agent.parts, self._approver.grants)

    def policy_lines(self) -> tuple[str, ...]:
        return situation.policy_lines(self._settings, self._session.agent.parts, self._approver.grants, self._sandbox)

    def sessions(self) -> tuple[SessionRow, ...]:
        """See `Interaction.sessions`. At most 200 of them."""
        return session_requests.sessions(self._settings)

    def cost_lines(self) -> tuple[str, ...]:
        return tuple(self._session.spending.lines())

    def settings_shown(self) -> dict[str, Any]:
        return self._model.shown.shown()

    # -- the files of the folder

    def unknown_files(self) -> tuple[UntrustedFile, ...]:
        trust = self._trust
        return () if trust is None or trust.answer is not None else trust.files()

    def trust(self, read: bool) -> None:
        """See `Interaction.trust`. What is given from here on is what was found when this was opened."""
        agent = self._session.agent
        if self._trust is None:
            return
        try:
            self._trust.remember(read)
        except OSError as error:
            words = f"the answer cannot be remembered for another time: {error.strerror or error}"
            self._stream.tell(n.Warned(message=words))
        given = self._instructions()
        agent.send_first(*given.messages())
        self._wake.set()  # a call that waits is asked about now
        for line in given.given():  # what cannot be read was said before the question
            self._warn(line)

    def _warn(self, line: str) -> None:
        """Says a line; that a file is read to which the person agreed is no warning."""
        self._stream.tell(n.Warned(message=line, expected=line in self._instructions().given()))

    def _instructions(self) -> Instructions:
        return NO_INSTRUCTIONS if self._trust is None else self._trust.given()


def _broke(words: str) -> n.RunFinished:
    """The last notice of a run that ended without one: a fault of ours."""
    return n.RunFinished(
        run="",
        outcome="failed",
        exit_code=1,
        message=f"a fault inside Sluice ended the run: {words}",
        text="",
        message_id="",
        turns=0,
        tool_calls=0,
        usage=Usage(),
        saved=False,
    )
