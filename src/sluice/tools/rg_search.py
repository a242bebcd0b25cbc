"""`rg_search`: lines that match a regular expression, by ripgrep's JSON output."""

from __future__ import annotations

import base64
import itertools
import re
from dataclasses import dataclass, field
from typing import Annotated

import msgspec

from sluice.tools.process import Ended
from sluice.tools.registry import Tool, ToolContext
from sluice.tools.ripgrep import END_SECONDS, Messages, RipgrepMissing, joined, run_ripgrep, shown_path
from sluice.values.results import ErrorInfo, ToolResult, failed

NAME = "rg_search"
_MAX_QUERY_BYTES = 16 * 1024  # far above any pattern a person could read
_MAX_EVENT_BYTES = 1024 * 1024  # of one event; a longer line (minified code, data) is counted, not shown
_MIN_SNIPPET_BYTES = 16
_CLOSING_ROOM = 400  # bytes kept free for the closing lines
_REGEX_FAULT = re.compile(r"regex parse error|is not allowed in a regex|compiled regex exceeds|error parsing regex")


class SearchArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `rg_search`."""

    query: Annotated[str, msgspec.Meta(description="Regular expression (Rust syntax), matched within single lines.")]
    directory: Annotated[
        str, msgspec.Meta(description="Folder to search, relative to the workspace; default all of it.")
    ] = "."
    max_results: Annotated[
        int | None, msgspec.Meta(description="Matching lines to return; default 50, at most 200.")
    ] = None
    max_snippet_bytes: Annotated[
        int | None, msgspec.Meta(description="Bytes of each line to show; default 160, at most 400.")
    ] = None


ARGUMENTS = SearchArguments


class _Text(msgspec.Struct, frozen=True):
    """Ripgrep's text: plain if it is UTF-8, else base64 in its field `bytes`."""

    text: str | None = None
    encoded: str = msgspec.field(name="bytes", default="")

    def raw(self) -> bytes:
        return self.text.encode() if self.text is not None else base64.b64decode(self.encoded)


class _Span(msgspec.Struct, frozen=True):
    start: int


class _Data(msgspec.Struct, frozen=True):
    path: _Text | None = None
    lines: _Text | None = None
    line_number: int | None = None
    submatches: tuple[_Span, ...] = ()


class _Event(msgspec.Struct, frozen=True):
    type: str
    data: _Data


@dataclass
class _Finds:
    """Reads ripgrep's events as they come and keeps the first matches as lines of text."""

    directory: str
    max_results: int
    snippet_bytes: int
    room: int
    lines: list[str] = field(default_factory=list)
    files: set[str] = field(default_factory=set)
    places: list[dict[str, str | int]] = field(default_factory=list)
    finished: bool = False
    more: bool = False
    _path: str = ""
    _rest: bytearray = field(default_factory=bytearray)
    _skipping: bool = False
    _decoder: msgspec.json.Decoder[_Event] = field(default_factory=lambda: msgspec.json.Decoder(_Event))

    def feed(self, data: bytes) -> bool:
        """Takes the next bytes; true when no more matches are wanted."""
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._rest += data[start:end]
            start = end + 1
            if self._skipping or len(self._rest) > _MAX_EVENT_BYTES:
                self._add(f"{self._path}: (a matching line too long to show)", 0)
            else:
                self._event(bytes(self._rest))
            self._rest.clear()
            self._skipping = False
            if self.more:
                return True
        self._rest += data[start:]
        if len(self._rest) > _MAX_EVENT_BYTES:
            self._skipping = True
            self._rest.clear()
        return False

    def _event(self, line: bytes) -> None:
        try:
            event = self._decoder.decode(line)
        except msgspec.DecodeError:
            return
        data = event.data
        if event.type == "summary":
            self.finished = True
        if data.path is not None:
            self._path = shown_path(joined(self.directory, data.path.raw()))
        if event.type == "match" and data.lines is not None:
            at = data.submatches[0].start if data.submatches else 0
            snippet = _snippet(data.lines.raw(), at, self.snippet_bytes)
            number = data.line_number or 0
            self._add(f"{self._path}:{number}: {snippet}", number)

    def _add(self, line: str, number: int) -> None:
        size = len(line.encode()) + 1
        if len(self.lines) >= self.max_results or size > self.room:
            self.more = True
            return
        self.room -= size
        self.lines.append(line)
        self.files.add(self._path)
        self.places.append({"path": self._path, "line": number})


def _snippet(line: bytes, at: int, max_bytes: int) -> str:
    """At most `max_bytes` bytes of the line around the match at byte `at`, cut between characters and marked with `…`."""
    line = line.rstrip(b"\r\n").replace(b"\r\n", b"\n").replace(b"\n", b" ")
    text = line.decode("utf-8", "replace")
    clean = text.encode()
    if len(clean) <= max_bytes:
        return text
    at = len(line[:at].decode("utf-8", "replace").encode())
    mark = "…"
    room = max_bytes - 2 * len(mark.encode())
    start = max(0, min(at - room // 4, len(clean) - room))
    piece = clean[start : start + room].decode("utf-8", "ignore")
    return (mark if start else "") + piece + (mark if start + room < len(clean) else "")


async def run(arguments: SearchArguments, context: ToolContext) -> ToolResult:
    """One match a line as `path:line: text`, by path; `facts` hold `matches`, `files`, `places`. Raises `PathError`."""
    limits = context.limits
    results = limits.search_matches if arguments.max_results is None else arguments.max_results
    snippet = limits.snippet_bytes if arguments.max_snippet_bytes is None else arguments.max_snippet_bytes
    problem = _problem(arguments.query)
    if problem is not None:
        return failed(NAME, problem.code, problem.message, path=problem.path, content=problem.message)
    for value, least, most, name in (
        (results, 1, limits.max_search_matches, "max_results"),
        (snippet, _MIN_SNIPPET_BYTES, limits.max_snippet_bytes, "max_snippet_bytes"),
    ):
        if not least <= value <= most:
            message = f"{name} is {value}, it must be {least} to {most}"
            return failed(NAME, "invalid_arguments", message, path=f"$.{name}", status="invalid", content=message)
    directory = arguments.directory or "."
    finds = _Finds(directory, results, snippet, context.body_bytes(TOOL, _CLOSING_ROOM))
    # Sorted, so that the same call has the same answer and reading may stop at the last wanted match.
    options = ["--json", "--sort=path", f"--regexp={arguments.query}"]
    try:
        ended, messages = await run_ripgrep(options, directory, context, finds.feed)
    except RipgrepMissing as error:
        return failed(NAME, "no_ripgrep", str(error), content=str(error))
    except OSError as error:
        message = f"the search could not be started: {error.strerror}"
        return failed(NAME, "not_started", message, content=message)
    return _result(ended, messages, finds, arguments.query, context)


TOOL = Tool(
    name=NAME,
    arguments=SearchArguments,
    run=run,
    category="read_only",
    accepts_healed=True,
    subject="query",
    timeout_seconds=lambda limits: limits.search_seconds + END_SECONDS,
)


def _problem(query: str) -> ErrorInfo | None:
    if not query:
        return ErrorInfo("empty_query", "the query is empty", "$.query")
    if "\0" in query:
        return ErrorInfo("nul_in_query", r"the query holds a NUL character; write \x00 in the expression", "$.query")
    if "\n" in query or "\r" in query:
        return ErrorInfo("invalid_regex", "the query holds a line end; matches lie within single lines", "$.query")
    try:
        size = len(query.encode())
    except UnicodeEncodeError:
        return ErrorInfo("not_utf8", "the query holds half of a surrogate pair", "$.query")
    if size > _MAX_QUERY_BYTES:
        return ErrorInfo("query_too_long", f"the query has {size} bytes, at most {_MAX_QUERY_BYTES}", "$.query")
    return None


def _result(ended: Ended, messages: Messages, finds: _Finds, query: str, context: ToolContext) -> ToolResult:
    said = messages.text()
    if ended.cancelled:
        return failed(NAME, "cancelled", "the search was cancelled", failure="none", status="cancelled")
    if ended.exit_code == 2 and not finds.finished:
        if _REGEX_FAULT.search(said):
            message = _regex_message(said, query)
            return failed(NAME, "invalid_regex", message, path="$.query", content=message)
        message = f"the search failed: {said.strip()[:500]}"
        return failed(NAME, "search_failed", message, content=message)
    lines = list(finds.lines) or ["(no matches)"]
    finds.more = finds.more or ended.overflowed or ended.excess is not None
    error = None
    if finds.more:
        lines.append(f"[more than {len(finds.lines)} matches; the first are shown, narrow the query or the directory]")
    elif ended.timed_out:
        error = ErrorInfo("timeout", f"the search took more than {context.limits.search_seconds:g} s; this is not all")
        lines.append(f"[{error.message}]")
    elif said.strip():
        lines.append(f"[{len(said.splitlines())} messages, for example: {said.splitlines()[0][:200]}]")
    return ToolResult(
        ok=error is None,
        status="timed_out" if error else "ok",
        tool=NAME,
        content="\n".join(lines),
        truncated=finds.more or error is not None,
        error=error,
        timed_out=error is not None,
        failure="retryable" if error else None,
        facts={"matches": len(finds.lines), "files": len(finds.files), "more": finds.more, "places": finds.places},
    )


def _regex_message(said: str, query: str) -> str:
    """What ripgrep found wrong, on one line, with the position in the query where it points at one."""
    reason = next((line.removeprefix("error: ") for line in said.splitlines() if line.startswith("error: ")), "")
    if not reason:
        reason = said.strip().removeprefix("rg: ").splitlines()[0]
    position = ""
    lines = said.splitlines()
    for echoed, pointer in itertools.pairwise(lines):
        found = re.fullmatch(r" *(\^+)(?: *\^+)*", pointer)
        at = echoed.find(query)
        if found and 0 <= at <= found.start(1):  # before it stands a group of ripgrep's own
            position = f" at position {found.start(1) - at}"
            break
    return f"the query is no valid regular expression: {reason}{position}; put \\ before a sign that is meant as itself"
