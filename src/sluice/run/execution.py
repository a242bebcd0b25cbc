"""The execution commit (P14): what must be true and on disk before a tool starts."""

from __future__ import annotations

import asyncio
from collections import deque

import msgspec

from sluice.errors import AuditError
from sluice.limits import Limits
from sluice.values.calls import Category, ToolSpec
from sluice.values.healed import AllowedHealedCall, StartedCall
from sluice.values.ports import Audit, Cancel, Clock, Store, ToolExecutor
from sluice.values.results import ToolResult, failed

_MINUTE_NS = 60_000_000_000
_SHOWN = 300  # characters of healed arguments that the model is shown


def not_begun(call: StartedCall) -> ToolResult:
    """The result of a call that was stopped before its tool began."""
    words = "Not started: the run was stopped before it."
    return failed(call.tool, "not_started", words, failure="none", status="cancelled")


class Rates:
    """When calls of each category started. One object serves a whole agent, so that rates hold across its runs."""

    def __init__(self) -> None:
        self._started: dict[Category, deque[int]] = {}

    def too_often(self, category: Category, most: int, now: int) -> bool:
        """Counts a start at `now` (ns); true, counting nothing, if `most` began within the minute before it."""
        starts = self._started.setdefault(category, deque())
        while starts and now - starts[0] > _MINUTE_NS:
            starts.popleft()
        if len(starts) >= most:
            return True
        starts.append(now)
        return False


class Execution:
    """Commits and runs allowed calls. `rates` are those of the agent; without them this object has its own."""

    def __init__(
        self,
        executor: ToolExecutor,
        audit: Audit,
        store: Store,
        clock: Clock,
        limits: Limits,
        rates: Rates | None = None,
    ) -> None:
        self._executor = executor
        self._audit = audit
        self._store = store
        self._clock = clock
        self._limits = limits
        self._rates = rates or Rates()

    async def commit(self, call: StartedCall, spec: ToolSpec) -> ToolResult | None:
        """Records the start of a call. A result means that it must not start, and says why; `None` that it may.

        In order: the rate of its category, a known timeout, the audit line on disk, the store. If the audit cannot be
        written a read-only call may still run; nothing that changes or executes anything may.
        """
        if self._too_often(spec.category):
            rate = self._limits.max_calls_per_minute
            message = f"more than {rate} {spec.category} calls in a minute (max_calls_per_minute)"
            return failed(call.tool, "rate_limited", message, failure="fatal")
        if spec.timeout_seconds <= 0:
            return failed(
                call.tool, "no_timeout", "the tool declares no timeout, so it was not started", failure="fatal"
            )
        try:
            self._audit.record(
                "call_started",
                run=call.key.run,
                turn=call.key.turn,
                position=call.key.position,
                tool=call.tool,
                category=spec.category,
                digest=call.verdict.digest,
                rule=call.verdict.rule,
                timeout_seconds=spec.timeout_seconds,
                **_arguments(call),
            )
        except AuditError as error:
            if spec.category != "read_only":
                message = f"{error}; nothing that changes or executes anything runs without its record"
                return failed(call.tool, "audit_unavailable", message, failure="fatal")
        try:
            await self._store.call_started(call)
        except Exception as error:
            message = f"its start could not be stored ({type(error).__name__}: {error}), so it was not started"
            return failed(call.tool, "store_unavailable", message, failure="fatal")
        return None

    async def run(self, call: StartedCall, cancel: Cancel) -> ToolResult:
        """Runs a committed call. What an executor raises, or returns that is no result, is a fatal result.

        The result of a healed call says so, to the model in words and to all others in `facts["healed"]`.
        """
        if cancel.is_set():
            return not_begun(call)
        try:
            if isinstance(call, AllowedHealedCall):
                healed: object = await self._executor.run_healed(call, cancel)
                result = _told_as_healed(call, healed) if isinstance(healed, ToolResult) else healed
            else:
                result = await self._executor.run(call, cancel)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            words = "the tool was cancelled, and nobody had asked for that"
            return failed(call.tool, "executor_fault", words, failure="fatal")
        except Exception as error:
            return failed(call.tool, "executor_fault", f"{type(error).__name__}: {error}", failure="fatal")
        if isinstance(result, ToolResult):
            return result
        words = f"the tool returned {type(result).__name__} instead of a result"
        return failed(call.tool, "executor_fault", words, failure="fatal")

    async def ended(self, call: StartedCall, result: ToolResult) -> None:
        """Records the end of a call that `run` ran, whatever the run does by then. Raises what the store raises."""
        self.note("call_ended", call.key.run, call.key.turn, call.key.position, call.tool, result)
        await self._store.call_ended(call, result)

    def note(self, event: str, run: str, turn: int, position: int, tool: str, result: ToolResult) -> None:
        """An audit line about a call's end or refusal. One that cannot be written is not lost quietly: nothing that
        changes anything will start after it, as `commit` meets the same fault."""
        code = result.error.code if result.error else None
        fields = {"run": run, "turn": turn, "position": position, "tool": tool, "status": result.status, "code": code}
        try:
            self._audit.record(event, **fields)
        except AuditError:
            return

    def _too_often(self, category: Category) -> bool:
        rate = self._limits.max_calls_per_minute
        return rate is not None and self._rates.too_often(category, rate, self._clock.monotonic_ns())


def _arguments(call: StartedCall) -> dict[str, str]:
    """What the audit log holds of a call's arguments; of a healed one what was run and what the model had written."""
    if isinstance(call, AllowedHealedCall):
        return {"healed": call.arguments.text, "arguments": call.arguments.written}
    return {"arguments": call.arguments}


def _told_as_healed(call: AllowedHealedCall, result: ToolResult) -> ToolResult:
    text = call.arguments.text
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)} characters)"
    note = (
        "The reply reached its length limit inside this call. It only reads, so it was run with its arguments closed: "
        f"{shown}\nAsk for it again if something else was meant."
    )
    content = f"{note}\n{result.content}" if result.content else note
    return msgspec.structs.replace(result, content=content, facts={**result.facts, "healed": text})
