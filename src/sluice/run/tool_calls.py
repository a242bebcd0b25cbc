"""One call's way through a run: checked, judged, perhaps asked about, run, its result released.

Each step fails closed: a judge that breaks denies, a person who cannot be asked says no, a tool that breaks has a fatal
result.
"""

from __future__ import annotations

import asyncio

import msgspec

from sluice.errors import AuditError
from sluice.policy.decide import blocked_result, judge
from sluice.run.execution import Execution, not_begun
from sluice.run.result_text import result_text
from sluice.run.scope import HOOK_SECONDS, RunScope, StoppedError, words_of
from sluice.turn import facts as f
from sluice.values import notices as n
from sluice.values.calls import AllowedCall, CallKey, Decision, Grant, ToolSpec, Verdict, call_digest
from sluice.values.messages import ToolCall, ToolMessage
from sluice.values.results import ToolResult, failed


class ToolCalls:
    """The calls of one run, by key."""

    def __init__(self, scope: RunScope, execution: Execution) -> None:
        self._scope = scope
        self._execution = execution
        self._calls: dict[CallKey, ToolCall] = {}
        self._specs: dict[CallKey, ToolSpec] = {}
        self._verdicts: dict[CallKey, Verdict] = {}
        self._grants: dict[CallKey, Grant] = {}  # a person's yes, until it is used
        self._cancels: dict[CallKey, asyncio.Event] = {}
        self._seconds: dict[CallKey, float] = {}
        self._unrecorded = False  # it was said that the audit log cannot be written
        self.started = 0

    def arrived(self, turn: int, calls: tuple[ToolCall, ...]) -> None:
        """These are the calls of the stored reply of this turn."""
        for position, call in enumerate(calls):
            self._calls[CallKey(self._scope.run, turn, position)] = call

    def check(self, command: f.Check) -> None:
        """Looks the tool up and checks the arguments."""
        scope, key = self._scope, command.key
        try:
            checked = scope.parts.executor.check(command.name, command.arguments)
        except Exception as error:
            checked = failed(command.name, "check_failed", words_of(error), failure="fatal")
        if isinstance(checked, ToolResult):
            scope.tell(f.Rejected(at=scope.now(), key=key, result=checked))
            return
        self._specs[key] = checked
        digest = call_digest(command.name, command.arguments)
        scope.tell(f.Checked(at=scope.now(), key=key, digest=digest, category=checked.category))

    async def judge(self, command: f.Judge) -> None:
        """Asks the guarding hook (once for each call), then the policy."""
        scope, key = self._scope, command.key
        spec, call = self._specs[key], self._calls[key]
        if not command.granted:
            words = await scope.until_stopped(scope.parts.hooks.call(key.turn, spec, call.arguments))
            if words is not None:
                refusal = failed(spec.name, "refused_by_hook", words or "refused by a hook", status="blocked")
                await self._judged(command, "deny", "hook", msgspec.structs.replace(refusal, end_turn=not words))
                return
        grant = self._grants.pop(key, None) if command.granted else None
        place = scope.parts.place()
        verdict = judge(spec, key, command.digest, call.arguments, scope.parts.policy, grant=grant, place=place)
        self._verdicts[key] = verdict
        await self._record_verdict(spec, verdict)
        result = None if verdict.decision == "allow" else blocked_result(spec, verdict)
        await self._judged(command, verdict.decision, verdict.rule, result)

    async def _record_verdict(self, spec: ToolSpec, verdict: Verdict) -> None:
        """An unwritten line refuses nothing here: `Execution.commit` meets the same fault, and knows what may still run."""
        key = verdict.key
        try:
            self._scope.parts.audit.record(
                "verdict",
                run=key.run,
                turn=key.turn,
                position=key.position,
                tool=spec.name,
                digest=verdict.digest,
                decision=verdict.decision,
                rule=verdict.rule,
                words=verdict.words,
            )
        except AuditError as error:
            if not self._unrecorded:
                self._unrecorded = True
                await self._scope.emit(n.Warned(message=str(error)))

    async def _judged(self, command: f.Judge, decision: Decision, rule: str, result: ToolResult | None) -> None:
        scope, key = self._scope, command.key
        tool = self._specs[key].name
        await scope.emit(n.CallJudged(turn=key.turn, position=key.position, tool=tool, decision=decision, rule=rule))
        scope.tell(
            f.Judged(at=scope.now(), key=key, digest=command.digest, decision=decision, rule=rule, result=result)
        )

    def judge_failed(self, command: f.Judge, error: Exception) -> None:
        """Answers for a `judge` that raised: no."""
        words = f"could not be judged, so it was not run ({words_of(error)})"
        name = self._calls[command.key].name
        result = failed(name, "judge_failed", words, status="blocked", failure="blocked")
        at = self._scope.now()
        self._scope.tell(
            f.Judged(at=at, key=command.key, digest=command.digest, decision="deny", rule="error", result=result)
        )

    async def ask(self, command: f.Ask) -> None:
        """Asks the person."""
        approver, key = self._scope.parts.approver, command.key
        granted, words = False, ""
        if approver is not None:
            await self._scope.parts.store.asked(key, self._specs[key].name, command.digest)
            verdict, place = self._verdicts[key], self._scope.parts.place()
            reason = f"{verdict.rule}: {verdict.words}" if verdict.words else verdict.rule
            question = approver.ask(self._specs[key], self._calls[key].arguments, reason)
            granted, words = await self._scope.until_stopped(question)
            await self._scope.parts.store.answered(key, granted is True)
            if granted is True:
                self._grants[key] = Grant(key, command.digest, place)
        self.answer(command, granted is True, words)

    def answer(self, command: f.Ask, granted: bool, words: str) -> None:
        """Passes an answer on; also in place of an `ask` that raised."""
        at = self._scope.now()
        self._scope.tell(
            f.Answered(at=at, key=command.key, digest=command.digest, granted=granted, words=str(words or ""))
        )

    def begin(self, key: CallKey) -> None:
        """The call is about to be run by `run`, and can be stopped from now on."""
        self._cancels[key] = asyncio.Event()

    def stop(self, key: CallKey) -> None:
        """Tells a running call to stop."""
        self._cancels[key].set()

    def stop_all(self) -> None:
        """Tells every running call to stop."""
        for cancel in self._cancels.values():
            cancel.set()

    async def run(self, key: CallKey) -> None:
        """Commits and runs an allowed call. What the tool came to counts, even if its end cannot be recorded."""
        scope, cancel = self._scope, self._cancels[key]
        spec, call = self._specs[key], self._calls[key]
        allowed = AllowedCall(key=key, tool=call.name, arguments=call.arguments, verdict=self._verdicts[key])
        refusal = not_begun(allowed) if cancel.is_set() else await self._execution.commit(allowed, spec)
        if refusal is not None:
            self._note("call_refused", key, refusal)
            scope.tell(f.Ran(at=scope.now(), key=key, result=refusal))
            return
        began = scope.now()
        self.started += 1
        scope.tell(f.Started(at=began, key=key))
        await scope.emit(n.CallStarted(turn=key.turn, position=key.position, tool=call.name))
        result = await self._execution.run(allowed, cancel)
        self._seconds[key] = (scope.now() - began) / 1e9
        try:
            await self._execution.ended(allowed, result)
        except Exception as error:
            scope.unsaved.append(f"the end of a call of {call.name} was not stored: {words_of(error)}")
            scope.host_failed(error)
        scope.tell(f.Ran(at=scope.now(), key=key, result=result))

    def run_failed(self, key: CallKey, error: Exception) -> None:
        """Answers for a `run` that raised."""
        result = failed(self._calls[key].name, "executor_fault", words_of(error), failure="fatal")
        self._scope.tell(f.Ran(at=self._scope.now(), key=key, result=result))

    def refuse(self, key: CallKey, result: ToolResult) -> None:
        """Records that a call is not run."""
        self._note("call_refused", key, result)
        self._scope.tell(f.Refused(at=self._scope.now(), key=key))

    async def release(self, key: CallKey, result: ToolResult) -> None:
        """Stores the one result of a call and tells of it."""
        scope, call = self._scope, self._calls[key]
        message = ToolMessage(call_id=call.id, name=call.name, content=result_text(result), ok=result.ok)
        try:
            await scope.keep(message)
        except Exception as error:
            scope.host_failed(error)
        await scope.emit(
            n.CallFinished(
                turn=key.turn,
                position=key.position,
                id=call.id,
                tool=call.name,
                result=result,
                seconds=self._seconds.get(key, 0.0),
            )
        )
        try:
            await scope.until_stopped(scope.parts.hooks.result(key.turn, result), grace=HOOK_SECONDS)
        except StoppedError:
            return

    def _note(self, event: str, key: CallKey, result: ToolResult) -> None:
        self._execution.note(event, key.run, key.turn, key.position, result.tool, result)
