"""`git_commit`: records what is staged, and answers the new commit's id.

Category `mutating` with the mark that it changes the repository. No hook runs, nothing is signed, no editor opens: git sees
neither the repository's hooks nor its settings, so that a commit runs no code of the repository.
"""

from __future__ import annotations

import asyncio
import os
from typing import Annotated

import msgspec

from sluice.tools.git import END_SECONDS, Repository, answered
from sluice.tools.git_place import GitProblem
from sluice.tools.output import clipped
from sluice.tools.registry import Tool, ToolContext
from sluice.tools.ripgrep import shown_path
from sluice.values.calls import Risk
from sluice.values.results import ToolResult

NAME = "git_commit"
MAX_MESSAGE_BYTES = 64 * 1024  # far above any message that is read
_SHOWN_PATHS = 200


class CommitArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `git_commit`."""

    message: Annotated[str, msgspec.Meta(description="The commit message: one short line, then details if needed.")]


ARGUMENTS = CommitArguments


class _Never:
    """A cancel that never comes: what a commit did is looked up also after it was stopped."""

    def is_set(self) -> bool:
        return False

    async def wait(self) -> bool:
        return await asyncio.Event().wait()


async def run(arguments: CommitArguments, context: ToolContext) -> ToolResult:
    """The commit; `facts` hold `commit`, `branch`, `total` and `files`. What was done in time counts, even if stopped."""

    async def work(repository: Repository) -> ToolResult:
        message = _message(arguments.message)
        staged = await _staged(repository)
        if repository.identity is None:
            told = "git does not know who commits; a person can set user.name and user.email with git config"
            raise GitProblem("no_identity", told)
        name, address = repository.identity
        who = {
            f"GIT_{role}_{what}": value
            for role in ("AUTHOR", "COMMITTER")
            for what, value in (("NAME", name), ("EMAIL", address))
        }
        before = await _head(repository)
        words = repository.note("message", message.encode())
        try:
            await repository.run("commit", "--quiet", "--cleanup=whitespace", f"--file={words}", environment=who)
        except GitProblem:
            if await _head(repository) == before:
                raise
        return await _result(repository, staged)

    return await answered(NAME, context, work, writes=True)


TOOL = Tool(
    name=NAME,
    arguments=CommitArguments,
    run=run,
    category="mutating",
    risk=Risk(changes_repository=True),
    subject="message",
    timeout_seconds=lambda limits: limits.git_seconds + END_SECONDS,
)


def _message(message: str) -> str:
    place = "$.message"
    if not message.strip():
        raise GitProblem("empty_message", "the commit message is empty", place)
    if "\0" in message:
        raise GitProblem("nul_in_message", "the commit message holds a NUL character", place)
    try:
        size = len(message.encode())
    except UnicodeEncodeError:
        raise GitProblem("not_utf8", "the commit message holds half of a surrogate pair", place) from None
    if size > MAX_MESSAGE_BYTES:
        told = f"the commit message has {size} bytes, at most {MAX_MESSAGE_BYTES}"
        raise GitProblem("message_too_long", told, place)
    return message


async def _staged(repository: Repository) -> list[bytes]:
    """The staged paths, relative to the workspace.

    Raises `GitProblem`: `unmerged`, `staged_outside`, and `nothing_staged` unless a merge waits for its commit.
    """
    answer = await repository.run(
        "diff", "--cached", "--raw", "-z", "--no-renames", "--no-abbrev", "--ignore-submodules=dirty", "--"
    )
    if answer.cut:
        raise GitProblem("too_many_files", "more is staged than can be looked through")
    fields = answer.out.split(b"\0")[:-1]
    inside: list[bytes] = []
    for about, path in zip(fields[0::2], fields[1::2], strict=False):
        within = repository.inside(path)
        shown = shown_path(path if within is None else within)
        if about.endswith(b" U"):
            raise GitProblem(
                "unmerged", f"{shown} has an unresolved conflict; edit it and stage it with git_add", shown
            )
        if within is None:
            message = f"{shown} is staged and lies outside the workspace; nothing was committed"
            raise GitProblem("staged_outside", message, shown)
        inside.append(within)
    if not inside:
        merge = await repository.run("rev-parse", "--verify", "--quiet", "MERGE_HEAD", codes=(0, 1, 128))
        if merge.code:
            raise GitProblem("nothing_staged", "nothing is staged; stage files with git_add first")
    return inside


async def _head(repository: Repository) -> bytes:
    answer = await repository.run("rev-parse", "--verify", "--quiet", "HEAD", codes=(0, 1, 128), cancel=_Never())
    return answer.out.strip()


async def _result(repository: Repository, staged: list[bytes]) -> ToolResult:
    commit = os.fsdecode(await _head(repository))
    head = await repository.run("symbolic-ref", "--quiet", "--short", "HEAD", codes=(0, 1, 128), cancel=_Never())
    branch = head.out.decode("utf-8", "replace").strip() or None
    files = [shown_path(path) for path in staged[:_SHOWN_PATHS]]
    on = f"on {branch}" if branch else "on no branch (detached HEAD)"
    content = f"committed {commit} {clipped(on, 200)}: {len(staged)} file{'s' * (len(staged) != 1)}"
    facts = {"commit": commit, "branch": branch, "total": len(staged), "files": files}
    return ToolResult(ok=True, status="ok", tool=NAME, content=content, facts=facts)
