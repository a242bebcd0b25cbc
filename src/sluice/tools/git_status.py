"""`git_status`: branch, upstream and the state of each changed file, from git's porcelain format version 2."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from sluice.tools.git import END_SECONDS, Answer, Repository, answered
from sluice.tools.registry import Tool, ToolContext
from sluice.tools.ripgrep import shown_path
from sluice.values.results import ToolResult

NAME = "git_status"
_CLOSING_ROOM = 400  # bytes kept free for the closing lines

_WORDS = {"M": "modified", "T": "type changed", "A": "added", "D": "deleted", "R": "renamed", "C": "copied"}
_UNMERGED = {
    "DD": "both deleted",
    "AU": "added by us",
    "UD": "deleted by them",
    "UA": "added by them",
    "DU": "deleted by us",
    "AA": "both added",
    "UU": "both modified",
}


class StatusArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`git_status` takes no arguments."""


ARGUMENTS = StatusArguments


@dataclass(frozen=True)
class Entry:
    """One path: its state in the index and in the work tree ("" where unchanged), and where a renamed one was."""

    path: bytes
    staged: str = ""
    unstaged: str = ""
    other: str = ""
    """`untracked`, or what an unmerged path is."""
    old: bytes | None = None


@dataclass
class Status:
    """A whole status. `commit` is None before the first one, `branch` None when detached."""

    commit: str | None = None
    branch: str | None = None
    upstream: str | None = None
    ahead: int | None = None
    behind: int | None = None
    entries: list[Entry] = field(default_factory=list)


def parse_status(porcelain: bytes) -> Status:
    """Reads `git status --porcelain=v2 --branch -z`. A last record that was cut, or one of no known kind, is left out."""
    status = Status()
    records = porcelain.split(b"\0")[:-1]
    position = 0
    while position < len(records):
        record = records[position]
        position += 1
        kind, _, rest = record.partition(b" ")
        if kind == b"#":
            _header(status, rest.decode("utf-8", "replace"))
        elif kind == b"?":
            status.entries.append(Entry(rest, other="untracked"))
        elif kind in (b"1", b"2", b"u"):
            fields = rest.split(b" ", {b"1": 7, b"2": 8, b"u": 9}[kind])
            old = None
            if kind == b"2":
                old = records[position] if position < len(records) else None
                position += 1
            letters = fields[0].decode("ascii", "replace")
            if kind == b"u":
                status.entries.append(Entry(fields[-1], other=_UNMERGED.get(letters, "unmerged")))
            else:
                index, tree = (_WORDS.get(letter, "") for letter in (letters + "..")[:2])
                status.entries.append(Entry(fields[-1], index, tree, old=old))
    return status


def _header(status: Status, line: str) -> None:
    name, _, value = line.partition(" ")
    if name == "branch.oid":
        status.commit = None if value == "(initial)" else value
    elif name == "branch.head":
        status.branch = None if value == "(detached)" else value
    elif name == "branch.upstream":
        status.upstream = value
    elif name == "branch.ab":
        ahead, _, behind = value.partition(" ")
        status.ahead, status.behind = int(ahead), -int(behind)


async def run(arguments: StatusArguments, context: ToolContext) -> ToolResult:
    """Text for the model; `facts` hold `branch`, `commit`, `upstream`, `ahead`, `behind`, `total` and `files`."""

    async def work(repository: Repository) -> ToolResult:
        # Dirt inside submodules is not looked at: git would start itself in them, with their own settings.
        answer = await repository.run(
            "status", "--porcelain=v2", "--branch", "-z", "--find-renames", "--ignore-submodules=dirty", "--", "./"
        )
        return _result(answer, repository, context)

    return await answered(NAME, context, work)


TOOL = Tool(
    name=NAME,
    arguments=StatusArguments,
    run=run,
    category="read_only",
    timeout_seconds=lambda limits: limits.git_seconds + END_SECONDS,
)


def _result(answer: Answer, repository: Repository, context: ToolContext) -> ToolResult:
    status = parse_status(answer.out)
    limits = context.limits
    lines = [_branch_line(status)]
    room = context.body_bytes(TOOL, _CLOSING_ROOM) - len(lines[0].encode()) - 1
    shown = 0
    for line in _entry_lines(status.entries, repository):
        heading = line.endswith(":") and not line.startswith(" ")
        room -= len(line.encode()) + 1
        if room < 0 or (shown >= limits.status_entries and not heading):
            break
        lines.append(line)
        shown += not heading
    wanted = sum(1 for line in _entry_lines(status.entries, repository) if line.startswith(" "))
    if not wanted:
        lines.append("nothing to commit, the work tree is clean")
    if truncated := shown < wanted or answer.cut:
        lines.append(f"[{shown} of {'at least ' if answer.cut else ''}{wanted} entries are shown]")
    if repository.filters:
        lines.append(filter_note(repository.filters))
    return ToolResult(
        ok=True,
        status="ok",
        tool=NAME,
        content="\n".join(lines),
        truncated=truncated,
        facts={
            "branch": status.branch,
            "commit": status.commit,
            "upstream": status.upstream,
            "ahead": status.ahead,
            "behind": status.behind,
            "total": len(status.entries),
            "files": [_facts(entry, repository) for entry in status.entries[: limits.max_status_entries]],
        },
    )


def filter_note(filters: tuple[str, ...]) -> str:
    """The line that says which filters were not run."""
    named = ", ".join(shown_path(name.encode("utf-8", "surrogateescape"))[:40] for name in filters[:5])
    return f"[filters of this repository are not run ({named}); files they cover may be shown as modified]"


def _branch_line(status: Status) -> str:
    branch = "no branch (detached HEAD)" if status.branch is None else f"branch {status.branch}"
    at = "no commit yet" if status.commit is None else f"at {status.commit[:12]}"
    upstream = ""
    if status.upstream is not None:
        gone = status.ahead is None
        apart = "which is gone" if gone else f"ahead {status.ahead}, behind {status.behind}"
        upstream = f", upstream {status.upstream} ({apart})"
    return f"{branch}, {at}{upstream}"


def _entry_lines(entries: list[Entry], repository: Repository) -> list[str]:
    groups: dict[str, list[str]] = {"unmerged:": [], "staged:": [], "not staged:": [], "untracked:": []}
    for entry in entries:
        name = _name(entry.path, repository)
        if entry.other == "untracked":
            groups["untracked:"].append(f"  {name}")
        elif entry.other:
            groups["unmerged:"].append(f"  {entry.other}: {name}")
        moved = "" if entry.old is None else f"{_name(entry.old, repository)} -> "
        if entry.staged:
            groups["staged:"].append(f"  {entry.staged}: {moved}{name}")
        if entry.unstaged:
            groups["not staged:"].append(f"  {entry.unstaged}: {'' if entry.staged else moved}{name}")
    return [line for heading, lines in groups.items() if lines for line in (heading, *lines)]


def _facts(entry: Entry, repository: Repository) -> dict[str, Any]:
    named = {"staged": entry.staged, "unstaged": entry.unstaged, "state": entry.other}
    old = {"old_path": _name(entry.old, repository)} if entry.old is not None else {}
    return {"path": _name(entry.path, repository), **old, **{key: value for key, value in named.items() if value}}


def _name(path: bytes, repository: Repository) -> str:
    if path.endswith(b"/") and repository.prefix.startswith(path):
        return "./"  # the workspace itself, or a folder around it, holds nothing but untracked files
    inside = repository.inside(path)
    return shown_path(path if inside is None else inside)
