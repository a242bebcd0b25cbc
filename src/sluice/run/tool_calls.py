"""One call's way through a run: checked, judged, perhaps asked about, run, its result released.

Each step fails closed: a judge that breaks denies, a person who cannot be asked says no, a tool that breaks has a fatal
result.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from sluice.errors import AuditError
from sluice.policy.decide import blocked_result, judge, judge_healed
from sluice.policy.rules import Policy
from sluice.run.execution import Execution, not_begun
from sluice.run.guarded_hooks import GuardedHooks
from sluice.run.result_text import result_text
from sluice.run.scope import HOOK_SECONDS, RunScope, StoppedError, words_of
from sluice.turn import facts as f
from sluice.turn.repeats import output_digest
from sluice.values import notices as n
from sluice.values.calls import AllowedCall, CallKey, Decision, Grant, ToolSpec, Verdict, call_digest
from sluice.values.healed import HealedArguments, HealedCall, StartedCall, allow_healed, healed_digest
from sluice.values.messages import Reply, ToolCall, ToolMessage
from sluice.values.results import ToolResult, failed
from sluice.values.waiting import WaitingCalls
from sluice.wire.json_scan import healed_arguments


class ToolCalls:
    """The calls of one run, by key."""

    def __init__(self, scope: RunScope, execution: Execution) -> None:
        self._scope = scope
        self._hooks = GuardedHooks(scope.parts.hooks)
        self._execution = execution
        self._calls: dict[CallKey, ToolCall] = {}
        self._specs: dict[CallKey, ToolSpec] = {}
        self._healed: dict[
            CallKey, HealedArguments
        ] = {}  # closed arguments that the schema takes, of calls that were cut
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

    async def taken_up(self, waiting: WaitingCalls) -> None:
        """These are calls that a run before left open: they keep their keys, and are told of as calls of turn 0."""
        scope, specs = self._scope, self._scope.parts.executor.specs()
        for position, call in enumerate(waiting.calls, waiting.first):
            self._calls[CallKey(waiting.run, waiting.turn, position)] = call
            await scope.emit(
                n.CallArrived(
                    turn=0,
                    position=position,
                    arrival=position,
                    id=call.id,
                    tool=call.name,
                    arguments=call.arguments,
                    status=call.status,
                    subject=scope.talk.subject(call, specs),
                )
            )

    def _is_taken_up(self, key: CallKey) -> bool:
        return key.run != self._scope.run

    def _turn(self, key: CallKey) -> int:
        """The turn by which the call is told of."""
        return 0 if self._is_taken_up(key) else key.turn

    def check(self, command: f.Check) -> None:
        """Looks the tool up and checks the arguments; of a cut call that may be healed the closed ones."""
        scope, key, healed = self._scope, command.key, command.healed
        try:
            checked = scope.parts.executor.check(command.name, healed.text if healed else command.arguments)
        except Exception as error:
            checked = failed(command.name, "check_failed", words_of(error), failure="fatal")
        if isinstance(checked, ToolResult):
            scope.tell(f.Rejected(at=scope.now(), key=key, result=checked))
            return
        if healed and not takes_healed(checked):
            refusal = failed(command.name, "cut_call", "the tool does not take a call that was cut", status="invalid")
            scope.tell(f.Rejected(at=scope.now(), key=key, result=refusal))
            return
        self._specs[key] = checked
        digest = call_digest(command.name, command.arguments)
        if healed:
            self._healed[key] = healed
            digest = healed_digest(command.name, healed)
        scope.tell(f.Checked(at=scope.now(), key=key, digest=digest, category=checked.category))

    async def judge(self, command: f.Judge) -> None:
        """Asks the guarding hook (once for each call), then the policy."""
        scope, key = self._scope, command.key
        spec = self._specs[key]
        if not command.granted:
            words = await scope.until_stopped(self._hooks.call(self._turn(key), spec, self._to_run(key)))
            if words is not None:
                refusal = failed(spec.name, "refused_by_hook", words or "refused by a hook", status="blocked")
                await self._judged(command, "deny", "hook", msgspec.structs.replace(refusal, end_turn=not words))
                return
        grant = self._grants.pop(key, None) if command.granted else None
        policy, place, healed = self._policy(key), scope.parts.place(), self._healed.get(key)
        if healed:
            verdict = judge_healed(spec, key, command.digest, healed, policy, grant=grant, place=place)
        else:
            verdict = judge(spec, key, command.digest, self._calls[key].arguments, policy, grant=grant, place=place)
        if self._is_taken_up(key) and not command.granted:
            verdict = _asked_again(verdict)
        self._verdicts[key] = verdict
        await self._record_verdict(spec, verdict)
        result = None if verdict.decision == "allow" else blocked_result(spec, verdict)
        await self._judged(command, verdict.decision, verdict.rule, result)

    def _policy(self, key: CallKey) -> Policy:
        """The policy of the run. Who can be asked about a call that is taken up is not always asked about others."""
        parts = self._scope.parts
        asks = self._is_taken_up(key) and parts.approver is None and parts.ask_waiting is not None
        return msgspec.structs.replace(parts.policy, ask=True) if asks else parts.policy

    def _to_run(self, key: CallKey) -> str:
        """The arguments that the call would run with."""
        healed = self._healed.get(key)
        return healed.text if healed else self._calls[key].arguments

    def _allowed(self, key: CallKey) -> StartedCall:
        """The allowed call, of the one type or the other. Raises `InternalError` for one that was not allowed."""
        verdict, healed = self._verdicts[key], self._healed.get(key)
        if healed:
            on = self._scope.parts.policy.accept_healed
            return allow_healed(self._specs[key], key, healed, verdict, switched_on=on, schema_valid=True)
        call = self._calls[key]
        return AllowedCall(key=key, tool=call.name, arguments=call.arguments, verdict=verdict)

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
        await scope.emit(
            n.CallJudged(turn=self._turn(key), position=key.position, tool=tool, decision=decision, rule=rule)
        )
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
        parts, key = self._scope.parts, command.key
        approver = parts.approver or (parts.ask_waiting if self._is_taken_up(key) else None)
        granted, words = False, ""
        if approver is not None:
            await self._scope.parts.store.asked(key, self._specs[key].name, command.digest)
            verdict, place = self._verdicts[key], self._scope.parts.place()
            reason = f"{verdict.rule}: {verdict.words}" if verdict.words else verdict.rule
            question = approver.ask(self._specs[key], self._to_run(key), reason)
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
        spec, allowed = self._specs[key], self._allowed(key)
        refusal = not_begun(allowed) if cancel.is_set() else await self._execution.commit(allowed, spec)
        if refusal is not None:
            self._note("call_refused", key, refusal)
            scope.tell(f.Ran(at=scope.now(), key=key, result=refusal))
            return
        began = scope.now()
        self.started += 1
        scope.tell(f.Started(at=began, key=key))
        healed = self._healed.get(key)
        await scope.emit(
            n.CallStarted(
                turn=self._turn(key), position=key.position, tool=allowed.tool, healed=healed.text if healed else None
            )
        )
        result = await self._execution.run(allowed, cancel)
        self._seconds[key] = (scope.now() - began) / 1e9
        try:
            await self._execution.ended(allowed, result)
        except Exception as error:
            scope.unsaved.append((f"the end of a call of {allowed.tool}", words_of(error)))
            scope.host_failed(error)
        inside = await scope.used_inside(self._turn(key))
        used, cost, estimated = inside.tokens, inside.cost, inside.usage.estimated
        scope.tell(f.Ran(at=scope.now(), key=key, result=result, tokens=used, cost=cost, estimated=estimated))

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
        message = ToolMessage(
            call_id=call.id,
            name=call.name,
            content=result_text(result),
            ok=result.ok,
            status=None if result.status == "ok" else result.status,
            failure=result.failure,
            digest=output_digest(result),
            spilled=str(result.facts.get("handle", "")),
        )
        try:
            await scope.keep(message)
        except Exception as error:
            scope.host_failed(error)
        await scope.emit(
            n.CallFinished(
                turn=self._turn(key),
                position=key.position,
                id=call.id,
                tool=call.name,
                result=result,
                seconds=self._seconds.get(key, 0.0),
            )
        )
        try:
            await scope.until_stopped(self._hooks.result(self._turn(key), result), grace=HOOK_SECONDS)
        except StoppedError:
            return

    def _note(self, event: str, key: CallKey, result: ToolResult) -> None:
        self._execution.note(event, key.run, key.turn, key.position, result.tool, result)


def _asked_again(verdict: Verdict) -> Verdict:
    """The verdict on a call that is taken up: a deny stays one, and anything else is a question."""
    if verdict.decision == "deny":
        return verdict
    words = "the process ended while you were asked about it"
    if verdict.decision == "allow":
        return msgspec.structs.replace(verdict, decision="ask", rule="waited", words=words)
    return msgspec.structs.replace(verdict, words=f"{verdict.words}; {words}" if verdict.words else words)


def healed_calls(reply: Reply, specs: Sequence[ToolSpec]) -> tuple[HealedCall, ...]:
    """The calls of a reply that were cut and whose tools take closed arguments, with those arguments (W9)."""
    takers = {spec.name for spec in specs if takes_healed(spec)}
    closed = [(at, healed_arguments(call)) for at, call in enumerate(reply.tool_calls) if call.name in takers]
    return tuple(HealedCall(at, arguments) for at, arguments in closed if arguments is not None)


def takes_healed(spec: ToolSpec) -> bool:
    """Whether the tool takes a call that was cut, with closed arguments: only one that reads, and says so."""
    return spec.accepts_healed and spec.category == "read_only"
