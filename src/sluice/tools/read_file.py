"""`read_file_safe`: a file, or a part of it by lines, as text. What the model is told of it stands in `read_file.md`."""

from __future__ import annotations

import codecs
import io
from typing import Annotated, Any, BinaryIO

import msgspec

from sluice.errors import PathError
from sluice.limits import MIB
from sluice.tools.output import clipped
from sluice.tools.refusal import refused, refused_path
from sluice.tools.registry import Tool, ToolContext
from sluice.tools.relative_path import visible
from sluice.tools.spill import spill_number
from sluice.tools.text_file import Text, decode, shown
from sluice.values.results import ToolResult

NAME = "read_file_safe"

_UTF8 = codecs.getincrementaldecoder("utf-8")
_PIECE = 64 * 1024  # bytes read at a time
_HEADER_BYTES = 400  # bytes kept free for the first line
_MAX_LINE_NUMBER = 2**53 - 1


class ReadFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `read_file_safe`."""

    path: Annotated[
        str, msgspec.Meta(description="File to read, relative to the workspace; or a handle such as spill:3.")
    ]
    offset: Annotated[
        Annotated[int, msgspec.Meta(ge=1, le=_MAX_LINE_NUMBER)] | None,
        msgspec.Meta(description="First line to show, counted from 1. Without it the file's beginning is shown."),
    ] = None
    limit: Annotated[
        Annotated[int, msgspec.Meta(ge=1, le=_MAX_LINE_NUMBER)] | None,
        msgspec.Meta(description="How many lines to show at the most."),
    ] = None


class _Part(msgspec.Struct, frozen=True):
    """Some lines of a text in UTF-8. `last` is the last line shown (one less than the first if none is).

    `cut` says that a bound ended it before what was asked for; `cut_line` that line `last` itself is not whole.
    """

    data: bytes
    last: int
    total_lines: int
    total_bytes: int
    cut: bool
    cut_line: bool


async def run(arguments: ReadFile, context: ToolContext) -> ToolResult:
    """Reads one file or spilled output; the bytes read count as seen. Refusals of the wall are results."""
    number = spill_number(arguments.path)
    if number is not None:
        try:
            kept = context.spill.open(number)
        except OSError:
            return refused(NAME, "not_found", f"there is no kept output {arguments.path}", path=arguments.path)
        with kept:
            return _shown(arguments, kept, [], {"path": arguments.path}, context)
    try:
        found = context.workspace.read(arguments.path, context.limits.max_file_bytes)
    except PathError as error:
        return refused_path(NAME, error)
    context.seen.mark(arguments.path, found.digest)
    facts: dict[str, Any] = {"path": arguments.path, "bytes": len(found.data), "sha256": found.digest}
    text = decode(found.data)
    if text is None:
        words = f"[binary file of {len(found.data)} bytes, SHA-256 {found.digest}; its content is not shown]"
        return ToolResult(ok=True, status="ok", tool=NAME, content=words, facts={**facts, "binary": True})
    return _shown(arguments, _as_utf8(text), text.unusual(), {**facts, **text.facts()}, context)


TOOL = Tool(
    name=NAME,
    arguments=ReadFile,
    run=run,
    category="read_only",
    subject="path",
    max_output_bytes=4 * MIB,
    accepts_healed=True,
)


def _as_utf8(text: Text) -> BinaryIO:
    return io.BytesIO(shown(text.text).encode("utf-8", "replace"))


def _shown(
    arguments: ReadFile, source: BinaryIO, notes: list[str], facts: dict[str, Any], context: ToolContext
) -> ToolResult:
    first = arguments.offset or 1
    budget = max(context.output_bytes(TOOL) - _HEADER_BYTES, 0)
    part = _lines_from(source, first, arguments.limit, budget)
    if first > max(part.total_lines, 1):
        message = f"{visible(arguments.path)} has {part.total_lines} lines; there is no line {first}"
        return refused(NAME, "offset_past_end", message, path=arguments.path)
    # Bytes that are no UTF-8 grow when they are shown.
    content = part.data.decode("utf-8", "replace")
    inside = clipped(content, budget, "")
    cut = part.cut or len(inside) < len(content)
    said = [*_extent(part, first, cut), *notes]
    header = f"[{'; '.join(said)}]\n" if said else ""
    facts |= {"lines": part.total_lines, "first_line": first, "last_line": part.last}
    return ToolResult(ok=True, status="ok", tool=NAME, content=header + inside, truncated=cut, facts=facts)


def _extent(part: _Part, first: int, cut: bool) -> list[str]:
    if part.total_bytes == 0:
        return ["the file is empty"]
    if first == 1 and part.last == part.total_lines and not cut:
        return []
    of = f"of {part.total_lines} lines, {part.total_bytes} bytes in all"
    said = [f"lines {first}-{part.last} {of}"]
    if part.cut_line or (cut and not part.cut):
        said.append(f"line {part.last} is too long and only its beginning is shown")
    if part.last < part.total_lines:
        said.append(f"read on with offset {part.last + 1}")
    return said


def _lines_from(source: BinaryIO, first: int, limit: int | None, budget: int) -> _Part:
    """Lines `first` and on, at most `limit` and `budget` bytes, whole unless one alone is too long. Memory is bounded."""
    data = bytearray()
    line = total = line_start = 0
    last = first - 1
    inside_line = full = cut_line = False
    while piece := source.readline(_PIECE):
        total += len(piece)
        if not inside_line:
            line += 1
            line_start = len(data)
        inside_line = not piece.endswith(b"\n")
        if full or line < first or (limit is not None and line >= first + limit):
            continue
        if len(data) + len(piece) <= budget:
            data += piece
            last = line
            continue
        full = True
        if line_start:
            del data[line_start:]
            last = line - 1
        else:
            data += piece[: budget - len(data)]
            # An incremental decoder keeps back a character that the cut went through.
            data = bytearray(_UTF8("replace").decode(bytes(data)).encode())
            last, cut_line = line, True
    return _Part(bytes(data), last, line, total, full, cut_line)
