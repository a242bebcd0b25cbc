"""`git_show`: one commit, with its patch, its statistics or both; or one file as it was in a commit."""

from __future__ import annotations

import re
from typing import Annotated

import msgspec

from sluice.tools.git import END_SECONDS, Repository, answered, head_tail, pathspecs
from sluice.tools.git_diff import PATCH_OPTIONS, context_option, patch_facts, read_patch
from sluice.tools.git_place import GitProblem
from sluice.tools.output import clipped
from sluice.tools.registry import Tool, ToolContext
from sluice.tools.relative_path import file_parts, visible
from sluice.values.results import ToolResult

NAME = "git_show"
_MAX_REV_CHARACTERS = 256  # far above any name of a branch or tag
_HEADER_BYTES = 4096  # of the commit's own words; a longer message is cut
_REV = re.compile(r"[^\x00-\x20\x7f:?*\[\\^~.-][^\x00-\x20\x7f:?*\[\\]*")


class ShowArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `git_show`."""

    rev: Annotated[str, msgspec.Meta(description="A commit, branch or tag, such as HEAD~1; or COMMIT:PATH for a file.")]
    patch: Annotated[bool, msgspec.Meta(description="Whether to show the patch; default true.")] = True
    stat: Annotated[bool, msgspec.Meta(description="Whether to show how much changed in each file; default false.")] = (
        False
    )
    pathspecs: Annotated[
        tuple[str, ...] | None, msgspec.Meta(description="Only these files and folders, relative to the workspace.")
    ] = None
    context_lines: Annotated[
        int | None, msgspec.Meta(description="Unchanged lines around each change; default 3, at most 1000.")
    ] = None


ARGUMENTS = ShowArguments


async def run(arguments: ShowArguments, context: ToolContext) -> ToolResult:
    """The commit; `facts` hold `commit`, `parents`, `author`, `date`, `subject` and the patch's structure.

    For `COMMIT:PATH` the file's text; `facts` hold `commit`, `path` and `bytes`. Raises `PathError`.
    """

    async def work(repository: Repository) -> ToolResult:
        paths = pathspecs(arguments.pathspecs)
        unified = context_option(arguments.context_lines, context.limits)
        rev, is_file, path = arguments.rev.partition(":")
        commit = await _commit(repository, rev)
        if is_file:
            return await _file(repository, commit, path, context)
        return await _commit_result(repository, commit, arguments, unified, paths, context)

    return await answered(NAME, context, work)


TOOL = Tool(
    name=NAME,
    arguments=ShowArguments,
    run=run,
    category="read_only",
    subject="rev",
    timeout_seconds=lambda limits: limits.git_seconds + END_SECONDS,
)


async def _commit(repository: Repository, rev: str) -> str:
    """The id of the commit that `rev` names. Raises `GitProblem` (`invalid_rev`, `unknown_rev`)."""
    shown = visible(rev)
    if len(rev) > _MAX_REV_CHARACTERS or not _REV.fullmatch(rev) or ".." in rev or "^{/" in rev or not _is_utf8(rev):
        raise GitProblem(
            "invalid_rev", f"{shown!r} names no single commit; write HEAD~1, a branch, a tag or an id", "$.rev"
        )
    answer = await repository.run(
        "rev-parse", "--verify", "--quiet", "--end-of-options", f"{rev}^{{commit}}", codes=(0, 1, 128)
    )
    found = answer.out.decode("ascii", "replace").strip()
    if answer.code or not re.fullmatch(r"[0-9a-f]{40,64}", found):
        raise GitProblem("unknown_rev", f"there is no commit {shown!r} in this repository", "$.rev")
    return found


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


async def _commit_result(
    repository: Repository,
    commit: str,
    arguments: ShowArguments,
    unified: str,
    paths: tuple[str, ...],
    context: ToolContext,
) -> ToolResult:
    form = "--format=%H%x00%P%x00%an <%ae>%x00%aI%x00%s%x00%B"
    told = await repository.run("show", "--no-patch", form, commit, "--")
    identity, parents, author, date, subject, message = told.out.decode("utf-8", "replace").split("\0", 5)
    lines = [
        f"commit {identity}",
        *([f"parents {parents}"] if " " in parents else []),
        f"author {author}",
        f"date {date}",
    ]
    header = (
        clipped(
            "\n".join([*lines, "", *(f"    {line}" for line in message.rstrip().split("\n"))]),
            min(_HEADER_BYTES, context.output_bytes(TOOL) // 2),
        )
        + "\n\n"
    )
    facts = {
        "commit": identity,
        "parents": parents.split(),
        "author": clipped(author, 200),
        "date": date,
        "subject": clipped(subject, 200),
    }
    truncated = False
    text = ""
    if arguments.patch or arguments.stat:
        # `--unified` would ask for the patch by itself.
        wanted = (
            *(("--stat=100",) if arguments.stat else ()),
            *((unified, *PATCH_OPTIONS) if arguments.patch else PATCH_OPTIONS[1:]),
        )
        room = context.output_bytes(TOOL) - len(header.encode())
        patch, shown = await read_patch(repository, ("show", "--format=", *wanted, commit, "--", *paths), context, room)
        text, truncated = shown.text, shown.truncated
        if arguments.patch:
            facts.update(patch_facts(patch))
        if shown.handle is not None:
            facts["handle"] = shown.handle
        if not text.strip():
            text = "(no changes here)"
    content = (header + text).rstrip("\n")
    return ToolResult(ok=True, status="ok", tool=NAME, content=content, truncated=truncated, facts=facts)


async def _file(repository: Repository, commit: str, path: str, context: ToolContext) -> ToolResult:
    parts = "/".join(file_parts(path))
    name = f"{commit}:{repository.prefix.decode('utf-8', 'surrogateescape')}{parts}"
    kind = await repository.run("cat-file", "-t", name, codes=(0, 1, 128))
    if kind.code or kind.out.strip() != b"blob":
        raise GitProblem("not_in_commit", f"{visible(parts)} is no file in commit {commit[:12]}", visible(parts))
    text = head_tail(context, context.output_bytes(TOOL))

    def take(data: bytes) -> bool:
        text.feed(data)
        return text.total_bytes > context.limits.max_spill_bytes

    try:
        await repository.run("cat-file", "blob", name, output=take)
        shown = text.finish()
    finally:
        text.close()
    facts = {"commit": commit, "path": visible(parts), "bytes": shown.total_bytes}
    return ToolResult(ok=True, status="ok", tool=NAME, content=shown.text, truncated=shown.truncated, facts=facts)
