"""`git_diff`: what changed in the work tree or in the index, as a patch and as structure."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from sluice.limits import Limits
from sluice.tools.git import END_SECONDS, Repository, answered, head_tail, pathspecs
from sluice.tools.git_patch import FileDiff, PatchReader
from sluice.tools.git_place import GitProblem
from sluice.tools.git_status import filter_note
from sluice.tools.output import Bounded
from sluice.tools.registry import Tool, ToolContext
from sluice.tools.ripgrep import shown_path
from sluice.values.results import ToolResult

NAME = "git_diff"
_CLOSING_ROOM = 400  # bytes kept free for the closing lines


class DiffArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `git_diff`."""

    cached: Annotated[
        bool, msgspec.Meta(description="True: what is staged, against the last commit. Default: what is not staged.")
    ] = False
    pathspecs: Annotated[
        tuple[str, ...] | None, msgspec.Meta(description="Only these files and folders, relative to the workspace.")
    ] = None
    context_lines: Annotated[
        int | None, msgspec.Meta(description="Unchanged lines around each change; default 3, at most 1000.")
    ] = None


ARGUMENTS = DiffArguments

# Dirt inside submodules is not looked at: git would start itself in them, with their own settings.
PATCH_OPTIONS = ("--patch", "--find-renames", "--relative", "--ignore-submodules=dirty")


async def run(arguments: DiffArguments, context: ToolContext) -> ToolResult:
    """The patch; `facts` hold `files` with their hunks, `total_files`, `added` and `deleted`. Raises `PathError`."""

    async def work(repository: Repository) -> ToolResult:
        paths = pathspecs(arguments.pathspecs)
        unified = context_option(arguments.context_lines, context.limits)
        cached = ("--cached",) if arguments.cached else ()
        patch, shown = await read_patch(
            repository,
            ("diff", *PATCH_OPTIONS, unified, *cached, "--", *paths),
            context,
            context.body_bytes(TOOL, _CLOSING_ROOM),
        )
        return _result(patch, shown, repository, arguments.cached)

    return await answered(NAME, context, work)


TOOL = Tool(
    name=NAME,
    arguments=DiffArguments,
    run=run,
    category="read_only",
    timeout_seconds=lambda limits: limits.git_seconds + END_SECONDS,
)


def context_option(lines: int | None, limits: Limits) -> str:
    """git's option for the lines of context. Raises `GitProblem` (`invalid_context_lines`)."""
    wanted = limits.diff_context_lines if lines is None else lines
    if not 0 <= wanted <= limits.max_diff_context_lines:
        message = f"context_lines is {wanted}, it must be 0 to {limits.max_diff_context_lines}"
        raise GitProblem("invalid_context_lines", message, "$.context_lines")
    return f"--unified={wanted}"


async def read_patch(
    repository: Repository, command: tuple[str, ...], context: ToolContext, max_bytes: int
) -> tuple[PatchReader, Bounded]:
    """What a git command printed: read as a patch, and its text within `max_bytes`. Raises as `Repository.run`."""
    patch = PatchReader()
    text = head_tail(context, max_bytes)
    limit = context.limits.max_spill_bytes

    def take(data: bytes) -> bool:
        patch.feed(data)
        text.feed(data)
        return text.total_bytes > limit

    try:
        await repository.run(*command, output=take)
        patch.finish()
        return patch, text.finish()
    finally:
        text.close()


def patch_facts(patch: PatchReader) -> dict[str, Any]:
    """The structure of a patch, with its paths as they are shown."""
    return {
        "total_files": patch.total_files,
        "added": patch.added,
        "deleted": patch.deleted,
        "files": [_file_facts(file) for file in patch.files],
    }


def _file_facts(file: FileDiff) -> dict[str, Any]:
    path = file.new if file.new is not None else file.old
    facts: dict[str, Any] = {"path": shown_path(path or b"?"), "state": file.state}
    if file.old is not None and file.new is not None and file.old != file.new:
        facts["old_path"] = shown_path(file.old)
    if file.binary:
        facts["binary"] = True
    return {**facts, "added": file.added, "deleted": file.deleted, "hunks": file.hunks}


def _result(patch: PatchReader, shown: Bounded, repository: Repository, cached: bool) -> ToolResult:
    lines = [shown.text.removesuffix("\n")]
    if not patch.total_files:
        lines = [f"(nothing is {'staged' if cached else 'changed'} here; untracked files are not part of a diff)"]
    if repository.filters and not cached:
        lines.append(filter_note(repository.filters))
    facts = patch_facts(patch)
    if shown.handle is not None:
        facts["handle"] = shown.handle
    return ToolResult(ok=True, status="ok", tool=NAME, content="\n".join(lines), truncated=shown.truncated, facts=facts)
