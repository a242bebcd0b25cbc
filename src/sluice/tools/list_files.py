"""`list_files_bounded`: the files of a folder, sorted, without what ignore files name."""

from __future__ import annotations

import heapq
import re
from typing import Annotated

import msgspec

from sluice.tools.registry import Tool, ToolContext
from sluice.tools.ripgrep import END_SECONDS, RipgrepMissing, joined, run_ripgrep, shown_path
from sluice.values.results import ErrorInfo, ToolResult, failed

NAME = "list_files_bounded"
_MAX_PATH_BYTES = 64 * 1024  # of one path in ripgrep's output; Linux paths have at most 4,096
_EXTENSION = re.compile(r"\.?[A-Za-z0-9_+\-]{1,32}(\.[A-Za-z0-9_+\-]{1,32})?")
_PATH_ROOM = 240  # bytes kept free for the closing lines


class ListArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `list_files_bounded`."""

    directory: Annotated[
        str, msgspec.Meta(description="Folder to list, relative to the workspace; default all of it.")
    ] = "."
    extensions: Annotated[
        Annotated[tuple[str, ...], msgspec.Meta(max_length=32)] | None,
        msgspec.Meta(description='Only files that end so, such as ["py", "md"].'),
    ] = None
    max_results: Annotated[int | None, msgspec.Meta(description="Paths to return; default 100, at most 500.")] = None


ARGUMENTS = ListArguments


class _Smallest:
    """Counts paths and keeps the first few in sorted order, in bounded memory."""

    def __init__(self, keep: int, endings: tuple[bytes, ...]) -> None:
        self._keep = keep
        self._endings = endings
        self._paths: list[bytes] = []
        self._rest = b""
        self.total = 0

    def feed(self, data: bytes) -> bool:
        *whole, self._rest = (self._rest + data).split(b"\0")
        for path in whole:
            if not self._endings or path.lower().endswith(self._endings):
                self.total += 1
                self._paths.append(path)
        if len(self._paths) > 16 * self._keep + 1024:
            self._paths = heapq.nsmallest(self._keep, self._paths)
        return len(self._rest) > _MAX_PATH_BYTES

    def paths(self) -> list[bytes]:
        return heapq.nsmallest(self._keep, self._paths)


async def run(arguments: ListArguments, context: ToolContext) -> ToolResult:
    """One path a line, sorted by bytes; `facts` hold `total` and `shown`. Raises `PathError` for the directory."""
    limits = context.limits
    wanted = limits.list_results if arguments.max_results is None else arguments.max_results
    if not 1 <= wanted <= limits.max_list_results:
        return _refused(f"max_results is {wanted}, it must be 1 to {limits.max_list_results}", "$.max_results")
    for position, extension in enumerate(arguments.extensions or ()):
        if not _EXTENSION.fullmatch(extension):
            return _refused("an extension is a word such as py or .ts", f"$.extensions[{position}]")
    endings = tuple(b"." + word.removeprefix(".").lower().encode() for word in arguments.extensions or ())
    directory = arguments.directory or "."
    finds = _Smallest(wanted, endings)
    try:
        ended, messages = await run_ripgrep(["--files", "--null"], directory, context, finds.feed)
    except RipgrepMissing as error:
        return failed(NAME, "no_ripgrep", str(error), content=str(error))
    except OSError as error:
        message = f"the folder could not be listed: {error.strerror}"
        return failed(NAME, "not_started", message, content=message)
    if ended.cancelled:
        return failed(NAME, "cancelled", "the listing was cancelled", failure="none", status="cancelled")
    if ended.exit_code not in (0, 1) and not ended.timed_out and not finds.total:
        message = f"the folder could not be listed: {messages.text().strip()[:500]}"
        return failed(NAME, "listing_failed", message, content=message)
    return _result(finds, directory, ended.timed_out or ended.excess is not None, context)


TOOL = Tool(
    name=NAME,
    arguments=ListArguments,
    run=run,
    category="read_only",
    accepts_healed=True,
    subject="directory",
    timeout_seconds=lambda limits: limits.search_seconds + END_SECONDS,
)


def _result(finds: _Smallest, directory: str, timed_out: bool, context: ToolContext) -> ToolResult:
    room = context.body_bytes(TOOL, _PATH_ROOM)
    lines: list[str] = []
    for path in finds.paths():
        line = shown_path(joined(directory, path))
        room -= len(line.encode()) + 1
        if room < 0:
            break
        lines.append(line)
    shown = len(lines)
    truncated = shown < finds.total or timed_out
    if not finds.total:
        lines.append("(no files)")
    elif truncated:
        lines.append(f"[{shown} of {finds.total} files are shown; name a directory or extensions to see others]")
    error = None
    if timed_out:
        error = ErrorInfo("timeout", f"listing took more than {context.limits.search_seconds:g} s; this is not all")
        lines.append(f"[{error.message}]")
    return ToolResult(
        ok=error is None,
        status="timed_out" if timed_out else "ok",
        tool=NAME,
        content="\n".join(lines),
        truncated=truncated,
        error=error,
        timed_out=timed_out,
        failure="retryable" if timed_out else None,
        facts={"total": finds.total, "shown": shown},
    )


def _refused(message: str, path: str) -> ToolResult:
    return failed(NAME, "invalid_arguments", message, path=path, status="invalid", content=message)
