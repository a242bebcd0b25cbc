"""`apply_patch`: exact edits of one file, or an envelope of changes to several; all or none.

What the model is told of it stands in `apply_patch.md`; the envelope's own module is `patch_files.py`. An exact edit names
the text it replaces. That text must stand in the file exactly once, so the call proves what it knows of the file: one that
was never read may be edited, one that changed since it was read may not (`stale`).
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from sluice.errors import PathError
from sluice.limits import KIB
from sluice.tools.file_diff import MAX_DIFF_LINES, written
from sluice.tools.file_diff import lines_of as lines
from sluice.tools.patch_files import NAME, apply_envelope, unreadable, unwritten
from sluice.tools.patch_match import Edits, Misfit, line_changes
from sluice.tools.patch_miss import candidates, nearest
from sluice.tools.refusal import refused
from sluice.tools.registry import Tool, ToolContext
from sluice.tools.relative_path import visible
from sluice.tools.text_file import decode, shown
from sluice.values.calls import Risk
from sluice.values.results import ToolResult


class Edit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One exact edit."""

    old_text: Annotated[str, msgspec.Meta(description="Text that stands in the file exactly once.")]
    new_text: Annotated[str, msgspec.Meta(description="Text to put in its place.")]


class ApplyPatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `apply_patch`: `path` with one edit or with several in `patches`; or `patch` alone."""

    path: Annotated[
        str | None,
        msgspec.Meta(description="File to change, relative to the workspace. Needed in every form but `patch`."),
    ] = None
    old_text: Annotated[
        str | None, msgspec.Meta(description="For one edit: text that stands in the file exactly once.")
    ] = None
    new_text: Annotated[str | None, msgspec.Meta(description="For one edit: text to put in its place.")] = None
    patches: Annotated[
        list[Edit] | None,
        msgspec.Meta(
            description="For several edits: applied in order, each to the result of those before; all or none."
        ),
    ] = None
    patch: Annotated[
        str | None,
        msgspec.Meta(description="For several files: a whole patch from *** Begin Patch to *** End Patch."),
    ] = None


async def run(arguments: ApplyPatch, context: ToolContext) -> ToolResult:
    """Applies the edits of one form; after any refusal every file is as it was."""
    if arguments.patch is not None:
        if (arguments.path, arguments.old_text, arguments.new_text, arguments.patches) != (None, None, None, None):
            return _wrong_form("give patch alone: it names its files itself", "$.patch")
        return apply_envelope(arguments.patch, context)
    if arguments.path is None:
        return _wrong_form("missing required argument 'path' (only a whole patch goes without)", "$.path")
    return _edit_one(arguments.path, arguments, context)


def _wrong_form(message: str, place: str) -> ToolResult:
    return refused(NAME, "invalid_arguments", message, path=place, status="invalid")


def _edit_one(path: str, arguments: ApplyPatch, context: ToolContext) -> ToolResult:
    most = context.limits.max_file_bytes
    edits = _edits(path, arguments)
    if isinstance(edits, ToolResult):
        return edits
    try:
        before = context.workspace.read_to_change(path, most)
        if before is None:
            return refused(NAME, "file_read_failure", f"there is no {visible(path)}", path=path)
        context.seen.check(path, before.digest, must_be_seen=False)
    except PathError as error:
        return unreadable(error)
    text = decode(before.data)
    if text is None:
        return refused(NAME, "binary_file", f"{visible(path)} is a binary file", path=path)
    done = Edits(text.text)
    loose = 0
    for place, edit in edits:
        answer = done.apply(edit.old_text, edit.new_text)
        if isinstance(answer, Misfit):
            return _misfit(path, place, edit, done.text, answer)
        loose += answer
    try:
        data = done.encode(text)
    except UnicodeEncodeError as error:
        what = ascii(error.object[error.start : error.start + 1])[1:-1]
        message = f"the character {what} of a new_text cannot be written in the encoding of {visible(path)}"
        return refused(NAME, "not_encodable", message, path=path)
    facts: dict[str, Any] = {"path": path, "created": False, "edits": len(edits), "line_ends_adapted": loose}
    if data == before.data:
        words = f"{visible(path)} already reads so; nothing was written"
        facts |= {"bytes": len(data), "sha256": before.digest, "diff": ""}
        return ToolResult(ok=True, status="ok", tool=NAME, content=words, facts=facts)
    try:
        result = context.workspace.replace(path, data, expected=before.digest, max_bytes=most, journal=context.journal)
    except PathError as error:
        return unwritten(error)
    if context.seen.digest(path) is not None:
        context.seen.mark(path, result.digest)
    changes = line_changes(done)
    diff = written(path, lines(done.before), lines(done.text), changes, max_lines=MAX_DIFF_LINES)
    facts |= {"bytes": result.size, "sha256": result.digest, "diff": shown(diff)}
    if result.undo is not None:
        facts["undo"] = result.undo
    at = ", ".join(str(change.new_start + 1) for change in changes[:20]) + (", …" if len(changes) > 20 else "")
    words = f"edited {visible(path)}: {len(edits)} edit{'s' if len(edits) > 1 else ''}, changed at line {at}"
    if loose:
        words += f"\n{loose} old_text matched only with other line ends; the file's own line ends were kept"
    return ToolResult(ok=True, status="ok", tool=NAME, content=words, facts=facts)


TOOL = Tool(
    name=NAME,
    arguments=ApplyPatch,
    run=run,
    category="mutating",
    risk=Risk(changes_repository=True),
    subject="path",
    max_output_bytes=16 * KIB,
)


def _edits(path: str, arguments: ApplyPatch) -> list[tuple[str, Edit]] | ToolResult:
    """The edits with the JSON path of each, or the refusal of a form that is none of the two."""
    patches = arguments.patches
    if patches is None:
        if arguments.old_text is None or arguments.new_text is None:
            missing = "old_text" if arguments.old_text is None else "new_text"
            message = f"missing required argument '{missing}' (give old_text and new_text, or patches)"
            return _wrong_form(message, f"$.{missing}")
        edits = [("$", Edit(old_text=arguments.old_text, new_text=arguments.new_text))]
    elif arguments.old_text is not None or arguments.new_text is not None:
        message = "give either old_text and new_text, or patches, not both"
        return _wrong_form(message, "$.patches")
    else:
        edits = [(f"$.patches[{number}]", edit) for number, edit in enumerate(patches)]
    if not edits:
        return refused(NAME, "invalid_batch_entry", f"patches for {visible(path)} is empty", path="$.patches")
    for place, edit in edits:
        if not edit.old_text:
            message = "old_text is empty; name the text to replace, or use write_file_safe to create a file"
            return refused(NAME, "empty_old_text", message, path=f"{place}.old_text")
    return edits


def _misfit(path: str, place: str, edit: Edit, text: str, misfit: Misfit) -> ToolResult:
    where = visible(path) + (" as the edits before it leave it" if place not in ("$", "$.patches[0]") else "")
    if misfit.places:
        message = f"{place}.old_text is in {where} more than once; add lines around it until it is in one place only"
        details = candidates(text, misfit.places)
        return refused(NAME, "multiple_matches", message, path=f"{place}.old_text", details=details)
    message = f"{place}.old_text is not in {where}; nothing was changed"
    return refused(NAME, "no_match", message, path=f"{place}.old_text", details=nearest(text, edit.old_text))
