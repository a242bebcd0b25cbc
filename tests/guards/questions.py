"""Takes each guard of the terminal face's questions away in turn and looks whether a test turns red. Not part of the suite.

    python tests/guards/questions.py [NAME]

Works on a copy of the tree, so nothing here changes. Ends with 1 if a guard could be removed unnoticed.
"""

from __future__ import annotations

import sys

from removal import Guard, main

U, T = "src/sluice/ui/tui/", "tests/ui/tui/"
PANEL, APP, TRUST, KEYS = U + "approval_panel.py", U + "app.py", U + "trust_screen.py", U + "key_stream.py"
ON_PANEL, ON_APP = T + "test_approval_panel.py", T + "test_app_input.py"
# ruff: noqa: E501
# name: (file, what is there, what takes its place, the tests, and of them those that must notice). Where two guards hold the
# same thing (a question's number and its timers, the panel and the app over the focus) only one of them is here.
_TABLE = {
    "quiet before an answer": (PANEL, "if pending or not self.listening or event.time < self._drawn_at + self._quiet:", "if pending:", ON_PANEL, "keys_before_it_was_seen"),
    "typed before, read late": (PANEL, " or event.time < self._drawn_at + self._quiet", "", ON_PANEL, "typed_before_and_read_late"),
    "typing elsewhere": (PANEL, "if time.monotonic() - max(self._drawn_at, self._last_key()) < self._quiet:", "if False:", ON_PANEL, "typing_anywhere"),
    "silence behind an answer": (PANEL, "self._chosen = self.set_timer(self._alone, lambda: self._answer(number, allowed))", "self._answer(number, allowed)", ON_PANEL, "burst_of_keys"),
    "keys behind an answer": (PANEL, "        pending = self._pending if self._chosen is not None else \"\"\n        self._stop_choice()\n", "        pending = \"\"\n", ON_PANEL, "burst_of_keys"),
    "one answer": (PANEL, "self.listening, self._answered = False, True", "self.listening = True", ON_PANEL, "one_key_answers"),
    "an answer is dropped with the focus": (PANEL, "        self._stop_choice()\n        self.call_later", "        self.call_later", ON_PANEL, "focus_is_lost"),
    "no focus from a draft": (APP, "area.has_focus and not area.text and", "", ON_APP, "draft_keeps_the_focus"),
    "whole text": (PANEL, 'for line in wanted.text.split("\\n")]', 'for line in wanted.text.split("\\n")[:100]]', ON_PANEL, "whole_text"),
    "escaped text": (U + "folded_text.py", "return visible(text, strict=True).replace", "return text.replace", ON_PANEL, "escapes_are_text"),
    "told behind a screen": (APP, "line.display = self.approval.asking", "line.display = False", ON_APP, "question_behind_a_screen"),
    "listens anew behind a screen": (APP, "            self.approval.uncovered()\n", "", ON_APP, "question_behind_a_screen"),
    "new folder: seen": (TRUST, "if before is not None and now - before >= QUIET_SECONDS:", "if True:", ON_APP, "new_folder"),
    "new folder: no letter of a word": (TRUST, "            self._answer.stop()\n", "            pass\n", ON_APP, "new_folder"),
    "burst of lines": (KEYS, "if inside and self._size >= BURST_CHARACTERS else typed", "if False else typed", T + "test_key_stream.py", "at_most_one_prompt"),
}  # fmt: skip

GUARDS = {
    name: Guard(file, text, without, (tests,), select) for name, (file, text, without, tests, select) in _TABLE.items()
}

if __name__ == "__main__":
    sys.exit(main(GUARDS))
