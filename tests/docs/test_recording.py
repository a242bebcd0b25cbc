"""The session on the README is what the program shows: recorded again, the last screen says the same."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PICTURE = ROOT / "docs" / "assets" / "session.svg"


def test_recorded_again_it_says_the_same() -> None:
    if shutil.which("tmux") is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("NOT CHECKED: recording needs tmux")
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "record_session.py"), "--check"],
        capture_output=True,
        text=True,
        timeout=58,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_loads_nothing_and_runs_nothing() -> None:
    text = PICTURE.read_text("utf-8")
    assert set(re.findall(r"https?://[^\"' <]*", text)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"<script|<image|@import|url\(|\son\w+=", text)
