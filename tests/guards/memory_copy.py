"""Takes each guard of what a store refused away in turn and looks whether a test turns red.

    python tests/guards/memory_copy.py [NAME]

Not part of the suite. Works on a copy of the tree, so nothing here changes. Ends with 1 if a guard could be removed
unnoticed.
"""

from __future__ import annotations

import sys

from removal import Guard, main

TALK, COPY, ASKED, CHECK = (
    f"src/sluice/run/{name}.py" for name in ("conversation", "memory_copy", "session_requests", "session_check")
)
EXPORT, UNSAVED = "src/sluice/session/export.py", "src/sluice/session/unsaved.py"
TESTS, FORMS, CHECKS = (
    f"tests/{name}.py" for name in ("run/test_memory_copy", "session/test_export", "run/test_session_check")
)
# ruff: noqa: E501
# name: (file, what is there, what takes its place, the tests, and of them those that must notice).
_TABLE = {
    "a prompt that was refused": (TALK, "                self._refused(run, prompt)\n", "                pass\n", TESTS, "in_its_place"),
    "a message that was refused": (TALK, "            self._refused(run, message)\n", "", TESTS, "single_run"),
    "the next run is known": (TALK, "one if one.before else msgspec.structs.replace(one, before=run)", "one", TESTS, "in_its_place"),
    "the first next run": (TALK, "one if one.before else msgspec", "msgspec", TESTS, "in_its_place"),
    "before the next run": (EXPORT, "        while left and left[0].before and", "        while False and", TESTS, "in_its_place"),
    "text that can be written": (EXPORT, "    return rows.join(*rows.split(message))\n", "    return message\n", FORMS, "from_memory"),
    "a result is not told twice": (UNSAVED, "if id(one.message) not in here]", "]", FORMS, "from_memory"),
    "a place that is gone": (UNSAVED, "if one.behind is None or id(one.behind) not in here)", "if one.behind is None)", FORMS, "from_memory"),
    "the same words are not the same message": (UNSAVED, "if one.behind is message)", "if one.behind == message)", FORMS, "from_memory"),
    "no half of a copy": (ASKED, "                    file.seek(0)\n                    file.truncate()\n", "", TESTS, "cannot_be_read"),
    "no copy that is not whole": (COPY, "                os.unlink(path)\n", "                pass\n", TESTS, "whole_or_not"),
    "another folder": (COPY, "            failed = failed or error\n    assert", "            raise\n    assert", TESTS, "whole_or_not"),
    "no copy of a prompt": (COPY, "    return not isinstance(one.message, UserMessage)\n", "    return True\n", TESTS, "prompt_alone"),
    "what cannot be read breaks nothing": (CHECK, "if error.kind == \"damaged\":", "if True:", CHECKS, "breaks_no_promise"),
}  # fmt: skip

GUARDS = {
    name: Guard(file, text, without, (tests,), select) for name, (file, text, without, tests, select) in _TABLE.items()
}

if __name__ == "__main__":
    sys.exit(main(GUARDS))
