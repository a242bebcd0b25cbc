"""Carries out the machine's commands and brings back facts. It decides nothing.

Quick commands are done at once and in order; slow ones (the model, a tool, a person) run as tasks. Each kind of task
fails closed: a judge that breaks denies, a tool that breaks has a fatal result, a preparation that breaks ends the run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from sluice.policy.decide import blocked_result, judge
from sluice.policy.rules import blocked_categories
from sluice.run.conversation import Talk
from sluice.run.execution import Execution
from sluice.run.model_call import BrokenReply, ModelCall
from sluice.run.parts import Parts
from sluice.run.result_text import result_text
from sluice.run.shrinking import shrink
from sluice.run.watching import TurnWatcher
from sluice.turn import facts as f
from sluice.turn.outcomes import exit_code
from sluice.values import notices as n
from sluice.values.calls import AllowedCall, CallKey, Grant, ToolSpec, Verdict, call_digest
from sluice.values.messages import AssistantMessage, Reply, ToolCall, ToolMessage, Usage, UserMessage
from sluice.values.requests import Request
from sluice.values.results import ToolResult, failed

_LAST_STORE_SECONDS = 5.0  # L9: what the last store may take before the run ends without it

Emit = Callable[[n.Notice], Coroutine[Any, Any, None]]


class Carrier:
    """The hands of one run. `emit` takes notices in order and may wait for a slow watcher."""

    def __init__(self, run: str, parts: Parts, talk: Talk, execution: Execution, emit: Emit) -> None:
        self.run = run
        self.facts: asyncio.Queue[f.Fact] = asyncio.Queue()
        self._parts = parts
        self._talk = talk
        self._execution = execution
        self._emit = emit
        self._tasks: set[asyncio.Task[None]] = set()
        self._model: asyncio.Task[None] | None = None
        self._request: Request | None = None
        self._calls: dict[CallKey, ToolCall] = {}
        self._specs: dict[CallKey, ToolSpec] = {}
        self._verdicts: dict[CallKey, Verdict] = {}
        self._cancels: dict[CallKey, asyncio.Event] = {}
        self._seconds: dict[CallKey, float] = {}
        self._watcher: TurnWatcher | None = None
        self._answered = 0  # the last turn whose CallModel got its answer
        self._began = parts.clock.monotonic_ns()
        self.turns = 0
        self.started_calls = 0
        self.usage = Usage()
        self.last_text = ""
        self.last_id = ""

    # -- the way in and out

    def now(self) -> int:
        """Monotonic nanoseconds, for a fact's `at`."""
        return self._parts.clock.monotonic_ns()

    async def begin(self, prompt: UserMessage) -> None:
        """Stores the prompt and says that the run begins."""
        parts = self._parts
        specs = parts.executor.specs()
        offered = {s.category for s in specs}
        blocked = [c for c in blocked_categories(parts.policy) if c in offered]
        await self._talk.begin(self.run, prompt)
        await self._emit(
            n.RunStarted(
                run=self.run,
                model=parts.options.model,
                mode=parts.mode,
                workspace=parts.workspace,
                tools=tuple(s.name for s in specs),
                blocked=tuple(blocked),
            )
        )

    async def next_fact(self, deadline: int | None) -> f.Fact:
        """The next fact, or a `Tick` once `deadline` (monotonic ns) has passed."""
        if deadline is None:
            return await self.facts.get()
        try:
            async with asyncio.timeout(max(0.0, (deadline - self.now()) / 1e9)):
                return await self.facts.get()
        except TimeoutError:
            return f.Tick(at=self.now())

    async def settle(self) -> None:
        """Ends and awaits every task that is still there."""
        while self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def carry_out(self, command: f.Command) -> None:
        """Does one command, or starts it. Raises only if the store or a hook does; the run then ends as failed."""
        match command:
            case f.Prepare():
                self._spawn(self._prepare(command), self.host_failed)
            case f.Summarise():
                self._model = self._spawn(self._summarise(command), self._summary_failed)
            case f.CallModel():
                self._model = self._spawn(
                    self._call_model(command.turn), lambda error: self._model_failed(command.turn, error)
                )
            case f.StopModel():
                if self._model is not None:
                    self._model.cancel()
            case f.Check():
                self._check(command)
            case f.Judge():
                self._spawn(self._judge(command), lambda e: self._judge_failed(command, e))
            case f.Ask():
                self._spawn(self._ask(command), lambda _: self._answer(command, False, ""))
            case f.RunTools():
                for key in command.keys:
                    self._cancels[key] = asyncio.Event()
                    self._spawn(self._run_tool(key), lambda e, key=key: self._tool_failed(key, e))  # type: ignore[misc]
            case f.StopTool():
                self._cancels[command.key].set()
            case f.Refuse():
                key = command.key
                self._execution.note(
                    "call_refused", key.run, key.turn, key.position, command.result.tool, command.result
                )
                self.facts.put_nowait(f.Refused(at=self.now(), key=key))
            case f.Release():
                await self._release(command.key, command.result)
            case f.EndJobs():
                self.facts.put_nowait(f.JobsEnded(at=self.now()))
            case f.Finish():
                await self._finish(command)

    def _spawn(self, work: Coroutine[Any, Any, None], failed: Callable[[Exception], None]) -> asyncio.Task[None]:
        async def guarded() -> None:
            try:
                await work
            except Exception as error:
                failed(error)

        task = asyncio.get_running_loop().create_task(guarded())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def host_failed(self, error: Exception) -> None:
        """Tells the machine that a hook, the store or our own code failed; the run then ends in good order."""
        message = f"{type(error).__name__}: {error}"
        self.facts.put_nowait(f.HostStopped(at=self.now(), outcome="failed", message=message))

    # -- the model

    async def _prepare(self, command: f.Prepare) -> None:
        parts = self._parts
        if command.turn > 1:
            words = await parts.hooks.stop_when(command.turn)
            if words is not None:
                self.facts.put_nowait(f.HostStopped(at=self.now(), outcome="completed", message=words))
                return
        for note in command.notes:
            await self._talk.add(self.run, UserMessage(note, origin="host"))
        extra = await parts.hooks.prepare_turn(command.turn, self._talk.messages)
        self._talk.extra = tuple(extra)
        size = self._make_request()
        self.facts.put_nowait(f.Prepared(at=self.now(), turn=command.turn, context_bytes=size))

    def _make_request(self) -> int:
        """Builds the request of this turn from the conversation as it stands; returns its size in bytes."""
        parts = self._parts
        self._request = parts.dialect.request(self._talk.to_send(), parts.executor.specs(), parts.options)
        return len(self._request.body)

    async def _summarise(self, command: f.Summarise) -> None:
        parts = self._parts
        before = self._make_request()
        ok = False
        try:
            ok, usage = await shrink(self._talk, parts, self._make_request, command.max_bytes)
            self.usage += usage
        except asyncio.CancelledError:
            pass  # the fact below answers StopModel
        after = self._make_request()
        if ok:
            await self._emit(n.Summarised(before=before, after=after))
        self.facts.put_nowait(f.Summarised(at=self.now(), ok=ok, context_bytes=after))

    async def _call_model(self, turn: int) -> None:
        parts = self._parts
        self.turns = turn
        request = self._request
        assert request is not None
        await self._emit(n.TurnStarted(run=self.run, turn=turn))
        watcher = self._watcher = TurnWatcher(turn, self._emit, parts.hooks)
        call = ModelCall(
            parts.transport,
            parts.dialect,
            request,
            watcher,
            limits=parts.limits,
            clock=parts.clock,
            random=parts.random,
            used_ids=self._talk.call_ids,
        )
        answer = await call.run()
        await watcher.close()
        if isinstance(answer, Reply):
            await self._replied(turn, answer, len(request.body))
        else:
            await self._broke(turn, answer, len(request.body))

    def _summary_failed(self, error: Exception) -> None:
        self.host_failed(error)
        size = len(self._request.body) if self._request else 0
        self.facts.put_nowait(f.Summarised(at=self.now(), ok=False, context_bytes=size))

    def _model_failed(self, turn: int, error: Exception) -> None:
        """A watcher, a hook or the store failed; the machine still gets its answer to `CallModel`, once."""
        self.host_failed(error)
        if self._answered < turn:
            self._answered = turn
            message = f"{type(error).__name__}: {error}"
            self.facts.put_nowait(f.ModelFailed(at=self.now(), turn=turn, kind="aborted", message=message))

    def _answer_model(self, fact: f.Replied | f.ModelFailed) -> None:
        self._answered = fact.turn
        self.facts.put_nowait(fact)

    async def _replied(self, turn: int, reply: Reply, sent: int) -> None:
        message = await self._keep(turn, reply, sent, whole=True)
        self._answer_model(f.Replied(at=self.now(), turn=turn, reply=reply))
        await self._parts.hooks.turn_finished(turn, message, message.usage.cost if message.usage else None)

    async def _broke(self, turn: int, broken: BrokenReply, sent: int) -> None:
        await self._emit(n.Failed(kind=broken.kind, message=broken.message))
        partial = broken.partial
        if partial is not None and (partial.text or partial.tool_calls):
            await self._keep(turn, partial, sent, whole=False)
        else:
            partial = None
            assert self._watcher is not None
            await self._watcher.withdraw_all(broken.message)
        self._answer_model(
            f.ModelFailed(
                at=self.now(),
                turn=turn,
                kind=broken.kind,
                message=broken.message,
                partial=partial,
                bound=broken.bound,
            )
        )

    async def _keep(self, turn: int, reply: Reply, sent: int, *, whole: bool) -> AssistantMessage:
        """Stores a reply and tells of it: its calls by position, its end with usage."""
        parts = self._parts
        usage = reply.usage
        if usage is None:
            told = len(reply.text) + len(reply.reasoning) + sum(len(c.arguments) for c in reply.tool_calls)
            usage = Usage(input_tokens=sent // 4, output_tokens=told // 4, estimated=True)
        self.usage += usage
        message = reply.message()
        self.last_text = reply.text or reply.refusal
        self.last_id = await self._talk.add(self.run, message)
        for position, call in enumerate(reply.tool_calls):
            self._calls[CallKey(self.run, turn, position)] = call
            await self._emit(
                n.CallArrived(
                    turn=turn,
                    position=position,
                    id=call.id,
                    tool=call.name,
                    arguments=call.arguments,
                    status=call.status,
                    subject=self._talk.subject(call, parts.executor.specs()),
                )
            )
            if call.status != "whole" or not whole:
                reason = call.problem or "its reply did not arrive whole"
                await self._emit(n.CallWithdrawn(turn=turn, position=position, tool=call.name, reason=reason))
        await self._emit(
            n.TurnFinished(
                turn=turn, stop_reason=reply.stop_reason, usage=usage, cost=usage.cost, tolerances=reply.tolerances
            )
        )
        return message

    # -- one call

    def _check(self, command: f.Check) -> None:
        key = command.key
        try:
            checked = self._parts.executor.check(command.name, command.arguments)
        except Exception as error:
            checked = failed(command.name, "check_failed", f"{type(error).__name__}: {error}", failure="fatal")
        if isinstance(checked, ToolResult):
            self.facts.put_nowait(f.Rejected(at=self.now(), key=key, result=checked))
            return
        self._specs[key] = checked
        digest = call_digest(command.name, command.arguments)
        self.facts.put_nowait(f.Checked(at=self.now(), key=key, digest=digest, category=checked.category))

    async def _judge(self, command: f.Judge) -> None:
        key = command.key
        spec, call = self._specs[key], self._calls[key]
        if not command.granted:
            words = await self._parts.hooks.call(key.turn, spec, call.arguments)
            if words is not None:
                refusal = failed(spec.name, "refused_by_hook", words or "refused by a hook", status="blocked")
                await self._judged(command, "deny", "hook", refusal)
                return
        grant = Grant(key, command.digest) if command.granted else None
        verdict = judge(spec, key, command.digest, call.arguments, self._parts.policy, grant=grant)
        self._verdicts[key] = verdict
        self._parts.audit.record(
            "verdict",
            run=key.run,
            turn=key.turn,
            position=key.position,
            tool=spec.name,
            digest=verdict.digest,
            decision=verdict.decision,
            rule=verdict.rule,
        )
        result = None if verdict.decision == "allow" else blocked_result(spec, verdict)
        await self._judged(command, verdict.decision, verdict.rule, result)

    async def _judged(self, command: f.Judge, decision: Any, rule: str, result: ToolResult | None) -> None:
        key = command.key
        await self._emit(
            n.CallJudged(turn=key.turn, position=key.position, tool=self._specs[key].name, decision=decision, rule=rule)
        )
        self.facts.put_nowait(
            f.Judged(at=self.now(), key=key, digest=command.digest, decision=decision, rule=rule, result=result)
        )

    def _judge_failed(self, command: f.Judge, error: Exception) -> None:
        name = self._calls[command.key].name
        words = f"could not be judged, so it was not run ({type(error).__name__}: {error})"
        result = failed(name, "judge_failed", words, status="blocked", failure="blocked")
        self.facts.put_nowait(
            f.Judged(
                at=self.now(), key=command.key, digest=command.digest, decision="deny", rule="error", result=result
            )
        )

    async def _ask(self, command: f.Ask) -> None:
        approver = self._parts.approver
        key = command.key
        granted, words = False, ""
        if approver is not None:
            granted, words = await approver.ask(self._specs[key], self._calls[key].arguments, self._verdicts[key].rule)
        self._answer(command, granted is True, words)

    def _answer(self, command: f.Ask, granted: bool, words: str) -> None:
        fact = f.Answered(at=self.now(), key=command.key, digest=command.digest, granted=granted, words=words)
        self.facts.put_nowait(fact)

    async def _run_tool(self, key: CallKey) -> None:
        spec, call = self._specs[key], self._calls[key]
        allowed = AllowedCall(key=key, tool=call.name, arguments=call.arguments, verdict=self._verdicts[key])
        refusal = await self._execution.commit(allowed, spec)
        if refusal is not None:
            self.facts.put_nowait(f.Ran(at=self.now(), key=key, result=refusal))
            return
        began = self.now()
        self.started_calls += 1
        self.facts.put_nowait(f.Started(at=began, key=key))
        await self._emit(n.CallStarted(turn=key.turn, position=key.position, tool=call.name))
        result = await self._execution.run(allowed, self._cancels[key])
        self._seconds[key] = (self.now() - began) / 1e9
        self.facts.put_nowait(f.Ran(at=self.now(), key=key, result=result))

    def _tool_failed(self, key: CallKey, error: Exception) -> None:
        words = f"{type(error).__name__}: {error}"
        result = failed(self._calls[key].name, "executor_fault", words, failure="fatal")
        self.facts.put_nowait(f.Ran(at=self.now(), key=key, result=result))

    async def _release(self, key: CallKey, result: ToolResult) -> None:
        call = self._calls[key]
        await self._talk.add(
            self.run, ToolMessage(call_id=call.id, name=call.name, content=result_text(result), ok=result.ok)
        )
        await self._emit(
            n.CallFinished(
                turn=key.turn,
                position=key.position,
                id=call.id,
                tool=call.name,
                result=result,
                seconds=self._seconds.get(key, 0.0),
            )
        )
        await self._parts.hooks.result(key.turn, result)

    # -- the end

    async def _finish(self, command: f.Finish) -> None:
        await self.finished(command.outcome, command.message)

    async def finished(self, outcome: str, message: str) -> None:
        """The last store and the last notice. The notice comes even if the store fails, and then says so (L9)."""
        unsaved = None
        try:
            async with asyncio.timeout(_LAST_STORE_SECONDS):
                await self._parts.store.finished(self.run, outcome)
        except TimeoutError:
            unsaved = f"the end of the run was not stored within {_LAST_STORE_SECONDS:g} s"
        except Exception as error:
            unsaved = f"the end of the run was not stored: {error}"
        await self._emit(
            n.RunFinished(
                run=self.run,
                outcome=outcome,
                exit_code=exit_code(outcome),
                message=message,
                text=self.last_text,
                message_id=self.last_id,
                turns=self.turns,
                tool_calls=self.started_calls,
                usage=self.usage,
                cost=self.usage.cost,
                seconds=(self.now() - self._began) / 1e9,
                saved=unsaved is None,
                unsaved=unsaved,
            )
        )
