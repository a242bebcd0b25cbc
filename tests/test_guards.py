"""Every guard that `tests/guards` takes away is still where its table says: a table that drifts would prove nothing."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize(
    "name",
    [
        "commands",
        "embedding",
        "many_sessions",
        "memory_copy",
        "money",
        "policy",
        "questions",
        "undo",
        "waiting",
        "wall",
    ],
)
def test_every_guard_is_where_its_table_says(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "guards"))
    guards = importlib.import_module(name).GUARDS
    gone = [one for one, guard in guards.items() if guard.text not in (ROOT / guard.file).read_text("utf-8")]
    assert guards
    assert not gone
    assert all((ROOT / test).exists() for guard in guards.values() for test in guard.tests)
