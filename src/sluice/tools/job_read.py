"""`job_read`: what a command in the background has printed since it was last read (P7)."""

from __future__ import annotations

from typing import Annotated

import msgspec

from sluice.tools.job_list import state
from sluice.tools.jobs import Jobs
from sluice.tools.output import clipped
from sluice.tools.registry import Tool, ToolContext
from sluice.values.results import ToolResult, failed

NAME = "job_read"
_STATUS_BYTES = 512  # kept free for the lines around the output
_EXPANDS = 3  # a byte that is no UTF-8 is shown as three


class JobReadArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `job_read`."""

    job: Annotated[str, msgspec.Meta(description="The job, as bash_execute_safe named it: job:1.")]
    offset: Annotated[
        int | None, msgspec.Meta(description="Byte of the output to read from again; without it, what is new.")
    ] = None


async def run(arguments: JobReadArguments, context: ToolContext) -> ToolResult:
    """The output and the state of one job; `ok` whatever became of the job."""
    job = context.jobs.get(arguments.job)
    if job is None:
        return unknown(NAME, context.jobs)
    bound = max(context.body_bytes(TOOL, _STATUS_BYTES), 16)
    piece = job.read(bound, arguments.offset)
    text = piece.data.decode("utf-8", "replace")
    if len(text.encode()) > bound:  # much that is no text: so little is read that it fits
        piece = job.read(bound // _EXPANDS, piece.start)
        text = piece.data.decode("utf-8", "replace")
    lines = [text.removesuffix("\n")] if text else ["(nothing new)"]
    if piece.lost:
        lines.insert(0, f"[{piece.lost} bytes before these are not kept any more]")
    if piece.end < piece.total:
        lines.append(f"[{piece.total - piece.end} more bytes: read again]")
    lines.append(f"[{job.name} {clipped(state(job), 300)}]")
    facts = {"start": piece.start, "end": piece.end, "total": piece.total, "running": job.running}
    return ToolResult(
        ok=True,
        status="ok",
        tool=NAME,
        content="\n".join(lines),
        truncated=bool(piece.lost) or piece.end < piece.total,
        facts=facts,
    )


def unknown(tool: str, jobs: Jobs) -> ToolResult:
    """The result for a job that is not there; it names those that are."""
    known = ", ".join(job.name for job in jobs.all()) or "none"
    message = f"there is no such job; the jobs are: {known}"
    return failed(tool, "unknown_job", message, path="$.job", content=message)


TOOL = Tool(name=NAME, arguments=JobReadArguments, run=run, category="read_only", subject="job")
