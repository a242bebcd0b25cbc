"""Takes each guard of removing, finding and keeping many sessions away in turn and looks whether a test turns red.

    python tests/guards/many_sessions.py [NAME]

Not part of the suite. Works on a copy of the tree, so nothing here changes. Ends with 1 if a guard could be removed
unnoticed.
"""

from __future__ import annotations

import sys

from removal import Guard, main

REMOVAL, OPENING, CATALOG, CHECK, DISK, FILES, STORE, ADOPTING = (
    f"src/sluice/session/{name}.py"
    for name in ("removal", "opening", "catalog", "check_view", "disk", "file_systems", "store", "adopting")
)
SESSIONS, PLACES, ELSEWHERE, CONFIG = (
    f"src/sluice/run/{name}.py" for name in ("sessions", "store_places", "elsewhere", "config")
)
REMOVING, DISKS, VACUUM, LISTS = (f"tests/session/test_{name}.py" for name in ("removal", "disk", "vacuum", "catalog"))
FOUND, FULL, KEPT = (f"tests/run/test_{name}.py" for name in ("elsewhere", "store_bound", "keeping"))
FULL_LOG = "tests/session/test_audit_full_disk.py"
STATE_FILE, KEEPING, STATE_FILES = (
    "src/sluice/session/state_file.py",
    "src/sluice/run/keeping.py",
    "tests/session/test_state_file.py",
)
# ruff: noqa: E501
# name: (file, what is there, what takes its place, the tests, and of them those that must notice).
_TABLE = {
    "an index by run": ("src/sluice/session/schema.sql", "CREATE INDEX message_by_run ON message (run);\n", "", REMOVING, "index or grow"),
    "a batch ends": (REMOVAL, "            if clock() >= until:\n                return True\n", "            pass\n", REMOVING, "turn or between or died"),
    "a pause between two": (REMOVAL, "        time.sleep(PAUSE_SECONDS)\n", "        pass\n", REMOVING, "turn"),
    "from the end": (REMOVAL, "ORDER BY number DESC LIMIT 1", "ORDER BY number LIMIT 1", REMOVING, "between"),
    "messages from the end": (REMOVAL, "ORDER BY seq DESC LIMIT ?", "ORDER BY seq LIMIT ?", REMOVING, "between or turn or left"),
    "no list shows it": (CATALOG, "(\"s.project != ?\", (REMOVED,)) if project is None", "(\"1 OR ? = ''\", (REMOVED,)) if project is None", REMOVING, "between"),
    "no check asks for it": (CHECK, "        _hide_removed(connection)\n", "", REMOVING, "between"),
    "not under somebody's hands": (REMOVAL, "if holder(lock_folder(path), session) is None]", "]", LISTS, "in_use"),
    "an opening goes on with it": (OPENING, "            more = await _swept(database, SWEEP_SECONDS)\n", "            more = False\n", REMOVING, "next_opening"),
    "the rest goes meanwhile": (OPENING, "meanwhile=sweep_meanwhile(database) if more else None", "meanwhile=None", REMOVING, "goes_on"),
    "closing ends that": (STORE, "                self._meanwhile.cancel()\n                await asyncio.wait([self._meanwhile])\n", "                pass\n", REMOVING, "closing"),
    "an opening does not wait": (OPENING, "if not more or clock() >= until:", "if not more:", REMOVING, "does_not_wait"),
    "it waits before it says no": (OPENING, "        await _swept(database, math.inf)\n", "", REMOVING, "does_not_wait"),
    "gone while looked up": (OPENING, "if needed is not None and not catalog.there(connection, needed):", "if False:", REMOVING, "looked_up"),
    "the one that is asked for stays": (OPENING, "if id not in spared]", "]", LISTS, "never_too_old"),
    "a file with others in it stays": (REMOVAL, "if not {str(id) for (id,) in held} <= set(sessions):", "if False:", REMOVING, "whole_file"),
    "a file in use stays": (REMOVAL, "            if not users.try_exclusive():\n                return False\n", "", REMOVING, "whole_file"),
    "a full disk": (SESSIONS, "        if remove_file(path, ids):\n            return list(ids), {}\n", "", FULL, "full_disk"),
    "others use the room": (SESSIONS, "(full, []) if len(full) < len(groups) else ([], [])", "([], [])", FULL, "full_disk"),
    "no reply over the bound": (STORE, "            self._room(connection)\n", "", FULL, "bound"),
    "the copy of the log": (DISK, "return _copied(path) if _log_bytes(path) else _reader", "return _reader", DISKS, "still_in_the_log"),
    "full or for reading only": (DISK, "            found = full_or_read_only(Path(path), code) or found\n", "            pass\n", DISKS, "asked_of_the_disk"),
    "a text is no store": (DISK, "and is_text(Path(path)):", "and False:", DISKS, "not_ours"),
    "a damaged one is no text": (FILES, "return bool(text) and not odd and text.count(\"\\ufffd\") <= 1", "return True", DISKS, "not_ours"),
    "read through for a while": (DISK, "        if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:\n            raise\n        return False\n", "        raise\n", DISKS, "for_a_while"),
    "shared by two kernels": (FILES, "virtiofs ", "", DISKS, "two_kernels"),
    "programs that go far": (FILES, "kind.removeprefix(\"fuse.\") in _PROGRAMS.split()", "False", DISKS, "programs"),
    "the way to it (run)": (SESSIONS, "        raise ConfigurationError(words or str(error)) from None", "        raise ConfigurationError(str(error)) from None", FOUND, "another"),
    "the way to it (commands)": (SESSIONS, "    if not found and not everywhere and (words := elsewhere_words(settings, wanted)):\n", "    if words := \"\":\n", FOUND, "another_project"),
    "only what is not here": (ELSEWHERE, " or (not own_store and _in_own_store(settings, wanted)):", ":", FOUND, "said_as_it_is"),
    "a moved folder is told": (SESSIONS, "if moved else opening", "if False else opening", FOUND, "was_moved"),
    "only of the same name": (ELSEWHERE, "(not likely or called == name or there == place) and ", "", FOUND, "another_name"),
    "or renamed": (ELSEWHERE, " or there == place) and", ") and", FOUND, "renamed"),
    "what others changed there": (ADOPTING, "SET workspace = ? WHERE workspace = ?", "SET workspace = ? WHERE workspace = ? AND 0", FOUND, "folder_is_now"),
    "removed is removed": (SESSIONS, "    targets += left_behind(", "    _ = left_behind(", FOUND, "taken_along_again"),
    "a copy is another's": (ELSEWHERE, "folder not in folders[id] and ", "", FOUND, "copy_of_a_store"),
    "what is there stays": (ELSEWHERE, "    if os.path.isdir(folder):\n", "    if False:\n", FOUND, "still_there"),
    "not what is in use": (ADOPTING, "held += others\n", "pass\n", FOUND, "in_use"),
    "before what is there": (ADOPTING, "first - last - 1", "0", FOUND, "was_moved"),
    "removed where they were": (ADOPTING, "                    theirs.write_now(lambda connection, free=free: begin(connection, free))  # type: ignore[misc]\n", "", FOUND, "was_moved"),
    "a chosen store must be there": (PLACES, "    if wanted and settings.session_store is not None:\n", "    if False:\n", FOUND, "chosen"),
    "a pipe is no store": (PLACES, "    if path.exists() and not path.is_dir():\n", "    if False:\n", FOUND, "chosen"),
    "a wrong clock (audit)": (KEEPING, "if not written_between(path, before, lately):", "if False:", KEPT, "wrong_clock"),
    "nested deep": (STATE_FILE, ", UnicodeError, RecursionError)", ", UnicodeError)", STATE_FILES, "deep or none"),
    "no pipe for a state file": (STATE_FILE, "os.O_CLOEXEC | os.O_NONBLOCK)\n    if not stat.S_ISREG(os.fstat(fd).st_mode):", "os.O_CLOEXEC | os.O_NONBLOCK)\n    if False:", STATE_FILES, "stands"),
    "the end that is needed": ("src/sluice/session/audit.py", " or not self._is_followed(one)", "", FULL_LOG, "stays"),
    "who wrote on": ("src/sluice/session/audit_reading.py", "return _WROTE_ON if linked else", "return _WROTE_ON if False else", "tests/session/test_audit_rotation.py", "wrote_on"),
    "a removal by its name": ("src/sluice/session/audit_reading.py", "    link.knows(begun_removals(path))\n", "", FULL_LOG, "death"),
    "the right end in the name": ("src/sluice/session/audit_reading.py", "(one.name, one.last) == (self.unrecorded, self._removed_digest)", "one.name == self.unrecorded", FULL_LOG, "alone"),
    "the index waits for room": ("src/sluice/session/blobs.py", "if error.errno not in NO_ROOM:", "if True:", "tests/session/test_blobs.py", "waits"),
    "a folder by its slash": (CONFIG, "folder = os.sep if store[0].endswith(os.sep) else \"\"", "folder = \"\"", FOUND, "not_there_yet"),
}  # fmt: skip

GUARDS = {
    name: Guard(file, text, without, (tests,), select) for name, (file, text, without, tests, select) in _TABLE.items()
}

if __name__ == "__main__":
    sys.exit(main(GUARDS))
