"""Carries out the machine's commands and brings back facts. It decides nothing.

Quick commands are done at once and in order; slow ones (the model, a tool, a person) run as tasks of the run's scope.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Literal

from sluice.errors import StoreError
from sluice.policy.rules import blocked_categories
from sluice.run.conversation import Talk
from sluice.run.execution import Execution
from sluice.run.model_turn import ModelTurns
from sluice.run.parts import Parts
from sluice.run.scope import Emit, RunScope, words_of
from sluice.run.steering import SteeringTicket
from sluice.run.tool_calls import ToolCalls
from sluice.turn import facts as f
from sluice.turn.outcomes import exit_code
from sluice.values import notices as n
from sluice.values.messages import ToolMessage, Usage, UserMessage, plain_text

_KEPT = (n.TurnFinished, n.Warned, n.Failed, n.Summarised, n.AlsoUsed, n.Waiting)
_LAST_STORE_SECONDS = 5.0  # L9: what the last store may take before the run ends without it
_END_JOBS_SECONDS = 10.0  # for the trees of all jobs; each takes about one
_NO_RESULT = "[unknown_outcome] The run broke off before this call had a result; it may or may not have run."


class Carrier:
    """The hands of one run. `emit` takes notices in order and may wait for a slow watcher."""

    def __init__(self, run: str, parts: Parts, talk: Talk, execution: Execution, emit: Emit) -> None:
        self.run = run
        self._parts = parts
        self._talk = talk
        self._outlet = emit
        self._scope = RunScope(run, parts, talk, self._emit)
        self._calls = ToolCalls(self._scope, execution)
        self._model = ModelTurns(self._scope, self._calls.arrived)
        self._begun = False
        self._prompt: UserMessage | None = None  # waits until what a run before left open is settled
        self._began = self._scope.now()

    async def _emit(self, notice: n.Notice) -> None:
        """Keeps a notice that matters later (its loss stops nothing, and is told), and passes every one on."""
        if isinstance(notice, _KEPT):
            try:
                await self._parts.store.noted(self.run, notice)
            except StoreError as error:
                self._scope.unsaved.append(("what was used or told", words_of(error)))
        await self._outlet(notice)

    # -- the way in and out

    async def begin(self, prompt: UserMessage | None) -> f.Fact:
        """Stores the prompt and says that the run begins; returns the first fact for the machine.

        Where calls wait that a run before left open, the prompt is stored once they are settled.
        """
        parts, scope = self._parts, self._scope
        scope.meter.work_for()
        try:
            specs = parts.executor.specs()
            offered = {s.category for s in specs}
            waiting = await self._talk.begin(self.run, prompt)
        except Exception as error:
            scope.unsaved.append(("the prompt", words_of(error)))
            return f.HostStopped(at=scope.now(), outcome="failed", message=words_of(error))
        self._begun = True
        await self._emit(
            n.RunStarted(
                run=self.run,
                model=parts.options.model,
                mode=parts.mode,
                workspace=parts.workspace,
                tools=tuple(s.name for s in specs),
                blocked=tuple(c for c in blocked_categories(parts.policy) if c in offered),
                sandbox=parts.sandbox,
            )
        )
        while parts.news:
            await self._emit(n.Warned(message=parts.news.pop(0)))
        if waiting is None:
            return f.Asked(at=scope.now())
        self._prompt = prompt
        await self._calls.taken_up(waiting)
        can_ask = (parts.approver or parts.ask_waiting) is not None
        return f.Reopened(at=scope.now(), waiting=waiting, can_ask=can_ask, prompt=prompt is not None)

    async def next_fact(self, deadline: int | None) -> f.Fact:
        """The next fact, or a `Tick` once `deadline` (monotonic ns) has passed."""
        scope = self._scope
        if deadline is None:
            return await scope.facts.get()
        try:
            async with asyncio.timeout(max(0.0, (deadline - scope.now()) / 1e9)):
                return await scope.facts.get()
        except TimeoutError:
            return f.Tick(at=scope.now())

    def cancel(self, reason: Literal["cancelled", "terminated"]) -> None:
        """The run is to end: nothing but storing and the end of running tools is waited for any more."""
        self._scope.tell(f.Cancelled(at=self._scope.now(), reason=reason))
        self._scope.stopping.set()

    def steer(self, message: UserMessage) -> SteeringTicket:
        """Takes words for the model, to be given before its next turn; `unsent` at once if there is none to come."""
        return self._scope.steering.add(message)

    async def carry_out(self, command: f.Command) -> None:
        """Does one command, or starts it. A store or a hook that fails is told to the machine, which ends the run."""
        try:
            await self._do(command)
        except Exception as error:
            self._scope.host_failed(error)

    async def _do(self, command: f.Command) -> None:
        scope, model, calls = self._scope, self._model, self._calls
        match command:
            case f.KeepPrompt():
                await self._keep_prompt()
            case f.Prepare():
                scope.spawn(model.prepare(command), scope.host_failed)
            case f.Summarise():
                scope.spawn(model.summarise(command), model.summary_failed)
            case f.CallModel(turn=turn):
                scope.spawn(model.call(turn), lambda error: model.failed(turn, error))
            case f.StopModel():
                scope.stopping.set()
            case f.Check():
                calls.check(command)
            case f.Judge():
                scope.spawn(calls.judge(command), lambda error: calls.judge_failed(command, error))
            case f.Ask():
                scope.spawn(calls.ask(command), lambda _: calls.answer(command, False, ""))
            case f.RunTools():
                for key in command.keys:
                    calls.begin(key)
                    scope.spawn(calls.run(key), lambda error, key=key: calls.run_failed(key, error))  # type: ignore[misc]
            case f.StopTool():
                calls.stop(command.key)
            case f.Refuse():
                calls.refuse(command.key, command.result)
            case f.Release():
                await calls.release(command.key, command.result)
            case f.EndJobs():
                await scope.settle()  # nothing is stored or told after this but the end
                await self._end_jobs()
                scope.tell(f.JobsEnded(at=scope.now()))
            case f.Finish():
                await self._finished(command.outcome, command.message)

    async def _keep_prompt(self) -> None:
        if self._prompt is not None:
            await self._scope.keep(self._prompt)
            self._prompt = None
        self._scope.tell(f.Asked(at=self._scope.now()))

    # -- the end

    async def settle(self) -> None:
        """Ends and awaits whatever of the run is still at work: tools are told to stop first."""
        self._calls.stop_all()
        await self._scope.settle()
        await self._end_jobs()
        self._scope.meter.close()

    async def _end_jobs(self) -> None:
        """Ends what runs in the background; whatever fails there, the run ends all the same."""
        with contextlib.suppress(Exception):
            async with asyncio.timeout(_END_JOBS_SECONDS):
                await self._parts.end_jobs()

    async def broke(self, error: Exception) -> None:
        """A rule of our own was broken: still exactly one last notice (L9), and no call is left without a result."""
        await self.settle()
        await self._finished("failed", f"a fault inside Sluice ended the run: {words_of(error)}")

    async def _finished(self, outcome: str, message: str) -> None:
        """The last store and the last notice. The notice comes even if the store fails, and then says so (L9)."""
        scope, model = self._scope, self._model
        extra: dict[str, object] = {"session": self._parts.store.session} if self._parts.store.session else {}
        unsent = scope.steering.close()
        if self._prompt is not None:
            unsent = (self._prompt, *unsent)
            message = f"{message}; the prompt was not sent" if message else "the prompt was not sent"
        if unsent:
            extra["unsent"] = [plain_text(one) for one in unsent]
        try:
            async with asyncio.timeout(_LAST_STORE_SECONDS):
                for call in self._talk.open_calls() if self._begun else ():  # else they wait on
                    await scope.keep(ToolMessage(call_id=call.id, name=call.name, content=_NO_RESULT, ok=False))
                await self._parts.store.finished(self.run, outcome)
        except TimeoutError:
            scope.unsaved.append(("the end of the run", f"it took longer than {_LAST_STORE_SECONDS:g} s"))
        except Exception as error:
            if self._begun:  # else it has no end to be stored
                scope.unsaved.append(("the end of the run", words_of(error)))
        if lost := sum(one.run == self.run for one in self._talk.unsaved):
            extra["unsaved_messages"] = lost
        await scope.used_inside(model.turns)
        await self._emit(
            n.RunFinished(
                run=self.run,
                outcome=outcome,
                exit_code=exit_code(outcome),
                message=message,
                text=model.last_text,
                message_id=model.last_id,
                turns=model.turns,
                tool_calls=self._calls.started,
                usage=scope.meter.used.usage,
                cost=scope.meter.used.cost,
                seconds=(scope.now() - self._began) / 1e9,
                saved=not scope.unsaved,
                unsaved=scope.lost(),
                extra=extra,
            )
        )


def never_began(parts: Parts, reason: Literal["cancelled", "terminated"]) -> n.RunFinished:
    """The one notice of a prompt that was cancelled while it waited for its turn."""
    return _without_a_run(parts, reason, "cancelled before it began; the prompt is no part of the session")


def nothing_waits(parts: Parts) -> n.RunFinished:
    """The one notice of a run without a prompt where nothing is to be taken up."""
    return _without_a_run(parts, "completed", "nothing waits for an approval")


def _without_a_run(parts: Parts, outcome: str, message: str) -> n.RunFinished:
    return n.RunFinished(
        run=parts.ids.new("run"),
        outcome=outcome,
        exit_code=exit_code(outcome),
        message=message,
        text="",
        message_id="",
        turns=0,
        tool_calls=0,
        usage=Usage(),
        extra={"session": parts.store.session} if parts.store.session else {},
    )
