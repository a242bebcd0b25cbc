"""`build_project_safe`: what is run is told, and the result is that of the commands."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from sluice.tools import build_project, project_run
from sluice.tools.sandbox import SandboxError

pytestmark = pytest.mark.parametrize("bench", ["openat2"], indirect=True)


def write(root: Path, name: str, text: str) -> None:
    (root / name).write_text(text)


def test_the_script_of_the_project_is_run_and_told(bench: Any) -> None:
    write(bench.root, "build.sh", 'echo "mode $1 in $(pwd)"\n')
    result = bench.call(build_project)
    assert (result.ok, result.status, result.exit_code) == (True, "ok", 0)
    assert result.content == f"$ bash ./build.sh debug\nmode debug in {bench.root}"
    assert (result.facts["project"], result.facts["command"]) == ("build.sh", "bash ./build.sh debug")
    result = bench.call(build_project, build_mode="release", clean_first=True)
    assert result.facts["command"] == "bash ./build.sh clean && bash ./build.sh release"
    assert "$ bash ./build.sh release\nmode release" in result.content


def test_a_failed_build_needs_inspection_and_stops_there(bench: Any) -> None:
    write(bench.root, "build.sh", 'echo "doing $1"; [ "$1" != clean ] || exit 3\n')
    result = bench.call(build_project, clean_first=True)
    assert (result.ok, result.status, result.failure, result.exit_code) == (False, "failed", "needs_inspection", 3)
    assert result.error.code == "exit_status"
    assert result.content.endswith("[bash ./build.sh clean exited with status 3]")
    assert "doing debug" not in result.content


def test_time_is_bounded_over_all_commands_and_nothing_lives_on(bench: Any) -> None:
    write(bench.root, "build.sh", "sleep 1000 & sleep 1000\n")
    result = bench.call(build_project, timeout_ms=200, clean_first=True)
    assert (result.ok, result.status, result.failure, result.timed_out) == (False, "timed_out", "retryable", True)
    assert "more than 0.2 s" in result.content


def test_output_is_bounded_and_can_be_read_whole(bench: Any) -> None:
    write(bench.root, "build.sh", "seq 1 100000\n")
    result = bench.call(build_project)
    assert len(result.content.encode()) <= 16 * 1024
    assert result.truncated
    assert result.content.endswith("\n100000")
    small = bench.call(build_project, max_output_bytes=1000)
    assert len(small.content.encode()) < 1100
    with bench.context.spill.open(int(small.facts["handle"].partition(":")[2])) as file:
        assert file.read().endswith(b"\n100000\n")


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ({"timeout_ms": 0}, "$.timeout_ms"),
        ({"timeout_ms": 600_001}, "$.timeout_ms"),
        ({"max_output_bytes": 0}, "$.max_output_bytes"),
        ({"max_output_bytes": 1024 * 1024 + 1}, "$.max_output_bytes"),
    ],
)
def test_bounds_out_of_range_are_refused_before_anything_is_run(bench: Any, arguments: Any, path: str) -> None:
    write(bench.root, "build.sh", "touch ran\n")
    result = bench.call(build_project, **arguments)
    assert (result.ok, result.error.path) == (False, path)
    assert not (bench.root / "ran").exists()


def test_nothing_to_build_is_told(bench: Any) -> None:
    result = bench.call(build_project)
    assert (result.ok, result.error.code, result.failure) == (False, "no_project", "needs_inspection")


def test_secrets_of_the_environment_are_not_there(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", "canary")
    write(bench.root, "build.sh", "env\n")
    assert "canary" not in bench.call(build_project).content


def test_a_real_makefile_and_python(bench: Any) -> None:
    write(bench.root, "Makefile", "all:\n\t@echo made\n")
    assert bench.call(build_project).content == "$ make\nmade"
    write(bench.root, "pyproject.toml", "")
    write(bench.root, "good.py", "x = 1\n")
    assert bench.call(build_project).ok
    write(bench.root, "bad.py", "def (:\n")
    result = bench.call(build_project)
    assert (result.ok, "bad.py" in result.content) == (False, True)


def test_a_sandbox_is_used_where_there_is_one(bench: Any) -> None:
    asked: list[Any] = []

    class Box:
        async def run(self, argv: Any, *, folder: int, env: Any, **rest: Any) -> Any:
            asked.append(list(argv))
            os.fstat(folder)
            raise SandboxError("this machine gives no sandbox")

    bench.context.sandbox = Box()
    write(bench.root, "build.sh", "touch ran\n")
    result = bench.call(build_project)
    assert [argv[1:] for argv in asked] == [["./build.sh", "debug"]]
    assert (result.status, result.failure, result.error.code) == ("blocked", "blocked", "no_sandbox")
    assert result.blocked.how_to_allow
    assert not (bench.root / "ran").exists()


def test_a_command_is_shown_as_one_would_type_it(bench: Any) -> None:
    assert project_run.shown_command(("/usr/bin/cmake", "a b")) == "cmake 'a b'"
    assert project_run.shown_command(("./.venv/bin/python", "-m", "x")) == "./.venv/bin/python -m x"
