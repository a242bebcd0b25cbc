"""The synchronous wrapper: one prompt, the last notice, nothing left."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sluice.errors import ConfigurationError
from sluice.run.config import Settings
from sluice.run.sync import run_once
from sluice.run.wiring import state_folder
from sluice.values import notices as n


def _settings(folder: Path, *messages: dict[str, Any], **more: Any) -> Settings:
    path = folder / "fixture.json"
    path.write_text(json.dumps([{"role": "assistant", **m} for m in messages]))
    return Settings(workspace=str(folder), mode="mock", mock_fixture=str(path), **more)


def test_it_returns_the_last_notice_and_shows_all(tmp_path: Path) -> None:
    seen: list[n.Notice] = []
    end = run_once(_settings(tmp_path, {"content": "hi"}), "go", watch=seen.append)
    assert (end.outcome, end.text) == ("completed", "hi")
    assert seen[-1] is end


def test_what_the_watcher_raises_comes_out_after_the_run_has_ended(tmp_path: Path) -> None:
    command = {"function": {"name": "bash_execute_safe", "arguments": {"command": "sleep 1000"}}}
    settings = _settings(tmp_path, {"tool_calls": [command]}, allow_execution_tools=True)

    def watch(notice: n.Notice) -> None:
        if isinstance(notice, n.CallStarted):
            raise LookupError("seen enough")

    with pytest.raises(LookupError, match="seen enough"):
        run_once(settings, "go", watch=watch)
    events = [json.loads(line)["event"] for line in (state_folder() / "audit.jsonl").read_text().splitlines()]
    assert events == ["verdict", "call_started", "call_ended"]


def test_settings_that_cannot_be_used_are_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError):
        run_once(Settings(workspace=str(tmp_path), mode="mock"), "go")
