"""The race program in a short form: a swapped folder, every file tool, and a naive opener that must escape."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "bench" / "race.py"


@pytest.mark.skipif(sys.platform != "linux", reason="exchanging two names at once is Linux's")
@pytest.mark.parametrize("way", [[], ["--walk"]])
def test_no_tool_escapes_where_a_naive_opener_does(way: list[str]) -> None:
    done = subprocess.run([sys.executable, str(PROGRAM), "150", *way], capture_output=True, text=True, timeout=55)
    found = re.findall(r"^([\w ()]+): (\d+) calls, (\d+) escapes", done.stdout, re.MULTILINE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(found) == 6
    (_, _, control), *tools = found
    assert int(control) > 0
    assert {(calls, escapes) for _, calls, escapes in tools} == {("150", "0")}
