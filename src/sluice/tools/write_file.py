"""`write_file_safe`: a whole file, or more of its end. What the model is told of it stands in `write_file.md`."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from sluice.errors import PathError
from sluice.limits import KIB
from sluice.tools.file_diff import unified
from sluice.tools.refusal import refused, refused_path
from sluice.tools.registry import Tool, ToolContext
from sluice.tools.relative_path import visible
from sluice.tools.text_file import decode, shown
from sluice.tools.workspace import FileContent
from sluice.values.calls import Risk
from sluice.values.results import ToolResult

NAME = "write_file_safe"


class WriteFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `write_file_safe`."""

    path: Annotated[
        str, msgspec.Meta(description="File to write, relative to the workspace; missing folders are made.")
    ]
    content: Annotated[str, msgspec.Meta(description="The text to write, exactly as given.")]
    mode: Annotated[
        Literal["create", "replace", "append"] | None,
        msgspec.Meta(
            description="create: only if the file does not exist; replace: only if it does; append: add to its end, or "
            "create it. Without it: create or replace."
        ),
    ] = None


async def run(arguments: WriteFile, context: ToolContext) -> ToolResult:
    """Writes one file whole or not at all; an existing one only if the session knows its present bytes."""
    path, most = arguments.path, context.limits.max_file_bytes
    try:
        before = context.workspace.read_to_change(path, most)
        problem = _mode_problem(arguments, before)
        if problem is not None:
            return problem
        if before is not None:
            context.seen.check(path, before.digest)
        data = _bytes_to_write(arguments, before)
        if before is not None and data == before.data:
            words = f"{visible(path)} already holds exactly this; nothing was written"
            facts = {"path": path, "created": False, "bytes": len(data), "sha256": before.digest, "diff": ""}
            return ToolResult(ok=True, status="ok", tool=NAME, content=words, facts=facts)
        written = context.workspace.replace(
            path,
            data,
            expected=None if before is None else before.digest,
            max_bytes=most,
            journal=context.journal,
        )
    except PathError as error:
        return refused_path(NAME, error)
    except UnicodeEncodeError as error:
        what = ascii(error.object[error.start : error.start + 1])[1:-1]
        message = f"the character {what} of content cannot be written in the encoding of {visible(path)}"
        return refused(NAME, "not_encodable", message, path=path)
    context.seen.mark(path, written.digest)
    facts = {
        "path": path,
        "created": written.created,
        "bytes": written.size,
        "sha256": written.digest,
        "diff": _diff(path, before, data),
    }
    if written.undo is not None:
        facts["undo"] = written.undo
    return ToolResult(ok=True, status="ok", tool=NAME, content=_words(arguments, before, data), facts=facts)


TOOL = Tool(
    name=NAME,
    arguments=WriteFile,
    run=run,
    category="mutating",
    risk=Risk(changes_repository=True),
    subject="path",
    max_output_bytes=16 * KIB,
)


def _mode_problem(arguments: WriteFile, before: FileContent | None) -> ToolResult | None:
    path = arguments.path
    if arguments.mode == "create" and before is not None:
        message = f"{visible(path)} exists already; read it and use mode replace, or choose another name"
        return refused(NAME, "exists", message, path=path)
    if arguments.mode == "replace" and before is None:
        message = f"there is no {visible(path)} to replace; use mode create"
        return refused(NAME, "not_found", message, path=path)
    return None


def _bytes_to_write(arguments: WriteFile, before: FileContent | None) -> bytes:
    """The file's new bytes; what is appended goes in the encoding of what stands there."""
    if arguments.mode != "append" or before is None:
        return arguments.content.encode()
    text = decode(before.data)
    if text is None or not before.data:
        return before.data + arguments.content.encode()
    return before.data + text.encode(arguments.content)


def _diff(path: str, before: FileContent | None, data: bytes) -> str:
    old = None if before is None else decode(before.data)
    new = decode(data)
    if new is None or (before is not None and old is None):
        return ""
    return shown(unified(path, None if old is None else old.text, new.text))


def _words(arguments: WriteFile, before: FileContent | None, data: bytes) -> str:
    path = visible(arguments.path)
    if before is None:
        return f"created {path}: {len(data)} bytes written"
    if arguments.mode == "append":
        return f"appended {len(data) - len(before.data)} bytes to {path}: it now has {len(data)} bytes"
    return f"replaced {path}: {len(data)} bytes written in place of {len(before.data)}"
