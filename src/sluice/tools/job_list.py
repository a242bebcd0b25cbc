"""`job_list`: which commands run in the background, and how those that ended came out (P7)."""

from __future__ import annotations

import msgspec

from sluice.tools.jobs import Job
from sluice.tools.output import clipped
from sluice.tools.registry import Tool, ToolContext
from sluice.values.results import ToolResult

NAME = "job_list"
_COMMAND_BYTES = 100  # shown of each command


class JobListArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`job_list` takes no arguments."""


async def run(arguments: JobListArguments, context: ToolContext) -> ToolResult:
    """One line for each job, in the order of their start."""
    lines = [_line(job) for job in context.jobs.all()]
    content = "\n".join(lines) if lines else "No job has been started in this run."
    return ToolResult(ok=True, status="ok", tool=NAME, content=content, facts={"jobs": len(lines)})


def state(job: Job) -> str:
    """In words: running, or how it ended."""
    if job.running:
        return "running"
    if job.problem is not None:
        return f"not run: {job.problem}"
    ended = job.ran.ended if job.ran is not None else None
    if ended is None:
        return "ended, it is not known how"
    if ended.cancelled:
        return "stopped"
    if ended.timed_out:
        return "ended at its timeout"
    if ended.overflowed:
        return "ended, it printed too much"
    if ended.excess is not None:
        return f"ended, it held too much ({ended.excess})"
    if ended.signal is not None:
        return f"ended by signal {ended.signal}"
    return f"exited with status {ended.exit_code}"


def _line(job: Job) -> str:
    command = clipped(" ".join(job.command.split()), _COMMAND_BYTES)
    unread = job.total - job.unread
    return f"{job.name}  {state(job)}  {job.seconds:.0f} s  {unread} bytes not read  {command}"


TOOL = Tool(name=NAME, arguments=JobListArguments, run=run, category="read_only")
