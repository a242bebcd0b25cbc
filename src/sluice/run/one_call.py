"""The facade behind `sluice tool`: one call through schema, policy, commit and executor, as in a run."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial
from types import FrameType

from sluice.errors import PathError
from sluice.policy.decide import blocked_result, judge
from sluice.run.config import Settings
from sluice.run.execution import Execution
from sluice.run.parts import RandomIds, SystemClock
from sluice.run.wiring import make_policy, open_tools, state_folder
from sluice.session.audit import AuditLog
from sluice.session.memory import MemoryStore
from sluice.values.calls import AllowedCall, CallKey, call_digest
from sluice.values.results import ToolResult, failed

OK, FAILED, UNUSABLE, BLOCKED = 0, 1, 2, 4
_STOPPED = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 143}


def one_call(settings: Settings, name: str, arguments: str, seen: Sequence[str] = ()) -> tuple[int, ToolResult]:
    """Runs one call in `settings.workspace` and returns exit code and result.

    `seen` are workspace files that count as read, with the bytes they hold now. Exit codes: 0 ok, 1 failed, 2 unknown
    tool or unusable arguments, 4 blocked; 130 and 143 if SIGINT or SIGTERM (or SIGHUP) came, after the tool was stopped
    with all that it had started. Signal handlers are as before when it returns.
    """
    return asyncio.run(_one_call(settings, name, arguments, seen))


async def _one_call(settings: Settings, name: str, arguments: str, seen: Sequence[str]) -> tuple[int, ToolResult]:
    async with AsyncExitStack() as stack:
        workspace, seen_files, executor, _jobs = open_tools(settings, stack)
        spec = executor.check(name, arguments)
        if isinstance(spec, ToolResult):
            return UNUSABLE, spec
        for path in seen:
            try:
                seen_files.mark(path, workspace.read(path, max_bytes=settings.limits.max_file_bytes).digest)
            except PathError as error:
                return UNUSABLE, failed(name, error.code, f"--seen: {error}", path=error.path, status="invalid")
        audit = AuditLog(str(state_folder() / "audit.jsonl"))
        stack.callback(audit.close)
        execution = Execution(executor, audit, MemoryStore(), SystemClock(), settings.limits)
        key = CallKey(RandomIds().new("call"), 1, 0)
        verdict = judge(spec, key, call_digest(name, arguments), arguments, make_policy(settings, ask=False))
        if verdict.decision != "allow":
            result = blocked_result(spec, verdict)
            execution.note("call_refused", key.run, key.turn, key.position, name, result)
            return BLOCKED, result
        call = AllowedCall(key=key, tool=name, arguments=arguments, verdict=verdict)
        refusal = await execution.commit(call, spec)
        if refusal is not None:
            return FAILED, refusal
        stop = _Stop(stack)
        result = await execution.run(call, stop.wish)
        await execution.ended(call, result)
        return stop.code or (OK if result.ok else FAILED), result


class _Stop:
    """A signal's wish to stop, for as long as `stack` is open. Only the main thread can be told of one."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self.wish = asyncio.Event()
        self.code = 0
        if threading.current_thread() is not threading.main_thread():
            return
        loop = asyncio.get_running_loop()
        # Not by the loop's own handlers: taking one of them away makes Ctrl-C raise until the old one is back.
        for number, code in _STOPPED.items():
            before = signal.getsignal(number)
            if before is not signal.SIG_IGN:  # one that our starter had ignored stays ignored
                signal.signal(number, partial(self._heard, loop, code))
                stack.callback(signal.signal, number, before or signal.SIG_DFL)

    def _heard(self, loop: asyncio.AbstractEventLoop, code: int, _number: int, _frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(self._come, code)

    def _come(self, code: int) -> None:
        self.code = self.code or code
        self.wish.set()
