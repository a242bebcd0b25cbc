"""Every example of docs/embedding.md runs, with a scripted model, and prints what the page's comment says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import sluice
import sluice.wire
from sluice.run import wiring
from sluice.testing.scripted_model import asks, scripted_model
from sluice.wire.dialects import DIALECTS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "embedding.md"
BLOCK = re.compile(r"(?:<!-- example: (\{[^\n]*\}) -->\n)?```python\n(.*?)```", re.DOTALL)
EXAMPLES = BLOCK.findall(PAGE.read_text("utf-8"))


def test_every_exported_name_is_in_an_example() -> None:
    code = "\n".join(code for _said, code in EXAMPLES) + "ArgumentsError TransportError"  # told of in a sentence
    names = {*sluice.__all__, *sluice.wire.__all__}
    assert {name for name in names if not re.search(rf"\b{name}\b", code)} == set()


def test_every_python_block_is_an_example_that_is_run() -> None:
    assert len(EXAMPLES) >= 10
    assert [code.splitlines()[0] for said, code in EXAMPLES if not said] == []


@pytest.mark.parametrize(("said", "code"), EXAMPLES, ids=[str(number) for number in range(len(EXAMPLES))])
def test_the_example_runs(
    said: str, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    example: dict[str, Any] = json.loads(said)
    replies = [r if isinstance(r, str) else asks(r["ask"], **r["with"]) for r in example.get("replies", [])]
    made = 0

    def transport(settings: Any) -> Any:
        nonlocal made
        made += 1
        return scripted_model(*replies[made - 1 :])  # a second agent of one example goes on where the first ended

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLUICE_API_KEY", "sk-test")
    if replies:
        monkeypatch.setattr(wiring, "make_transport", transport)
        monkeypatch.setattr(wiring, "find_dialect", lambda settings: DIALECTS["openai_chat"])
    if "file" in example:
        function = {"name": "look", "arguments": '{"street": "A"}'}
        called = {"tool_calls": [{"index": 0, "id": "1", "type": "function", "function": function}]}
        choices = [{"delta": {"content": "Hello"}}, {"delta": called}, {"delta": {}, "finish_reason": "tool_calls"}]
        lines = [json.dumps({"id": "c", "model": "m", "choices": [{"index": 0, **one}]}) for one in choices]
        (tmp_path / example["file"]).write_text("".join(f"data: {line}\n\n" for line in (*lines, "[DONE]")))
    exec(compile(code, f"{PAGE.name}, example", "exec"), {"__name__": "example"})
    assert capsys.readouterr().out.strip() == example["prints"]
    assert not replies or made
