"""The envelope form of `apply_patch`: sections over several files, all of them or none.

First all sections are worked out in memory, in order, each on the result of those before it; then all files are changed as
one (`changing.py`). What a section must know of a file (P16): an update proves it by its lines, so the file may be unread
but not stale. Whatever drops bytes unseen needs a file that was read: deleting it, adding one in its place, moving one onto
it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from sluice.errors import PathError
from sluice.limits import MIB
from sluice.tools.changing import Change
from sluice.tools.file_diff import MAX_DIFF_LINES, LineChange, changes_between, lines_of, written
from sluice.tools.patch_envelope import Section, Unreadable, parse
from sluice.tools.patch_hunks import MAX_LINES, Fit, Lines, Misplaced, place_hunks
from sluice.tools.patch_match import Edits, line_changes
from sluice.tools.patch_miss import candidates_at, nearest
from sluice.tools.refusal import refused, refused_path
from sluice.tools.registry import ToolContext
from sluice.tools.relative_path import file_parts, visible
from sluice.tools.replacing import Written, too_large
from sluice.tools.text_file import decode, shown
from sluice.tools.workspace import FileContent
from sluice.values.results import ToolResult

NAME = "apply_patch"
MAX_HELD_BYTES = 64 * MIB  # bytes of all files of one patch, old and new: they are held in memory until the end

# What the wall says, as one of this tool's own codes; its other words (of paths and links) stay as they are.
_READ_FAULTS = {
    "not_found": "file_read_failure",
    "is_directory": "file_read_failure",
    "not_directory": "file_read_failure",
    "not_regular": "file_read_failure",
    "permission": "file_read_failure",
    "io_error": "file_read_failure",
    "busy": "file_read_failure",
    "too_large": "truncated_file",
}
_WRITE_FAULTS = frozenset({"no_space", "io_error", "permission", "journal", "not_directory", "is_directory", "busy"})


def unreadable(error: PathError) -> ToolResult:
    """The result of a file that cannot be changed, before anything was."""
    return refused(NAME, _READ_FAULTS.get(error.code, error.code), str(error), path=error.path)


def unwritten(error: PathError) -> ToolResult:
    """The result of a change that did not come about: fatal if the machine failed."""
    if error.code in _WRITE_FAULTS:
        return refused(NAME, "writeback_failure", str(error), path=error.path, failure="fatal")
    return refused_path(NAME, error)


def apply_envelope(patch: str, context: ToolContext) -> ToolResult:
    """Applies a patch and returns its result: `facts.files` says of each file what was done, `facts.diff` of all."""
    sections = parse(patch)
    if isinstance(sections, Unreadable):
        message = f"the patch cannot be read at its line {sections.line}: {sections.words}"
        return refused(NAME, "invalid_batch_entry", message, path="$.patch")
    plan = _Plan(context)
    try:
        for section in sections:
            plan.take(section)
    except _Refusal as refusal:
        return refusal.result
    except PathError as error:
        return unreadable(error)
    drafts = [draft for draft in plan.drafts.values() if draft.changed()]
    changes = [draft.change() for draft in drafts]
    try:
        done = context.workspace.change_all(changes, max_bytes=context.limits.max_file_bytes, journal=context.journal)
    except PathError as error:
        return unwritten(error)
    return _result(plan, drafts, done, context)


class _Refusal(Exception):
    """Ends the work on a patch with a result; nothing was changed."""

    def __init__(self, code: str, message: str, path: str, details: str = "") -> None:
        super().__init__(message)
        self.result = refused(NAME, code, message, path=path, details=details)


class _Draft:
    """A file as the patch leaves it so far: `now` is its content, None for no file."""

    def __init__(self, path: str, before: FileContent | None) -> None:
        self.path = path
        self.before = before
        self.now = None if before is None else before.data
        self.touched = False
        self.moved_from: _Draft | None = None
        self.moved_to: _Draft | None = None
        self.edits: Edits | None = None  # the whole change, if it was one update
        self.fits: list[tuple[int, Fit]] = []  # the line of each hunk in the patch, and where it stands

    def changed(self) -> bool:
        return self.now != (None if self.before is None else self.before.data) or (
            self.moved_from is not None and self.now is not None
        )

    def change(self) -> Change:
        expected = None if self.before is None else self.before.digest
        origin = self.moved_from.path if self.moved_from is not None and self.now is not None else None
        return Change(path=self.path, data=self.now, expected=expected, moved_from=origin)

    def put(self, data: bytes | None) -> None:
        self.now, self.touched, self.edits = data, True, None


class _Plan:
    """Works sections out in memory; raises `_Refusal` or `PathError` at the first that cannot be done."""

    def __init__(self, context: ToolContext) -> None:
        self._context = context
        self._most = context.limits.max_file_bytes
        self.drafts: dict[str, _Draft] = {}

    def take(self, section: Section) -> None:
        draft = self._draft(section.path)
        if section.kind == "add":
            self._must_be_free(draft)
            try:
                data = "".join(line + "\n" for line in section.lines).encode()
            except UnicodeEncodeError as error:
                raise self._not_encodable(draft, error) from None
            draft.put(data)
        elif section.kind == "delete":
            self._must_be_there(draft)
            if not draft.touched and draft.before is not None:
                self._context.seen.check(draft.path, draft.before.digest)
            draft.put(None)
        else:
            self._update(draft, section)
        held = sum(len(d.now or b"") + (len(d.before.data) if d.before else 0) for d in self.drafts.values())
        if draft.now is not None and len(draft.now) > self._most:
            raise too_large(draft.path, self._most)
        if held > MAX_HELD_BYTES:
            message = f"the files of the patch have more than {MAX_HELD_BYTES} bytes; split it into several calls"
            raise _Refusal("truncated_file", message, draft.path)

    def _draft(self, path: str) -> _Draft:
        key = "/".join(file_parts(path))
        if key not in self.drafts:
            self.drafts[key] = _Draft(key, self._context.workspace.read_to_change(path, self._most))
        return self.drafts[key]

    def _must_be_there(self, draft: _Draft) -> None:
        if draft.now is None:
            gone = " any more" if draft.touched else ""
            raise _Refusal("file_read_failure", f"there is no {visible(draft.path)}{gone}", draft.path)

    def _must_be_free(self, draft: _Draft) -> None:
        """Bytes may only be dropped if they were seen; what this patch itself wrote is not dropped by it."""
        if draft.now is None:
            return
        if draft.touched or draft.before is None:
            raise _Refusal("exists", f"the patch has already written {visible(draft.path)}", draft.path)
        self._context.seen.check(draft.path, draft.before.digest)

    def _update(self, draft: _Draft, section: Section) -> None:
        self._must_be_there(draft)
        if draft.before is not None and not draft.touched:
            self._context.seen.check(draft.path, draft.before.digest, must_be_seen=False)
        if section.hunks:
            self._apply(draft, section)
        if section.move_to is None:
            return
        target = self._draft(section.move_to)
        if target is draft:
            return
        self._must_be_free(target)
        target.put(draft.now)
        target.edits, target.fits = draft.edits, draft.fits
        target.moved_from = draft.moved_from or draft
        target.moved_from.moved_to = target
        draft.put(None)
        draft.moved_from = None

    def _apply(self, draft: _Draft, section: Section) -> None:
        text = decode(draft.now or b"")
        if text is None:
            raise _Refusal("binary_file", f"{visible(draft.path)} is a binary file", draft.path)
        if text.text.count("\n") + text.text.count("\r") > MAX_LINES:
            message = f"{visible(draft.path)} has more than {MAX_LINES} lines; edit it with old_text and new_text"
            raise _Refusal("truncated_file", message, draft.path)
        placed = place_hunks(text.text, section.hunks)
        if isinstance(placed, Misplaced):
            raise self._misplaced(draft, placed, text.text)
        splices, fits = placed
        edits = Edits.of(text.text, splices)
        try:
            data = edits.encode(text)
        except UnicodeEncodeError as error:
            raise self._not_encodable(draft, error) from None
        first = not draft.touched
        draft.put(data)
        draft.edits = edits if first else None
        draft.fits += [(hunk.line, fit) for hunk, fit in zip(section.hunks, fits, strict=True)]

    def _not_encodable(self, draft: _Draft, error: UnicodeEncodeError) -> _Refusal:
        what = ascii(error.object[error.start : error.start + 1])[1:-1]
        message = f"the character {what} of the patch cannot be written in the encoding of {visible(draft.path)}"
        return _Refusal("not_encodable", message, draft.path)

    def _misplaced(self, draft: _Draft, found: Misplaced, text: str) -> _Refusal:
        where = visible(draft.path) + (" as the sections before it leave it" if draft.touched else "")
        hunk = f"{found.what} of the hunk at line {found.hunk.line} of the patch"
        if found.what != "the line after '@@'":
            hunk = f"{found.what} at line {found.hunk.line} of the patch"
        if found.lines:
            message = (
                f"{hunk} is in {where} more than once; add lines around it, or a line after '@@' that is there once"
            )
            return _Refusal("multiple_matches", message, draft.path, candidates_at(Lines(text).all(), found.lines))
        if found.earlier:
            message = f"{hunk} stands before the hunk above it in {where}; give the hunks in the file's order"
            return _Refusal("no_match", message, draft.path)
        message = f"{hunk} is not in {where}; nothing was changed"
        return _Refusal("no_match", message, draft.path, nearest(text, found.text, "patch"))


class _Told(msgspec.Struct):
    """What is said of a patch that was applied."""

    lines: list[str]
    files: list[dict[str, Any]]
    diffs: list[str]
    left: int  # lines of diff that may still be shown


def _result(plan: _Plan, drafts: list[_Draft], done: tuple[Written, ...], context: ToolContext) -> ToolResult:
    if not drafts:
        facts: dict[str, Any] = {"files": [], "diff": ""}
        words = "everything already reads so; nothing was written"
        return ToolResult(ok=True, status="ok", tool=NAME, content=words, facts=facts)
    told = _Told([], [], [], MAX_DIFF_LINES)
    seen = {draft.path: context.seen.digest(draft.path) is not None for draft in plan.drafts.values()}
    for draft, result in zip(drafts, done, strict=True):
        origin = draft.moved_from
        if draft.now is None:
            context.seen.forget(draft.path)
        elif origin is not None:
            if seen[origin.path]:
                context.seen.mark(draft.path, result.digest)
            else:
                context.seen.forget(draft.path)
        elif draft.edits is None or seen[draft.path]:
            context.seen.mark(draft.path, result.digest)
        _tell(told, draft, result)
    facts = {"files": told.files, "diff": "".join(told.diffs)}
    return ToolResult(ok=True, status="ok", tool=NAME, content="\n".join(told.lines), facts=facts)


def _tell(told: _Told, draft: _Draft, result: Written) -> None:
    moved_away = draft.now is None and draft.moved_to is not None and draft.moved_to.now is not None
    origin = draft.moved_from
    path = visible(draft.path)
    diff, at = ("", "") if moved_away else _diff(draft, told.left)
    if origin is not None:
        kind, words = "moved", f"moved {visible(origin.path)} to {path}"
        diff = f"rename from {visible(origin.path)}\nrename to {path}\n{diff}"
    elif draft.now is None:
        kind, words = ("moved_away", "") if moved_away else ("deleted", f"deleted {path}")
    elif draft.before is None:
        kind, words = "added", f"added {path}: {result.size} bytes"
    else:
        kind, words = "updated", f"updated {path}"
    facts: dict[str, Any] = {"path": draft.path, "change": kind, "diff": diff}
    if draft.now is not None:
        facts |= {"bytes": result.size, "sha256": result.digest}
    if origin is not None:
        facts["moved_from"] = origin.path
    if result.undo is not None:
        facts["undo"] = result.undo
    if words:
        told.lines.append(words + (f", changed at line {at}" if at else ""))
    fuzzy = [] if moved_away else [(line, fit) for line, fit in draft.fits if fit.differs]
    if fuzzy:
        facts["fuzzy"] = [{"patch_line": line, "line": fit.line, "differs": fit.differs} for line, fit in fuzzy]
        told.lines += [
            f"  the hunk at line {line} of the patch was put at line {fit.line}, where only {fit.differs} differ"
            for line, fit in fuzzy[:20]
        ]
    told.files.append(facts)
    told.diffs.append(diff)
    told.left = max(told.left - diff.count("\n"), 0)


def _diff(draft: _Draft, most: int) -> tuple[str, str]:
    """The diff of one file in at most `most` lines, and the numbers of the lines where it changed."""
    if most < 4:
        return "", ""
    origin = draft.before if draft.moved_from is None else draft.moved_from.before
    edits = draft.edits
    if edits is not None:
        old, new, changes = lines_of(edits.before), lines_of(edits.text), line_changes(edits)
    else:
        before = decode(origin.data) if origin is not None else None
        after = decode(draft.now) if draft.now is not None else None
        if (origin is not None and before is None) or (draft.now is not None and after is None):
            return "", ""
        old, new = lines_of(before.text if before else ""), lines_of(after.text if after else "")
        changes = changes_between(old, new) if draft.now is not None else [LineChange(0, len(old), 0, 0)]
    created = origin is None
    text = written(draft.path, old, new, changes, created, max_lines=most, deleted=draft.now is None)
    at = ", ".join(str(change.new_start + 1) for change in changes[:20]) + (", …" if len(changes) > 20 else "")
    return shown(text), "" if created or draft.now is None else at
