"""The real command in a folder with AGENTS.md: it is told, shown, bounded, and can be left out."""

from __future__ import annotations

import json
from pathlib import Path

from program_world import sluice


def test_agents_md_is_told_and_can_be_left_out(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    fixture = tmp_path / "fixture.json"
    fixture.write_text(json.dumps([{"role": "assistant", "content": "an answer"}]))
    model = ["--mode", "mock", "--mock-fixture", str(fixture)]
    (work / "AGENTS.md").write_text("Use tabs.\x1b[2J\n")

    plain = sluice("-e", "go", *model, cwd=work)
    assert (plain.code, plain.out) == (0, "an answer\n")
    assert "AGENTS.md (14 bytes) is given to the model as untrusted text" in plain.err
    assert "\x1b" not in plain.err
    shown = json.loads(sluice("-e", "go", *model, "--dry-run", cwd=work).out)
    messages = shown["request"]["body"]["messages"]
    assert [message["role"] for message in messages] == ["system", "user", "user"]
    assert "Use tabs." in messages[1]["content"]
    lines = sluice("-e", "go", *model, "--output", "stream-json", cwd=work).out.splitlines()
    assert [line for line in map(json.loads, lines) if line["type"] == "warning"]

    left_out = sluice("-e", "go", *model, "--no-agents-md", cwd=work)
    assert (left_out.code, "AGENTS.md" in left_out.err) == (0, False)
    (work / ".sluice").mkdir()
    (work / ".sluice" / "config.toml").write_text("no_agents_md = true\n")
    assert "Use tabs." not in sluice("-e", "go", *model, "--dry-run", cwd=work).out
