"""The map in tests/README.md names every test module, and nothing that is not there (Q1)."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).resolve().parent
NAMED = set(re.findall(r"`([\w/]*test_\w+\.py)`", (HERE / "README.md").read_text("utf-8")))
THERE = {path.relative_to(HERE).as_posix() for path in HERE.rglob("test_*.py")}


def test_every_named_module_exists() -> None:
    assert not NAMED - THERE


def test_every_module_is_named() -> None:
    assert not THERE - NAMED


def test_no_two_modules_share_a_name() -> None:
    names = [path.name for path in HERE.rglob("test_*.py")]
    assert len(names) == len(set(names))
