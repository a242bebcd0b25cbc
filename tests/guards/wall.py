"""Removes each guard of the wall, the files and the journal in turn: a named test must fail without it.

    python tests/guards/wall.py [word]

Not run in CI. The package is copied into a temporary folder, one guard is taken out there, and the named tests run against
the copy; the tree itself is never touched. With a word, only guards with that word in their name. Ends with 1 if a guard
could be removed without a failing test, or is no longer found in the source.
"""

# ruff: noqa: E501 — a guard is one line of a table

from __future__ import annotations

import sys
from typing import NamedTuple

import removal


class Row(NamedTuple):
    """A guard's name, its module, its text and what stands there without it, and the tests that must notice."""

    name: str
    module: str
    text: str
    without: str
    tests: str
    select: str = ""


_TABLE = [
    Row("no-follow at every step", "tools/beneath.py", "os.O_DIRECTORY | os.O_NOFOLLOW |", "os.O_DIRECTORY |", "test_beneath.py"),
    Row("no-follow at the last step", "tools/beneath.py", "flags | os.O_NOFOLLOW | os", "flags | os", "test_beneath.py"),
    Row("beneath", "tools/beneath.py", "_RESOLVE_BENEATH | _RESOLVE_NO_SYMLINKS |", "_RESOLVE_NO_SYMLINKS |", "test_beneath.py test_workspace.py"),
    Row("no links by the kernel", "tools/beneath.py", "_RESOLVE_NO_SYMLINKS | _RESOLVE_NO_MAGICLINKS", "_RESOLVE_NO_MAGICLINKS", "test_beneath.py"),
    Row("EAGAIN again", "tools/beneath.py", "(errno.EAGAIN, errno.EINTR)", "(errno.EINTR,)", "test_beneath.py"),
    Row("walk without openat2", "tools/beneath.py", "    except OSError:\n        return walk\n", "    except OSError:\n        raise\n", "test_beneath.py"),
    Row("absolute paths", "tools/relative_path.py", 'if path[0] in "/\\\\" or', "if", "test_relative_path.py"),
    Row("parent paths", "tools/relative_path.py", 'if ".." in re.split', 'if "\\n.." in re.split', "test_relative_path.py"),
    Row("NUL", "tools/relative_path.py", 'if "\\0" in path', 'if "\\0\\0\\0" in path', "test_relative_path.py"),
    Row("home paths", "tools/relative_path.py", 'if path == "~" or', "if False and", "test_relative_path.py"),
    Row("regular files only, after the open", "tools/workspace.py", "problem = beneath.kind_error(os.fstat(opened), path)\n        if", "problem = None\n        if", "test_workspace.py"),
    Row("regular files only, before the open", "tools/workspace.py", "            self._refuse_other_kinds(parts, path)\n", "", "test_workspace.py"),
    Row("hard links, when read to change", "tools/workspace.py", "if found.links > 1:", "if False:", "test_workspace.py"),
    Row("hard links, when replaced", "tools/replacing.py", "if status.st_nlink > 1:", "if False:", "test_replacing.py"),
    Row("protected names", "tools/workspace.py", "if found is None or found.group", "if True or found.group", "test_workspace.py test_path_matrix.py"),
    Row("never allowed groups", "tools/workspace.py", "frozenset(allowed) - protected.NEVER_ALLOWED", "frozenset(allowed)", "test_workspace.py"),
    Row("our own places", "tools/workspace.py", '"/".join(parts), self._private)', '"/".join(parts), ())', "test_workspace.py test_path_matrix.py"),
    Row("case of protected names", "tools/protected.py", "text = component.lower()", "text = component", "test_protected.py"),
    Row("ignorable characters", "tools/protected.py", ".translate(_ignored())", "", "test_protected.py"),
    Row("streams and short names", "tools/protected.py", "_SHORT_NAME.fullmatch(part) or", "", "test_protected.py"),
    Row("control characters in new names", "tools/workspace.py", "if expected is None and any(map(_is_control, path)):", "if False:", "test_workspace.py test_changing.py"),
    Row("size of what is written", "tools/workspace.py", "if len(data) > max_bytes:", "if False:", "test_changing.py test_write_file.py"),
    Row("size of what is read", "tools/replacing.py", "return b\"\".join(pieces) if left else None", "return b\"\".join(pieces)", "test_replacing.py test_workspace.py"),
    Row("depth of new folders", "tools/workspace.py", "if len(parts) > _MAX_NEW_DEPTH:", "if False:", "test_tool_bad_input.py", "parts and write"),
    Row("folders are unmade", "tools/workspace.py", "    for parent, name in reversed(made):\n", "    for parent, name in ():\n", "test_workspace.py test_changing.py"),
    Row("stale at the start", "tools/replacing.py", "if hashlib.sha256(before.data).hexdigest() != expected:", "if False:", "test_replacing.py"),
    Row("stale right before the rename", "tools/replacing.py", "        check_unchanged(prepared, max_bytes)\n", "", "test_replacing.py"),
    Row("a new name is never taken from another", "tools/replacing.py", "    elif prepared.before is None:\n", "    elif False:\n", "test_replacing.py"),
    Row("mode is kept", "tools/replacing.py", "    os.fchmod(opened, mode)\n", "", "test_replacing.py"),
    Row("the file is synced", "tools/replacing.py", "            os.fsync(opened)\n", "", "test_replacing.py"),
    Row("the folder is synced", "tools/replacing.py", "    make_durable(place.folder)\n    return prepared", "    return prepared", "test_replacing.py"),
    Row("the pre-image is kept", "tools/replacing.py", "undo = _keep(place, before, journal)", "undo = None", "test_replacing.py test_changing.py"),
    Row("no change without its pre-image", "tools/replacing.py", '        raise PathError(\n            "journal"', '        return None\n        raise PathError(\n            "journal"', "test_replacing.py"),
    Row("read-only files", "tools/replacing.py", "return None if allowed else", "return None if True else", "test_replacing.py"),
    Row("several files: all are compared again", "tools/changing.py", "    replacing.check_unchanged(prepared, max_bytes)\n", "", "test_changing.py"),
    Row("several files: given back", "tools/changing.py", "for one in reversed(done) if", "for one in () if", "test_changing.py"),
    Row("several files: temporary files go", "tools/changing.py", "                replacing.discard(prepared)\n", "                pass\n", "test_changing.py"),
    Row("several files: the spare link goes", "tools/changing.py", "        replacing.remove(place.folder, old)\n        raise", "        raise", "test_changing.py"),
    Row("unread files are not dropped by an add", "tools/patch_files.py", "        self._context.seen.check(draft.path, draft.before.digest)\n\n    def _update", "\n    def _update", "test_patch_files.py"),
    Row("unread files are not deleted", "tools/patch_files.py", "                self._context.seen.check(draft.path, draft.before.digest)\n            draft.put(None)", "                pass\n            draft.put(None)", "test_patch_files.py"),
    Row("stale files are not updated", "tools/patch_files.py", "self._context.seen.check(draft.path, draft.before.digest, must_be_seen=False)", "pass", "test_patch_vectors.py", "044"),
    Row("a patch must end", "tools/patch_envelope.py", "or lines[end - 1].strip() != _END:", "or False:", "test_patch_envelope.py test_patch_vectors.py"),
    Row("one place only", "tools/patch_hunks.py", "        if len(places) == 1:\n            return", "        if places:\n            return", "test_patch_hunks.py"),
    Row("sections of a patch", "tools/patch_envelope.py", "if len(found) == MAX_SECTIONS:", "if False:", "test_patch_envelope.py"),
    Row("hunks of a patch", "tools/patch_envelope.py", "if self._hunks_read > MAX_HUNKS:", "if False:", "test_tool_bad_input.py", "costly"),
    Row("lines of a file", "tools/patch_files.py", "> MAX_LINES:", "> 10**9:", "test_tool_bad_input.py", "costly"),
    Row("bytes a patch holds", "tools/patch_files.py", "if held > MAX_HELD_BYTES:", "if False:", "test_patch_files.py"),
    Row("exact round trip", "tools/text_file.py", "if again == data else None", "if True else None", "test_text_file.py"),
    Row("NUL is binary", "tools/text_file.py", "    if low or high * 4 < len(data):\n", "    if False:\n", "test_text_file.py"),
    Row("unread files are not overwritten", "tools/write_file.py", "            context.seen.check(path, before.digest)\n", "            pass\n", "test_write_file.py"),
    Row("journal: private", "session/blobs.py", "os.O_EXCL | _FLAGS, 0o600", "os.O_EXCL | _FLAGS, 0o644", "../session/test_blobs.py"),
    Row("journal: bounded", "session/blobs.py", "if self._held + size > self._max_bytes:", "if False:", "../session/test_blobs.py"),
    Row("journal: synced", "session/blobs.py", "                os.fsync(fd)\n            finally", "                pass\n            finally", "../session/test_blobs.py"),
    Row("journal: no half blob", "session/blobs.py", "                os.unlink(temporary, dir_fd=blobs)\n", "                pass\n", "../session/test_blobs.py"),
    Row("journal: damaged blobs", "session/blobs.py", "return found.hexdigest() == digest", "return True", "../session/test_blobs.py"),
    Row("journal: links are not followed", "session/blobs.py", "_FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC", "_FLAGS = os.O_CLOEXEC", "../session/test_blobs.py"),
    Row("journal: a torn line", "session/blobs.py", 'line = b"\\n" + line', "pass", "../session/test_blobs.py"),
    Row("journal: wired", "run/wiring.py", "journal = journal or BlobJournal(str(state_folder()), settings.workspace)", "pass", "../run/test_wiring_journal.py"),
]  # fmt: skip

GUARDS = {
    row.name: removal.Guard(
        f"src/sluice/{row.module}",
        row.text,
        row.without,
        [f"tests/tools/{name}".replace("tools/../", "") for name in row.tests.split()],
        row.select,
        every=True,
    )
    for row in _TABLE
}

if __name__ == "__main__":
    sys.exit(removal.main(GUARDS))
