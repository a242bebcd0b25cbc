"""What kind of project a workspace holds, and which commands build and test it.

A `build.sh` at the top goes first: `./build.sh debug|release|clean|test` is a contract that a project makes on purpose.
Else the build files at the top decide, in the order of `_ORDER`. Files are looked at through the wall, so that a link is
no build file. Programs are taken from the user's PATH, never from the workspace, but for what a project is made of: its
own `build.sh` and its own Python environment.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from sluice.errors import PathError
from sluice.tools.process import environment
from sluice.tools.workspace import Workspace

Mode = Literal["debug", "release"]
Command = tuple[str, ...]

_MAX_FILE_BYTES = 1024 * 1024  # of a build file that is looked into
_ORDER = ("build.sh", "rust", "go", "cmake", "node", "python", "make")
_MARKS: dict[str, tuple[str, ...]] = {
    "build.sh": ("build.sh",),
    "rust": ("Cargo.toml",),
    "go": ("go.mod",),
    "cmake": ("CMakeLists.txt",),
    "node": ("package.json",),
    "python": ("pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "pytest.ini", "tox.ini"),
    "make": ("GNUmakefile", "makefile", "Makefile"),
}
_PYTEST_SIGNS = ("pyproject.toml", "setup.cfg", "tox.ini", "requirements.txt", "requirements-dev.txt")
_PYTHONS = (".venv/bin/python", "venv/bin/python")
_NODE_LOCKS = (("pnpm-lock.yaml", "pnpm"), ("yarn.lock", "yarn"))
_NO_TEST_SCRIPT = "no test specified"  # what `npm init` writes


class ProjectProblem(Exception):
    """Why there is nothing to run: `no_project`, `no_build`, `no_tests`, `no_clean`, `program_missing`, `bad_build_file`."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Plan:
    """What will be run, one command after the other until one fails. `detected` are all kinds of project found."""

    kind: str
    commands: tuple[Command, ...]
    detected: tuple[str, ...]


class Look:
    """Looks at the top of a workspace."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def text(self, path: str) -> str | None:
        """The text of a regular file, None if there is none that can be read."""
        try:
            return self._workspace.read(path, _MAX_FILE_BYTES).data.decode("utf-8", "replace")
        except PathError:
            return None

    def has(self, path: str) -> bool:
        """Whether a regular file is there."""
        try:
            os.close(self._workspace.open_read(path))
        except PathError:
            return False
        return True

    def program(self, name: str) -> str:
        """The absolute path of a program from outside the workspace. Raises `ProjectProblem`."""
        wall = os.path.join(self._workspace.root, "")
        for folder in environment()["PATH"].split(":"):
            path = os.path.join(folder, name)
            inside = os.path.realpath(path).startswith(wall) or os.path.join(os.path.realpath(folder), "").startswith(
                wall
            )
            if os.path.isfile(path) and os.access(path, os.X_OK) and not inside:
                return path
        raise ProjectProblem("program_missing", f"this project needs {name}, which is not installed on this machine")

    def python(self) -> str:
        """The project's own Python, else the user's."""
        found = (path for path in _PYTHONS if os.access(os.path.join(self._workspace.root, path), os.X_OK))
        own = next(found, None)
        return f"./{own}" if own else self.program("python3")


def detected(look: Look) -> tuple[str, ...]:
    """All kinds of project found at the top, the one that counts first."""
    return tuple(kind for kind in _ORDER if any(map(look.has, _MARKS[kind])))


def build_plan(workspace: Workspace, mode: Mode | None, clean: bool) -> Plan:
    """How the workspace is built. Raises `ProjectProblem`."""
    return _plan(workspace, lambda kind, look: _BUILDS[kind](look, mode, clean))


def test_plan(workspace: Workspace) -> Plan:
    """How the workspace is tested. Raises `ProjectProblem`."""
    return _plan(workspace, lambda kind, look: _TESTS[kind](look))


def _plan(workspace: Workspace, commands: Callable[[str, Look], list[Command]]) -> Plan:
    look = Look(workspace)
    kinds = detected(look)
    if not kinds:
        names = ", ".join(names[-1] if kind == "make" else names[0] for kind, names in _MARKS.items())
        raise ProjectProblem("no_project", f"no build file is at the top of the workspace (looked for {names})")
    return Plan(kinds[0], tuple(commands(kinds[0], look)), kinds)


def _script(look: Look, word: str) -> Command:
    return (look.program("bash"), "./build.sh", word)


def _build_script(look: Look, mode: Mode | None, clean: bool) -> list[Command]:
    first = [_script(look, "clean")] if clean else []
    return [*first, _script(look, mode or "debug")]


def _build_rust(look: Look, mode: Mode | None, clean: bool) -> list[Command]:
    cargo = look.program("cargo")
    first = [(cargo, "clean")] if clean else []
    return [*first, (cargo, "build", *(("--release",) if mode == "release" else ()))]


def _build_go(look: Look, mode: Mode | None, clean: bool) -> list[Command]:
    go = look.program("go")
    first = [(go, "clean", "./...")] if clean else []
    return [*first, (go, "build", "./...")]


def _configure(look: Look, mode: Mode | None) -> Command:
    kind = "Release" if mode == "release" else "Debug"
    return (look.program("cmake"), "-S", ".", "-B", "build", f"-DCMAKE_BUILD_TYPE={kind}")


def _build_cmake(look: Look, mode: Mode | None, clean: bool) -> list[Command]:
    build = (look.program("cmake"), "--build", "build", *(("--clean-first",) if clean else ()))
    return [_configure(look, mode), build]


def _scripts(look: Look) -> dict[str, object]:
    try:
        whole = json.loads(look.text("package.json") or "{}")
    except (ValueError, RecursionError):
        raise ProjectProblem("bad_build_file", "package.json is no valid JSON") from None
    found = whole.get("scripts", {}) if isinstance(whole, dict) else {}
    return found if isinstance(found, dict) else {}


def _runner(look: Look) -> str:
    return look.program(next((tool for lock, tool in _NODE_LOCKS if look.has(lock)), "npm"))


def _build_node(look: Look, mode: Mode | None, clean: bool) -> list[Command]:
    scripts = _scripts(look)
    if "build" not in scripts:
        raise ProjectProblem("no_build", "package.json has no script named build, so there is nothing to build")
    if clean and "clean" not in scripts:
        raise ProjectProblem("no_clean", "package.json has no script named clean; build without clean_first")
    runner = _runner(look)
    return [(runner, "run", name) for name in (("clean", "build") if clean else ("build",))]


def _build_python(look: Look, mode: Mode | None, clean: bool) -> list[Command]:
    # There is nothing to link; what a build can tell is whether every file is Python at all.
    force = ("-f",) if clean else ()
    skipped = r"[/\\](\.?venv|\.git|node_modules|\.tox)[/\\]"
    return [(look.python(), "-m", "compileall", "-q", *force, "-x", skipped, ".")]


def _build_make(look: Look, mode: Mode | None, clean: bool) -> list[Command]:
    make = look.program("make")
    return [*([(make, "clean")] if clean else []), (make,)]


def _test_cmake(look: Look) -> list[Command]:
    test = (look.program("ctest"), "--test-dir", "build", "--output-on-failure")
    return [_configure(look, None), (look.program("cmake"), "--build", "build"), test]


def _test_node(look: Look) -> list[Command]:
    script = _scripts(look).get("test")
    if isinstance(script, str) and _NO_TEST_SCRIPT not in script:
        return [(_runner(look), "test")]
    return [(look.program("node"), "--test")]


def _test_python(look: Look) -> list[Command]:
    python = look.python()
    if look.has("pytest.ini") or look.has("conftest.py") or look.has("tests/conftest.py"):
        signs = True
    else:
        signs = any("pytest" in (look.text(name) or "") for name in _PYTEST_SIGNS)
    if signs:
        return [(python, "-m", "pytest", "-q", "-rfE", "--color=no")]
    return [(python, "-m", "unittest", "discover", "-v")]


def _test_make(look: Look) -> list[Command]:
    text = "\n".join(filter(None, map(look.text, _MARKS["make"])))
    for target in ("test", "check"):
        if re.search(rf"^{target}\s*:(?!=)", text, re.MULTILINE):
            return [(look.program("make"), target)]
    raise ProjectProblem("no_tests", "the makefile has neither a target test nor a target check")


_BUILDS: dict[str, Callable[[Look, Mode | None, bool], list[Command]]] = {
    "build.sh": _build_script,
    "rust": _build_rust,
    "go": _build_go,
    "cmake": _build_cmake,
    "node": _build_node,
    "python": _build_python,
    "make": _build_make,
}
_TESTS: dict[str, Callable[[Look], list[Command]]] = {
    "build.sh": lambda look: [_script(look, "test")],
    "rust": lambda look: [(look.program("cargo"), "test", "--no-fail-fast")],
    "go": lambda look: [(look.program("go"), "test", "-v", "./...")],
    "cmake": _test_cmake,
    "node": _test_node,
    "python": _test_python,
    "make": _test_make,
}
