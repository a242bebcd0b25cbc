"""`job_stop`: ends one command in the background, with all that it started (P7)."""

from __future__ import annotations

from typing import Annotated

import msgspec

from sluice.tools.job_list import state
from sluice.tools.job_read import unknown
from sluice.tools.registry import Tool, ToolContext
from sluice.values.results import ToolResult

NAME = "job_stop"


class JobStopArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `job_stop`."""

    job: Annotated[str, msgspec.Meta(description="The job, as bash_execute_safe named it: job:1.")]


async def run(arguments: JobStopArguments, context: ToolContext) -> ToolResult:
    """How the job ended; `ok` also if it had ended before."""
    job = context.jobs.get(arguments.job)
    if job is None:
        return unknown(NAME, context.jobs)
    await job.stop()
    unread = job.total - job.unread
    content = f"{job.name} {state(job)}; {unread} bytes of its output are not read"
    return ToolResult(ok=True, status="ok", tool=NAME, content=content, facts={"total": job.total})


TOOL = Tool(name=NAME, arguments=JobStopArguments, run=run, category="execution", subject="job")
