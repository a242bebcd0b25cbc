"""`git_add`: stages files of the workspace for the next commit.

Category `mutating` with the mark that it changes the repository; it runs no code of the repository. Files for which an
attribute asks for a filter (large-file storage, encryption) are refused, not staged without it: the commit would then hold
other bytes than everybody expects, secrets in clear text perhaps. Repositories inside the repository are left out, because
git would start itself in them.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import Annotated

import msgspec

from sluice.tools.git import END_SECONDS, Repository, answered, pathspecs
from sluice.tools.git_place import GitProblem
from sluice.tools.registry import Tool, ToolContext
from sluice.tools.ripgrep import shown_path
from sluice.values.calls import Risk
from sluice.values.results import ToolResult

NAME = "git_add"
_MAX_FILES = 20_000  # in one call; their names are looked through twice
_MAX_FILE_BYTES = 256 * 1024 * 1024  # of one file; it is read whole and stays in the repository for ever
_ARGUMENT_BYTES = 64 * 1024  # of names in one command line; the kernel's own bound is 2 MiB
_SHOWN_PATHS = 200


class AddArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `git_add`."""

    pathspecs: Annotated[
        tuple[str, ...], msgspec.Meta(description='Files and folders to stage, such as ["src", "a.py"]; "." is all.')
    ]


ARGUMENTS = AddArguments


async def run(arguments: AddArguments, context: ToolContext) -> ToolResult:
    """Stages all or nothing; `facts` hold `staged` (the first paths), `total` and `left_out`. Raises `PathError`."""

    async def work(repository: Repository) -> ToolResult:
        paths = pathspecs(arguments.pathspecs)
        left_out = await _inner_repositories(repository, paths)
        words = (*paths, *(f":(exclude,literal){os.fsdecode(path)}" for path in left_out))
        changed = await _listed(repository, "--others", "--modified", "--deleted", "--exclude-standard", "--", *words)
        if changed:
            there = _there(changed, context)
            await _refuse_filtered(repository, there)
        # All or nothing: git itself would stage what it can and then complain of an ignored path.
        await repository.run("add", "--dry-run", "--", *words)
        if not changed:
            raise GitProblem("nothing_to_add", _nothing(left_out))
        await repository.run("add", "--", *words)
        return _result(changed, left_out)

    return await answered(NAME, context, work, writes=True)


TOOL = Tool(
    name=NAME,
    arguments=AddArguments,
    run=run,
    category="mutating",
    risk=Risk(changes_repository=True),
    timeout_seconds=lambda limits: limits.git_seconds + END_SECONDS,
)


async def _listed(repository: Repository, *options: str) -> list[bytes]:
    """Paths from `git ls-files`, each once, relative to the workspace. Raises `GitProblem` (`too_many_files`)."""
    answer = await repository.run("ls-files", "-z", *options)
    found = list(dict.fromkeys(answer.out.split(b"\0")[:-1]))
    if answer.cut or len(found) > _MAX_FILES:
        raise GitProblem("too_many_files", f"more than {_MAX_FILES} files would be staged; name fewer", "$.pathspecs")
    return found


async def _inner_repositories(repository: Repository, paths: tuple[str, ...]) -> list[bytes]:
    """Submodules, and folders that are repositories of their own, below the paths."""
    answer = await repository.run("ls-files", "-z", "--stage", "--", *paths)
    if answer.cut:
        raise GitProblem(
            "too_many_files", "the pathspecs cover too many files to look through; name fewer", "$.pathspecs"
        )
    entries = answer.out.split(b"\0")[:-1]
    links = [entry.partition(b"\t")[2] for entry in entries if entry.startswith(b"160000 ")]
    untracked = await _listed(repository, "--others", "--exclude-standard", "--", *paths)
    return sorted({*links, *(path.rstrip(b"/") for path in untracked if path.endswith(b"/"))})


def _there(paths: list[bytes], context: ToolContext) -> list[bytes]:
    """Those of the paths that are not deleted. Raises `GitProblem` (`too_large`)."""
    found = []
    for path in paths:
        try:
            status = os.stat(path, dir_fd=context.workspace.fd, follow_symlinks=False)
        except OSError:
            continue
        if stat.S_ISREG(status.st_mode) and status.st_size > _MAX_FILE_BYTES:
            shown = shown_path(path)
            raise GitProblem("too_large", f"{shown} has {status.st_size} bytes, at most {_MAX_FILE_BYTES}", shown)
        found.append(path)
    return found


async def _refuse_filtered(repository: Repository, paths: list[bytes]) -> None:
    """Raises `GitProblem` (`filtered_file`) if an attribute asks for a filter on one of the paths."""
    for batch in _batches(paths):
        answer = await repository.run("check-attr", "-z", "filter", "--", *map(os.fsdecode, batch))
        fields = answer.out.split(b"\0")
        for path, value in zip(fields[0::3], fields[2::3], strict=False):
            if value not in (b"unspecified", b"unset", b"set"):
                shown = shown_path(path)
                name = shown_path(value)[:40]
                message = f"{shown} goes through the filter {name}, which this tool does not run; nothing was staged"
                raise GitProblem("filtered_file", message, shown)


def _batches(paths: list[bytes]) -> Iterator[list[bytes]]:
    batch: list[bytes] = []
    size = 0
    for path in paths:
        if size + len(path) > _ARGUMENT_BYTES and batch:
            yield batch
            batch, size = [], 0
        batch.append(path)
        size += len(path) + 1
    if batch:
        yield batch


def _nothing(left_out: list[bytes]) -> str:
    if left_out:
        return f"nothing to stage: {shown_path(left_out[0])} is a repository of its own, which this tool does not stage"
    return "nothing to stage: no file there is new, changed or deleted"


def _result(changed: list[bytes], left_out: list[bytes]) -> ToolResult:
    shown = [shown_path(path) for path in changed[:_SHOWN_PATHS]]
    lines = [
        f"staged {len(changed)} paths:" if len(changed) != 1 else "staged 1 path:",
        *(f"  {path}" for path in shown),
    ]
    if len(changed) > len(shown):
        lines.append(f"[{len(shown)} of {len(changed)} are shown]")
    inner = [shown_path(path) for path in left_out[:_SHOWN_PATHS]]
    if inner:
        lines.append(f"[left out, repositories of their own: {', '.join(inner[:10])}]")
    return ToolResult(
        ok=True,
        status="ok",
        tool=NAME,
        content="\n".join(lines),
        truncated=len(changed) > len(shown),
        facts={"total": len(changed), "staged": shown, "left_out": inner},
    )
