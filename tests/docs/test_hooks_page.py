"""Every example of docs/hooks.md runs and prints what the page says, and every hook there is has one."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any

import pytest

from sluice import NoHooks
from sluice.run import wiring
from sluice.testing.scripted_model import asks, scripted_model
from sluice.wire.dialects import DIALECTS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "hooks.md").read_text("utf-8")
EXAMPLES = re.findall(r"(?:<!-- example: (\{[^\n]*\}) -->\n)?```python\n(.*?)```", PAGE, re.DOTALL)
PLACES = sorted(name for name, _ in inspect.getmembers(NoHooks, inspect.iscoroutinefunction))


@pytest.mark.parametrize("place", PLACES)
def test_every_hook_has_its_row_and_its_example(place: str) -> None:
    assert f"| `{place}(" in PAGE
    assert any(f"async def {place}(" in code for _said, code in EXAMPLES)


@pytest.mark.parametrize(("said", "code"), EXAMPLES)
def test_the_example_runs(
    said: str, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    example: dict[str, Any] = json.loads(said)
    replies = [asks(r["ask"], **r["with"]) if isinstance(r, dict) and "ask" in r else r for r in example["replies"]]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLUICE_API_KEY", "sk-test")
    monkeypatch.setattr(wiring, "make_transport", lambda settings: scripted_model(*replies))
    monkeypatch.setattr(wiring, "find_dialect", lambda settings: DIALECTS["openai_chat"])
    exec(compile(code, "hooks.md, example", "exec"), {"__name__": "example"})
    assert capsys.readouterr().out.strip() == example["prints"]
