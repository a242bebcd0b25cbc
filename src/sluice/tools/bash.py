"""`bash_execute_safe`: one shell command in the workspace, bounded and ended with all it started (P7).

Category `execution`, marked as running repository code. It is not marked as changing the repository: with both marks a
shell would need both approvals, and `--allow-execution-tools` alone is documented to allow commands. A shell can of course
change files; that is what its category says.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from sluice.limits import Limits
from sluice.tools.jobs import Job, TooManyJobsError
from sluice.tools.output import Bounded, HeadTail, clipped
from sluice.tools.process import Ended, Reader
from sluice.tools.registry import Tool, ToolContext
from sluice.tools.sandbox import HOW_TO_ALLOW, Ran, SandboxError
from sluice.tools.tree_watch import excess_error
from sluice.tools.workspace_command import run_in_workspace
from sluice.values.calls import Risk
from sluice.values.ports import Cancel
from sluice.values.results import Blocked, ErrorInfo, FailureClass, ResultStatus, ToolResult, failed

NAME = "bash_execute_safe"
MAX_COMMAND_BYTES = 128 * 1024 - 1  # one argument of exec on Linux is 128 KiB with its closing NUL
# `--`: a command that begins with a dash is a command all the same, not an option of the shell.
_SHELLS = (
    ("/bin/bash", "--noprofile", "--norc", "-c", "--"),
    ("/usr/bin/bash", "--noprofile", "--norc", "-c", "--"),
    ("/usr/local/bin/bash", "--noprofile", "--norc", "-c", "--"),
    ("/bin/sh", "-c", "--"),
)
_JOB_SECONDS = 7 * 24 * 3600.0  # a job without a timeout ends with its run, which is sooner
_JOB_WAIT_SECONDS = 0.2  # in which a job that fails at once can tell so
_PLANTED_SHOWN = 5
_SIGNALLED = 128  # a shell adds it to a signal's number
_END_SECONDS = 5.0  # beyond the longest timeout: for ending the tree and answering


class BashArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `bash_execute_safe`."""

    command: Annotated[str, msgspec.Meta(description="The command line, run by bash in the workspace folder.")]
    timeout_ms: Annotated[
        int | None, msgspec.Meta(description="Milliseconds it may take; default 30000, at most 600000.")
    ] = None
    background: Annotated[
        bool, msgspec.Meta(description="Start it and return at once with a job's name, for servers and watchers.")
    ] = False


ARGUMENTS = BashArguments


async def run(arguments: BashArguments, context: ToolContext) -> ToolResult:
    """The command's result: `ok` if and only if it exited with 0. Never raises for what a command did."""
    limits = context.limits
    problem = _problem(arguments, limits)
    if problem is not None:
        return failed(NAME, problem.code, problem.message, path=problem.path, content=problem.message)
    shell = next((words for words in _SHELLS if os.access(words[0], os.X_OK)), None)
    if shell is None:
        message = "this machine has no shell at /bin/bash or /bin/sh; commands cannot be run"
        return failed(NAME, "no_shell", message, content=message)
    argv = [*shell, arguments.command]
    try:
        if arguments.background:
            return await _in_background(arguments, argv, context)
        return await _in_front(arguments, argv, context)
    except SandboxError as error:
        return _no_sandbox(str(error))
    except OSError as error:
        message = f"the command could not be started: {error.strerror or error}"
        return failed(NAME, "not_started", message, content=message)


async def _in_front(arguments: BashArguments, argv: Sequence[str], context: ToolContext) -> ToolResult:
    limits = context.limits
    seconds = limits.command_seconds if arguments.timeout_ms is None else arguments.timeout_ms / 1000
    seconds = min(seconds, limits.max_command_seconds)
    collector = HeadTail(
        max_bytes=context.body_bytes(TOOL, _STATUS_BYTES),
        max_lines=limits.max_command_lines,
        spill=context.spill,
        max_spill_bytes=limits.max_spill_bytes,
    )

    async def begin(output: Reader, cancel: Cancel) -> Ran:
        return await run_in_workspace(argv, context, seconds=_JOB_SECONDS, output=output, cancel=cancel)

    try:
        ran = await context.jobs.wait_for(arguments.command, begin, collector.feed, seconds, context.cancel)
        shown = collector.finish()
    finally:
        collector.close()
    if isinstance(ran, Job):
        return _moved(ran, shown)
    return _result(ran, shown, seconds, limits, boxed=context.sandbox is not None)


async def _in_background(arguments: BashArguments, argv: Sequence[str], context: ToolContext) -> ToolResult:
    seconds = _JOB_SECONDS if arguments.timeout_ms is None else arguments.timeout_ms / 1000
    if context.sandbox is not None and context.sandbox.kind == "none":
        return _no_sandbox(HOW_TO_ALLOW)

    async def begin(output: Reader, cancel: Cancel) -> Ran:
        return await run_in_workspace(argv, context, seconds=seconds, output=output, cancel=cancel)

    try:
        job = await context.jobs.start(arguments.command, begin, _JOB_WAIT_SECONDS)
    except TooManyJobsError as error:
        message = f"{error}; end one with job_stop"
        return failed(NAME, "too_many_jobs", message, content=message)
    if job.problem is not None:
        message = f"the job could not be run: {job.problem}"
        return failed(NAME, "not_started", message, content=message)
    content = f"{job.name} was started; read what it prints with job_read, end it with job_stop"
    if not job.running:
        content = f"{job.name} was started and has ended already; read what it printed with job_read"
    return ToolResult(ok=True, status="ok", tool=NAME, content=content, facts={"job": job.name})


def _moved(job: Job, shown: Bounded) -> ToolResult:
    told = f"[the user moved it to the background: {job.name}; read on with job_read, end it with job_stop]"
    facts: dict[str, Any] = {"job": job.name, "moved": True, "output_bytes": shown.total_bytes}
    if shown.handle is not None:
        facts["handle"] = shown.handle
    text = shown.text.removesuffix("\n") if shown.text else "(no output yet)"
    return ToolResult(
        ok=True, status="ok", tool=NAME, content=f"{text}\n{told}", truncated=shown.truncated, facts=facts
    )


TOOL = Tool(
    name=NAME,
    arguments=BashArguments,
    run=run,
    category="execution",
    risk=Risk(runs_repository_code=True),
    subject="command",
    timeout_seconds=lambda limits: max(limits.max_command_seconds, limits.command_seconds) + _END_SECONDS,
)

_STATUS_BYTES = 1024  # kept free for the lines that say how the command ended


def _no_sandbox(why: str) -> ToolResult:
    message = f"Blocked, nothing was run: {why}."
    return ToolResult(
        ok=False,
        status="blocked",
        tool=NAME,
        content=message,
        error=ErrorInfo("no_sandbox", why),
        blocked=Blocked(category="execution", missing=("sandbox",), how_to_allow=HOW_TO_ALLOW),
        failure="blocked",
    )


def _problem(arguments: BashArguments, limits: Limits) -> ErrorInfo | None:
    command = arguments.command
    if "\0" in command:
        return ErrorInfo("nul_in_command", "the command holds a NUL character, which no command line can", "$.command")
    try:
        size = len(command.encode())
    except UnicodeEncodeError:
        return ErrorInfo("not_utf8", "the command holds half of a surrogate pair", "$.command")
    if size > MAX_COMMAND_BYTES:
        message = (
            f"the command has {size} bytes, at most {MAX_COMMAND_BYTES} can be run; write it to a file and run that"
        )
        return ErrorInfo("command_too_long", message, "$.command")
    if not command.strip():
        return ErrorInfo("empty_command", "the command is empty", "$.command")
    milliseconds = arguments.timeout_ms
    longest = int(limits.max_command_seconds * 1000)
    if milliseconds is not None and not 1 <= milliseconds <= longest:
        return ErrorInfo("invalid_timeout", f"timeout_ms is {milliseconds}, it must be 1 to {longest}", "$.timeout_ms")
    return None


def _result(ran: Ran, shown: Bounded, seconds: float, limits: Limits, *, boxed: bool) -> ToolResult:
    ended = ran.ended
    status, failure, error = _verdict(ended, seconds, limits, boxed)
    lines = [shown.text.removesuffix("\n") if shown.text else "(no output)"]
    if ended.left_running:
        lines.append(f"[{ended.left_running} processes it had left running were ended]")
    if ran.planted:
        lines.append(_planted_line(ran.planted))
    if ran.refused:
        shown_hosts = clipped(", ".join(ran.refused), 200)
        lines.append(f"[hosts that it may not reach, and the user could allow with --allow-host: {shown_hosts}]")
    if error is not None:
        lines.append(f"[{error.message}]")
    facts: dict[str, Any] = {
        "output_bytes": shown.total_bytes,
        "output_lines": shown.total_lines,
        "left_running": ended.left_running,
    }
    if ran.planted:
        facts["new_repositories"] = list(ran.planted)
    if ran.refused:
        facts["refused_hosts"] = list(ran.refused)
    if shown.handle is not None:
        facts["handle"] = shown.handle
    return ToolResult(
        ok=error is None,
        status=status,
        tool=NAME,
        content="\n".join(lines),
        truncated=shown.truncated,
        error=error,
        exit_code=128 + ended.signal if ended.signal is not None else ended.exit_code,
        timed_out=ended.timed_out,
        failure=failure,
        facts=facts,
    )


def _planted_line(planted: Sequence[str]) -> str:
    shown = clipped(", ".join(planted[:_PLANTED_SHOWN]), 200)
    more = f" and {len(planted) - _PLANTED_SHOWN} more" if len(planted) > _PLANTED_SHOWN else ""
    return f"[new for git: {shown}{more}; what they configure runs when git is used there]"


def _verdict(
    ended: Ended, seconds: float, limits: Limits, boxed: bool
) -> tuple[ResultStatus, FailureClass | None, ErrorInfo | None]:
    if ended.cancelled:
        return "cancelled", "none", ErrorInfo("cancelled", "the command was cancelled and ended")
    if ended.timed_out:
        return "timed_out", "retryable", ErrorInfo("timeout", f"the command took more than {seconds:g} s and was ended")
    if ended.overflowed:
        message = f"the command printed more than {limits.max_command_output_bytes} bytes and was ended"
        return "failed", "needs_inspection", ErrorInfo("output_limit", message)
    if ended.excess is not None:
        return "failed", "needs_inspection", excess_error(ended.excess, limits)
    if ended.signal is not None:
        return (
            "failed",
            "needs_inspection",
            ErrorInfo("signal", f"the command was ended by {_signal_name(ended.signal)}"),
        )
    if ended.exit_code is None:
        return "unknown_outcome", "needs_inspection", ErrorInfo("no_status", "how the command ended is not known")
    if ended.exit_code != 0:
        message = f"the command exited with status {ended.exit_code}"
        if boxed and ended.exit_code > _SIGNALLED:  # whoever holds a sandbox tells a signal as a shell does
            message += f", as for {_signal_name(ended.exit_code - _SIGNALLED)}"
        return "failed", "needs_inspection", ErrorInfo("exit_status", message)
    return "ok", None, None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
