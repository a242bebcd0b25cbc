"""Running a project's commands one after the other, with one bound in time and output for all of them."""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from sluice.limits import Limits
from sluice.tools.output import Bounded, HeadTail, clipped
from sluice.tools.process import Ended
from sluice.tools.project import Command, Plan, ProjectProblem
from sluice.tools.registry import Tool, ToolContext
from sluice.tools.sandbox import HOW_TO_ALLOW, SandboxError
from sluice.tools.tree_watch import excess_error
from sluice.tools.workspace_command import run_in_workspace
from sluice.values.results import Blocked, ErrorInfo, FailureClass, ResultStatus, ToolResult, failed

END_SECONDS = 5.0  # beyond the longest timeout: for ending the tree and answering
_PLANTED_BYTES = 200
_CLOSING_ROOM = 1536  # bytes kept free for the lines that say what was run and how it ended


@dataclass(frozen=True)
class Finished:
    """How the commands ended: the last one that was run, what all printed, and what `planted` for git as in `Ran`."""

    ended: Ended
    last: Command
    shown: Bounded
    seconds: float
    planted: tuple[str, ...]


def bounds_problem(timeout_ms: int | None, max_output_bytes: int | None, limits: Limits) -> ErrorInfo | None:
    """What is wrong with the bounds that a model asked for."""
    longest = int(limits.max_command_seconds * 1000)
    if timeout_ms is not None and not 1 <= timeout_ms <= longest:
        return ErrorInfo("invalid_timeout", f"timeout_ms is {timeout_ms}, it must be 1 to {longest}", "$.timeout_ms")
    most = limits.max_build_output_bytes
    if max_output_bytes is not None and not 1 <= max_output_bytes <= most:
        message = f"max_output_bytes is {max_output_bytes}, it must be 1 to {most}"
        return ErrorInfo("invalid_output_bound", message, "$.max_output_bytes")
    return None


async def run_plan(
    tool: Tool,
    plan: Callable[[], Plan],
    timeout_ms: int | None,
    max_output_bytes: int | None,
    context: ToolContext,
    *,
    hear: Callable[[bytes], None] | None = None,
    facts: Callable[[Plan], tuple[dict[str, Any], str]] | None = None,
) -> ToolResult:
    """The result of running a plan: ok if and only if every command exited with 0.

    `hear` gets all output as well; `facts` gives more facts, and a line for the model, after the run. What cannot be
    planned or started is a result, too.
    """
    limits = context.limits
    problem = bounds_problem(timeout_ms, max_output_bytes, limits)
    if problem is not None:
        return failed(tool.name, problem.code, problem.message, path=problem.path, content=problem.message)
    try:
        wanted = plan()
        finished = await _run(wanted, tool, timeout_ms, max_output_bytes, context, hear)
    except ProjectProblem as error:
        return failed(tool.name, error.code, str(error), content=str(error))
    except SandboxError as error:
        return _blocked(tool, str(error))
    except OSError as error:
        message = f"the command could not be started: {error.strerror or error}"
        return failed(tool.name, "not_started", message, content=message)
    more, line = facts(wanted) if facts is not None else ({}, "")
    return _result(tool, wanted, finished, limits, more, line)


async def _run(
    plan: Plan,
    tool: Tool,
    timeout_ms: int | None,
    max_output_bytes: int | None,
    context: ToolContext,
    hear: Callable[[bytes], None] | None,
) -> Finished:
    limits = context.limits
    seconds = min(limits.build_seconds if timeout_ms is None else timeout_ms / 1000, limits.max_command_seconds)
    asked = limits.build_output_bytes if max_output_bytes is None else max_output_bytes
    collector = HeadTail(
        max_bytes=min(asked, context.body_bytes(tool, _CLOSING_ROOM)),
        spill=context.spill,
        max_spill_bytes=limits.max_spill_bytes,
    )

    def take(data: bytes) -> None:
        collector.feed(data)
        if hear is not None:
            hear(data)

    clock = asyncio.get_running_loop().time
    end = clock() + seconds
    planted: list[str] = []
    try:
        for command in plan.commands:
            if len(plan.commands) > 1:
                collector.feed(f"$ {shown_command(command)}\n".encode())
            left = max(end - clock(), 0.01)
            ran = await run_in_workspace(command, context, seconds=left, output=take, cancel=context.cancel)
            ended = ran.ended
            planted.extend(ran.planted)
            if ended.exit_code != 0 or ended.timed_out or ended.overflowed:
                break
        return Finished(ended, command, collector.finish(), seconds, tuple(dict.fromkeys(planted)))
    finally:
        collector.close()


def shown_command(command: Command) -> str:
    """A command as one would type it, its program without the folder it was found in."""
    first = command[0] if command[0].startswith("./") else os.path.basename(command[0])
    return shlex.join([first, *command[1:]])


def _blocked(tool: Tool, why: str) -> ToolResult:
    return ToolResult(
        ok=False,
        status="blocked",
        tool=tool.name,
        content=f"Blocked, nothing was run: {why}.",
        error=ErrorInfo("no_sandbox", why),
        blocked=Blocked(category="execution", missing=("sandbox",), how_to_allow=HOW_TO_ALLOW),
        failure="blocked",
    )


def _result(tool: Tool, plan: Plan, finished: Finished, limits: Limits, more: dict[str, Any], line: str) -> ToolResult:
    ended, shown = finished.ended, finished.shown
    status, failure, error = _verdict(finished, limits)
    typed = " && ".join(map(shown_command, plan.commands))
    lines = [f"$ {typed}", shown.text.removesuffix("\n") if shown.text else "(no output)"]
    if ended.left_running:
        lines.append(f"[{ended.left_running} processes it had left running were ended]")
    if finished.planted:
        shown_paths = clipped(", ".join(finished.planted), _PLANTED_BYTES)
        lines.append(f"[new for git: {shown_paths}; what they configure runs when git is used there]")
    lines.extend(filter(None, (line, f"[{error.message}]" if error else "")))
    facts: dict[str, Any] = {
        "project": plan.kind,
        "detected": list(plan.detected),
        "command": typed,
        "commands": [list(command) for command in plan.commands],
        "output_bytes": shown.total_bytes,
        "output_lines": shown.total_lines,
        **more,
    }
    if finished.planted:
        facts["new_repositories"] = list(finished.planted)
    if shown.handle is not None:
        facts["handle"] = shown.handle
    result = ToolResult(ok=error is None, status=status, tool=tool.name, content="\n".join(lines), facts=facts)
    return msgspec.structs.replace(
        result,
        truncated=shown.truncated,
        error=error,
        exit_code=128 + ended.signal if ended.signal is not None else ended.exit_code,
        timed_out=ended.timed_out,
        failure=failure,
    )


def _verdict(finished: Finished, limits: Limits) -> tuple[ResultStatus, FailureClass | None, ErrorInfo | None]:
    ended, name = finished.ended, shown_command(finished.last)
    if ended.cancelled:
        return "cancelled", "none", ErrorInfo("cancelled", "the call was cancelled and all it started was ended")
    if ended.timed_out:
        message = f"it took more than {finished.seconds:g} s and was ended in {name}"
        return "timed_out", "retryable", ErrorInfo("timeout", message)
    if ended.overflowed:
        message = f"it printed more than {limits.max_command_output_bytes} bytes and was ended"
        return "failed", "needs_inspection", ErrorInfo("output_limit", message)
    if ended.excess is not None:
        return "failed", "needs_inspection", excess_error(ended.excess, limits)
    if ended.exit_code == 0:
        return "ok", None, None
    how = f"was ended by signal {ended.signal}" if ended.signal is not None else f"exited with status {ended.exit_code}"
    return "failed", "needs_inspection", ErrorInfo("exit_status", f"{name} {how}")
