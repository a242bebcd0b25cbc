"""Takes each guard of calls that wait for a person away in turn and looks whether a test turns red. Not part of the suite.

    python tests/guards/waiting.py [NAME]

Works on a copy of the tree, so nothing here changes. Ends with 1 if a guard could be removed unnoticed.
"""

from __future__ import annotations

import sys

from removal import Guard, main

WAITING, RESUME, CHECK, OPENING, VIEW = (
    f"src/sluice/session/{name}.py" for name in ("waiting", "resume", "check_calls", "opening", "check_view")
)
STATES, CALLS, MACHINE = (f"src/sluice/turn/{name}.py" for name in ("states", "calls", "machine"))
TOOL_CALLS, TALK, STORE = (
    "src/sluice/run/tool_calls.py",
    "src/sluice/run/conversation.py",
    "src/sluice/session/store.py",
)
STORED, RUN = "tests/session/test_waiting.py", "tests/run/test_taking_up.py"
TABLE, WALK = "tests/turn/test_turn_states.py", "tests/turn/test_walk.py"
# ruff: noqa: E501
# name: (file, what is there, what takes its place, the tests, and of them those that must notice).
_TABLE = {
    "no way round the question": (STATES, "(_S.REJUDGING, _E.JUDGED_ALLOW): _S.TO_ASK,", "(_S.REJUDGING, _E.JUDGED_ALLOW): _S.ALLOWED,", TABLE, "persons_yes"),
    "reopened, not new": (CALLS, "            slot.state = _S.REOPENED\n", "            pass\n", WALK, "taken_up"),
    "nobody to ask: not judged": (CALLS, "if slot.fit and not can_ask:", "if False:", WALK, "nobody_can_be_asked"),
    "an ended result stays": (CALLS, "slot.state, slot.result, slot.category = _S.DONE, result, \"read_only\"", "slot.state, slot.category = _S.REOPENED, \"read_only\"", WALK, "taken_up or nobody"),
    "a prompt waits for them": (MACHINE, "        if self._prompt_waits:\n            return commands + self._reopened_over(calls, at)\n", "", "tests/turn/test_naive.py", "left_open"),
    "shown as a question": (TOOL_CALLS, "        if self._is_taken_up(key) and not command.granted:\n            verdict = _asked_again(verdict)\n", "", RUN, "allow_it_now"),
    "a start needs a yes": (WAITING, "    if said is None:\n        raise", "    if False:\n        raise", STORED, "may_start or no_answer"),
    "a yes for just this call": (WAITING, "AND digest = ? AND granted = 1\",", "AND ? AND granted = 1\",", STORED, "may_start"),
    "only a run that goes on": (WAITING, "    if at_work is None or reply is None or", "    if reply is None or", STORED, "may_start"),
    "only what has no result": (WAITING, "    if not reply.answered <= key.position < reply.calls:\n", "    if False:\n", STORED, "may_start"),
    "asked again, the same call": (WAITING, "SET granted = NULL WHERE digest = excluded.digest\",", "SET granted = NULL\",", STORED, "may_start"),
    "a yes is taken back": (RESUME, "        take_back(connection, reply)\n", "        pass\n", STORED, "no_answer"),
    "the very call": (WAITING, "asked[0] == call_digest(call.name, call.arguments) and asked[1] is None", "asked[1] is None", STORED, "only_where_it_waits"),
    "no answer yet": (WAITING, " and asked[1] is None\n", "\n", STORED, "only_where_it_waits"),
    "no start": (WAITING, "if call.status != \"whole\" or is_started(connection, key):", "if call.status != \"whole\":", STORED, "only_where_it_waits"),
    "the last reply": (WAITING, "or not _is_last(connection, session, reply):", "or False:", STORED, "only_where_it_waits"),
    "a whole reply": (WAITING, " or reply.state != \"whole\":", ":", STORED, "only_where_it_waits"),
    "a run that was broken off": (WAITING, "if last_outcome(connection, session) == rows.INTERRUPTED else None", "", STORED, "only_where_it_waits or at_work"),
    "checked": (CHECK, " and wait_for_a_person(view.connection, session) is None:", ":", STORED, "waits_with_all"),
    "a lawful end without results": (CHECK, " or view.unsaved(session)\n", "\n", "tests/session/test_resume.py", "results_unstored"),
    "a lawful call without an end": (CHECK, "        if str(run) not in view.unsaved(str(session)):\n", "        if True:\n", "tests/session/test_resume.py", "results_unstored"),
    "not where all was kept": (VIEW, "        if run is None or self.query(", "        if run is None or not self.query(", "tests/session/test_resume.py", "results_unstored"),
    "a status, not words": (CHECK, "said.status == \"skipped\"", "said.content.startswith(\"[not_started]\")", "tests/session/test_check.py", "its_status"),
    "a prompt gives it up": (STORE, "self._mend(connection, prompt is None)", "self._mend(connection, True)", STORED, "gives_it_up"),
    "a fork starts nothing": (RESUME, "        _told(call, NOT_IN_COPY, \"skipped\") if result is None else _result(connection, reply, position, call, words)[0]\n", "        _result(connection, reply, position, call, words)[0]\n", STORED, "fork"),
    "a fork has what was done": (OPENING, "        broken = recover(connection, source, words) if free else ()\n", "        broken = ()\n", RUN, "a_fork_has_it"),
    "no fork of what is at work": (OPENING, "        free = holder(catalog.lock_folder(path), source) is None\n", "        free = True\n", STORED, "at_work"),
    "never sent without a result": (TALK, "            *(ToolMessage(call.id, call.name, _WAITS, False) for call in _open_calls(messages)),\n", "", RUN, "another_dialect"),
}  # fmt: skip

GUARDS = {
    name: Guard(file, text, without, (tests,), select) for name, (file, text, without, tests, select) in _TABLE.items()
}

if __name__ == "__main__":
    sys.exit(main(GUARDS))
