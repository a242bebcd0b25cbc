"""What a build or a test run would run, in the words of the project's own files: for the person who is asked about it (P3).

A name such as `make test` says nothing; what stands behind it does. The files are read and not obeyed, so this is what they
say at first sight: a build can always run more than can be read off. What is left out for length is counted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from sluice.tools.project import Look, Plan
from sluice.tools.project_run import shown_command
from sluice.tools.workspace import Workspace

MAX_LINES = 40
MAX_LINE_CHARACTERS = 300
_MAX_TARGETS = 16
_MAX_RULE = 2000  # characters of a line that are looked at
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")  # in the order in which make looks
_RULE = re.compile(r"(?P<targets>[^\s:=#][^:=#]*?)\s*::?(?!=)\s*(?P<needs>[^;#]*)(?:;(?P<first>.*))?")
_READ_TIME = re.compile(r"\$[({]shell\b|^\s*-?s?include\b|!=")  # what make does while it reads
_WHOLE_FILES = {"build.sh": ("build.sh",), "cmake": ("CMakeLists.txt",), "rust": ("build.rs",)}
_PYTEST = ("conftest.py", "tests/conftest.py")


def project_words(workspace: Workspace, plan: Plan) -> tuple[str, ...]:
    """What these commands would run, line by line, at most `MAX_LINES`; unescaped, as it stands in the files."""
    look = Look(workspace)
    lines = ["$ " + shown_command(command) for command in plan.commands]
    lines += _of_kind(look, plan)
    cut = [line if len(line) <= MAX_LINE_CHARACTERS else _cut(line) for line in lines]
    if len(cut) > MAX_LINES:
        more = len(cut) - MAX_LINES + 1
        cut[MAX_LINES - 1 :] = [f"… and {more} more lines, which are not shown"]
    return tuple(cut)


def _cut(line: str) -> str:
    return f"{line[:MAX_LINE_CHARACTERS]} … and {len(line) - MAX_LINE_CHARACTERS} more characters, which are not shown"


def _of_kind(look: Look, plan: Plan) -> Iterator[str]:
    for name in _WHOLE_FILES.get(plan.kind, ()):
        yield from _file(look, name)
    if plan.kind == "node":
        yield from _scripts(look, [command[-1] for command in plan.commands])
    elif plan.kind == "make":
        yield from _recipes(look, [command[1] if len(command) > 1 else None for command in plan.commands])
    elif plan.kind == "python" and any("compileall" not in command for command in plan.commands):
        for name in _PYTEST:
            yield from _file(look, name)
        yield "and the project's test files, as they are"
    elif plan.kind in ("rust", "go"):
        yield "and what the project's files and its dependencies bring for building and testing"


def _file(look: Look, name: str) -> Iterator[str]:
    text = look.text(name)
    if text is not None:
        yield f"{name} ({len(text.encode('utf-8', 'replace'))} bytes):"
        yield from _indented(text)


def _indented(text: str) -> list[str]:
    return ["    " + line for line in text.rstrip().splitlines()]


def _scripts(look: Look, names: list[str]) -> Iterator[str]:
    try:
        found = json.loads(look.text("package.json") or "{}").get("scripts", {})
    except (ValueError, RecursionError, AttributeError):
        found = {}
    for name in names:
        for hook in (f"pre{name}", name, f"post{name}"):
            script = found.get(hook) if isinstance(found, dict) else None
            if isinstance(script, str):
                yield f"package.json, script {hook}:"
                yield from _indented(script)


def _recipes(look: Look, targets: list[str | None]) -> Iterator[str]:
    """The recipes of these targets (`None` is the first one) and of what they need, and what make runs while it reads."""
    name = next((name for name in _MAKEFILES if look.has(name)), None)
    text = (look.text(name) if name is not None else None) or ""
    lines = _joined(text)
    rules = _rules(lines)
    first = next((target for target in rules if not target.startswith(".") and "%" not in target), None)
    waiting = [first if target is None else target for target in targets]
    seen: set[str] = set()
    while waiting:
        target = waiting.pop(0)
        if target is None or target in seen or target not in rules:
            continue
        seen.add(target)
        if len(seen) > _MAX_TARGETS:
            yield f"… and the recipes of more targets than {_MAX_TARGETS}, which are not shown"
            break
        needs, recipe = rules[target]
        yield f"{name}, {target}:" + (f" needs {' '.join(needs)}" if needs else "")
        yield from _indented("\n".join(recipe)) if recipe else []
        waiting += needs
    for line in lines:
        if _READ_TIME.search(line) and not line.startswith("\t"):
            yield f"{name}, while it is read: {line.strip()}"


def _joined(text: str) -> list[str]:
    """The lines that make would see, cut where no hand has written on."""
    return [line[:_MAX_RULE] for line in re.sub(r"\\\n[ \t]*", " ", text).splitlines()]


def _rules(lines: list[str]) -> dict[str, tuple[list[str], list[str]]]:
    """What each target needs, and its recipe, as written."""
    rules: dict[str, tuple[list[str], list[str]]] = {}
    open_rules: list[str] = []
    for line in lines:
        if line.startswith("\t"):
            for target in open_rules:
                rules[target][1].append(line.strip())
            continue
        found = _RULE.fullmatch(line)
        if found is None:
            if line.strip() and not line.lstrip().startswith("#"):
                open_rules = []
            continue
        open_rules = found["targets"].split()[:_MAX_TARGETS]
        for target in open_rules:
            needs, recipe = rules.setdefault(target, ([], []))
            needs += [need for need in found["needs"].split() if need != "|"]
            if found["first"]:
                recipe.append(found["first"].strip())
    return rules
