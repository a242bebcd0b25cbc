"""What import contracts cannot see: calls that only their owners may make, the README's tree, the exported names."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import sluice
import sluice.wire

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "sluice"

DRY = ("wire", "turn", "policy", "values", "limits.py", "errors.py")
PROCESS_OWNERS = ("tools/process.py", "tools/keeper_program.py", "tools/listener_program.py", "testing/")
PRINT_OWNERS = ("ui/", "testing/")
SPAWNING = re.compile(
    r"(asyncio\.create_subprocess_\w+|os\.(system|popen|fork\w*|exec\w+|spawn\w+|posix_spawn\w*)|pty\.\w+|"
    r"multiprocessing\.Process|loop\.subprocess_\w+)"
)


def _modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(SOURCE.rglob("*.py")):
        yield path.relative_to(SOURCE).as_posix(), ast.parse(path.read_text("utf-8"), filename=str(path))


def _calls(tree: ast.Module) -> Iterator[tuple[str, int]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node.lineno


MODULES = list(_modules())


def test_there_are_modules_to_look_at() -> None:
    assert len(MODULES) > 40


@pytest.mark.parametrize("name", ["open", "print", "input", "exec", "eval", "compile", "__import__"])
def test_dry_rooms_call_nothing_that_touches_the_world(name: str) -> None:
    found = [f"{m}:{line}" for m, tree in MODULES if m.startswith(DRY) for call, line in _calls(tree) if call == name]
    assert not found


def test_only_faces_and_the_shipped_test_tools_print() -> None:
    found = [
        f"{module}:{line}"
        for module, tree in MODULES
        if not module.startswith(PRINT_OWNERS)
        for call, line in _calls(tree)
        if call in ("print", "input")
    ]
    assert not found


def test_processes_are_started_by_their_owner_only() -> None:
    found = [
        f"{module}:{line} {call}"
        for module, tree in MODULES
        if not module.startswith(PROCESS_OWNERS)
        for call, line in _calls(tree)
        if SPAWNING.fullmatch(call)
    ]
    assert not found


def test_the_search_for_processes_finds_one() -> None:
    """The owner does start processes: a pattern that matches nothing would prove nothing."""
    owner = next(tree for module, tree in MODULES if module == "tools/process.py")
    names = {call for call, _ in _calls(owner)}
    assert any(SPAWNING.fullmatch(name) or name.startswith("subprocess.") for name in names)


def test_nothing_works_at_import() -> None:
    """At the top of a module stand definitions, constants and declarations, no loops, tries or bare calls."""
    odd = []
    for module, tree in MODULES:
        for node in tree.body:
            if isinstance(node, (ast.For, ast.While, ast.With, ast.Try)) or (
                isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
            ):
                odd.append(f"{module}:{node.lineno}")
    assert not odd


def test_every_exported_name_is_there_once() -> None:
    for package in (sluice, sluice.wire):
        assert len(package.__all__) == len(set(package.__all__))
        for name in package.__all__:
            assert getattr(package, name) is not None


def test_the_exported_names_are_these() -> None:
    """A name is a promise: adding or dropping one is done on purpose, here as well."""
    assert set(sluice.__all__) == {
        "Agent",
        "Approver",
        "ArgumentsError",
        "AuditError",
        "CallFinished",
        "CallStarted",
        "Cancel",
        "ConfigurationError",
        "Hooks",
        "InternalError",
        "Limits",
        "MemoryStore",
        "NoHooks",
        "Notice",
        "OwnTool",
        "Policy",
        "RegistrationError",
        "Rule",
        "RunFinished",
        "Settings",
        "SluiceError",
        "Store",
        "StoreError",
        "StreamError",
        "TextNotice",
        "ToolResult",
        "ToolSpec",
        "Transport",
        "TransportError",
        "UserMessage",
        "__version__",
        "open_agent",
        "run_once",
        "tool",
    }
    assert {
        "ReplyReader",
        "read_reply",
        "parse_arguments",
        "TextDelta",
        "ReasoningDelta",
        "CallOpened",
        "CallClosed",
    } <= set(sluice.wire.__all__)


def test_every_public_thing_has_a_docstring() -> None:
    bare = [module for module, tree in MODULES if not ast.get_docstring(tree)]
    bare += [f"{module}:{node.lineno} {node.name}" for module, tree in MODULES for node in _without_docstring(tree)]
    assert not bare


def _without_docstring(
    tree: ast.Module | ast.ClassDef,
) -> Iterator[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    """Public classes and functions that can be reached by name and say nothing about themselves."""
    for node in tree.body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and not node.name.startswith("_"):
            if not ast.get_docstring(node):
                yield node
            if isinstance(node, ast.ClassDef):
                yield from _without_docstring(node)


def test_the_readme_tree_is_the_tree() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    block = re.search(r"```text\nsrc/sluice/\n(.*?)```", readme, re.DOTALL)
    assert block, "the README has no tree of src/sluice"
    named = set(re.findall(r"^[├└]── (\S+)", block[1], re.MULTILINE))
    there = {p.name + ("/" if p.is_dir() else "") for p in SOURCE.iterdir() if p.name != "__pycache__"}
    assert named == there - {"py.typed"}


@pytest.mark.parametrize("module", ["sluice", "sluice.wire"])
def test_the_core_imports_nothing_heavy(module: str) -> None:
    code = f"import sys, {module}; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not loaded & {
        "asyncio",
        "pycurl",
        "click",
        "sqlite3",
        "textual",
        "http.client",
        "subprocess",
        "platformdirs",
    }
