"""Takes each guard of undo, copies and readers of sessions away in turn and looks whether a test turns red.

    python tests/guards/undo.py [NAME]

Not part of the suite. Works on a copy of the tree, so nothing here changes. Ends with 1 if a guard could be removed
unnoticed.
"""

from __future__ import annotations

import sys

from removal import Guard, main

UNDO, STORE, FORK, EXPORT, SALVAGE, LOCKS = (
    f"src/sluice/session/{name}.py" for name in ("undo", "store", "fork", "export", "salvage", "locks")
)
UNDOING, SESSIONS, COMMANDS = "src/sluice/run/undoing.py", "src/sluice/run/sessions.py", "src/sluice/ui/sessions.py"
PLANS, RUNS, EXPORTS = "tests/session/test_undo.py", "tests/run/test_undoing.py", "tests/session/test_export.py"
# ruff: noqa: E501
# name: (file, what is there, what takes its place, the tests, and of them those that must notice).
_TABLE = {
    "the run of this folder": (UNDO, "p.run = r.id AND {folder} = ? AND NOT {marked}", "p.run = r.id AND ? != '' AND NOT {marked}", PLANS, "folder"),
    "the files of this folder": (UNDO, "p.run = ? AND {folder} = ? AND NOT", "p.run = ? AND ? != '' AND NOT", PLANS, "folder"),
    "the folder is kept": (STORE, "nullif(?8, (SELECT project FROM session WHERE id = ?9))", "nullif(?8, iif(?9 = '', ?9, ?8))", RUNS, "two_folders"),
    "a store of before": (UNDO, "if version >= MARKED_SINCE else", "if version >= 0 else", PLANS, "of_before"),
    "a damaged store of before": (SALVAGE, "columns, keys = self._known(table),", "columns, keys = self._columns[table],", PLANS, "of_before"),
    "on to the run before": (UNDOING, "unmarked = \"\" if dry or (left and not restored) else _marked(path, run.id, place)", "unmarked = \"\"", RUNS, "each_undo"),
    "a mark is of the folder": (UNDO, "SET undone = 1 WHERE run = ? AND coalesce(", "SET undone = 1 WHERE run = ? OR ? = coalesce(", PLANS, "passed_over"),
    "not past what was left": (UNDOING, "if dry or (left and not restored) else", "if dry else", RUNS, "unasked"),
    "not what changed since": (UNDO, "    if now != after:\n", "    if False:\n", PLANS, "what_cannot"),
    "not what a call broke off in": (UNDO, "    if not ended:\n", "    if False:\n", PLANS, "what_cannot"),
    "not under a run": (UNDOING, "        if held is not None:\n", "        if False:\n", RUNS, "goes_on"),
    "nobody begins meanwhile": (UNDOING, "lock = SessionLock(folder, session)", "lock = None", RUNS, "nobody_begins"),
    "only a disk for reading goes without": (UNDOING, "if error.errno != errno.EROFS:", "if False:", RUNS, "for_reading"),
    "a lock on a full disk": (LOCKS, "with contextlib.suppress(OSError):  # a full disk", "with contextlib.nullcontext():  # a full disk", "tests/session/test_locks.py", ""),
    "a pre-image that is gone": (UNDOING, "                step = msgspec.structs.replace(step, refusal=str(error))\n", "                raise\n", RUNS, "is_gone"),
    "a pre-image that is damaged": (UNDO, "if hashlib.sha256(data).hexdigest() != sha256:", "if False:", PLANS, "not_whole"),
    "the exit code": (COMMANDS, "return 1 if done.left else 0", "return 0", "tests/program/test_session_commands.py", "undo_goes"),
    "the store of the folder": (UNDOING, "(\"\" if same else", "(\"\" if True else", RUNS, "names_the_store"),
    "a copy of a part": (FORK, "    if left_out is None:\n", "    if True:\n", "tests/session/test_catalog.py", "has_seen"),
    "what has arrived": (EXPORT, "            if one.state == \"open\":\n", "            if False:\n", EXPORTS, "has_arrived"),
    "a view for each step": (EXPORT, "        yield from found\n", "        connection.execute(\"BEGIN\"), connection.execute(\"SELECT 1 FROM run\").fetchone()\n        yield from found\n        connection.execute(\"COMMIT\")\n", EXPORTS, "slowly"),
    "a fixed end": (EXPORT, "upto=end, all_states=True", "all_states=True", EXPORTS, "when_it_began"),
    "removed meanwhile": (EXPORT, "            raise _gone(session)\n", "            return\n", EXPORTS, "meanwhile"),
    "the last of all projects": (SESSIONS, "                elif everywhere:\n", "                elif False:\n", "tests/run/test_sessions.py", "with_all"),
    "past a store that is damaged": (SESSIONS, "            failed.append(error)\n", "            raise\n", "tests/run/test_sessions.py", "with_all"),
}  # fmt: skip

GUARDS = {
    name: Guard(file, text, without, (tests,), select) for name, (file, text, without, tests, select) in _TABLE.items()
}

if __name__ == "__main__":
    sys.exit(main(GUARDS))
