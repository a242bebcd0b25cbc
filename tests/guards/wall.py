"""Removes each guard of the wall, the files and the journal in turn: a named test must fail without it.

    python tests/guards/wall.py [word]

Not run in CI. The package is copied into a temporary folder, one guard is taken out there, and the named tests run against
the copy; the tree itself is never touched. With a word, only guards with that word in their name. Ends with 1 if a guard
could be removed without a failing test, or is no longer found in the source.
"""

# ruff: noqa: E501 — a guard is one line of a table

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]


class Guard(NamedTuple):
    """A guard's name, its module, its text and what stands there without it, and the tests that must notice."""

    name: str
    module: str
    text: str
    without: str
    tests: str
    select: str = ""


GUARDS = [
    Guard("no-follow at every step", "tools/beneath.py", "os.O_DIRECTORY | os.O_NOFOLLOW |", "os.O_DIRECTORY |", "test_beneath.py"),
    Guard("no-follow at the last step", "tools/beneath.py", "flags | os.O_NOFOLLOW | os", "flags | os", "test_beneath.py"),
    Guard("beneath", "tools/beneath.py", "_RESOLVE_BENEATH | _RESOLVE_NO_SYMLINKS |", "_RESOLVE_NO_SYMLINKS |", "test_beneath.py test_workspace.py"),
    Guard("no links by the kernel", "tools/beneath.py", "_RESOLVE_NO_SYMLINKS | _RESOLVE_NO_MAGICLINKS", "_RESOLVE_NO_MAGICLINKS", "test_beneath.py"),
    Guard("EAGAIN again", "tools/beneath.py", "(errno.EAGAIN, errno.EINTR)", "(errno.EINTR,)", "test_beneath.py"),
    Guard("walk without openat2", "tools/beneath.py", "    except OSError:\n        return walk\n", "    except OSError:\n        raise\n", "test_beneath.py"),
    Guard("absolute paths", "tools/relative_path.py", 'if path[0] in "/\\\\" or', "if", "test_relative_path.py"),
    Guard("parent paths", "tools/relative_path.py", 'if ".." in re.split', 'if "\\n.." in re.split', "test_relative_path.py"),
    Guard("NUL", "tools/relative_path.py", 'if "\\0" in path', 'if "\\0\\0\\0" in path', "test_relative_path.py"),
    Guard("home paths", "tools/relative_path.py", 'if path == "~" or', "if False and", "test_relative_path.py"),
    Guard("regular files only, after the open", "tools/workspace.py", "problem = beneath.kind_error(os.fstat(opened), path)\n        if", "problem = None\n        if", "test_workspace.py"),
    Guard("regular files only, before the open", "tools/workspace.py", "            self._refuse_other_kinds(parts, path)\n", "", "test_workspace.py"),
    Guard("hard links, when read to change", "tools/workspace.py", "if found.links > 1:", "if False:", "test_workspace.py"),
    Guard("hard links, when replaced", "tools/replacing.py", "if status.st_nlink > 1:", "if False:", "test_replacing.py"),
    Guard("protected names", "tools/workspace.py", "if found is None or found.group", "if True or found.group", "test_workspace.py test_path_matrix.py"),
    Guard("never allowed groups", "tools/workspace.py", "frozenset(allowed) - protected.NEVER_ALLOWED", "frozenset(allowed)", "test_workspace.py"),
    Guard("our own places", "tools/workspace.py", '"/".join(parts), self._private)', '"/".join(parts), ())', "test_workspace.py test_path_matrix.py"),
    Guard("case of protected names", "tools/protected.py", "text = component.lower()", "text = component", "test_protected.py"),
    Guard("ignorable characters", "tools/protected.py", ".translate(_ignored())", "", "test_protected.py"),
    Guard("streams and short names", "tools/protected.py", "_SHORT_NAME.fullmatch(part) or", "", "test_protected.py"),
    Guard("control characters in new names", "tools/workspace.py", "if expected is None and any(map(_is_control, path)):", "if False:", "test_workspace.py test_changing.py"),
    Guard("size of what is written", "tools/workspace.py", "if len(data) > max_bytes:", "if False:", "test_changing.py test_write_file.py"),
    Guard("size of what is read", "tools/replacing.py", "return b\"\".join(pieces) if left else None", "return b\"\".join(pieces)", "test_replacing.py test_workspace.py"),
    Guard("depth of new folders", "tools/workspace.py", "if len(parts) > _MAX_NEW_DEPTH:", "if False:", "test_tool_bad_input.py", "parts and write"),
    Guard("folders are unmade", "tools/workspace.py", "    for parent, name in reversed(made):\n", "    for parent, name in ():\n", "test_workspace.py test_changing.py"),
    Guard("stale at the start", "tools/replacing.py", "if hashlib.sha256(before.data).hexdigest() != expected:", "if False:", "test_replacing.py"),
    Guard("stale right before the rename", "tools/replacing.py", "        check_unchanged(prepared, max_bytes)\n", "", "test_replacing.py"),
    Guard("a new name is never taken from another", "tools/replacing.py", "    elif prepared.before is None:\n", "    elif False:\n", "test_replacing.py"),
    Guard("mode is kept", "tools/replacing.py", "    os.fchmod(opened, mode)\n", "", "test_replacing.py"),
    Guard("the file is synced", "tools/replacing.py", "            os.fsync(opened)\n", "", "test_replacing.py"),
    Guard("the folder is synced", "tools/replacing.py", "    make_durable(place.folder)\n    return prepared", "    return prepared", "test_replacing.py"),
    Guard("the pre-image is kept", "tools/replacing.py", "undo = _keep(place, before, journal)", "undo = None", "test_replacing.py test_changing.py"),
    Guard("no change without its pre-image", "tools/replacing.py", '        raise PathError(\n            "journal"', '        return None\n        raise PathError(\n            "journal"', "test_replacing.py"),
    Guard("read-only files", "tools/replacing.py", "return None if allowed else", "return None if True else", "test_replacing.py"),
    Guard("several files: all are compared again", "tools/changing.py", "    replacing.check_unchanged(prepared, max_bytes)\n", "", "test_changing.py"),
    Guard("several files: given back", "tools/changing.py", "for one in reversed(done) if", "for one in () if", "test_changing.py"),
    Guard("several files: temporary files go", "tools/changing.py", "                replacing.discard(prepared)\n", "                pass\n", "test_changing.py"),
    Guard("several files: the spare link goes", "tools/changing.py", "        replacing.remove(place.folder, old)\n        raise", "        raise", "test_changing.py"),
    Guard("unread files are not dropped by an add", "tools/patch_files.py", "        self._context.seen.check(draft.path, draft.before.digest)\n\n    def _update", "\n    def _update", "test_patch_files.py"),
    Guard("unread files are not deleted", "tools/patch_files.py", "                self._context.seen.check(draft.path, draft.before.digest)\n            draft.put(None)", "                pass\n            draft.put(None)", "test_patch_files.py"),
    Guard("stale files are not updated", "tools/patch_files.py", "self._context.seen.check(draft.path, draft.before.digest, must_be_seen=False)", "pass", "test_patch_vectors.py", "044"),
    Guard("a patch must end", "tools/patch_envelope.py", "or lines[end - 1].strip() != _END:", "or False:", "test_patch_envelope.py test_patch_vectors.py"),
    Guard("one place only", "tools/patch_hunks.py", "        if len(places) == 1:\n            return", "        if places:\n            return", "test_patch_hunks.py"),
    Guard("sections of a patch", "tools/patch_envelope.py", "if len(found) == MAX_SECTIONS:", "if False:", "test_patch_envelope.py"),
    Guard("hunks of a patch", "tools/patch_envelope.py", "if self._hunks_read > MAX_HUNKS:", "if False:", "test_tool_bad_input.py", "costly"),
    Guard("lines of a file", "tools/patch_files.py", "> MAX_LINES:", "> 10**9:", "test_tool_bad_input.py", "costly"),
    Guard("bytes a patch holds", "tools/patch_files.py", "if held > MAX_HELD_BYTES:", "if False:", "test_patch_files.py"),
    Guard("exact round trip", "tools/text_file.py", "if again == data else None", "if True else None", "test_text_file.py"),
    Guard("NUL is binary", "tools/text_file.py", "    if low or high * 4 < len(data):\n", "    if False:\n", "test_text_file.py"),
    Guard("unread files are not overwritten", "tools/write_file.py", "            context.seen.check(path, before.digest)\n", "            pass\n", "test_write_file.py"),
    Guard("journal: private", "session/blobs.py", "os.O_EXCL | _FLAGS, 0o600", "os.O_EXCL | _FLAGS, 0o644", "../session/test_blobs.py"),
    Guard("journal: bounded", "session/blobs.py", "if self._held + size > self._max_bytes:", "if False:", "../session/test_blobs.py"),
    Guard("journal: synced", "session/blobs.py", "                os.fsync(fd)\n            finally", "                pass\n            finally", "../session/test_blobs.py"),
    Guard("journal: no half blob", "session/blobs.py", "                os.unlink(temporary, dir_fd=blobs)\n", "                pass\n", "../session/test_blobs.py"),
    Guard("journal: damaged blobs", "session/blobs.py", "return found.hexdigest() == digest", "return True", "../session/test_blobs.py"),
    Guard("journal: links are not followed", "session/blobs.py", "_FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC", "_FLAGS = os.O_CLOEXEC", "../session/test_blobs.py"),
    Guard("journal: a torn line", "session/blobs.py", 'line = b"\\n" + line', "pass", "../session/test_blobs.py"),
    Guard("journal: wired", "run/wiring.py", "journal = BlobJournal(str(state_folder()), settings.workspace)", "journal = None", "../run/test_wiring_journal.py"),
]  # fmt: skip


def noticed(guard: Guard, copy: Path) -> str | None:
    """The first test that fails without the guard; None if none does, or a word of what is wrong with the guard."""
    place = copy / "sluice" / guard.module
    text = place.read_text("utf-8")
    if text.count(guard.text) < 1:
        return None
    place.write_text(text.replace(guard.text, guard.without), "utf-8")
    try:
        tests = [str((ROOT / "tests/tools" / name).resolve()) for name in guard.tests.split()]
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-x",
            "-p",
            "no:cacheprovider",
            "--no-header",
            f"--basetemp={copy}/tests",
            *tests,
        ]
        command += ["-k", guard.select] if guard.select else []
        environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    finally:
        place.write_text(text, "utf-8")
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed[0].split(" - ")[0] if failed and done.returncode == 1 else None


def main() -> int:
    """Tries each guard; returns the exit code."""
    word = sys.argv[1] if len(sys.argv) > 1 else ""
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        shutil.copytree(ROOT / "src" / "sluice", copy / "sluice", ignore=shutil.ignore_patterns("__pycache__"))
        chosen = [guard for guard in GUARDS if word in guard.name]
        for guard in chosen:
            found = noticed(guard, copy)
            wrong += found is None
            print(f"{'NOT NOTICED' if found is None else 'noticed'}: {guard.name}: {found or guard.tests}", flush=True)
    print(f"{len(chosen) - wrong} of {len(chosen)} guards have a test that fails without them")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
