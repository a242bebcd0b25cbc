"""The one figure of speed that CI can hold: instructions an event, counted, not timed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench" / "instructions.py"


@pytest.mark.timeout(300)
def test_an_event_costs_no_more_instructions_than_its_target() -> None:
    if shutil.which("valgrind") is None:
        pytest.skip(
            "!!! valgrind is missing: the gate on instructions an event was NOT run (install the package valgrind)"
        )
    done = subprocess.run([sys.executable, str(BENCH), "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
