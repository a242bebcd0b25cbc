"""Which project a workspace holds, and what would be run for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sluice.tools import project
from sluice.tools.project import Plan, ProjectProblem
from sluice.tools.workspace import Workspace


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with every program there is, so that a plan does not depend on this machine."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in ["bash", "cargo", "go", "cmake", "ctest", "npm", "pnpm", "yarn", "node", "python3", "make"]:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    monkeypatch.setattr(project, "environment", lambda: {"PATH": str(folder)})
    return folder


def planned(root: Path, make: Any, files: dict[str, str], *more: Any) -> Plan:
    root.mkdir(exist_ok=True)
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    with Workspace(str(root)) as workspace:
        plan: Plan = make(workspace, *more)
        return plan


def words(plan: Plan) -> list[str]:
    return [" ".join([command[0].rpartition("/")[2], *command[1:]]) for command in plan.commands]


CMAKE = "cmake -S . -B build -DCMAKE_BUILD_TYPE="
SCRIPTS = json.dumps({"scripts": {"build": "tsc", "clean": "rm", "test": "node --test"}})


@pytest.mark.parametrize(
    ("files", "mode", "clean", "wanted"),
    [
        ({"build.sh": "", "Cargo.toml": ""}, None, False, ["bash ./build.sh debug"]),
        ({"build.sh": ""}, "release", True, ["bash ./build.sh clean", "bash ./build.sh release"]),
        ({"Cargo.toml": "", "Makefile": ""}, None, False, ["cargo build"]),
        ({"Cargo.toml": ""}, "release", True, ["cargo clean", "cargo build --release"]),
        ({"go.mod": ""}, None, True, ["go clean ./...", "go build ./..."]),
        ({"CMakeLists.txt": ""}, None, False, [f"{CMAKE}Debug", "cmake --build build"]),
        ({"CMakeLists.txt": ""}, "release", True, [f"{CMAKE}Release", "cmake --build build --clean-first"]),
        ({"package.json": SCRIPTS}, None, True, ["npm run clean", "npm run build"]),
        ({"package.json": SCRIPTS, "yarn.lock": ""}, None, False, ["yarn run build"]),
        ({"Makefile": "all:"}, None, True, ["make clean", "make"]),
    ],
)
def test_how_it_is_built(
    tmp_path: Path, programs: Path, files: dict[str, str], mode: Any, clean: bool, wanted: list[str]
) -> None:
    assert words(planned(tmp_path / "w", project.build_plan, files, mode, clean)) == wanted


@pytest.mark.parametrize(
    ("files", "wanted"),
    [
        ({"build.sh": "", "pyproject.toml": ""}, ["bash ./build.sh test"]),
        ({"Cargo.toml": ""}, ["cargo test --no-fail-fast"]),
        ({"go.mod": ""}, ["go test -v ./..."]),
        (
            {"CMakeLists.txt": ""},
            [f"{CMAKE}Debug", "cmake --build build", "ctest --test-dir build --output-on-failure"],
        ),
        ({"package.json": SCRIPTS, "pnpm-lock.yaml": ""}, ["pnpm test"]),
        ({"package.json": "{}"}, ["node --test"]),
        ({"package.json": '{"scripts": {"test": "echo Error: no test specified"}}'}, ["node --test"]),
        ({"pyproject.toml": "[tool.pytest.ini_options]"}, ["python3 -m pytest -q -rfE --color=no"]),
        ({"setup.py": "", "tests/conftest.py": ""}, ["python3 -m pytest -q -rfE --color=no"]),
        ({"setup.py": ""}, ["python3 -m unittest discover -v"]),
        ({"Makefile": "all:\n\ntest: all\n"}, ["make test"]),
        ({"makefile": "check:\n"}, ["make check"]),
    ],
)
def test_how_it_is_tested(tmp_path: Path, programs: Path, files: dict[str, str], wanted: list[str]) -> None:
    assert words(planned(tmp_path / "w", project.test_plan, files)) == wanted


@pytest.mark.parametrize(
    ("files", "code"),
    [
        ({}, "no_project"),
        ({"sub/Cargo.toml": ""}, "no_project"),
        ({"Makefile": "test := x\nall:\n"}, "no_tests"),
        ({"package.json": "{"}, "bad_build_file"),
    ],
)
def test_why_there_is_nothing_to_test(tmp_path: Path, programs: Path, files: dict[str, str], code: str) -> None:
    with pytest.raises(ProjectProblem) as caught:
        planned(tmp_path / "w", project.test_plan, files)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("text", "clean", "code"),
    [
        ("{}", False, "no_build"),
        ('{"scripts": {"build": "x"}}', True, "no_clean"),
        ("[" * 9999, False, "bad_build_file"),
    ],
)
def test_why_there_is_nothing_to_build(tmp_path: Path, programs: Path, text: str, clean: bool, code: str) -> None:
    with pytest.raises(ProjectProblem) as caught:
        planned(tmp_path / "w", project.build_plan, {"package.json": text}, None, clean)
    assert caught.value.code == code


def test_all_kinds_are_named(tmp_path: Path, programs: Path) -> None:
    plan = planned(tmp_path / "w", project.test_plan, {"Makefile": "", "go.mod": "", "package.json": "{}"})
    assert (plan.kind, plan.detected) == ("go", ("go", "node", "make"))


def test_a_link_is_no_build_file(tmp_path: Path, programs: Path, outside: Path) -> None:
    (tmp_path / "w").mkdir()
    (tmp_path / "w/Cargo.toml").symlink_to(outside / "secret.txt")
    with pytest.raises(ProjectProblem, match="no build file"):
        planned(tmp_path / "w", project.build_plan, {}, None, False)


def test_programs_of_the_workspace_are_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "w"
    (root / "bin").mkdir(parents=True)
    (root / "bin/cargo").write_text("#!/bin/sh\n")
    (root / "bin/cargo").chmod(0o755)
    (tmp_path / "linked").symlink_to(root / "bin")
    (tmp_path / "other").mkdir()
    (tmp_path / "other/cargo").symlink_to(root / "bin/cargo")
    path = f"{root}/bin:{tmp_path}/linked:{tmp_path}/other"
    monkeypatch.setattr(project, "environment", lambda: {"PATH": path})
    with pytest.raises(ProjectProblem) as caught:
        planned(root, project.build_plan, {"Cargo.toml": ""}, None, False)
    assert caught.value.code == "program_missing"


def test_a_project_has_its_own_python(tmp_path: Path, programs: Path) -> None:
    root = tmp_path / "w"
    (root / ".venv/bin").mkdir(parents=True)
    (root / ".venv/bin/python").symlink_to(programs / "python3")
    plan = planned(root, project.test_plan, {"setup.py": ""})
    assert plan.commands[0][0] == "./.venv/bin/python"
    plan = planned(root, project.build_plan, {"setup.py": ""}, None, True)
    assert plan.commands[0][:5] == ("./.venv/bin/python", "-m", "compileall", "-q", "-f")
