"""What is Sluice's own is read by no tool, also where it lies in the workspace (a home folder, say)."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.errors import PathError
from sluice.run.config import Settings
from sluice.run.one_call import one_call
from sluice.tools.workspace import Workspace

SECRET = "sk-very-secret"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace with our config and state in it, one of them under a name that a glob would read otherwise."""
    folder = tmp_path / "home"
    for name in (".config/sluice/config.toml", "state[1]/sluice/audit.jsonl", "notes/a.txt"):
        path = folder / name
        path.parent.mkdir(parents=True)
        path.write_text(f"key = {SECRET}\n", "utf-8")
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state[1]"))
    return folder


def settings(home: Path) -> Settings:
    config = str(home / ".config" / "sluice" / "config.toml")
    return Settings(workspace=str(home), config_file=config, session_store=":memory:")


@pytest.mark.parametrize(
    "path", [".config/sluice/config.toml", ".Config/SLUICE/config.toml", "state[1]/sluice/audit.jsonl"]
)
@pytest.mark.parametrize("kernel", [True, False])
def test_a_private_file_is_not_opened(home: Path, path: str, kernel: bool) -> None:
    private = [str(home / ".config/sluice/config.toml"), str(home / "state[1]/sluice")]
    with Workspace(str(home), private=private, kernel=kernel) as workspace:
        with pytest.raises(PathError) as caught:
            workspace.read(path, 1000)
        assert caught.value.code == "private"
        with pytest.raises(PathError, match="no tool reads it"):
            workspace.open_directory("state[1]/sluice")
        assert workspace.read("notes/a.txt", 1000).data


def test_reading_and_searching_pass_it_by(home: Path) -> None:
    code, read = one_call(settings(home), "read_file_safe", '{"path": ".config/sluice/config.toml"}', [])
    assert code == 1
    assert SECRET not in str(read)
    for arguments in ('{"query": "very-secret"}', '{"query": "very-secret", "directory": "state[1]"}'):
        _code, found = one_call(settings(home), "rg_search", arguments, [])
        assert "audit.jsonl" not in str(found)
        assert "config.toml" not in str(found)
    _code, found = one_call(settings(home), "rg_search", '{"query": "very-secret"}', [])
    assert "notes/a.txt" in str(found)
    _code, listed = one_call(settings(home), "list_files_bounded", "{}", [])
    assert "notes/a.txt" in str(listed)
    assert "audit.jsonl" not in str(listed)
    assert "config.toml" not in str(listed)
