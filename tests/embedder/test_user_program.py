"""A program of a user's, seen by two type checkers at their strictest: what `sluice` exports has whole types."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("user_program.py")
WRONG = """
agent = Agent(".", polcy=Policy())
stock(3)
amount: int = stock("nut")
tool(category="writing")
Policy(allow_mutating_tools="yes")
"""


def _mypy(program: Path, cache: Path) -> list[str]:
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file=",
        "--no-error-summary",
        "--cache-dir",
        str(cache),
    ]
    done = subprocess.run([*command, program.name], cwd=program.parent, capture_output=True, text=True, timeout=50)
    return done.stdout.splitlines() if done.returncode in (0, 1) else [done.stderr]


def _pyright(program: Path, _cache: Path) -> list[str]:
    settings = program.with_name("pyrightconfig.json")
    settings.write_text(json.dumps({"typeCheckingMode": "strict", "include": [program.name]}))
    command = [
        sys.executable,
        "-m",
        "basedpyright",
        "--outputjson",
        "--pythonpath",
        sys.executable,
        "-p",
        str(settings),
    ]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=50, env={**os.environ, "HOME": str(program.parent)}
    )
    return [found["message"] for found in json.loads(done.stdout)["generalDiagnostics"]]


CHECKERS = {"mypy": _mypy, "pyright": _pyright}


@pytest.mark.parametrize("checker", CHECKERS)
def test_a_users_program_has_whole_types(checker: str, tmp_path: Path) -> None:
    program = tmp_path / PROGRAM.name
    program.write_text(PROGRAM.read_text("utf-8"))
    assert CHECKERS[checker](program, tmp_path / "cache") == []
    program.write_text(PROGRAM.read_text("utf-8") + WRONG)  # and they would have found something
    assert len(CHECKERS[checker](program, tmp_path / "cache")) >= 5
