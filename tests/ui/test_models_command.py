"""`sluice models`: what a person sees of the lists, and what a program does."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sluice.run import model_list
from sluice.run.model_list import ProviderModels
from sluice.ui.cli import main

FOUND = [
    ProviderModels(
        provider="openai",
        base_url="https://api.openai.com/v1",
        dialect="openai_responses",
        key="OPENAI_API_KEY",
        chosen=True,
        reachable=True,
        models=(*(f"m{n:02}" for n in range(20)), "odd\x1b[2J"),
    ),
    ProviderModels(
        provider="ollama", base_url="http://x", dialect="ollama", key="not needed", reachable=False, problem="refused"
    ),
    ProviderModels(
        provider="gemini", base_url="https://g", dialect="gemini", key="none", problem="not asked: no key (set G)"
    ),
]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    calls: list[Any] = []

    async def lists(settings: Any, environ: Any, only: str | None = None) -> list[ProviderModels]:
        calls.append(only)
        return [one for one in FOUND if only in (None, one.provider)]

    monkeypatch.setattr(model_list, "list_models", lists)
    return calls


def test_the_text_says_what_is_there(asked: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "--model", "openai:m03"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "openai  https://api.openai.com/v1  (openai_responses, key: OPENAI_API_KEY)  21 models"
    assert lines[1] == "   openai:m00"
    assert lines[4] == " * openai:m03"
    assert lines[13] == "   … 9 more: sluice models openai"
    assert lines[14] == "ollama  http://x  (ollama, no key needed)  refused"
    assert lines[15] == "gemini  https://g  (gemini, no key)  not asked: no key (set G)"
    assert main(["models", "openai", "--model", "openai:other"]) == 0
    out = capsys.readouterr().out
    assert "openai:m19" in out
    assert "note: other, the model of your settings, is not in this list" in out
    assert "\x1b" not in out


def test_the_object_and_the_exit_code(asked: list[Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "ollama", "--output", "json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found[0]["reachable"], found[0]["problem"]) == (False, "refused")
    assert asked == ["ollama"]
