"""`sluice sessions check` beyond the database: pre-images, who may read the files, keys in them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sluice.errors import StoreError, StoreFault
from sluice.run.config import Settings
from sluice.run.session_check import Checked, checked
from sluice.run.store_places import data_folder, store_path
from sluice.run.wiring import open_agent, state_folder
from sluice.session.check_files import replaceable


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Of a workspace in which one run changed `a.txt`."""
    workspace = tmp_path / "work"
    workspace.mkdir()
    (workspace / "a.txt").write_text("before\n")
    fixture = tmp_path / "fixture.json"
    written = {"path": "a.txt", "content": "after\n", "mode": "replace"}
    calls = [("read_file_safe", {"path": "a.txt"}), ("write_file_safe", written)]
    replies: list[dict[str, Any]] = [
        {"role": "assistant", "tool_calls": [{"function": {"name": name, "arguments": given}}]} for name, given in calls
    ]
    fixture.write_text(json.dumps([*replies, {"role": "assistant", "content": "done"}]))
    settings = Settings(workspace=str(workspace), mode="mock", mock_fixture=str(fixture), allow_mutating_tools=True)

    async def body() -> None:
        async with open_agent(settings) as agent:
            async for _notice in agent.run("go"):
                pass

    asyncio.run(body())
    assert (workspace / "a.txt").read_text() == "after\n"
    assert _found(settings) == ()
    return settings


def _check(settings: Settings, **environ: str) -> Checked:
    return checked(settings, False, state=state_folder(), environ=environ)


def _found(settings: Settings, **environ: str) -> tuple[str, ...]:
    return _check(settings, **environ).broken


def _blobs() -> list[Path]:
    return [path for path in (state_folder() / "blobs").iterdir() if path.is_file()]


def test_a_pre_image_that_is_gone_or_damaged_is_found_by_the_name_of_its_file(settings: Settings) -> None:
    (blob,) = _blobs()
    blob.write_text("other\n")
    (line,) = _found(settings)
    assert line.startswith("F1 run_")
    assert "a.txt: what it held before cannot be given back" in line
    blob.unlink()
    (line,) = _found(settings)
    assert "a.txt: what it held before cannot be given back" in line


def test_old_pre_images_of_a_store_elsewhere_may_be_gone(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = store_path(settings)
    assert path is not None
    elsewhere = tmp_path / "elsewhere.db"
    elsewhere.write_bytes(path.read_bytes())
    elsewhere.chmod(0o600)
    for blob in _blobs():
        blob.unlink()
    moved = msgspec.structs.replace(settings, session_store=str(elsewhere))
    assert len(_found(moved)) == 1
    monkeypatch.setattr("sluice.session.blobs.KEPT_DAYS", -1)
    assert _found(moved) == ()
    assert len(_found(settings)) == 1


@pytest.mark.parametrize("what", ["state", "blobs", "blob", "audit", "project", "data"])
def test_what_others_may_use_is_found(settings: Settings, what: str) -> None:
    path = store_path(settings)
    assert path is not None
    places = {
        "state": state_folder(),
        "blobs": state_folder() / "blobs",
        "blob": _blobs()[0],
        "audit": state_folder() / "audit.jsonl",
        "project": path.parent,
        "data": data_folder(),
    }
    place = places[what]
    place.chmod(0o755 if place.is_dir() else 0o644)
    found = checked(settings, what == "data", state=state_folder(), environ={}).broken
    assert found == (f"S1 {place}: others on this machine may use it (mode {755 if place.is_dir() else 644})",)


def test_a_folder_above_ours_in_which_anybody_may_rename_it_is_found(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    above = data_folder().parent
    above.chmod(0o777)
    words = "others on this machine may rename what is in it (mode 777, no sticky bit)"
    assert _found(settings) == (f"S1 {above}: {words}",)
    above.chmod(0o1777)
    assert _found(settings) == ()
    above.chmod(0o775)
    assert _found(settings) == (), "a group is chosen"
    above.chmod(0o777)
    monkeypatch.setattr("os.geteuid", lambda: 12345)
    assert (_found(settings) == ()) is (above.stat().st_uid != 0)


def test_a_link_to_ours_in_such_a_folder_is_found(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "open" / "link").symlink_to(tmp_path / "real")
    assert [where for where, _words in replaceable([tmp_path / "open" / "link"])] == [str(tmp_path / "open")]
    assert list(replaceable([tmp_path / "absent" / "x", tmp_path / "real"])) == []


def test_a_store_that_was_chosen_is_looked_at_from_its_own_folder_on(settings: Settings, tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    chosen = msgspec.structs.replace(settings, session_store=str(folder / "s.db"), mock_fixture=None)
    (folder / "s.db").write_bytes(Path(store_path(settings) or "").read_bytes())
    (folder / "s.db").chmod(0o600)
    folder.chmod(0o777)
    assert [line.split(":")[0] for line in _found(chosen)] == [f"S1 {folder}"]


def test_a_key_of_any_known_provider_is_found_in_the_logs(settings: Settings) -> None:
    audit = state_folder() / "audit.jsonl"
    with audit.open("a") as file:
        file.write('{"words": "sk-of-another-provider"}\n')
    found = _found(settings, ANTHROPIC_API_KEY="sk-of-another-provider", OPENAI_API_KEY="sk-not-there")
    assert found == (f"S1 {audit}: it holds an API key",)


@pytest.mark.parametrize("kind", ["full", "read_only", "busy", "io"])
def test_a_store_that_cannot_be_read_now_breaks_no_promise_and_is_not_called_sound(
    kind: StoreFault, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_reading(path: Path) -> None:
        raise StoreError(kind, f"the session store {str(path)!r} cannot be used: so it is")

    monkeypatch.setattr("sluice.session.disk.reading", no_reading)
    found = _check(settings)
    assert (found.broken, found.sessions) == ((), 0)
    (line,) = found.unchecked
    assert line.startswith("cannot be checked: ")
    assert line.endswith("so it is")
