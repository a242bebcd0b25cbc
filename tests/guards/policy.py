"""Takes each guard of policy and approval away in turn and looks whether a test turns red. Not part of the suite.

    python tests/guards/policy.py [NAME]

Works on a copy of the tree, so nothing here changes. Ends with 1 if a guard could be removed unnoticed.
"""

from __future__ import annotations

import sys

from removal import Guard, main

P, R = "src/sluice/policy/", "src/sluice/run/"
# ruff: noqa: E501
# name: (file, what is there, what takes its place). Where two guards hold the same thing only one of them is here.
_TABLE = {
    "parse errors": (P + "command_words.py", "if root is None or root.has_error:", "if root is None:"),
    "length": (P + "command_words.py", "if len(text) > MAX_CHARACTERS:", "if False:"),
    "count of programs": (P + "command_words.py", "len(self._reading.programs) > MAX_PROGRAMS", "False"),
    "joined lines": (P + "command_words.py", "if _JOINED_LINES.search(text):", "if False:"),
    "touching words": (P + "command_words.py", "if child.start_byte == end:", "if False:"),
    "odd expansions": (P + "command_words.py", '_ODD_EXPANSIONS = ("!", "@")', "_ODD_EXPANSIONS = ()"),
    "loops": (P + "command_words.py", 'if kind == "for_statement":', "if False:"),
    "control characters": (P + "command_words.py", 'if any(mark in text for mark in "\\0\\r\\v\\f"):', "if False:"),
    "dynamic program": (P + "command_wrappers.py", 'found.doubts.append(f"which program is run', 'str(f"which program is run'),
    "unknown options": (P + "command_wrappers.py", 'found.doubts.append(f"{name} has an option that is not known here ({word.text[:40]})")', "pass"),
    "meaning": (P + "command_wrappers.py", "elif name in _CHANGES_MEANING:", "elif False:"),
    "shell on standard input": (P + "command_wrappers.py", 'found.doubts.append(f"{name} takes its commands from its standard input")', "pass"),
    "second reader": (P + "read_only_commands.py", "return found == plain and", "return"),
    "paths outside": (P + "read_only_commands.py", 'return not path.startswith(("/", "~")) and ".." not in path.split("/")', "return True"),
    "patterns as options": (P + "read_only_commands.py", 'if word.kind == "glob" and', "if False and"),
    "most operands": (P + "read_only_commands.py", "return table.most is None or operands <= table.most", "return True"),
    "every command": (P + "command_rules.py", "if found is None and not transparent(program):\n            return None", "pass"),
    "name without folder": (P + "command_rules.py", "program.name + rest, program.name.lower() + rest", "text"),
    "might match": (P + "command_rules.py", "certain or _might_match(rule.command, program)", "certain"),
    "unread under a deny": (P + "decide.py", "if self._reading.doubts and any(", "if False and any("),
    "spare only when asked": (P + "decide.py", "spares = self._policy.ask is True and", "spares ="),
    "place of a grant": (P + "decide.py", "grant == Grant(key, digest, place)", "grant == Grant(key, digest, grant.place)"),
    "used once": (R + "tool_calls.py", "self._grants.pop(key, None)", "self._grants.get(key)"),
    "project may only deny": (R + "config_keys.py", 'for rule in wanted.rules if rule.effect == "deny")', "for rule in wanted.rules)"),
    "broken rules": (R + "wiring.py", "broken=settings.rules.broken,", ""),
    "empty file": (R + "config.py", "file.path.stat().st_size == 0", "False"),
    "typed before": (R + "approvals.py", "            _drop_typed(fd)\n", ""),
    "odd answers": (R + "asking.py", 'if allowed not in ("once", "session"):', "if False:"),
    "gutter": (R + "approvals.py", 'lines += [f"{_GUTTER}{piece}"', 'lines += [f"{piece}"'),
    "wrapping": (R + "approvals.py", "if width + wide > columns:", "if False:"),
    "escaping": (R + "question.py", "shown = escaped(text)", "shown = text"),
    "names escaped": (R + "question.py", 'return escaped(text).replace("\\n"', 'return text.replace("\\n"'),
    "what stands behind, escaped": (R + "approvals.py", "in wrapped(self._one_line(line),", "in wrapped(line,"),
    "what stands behind, behind the gutter": (R + "approvals.py", 'lines += [f"{_GUTTER}{piece}" for piece in wrapped(self', 'lines += [f"{piece}" for piece in wrapped(self'),
    "what stands behind, at all": (R + "call_details.py", "if tool not in (BUILD.name, TEST.name):", "if True:"),
    "plain yes": (R + "approvals.py", "if text.lower() in _YES:", 'if text.lower().startswith("y"):'),
}  # fmt: skip
TESTS = [
    "tests/policy",
    "tests/run/test_approvals.py",
    "tests/run/test_call_details.py",
    "tests/run/test_interactive_asking.py",
    "tests/run/test_config.py",
    "tests/run/test_tool_calls.py",
    "tests/run/test_wiring.py",
]

GUARDS = {name: Guard(*row, TESTS) for name, row in _TABLE.items()}

if __name__ == "__main__":
    sys.exit(main(GUARDS))
