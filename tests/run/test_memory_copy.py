"""What a store refused can still be taken out: by an export of the open session, and at the end of a single run."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from interaction_face import open_face, run
from run_world import end_of

from sluice.errors import StoreError
from sluice.run import memory_copy
from sluice.run.library import Agent
from sluice.run.memory_copy import open_rescued
from sluice.run.settings import Settings
from sluice.session.store import SqliteStore
from sluice.testing.scripted_model import scripted_model
from sluice.values import notices as n
from sluice.values.messages import AssistantMessage, Message, ToolMessage, UserMessage

LOOK = {"role": "assistant", "tool_calls": [{"function": {"name": "list_files_bounded", "arguments": {}}}]}
KINDS = {"reply": AssistantMessage, "result": ToolMessage}


class Disk:
    """A store that refuses what is in `full`: `prompt`, `reply`, `result`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full: set[str] = set()
        started, append = SqliteStore.started, SqliteStore.append

        async def starts(store: SqliteStore, run: str, prompt: UserMessage | None) -> None:
            self._look("prompt")
            await started(store, run, prompt)

        async def appends(store: SqliteStore, run: str, message: Message) -> str:
            for what, kind in KINDS.items():
                if isinstance(message, kind):
                    self._look(what)
            return await append(store, run, message)

        monkeypatch.setattr(SqliteStore, "started", starts)
        monkeypatch.setattr(SqliteStore, "append", appends)

    def _look(self, what: str) -> None:
        if what in self.full:
            raise StoreError("full", "the disk is full")


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def _one_run(folder: Path, *replies: Any) -> n.RunFinished:
    work = folder / "work"
    work.mkdir()
    fixture = folder / "fixture.json"
    fixture.write_text(json.dumps([one if isinstance(one, dict) else {"content": one} for one in replies]))

    async def body() -> n.RunFinished:
        async with open_rescued(Settings(workspace=str(work), mode="mock", mock_fixture=str(fixture))) as agent:
            return end_of([notice async for notice in agent.run("the prompt")])

    return asyncio.run(body())


def _states(copy: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["message"]["role"], one["state"]) for one in copy["messages"]]


@pytest.mark.parametrize(
    ("full", "states"),
    [
        ("reply", [("user", "whole"), ("assistant", "unsaved")]),
        ("result", [("user", "whole"), ("assistant", "whole"), ("tool", "unsaved")]),
    ],
)
def test_what_the_store_refused_of_a_single_run_is_in_a_file_for_the_user_alone(
    full: str, states: list[tuple[str, str]], tmp_path: Path, disk: Disk
) -> None:
    disk.full = {full}
    end = _one_run(tmp_path, LOOK, "done")
    assert (end.saved, end.extra["unsaved_messages"]) == (False, 1)
    path = Path(end.extra["copy"])
    assert path.parent == Path(tempfile.gettempdir())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    copy = json.loads(path.read_text())
    path.unlink()
    assert (copy["sluice_session"], copy["source"], copy["session"]["id"]) == (1, "memory", end.extra["session"])
    assert _states(copy) == states
    assert copy["messages"][0]["message"]["content"] == "the prompt"


def test_no_file_is_made_of_a_prompt_alone(tmp_path: Path, disk: Disk) -> None:
    disk.full = {"prompt"}
    end = _one_run(tmp_path, "done")
    assert (end.saved, end.unsaved) == (False, "the prompt was not stored: the disk is full")
    assert (end.extra["unsaved_messages"], "copy" in end.extra) == (1, False)
    assert os.listdir(tempfile.gettempdir()) == []


def test_no_file_is_made_where_all_is_in_the_store(tmp_path: Path, disk: Disk) -> None:
    end = _one_run(tmp_path, LOOK, "done")
    assert end.saved
    assert not {"copy", "unsaved_messages"} & set(end.extra)
    assert os.listdir(tempfile.gettempdir()) == []


@pytest.mark.parametrize("second", [True, False])
def test_a_copy_is_whole_or_not_there(
    second: bool, tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = tmp_path / "runtime"
    runtime.mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    tried: list[str] = []

    def write(file: BinaryIO, pieces: Iterator[bytes]) -> None:
        tried.append(os.readlink(f"/proc/self/fd/{file.fileno()}") if os.path.isdir("/proc/self/fd") else "")
        file.write(next(pieces))
        if len(tried) == 1 or not second:
            raise OSError(28, "No space left on device")
        file.writelines(pieces)

    monkeypatch.setattr(memory_copy, "write_pieces", write)
    disk.full = {"reply"}
    end = _one_run(tmp_path, "the answer")
    assert os.listdir(tempfile.gettempdir()) == []
    if second:
        assert Path(end.extra["copy"]).parent == runtime
        assert json.loads(Path(end.extra["copy"]).read_text())["messages"][1]["message"]["content"] == "the answer"
    else:
        assert "copy" not in end.extra
        assert (end.unsaved or "").endswith("no copy could be written either: No space left on device")
        assert os.listdir(runtime) == []
        assert not any(os.path.exists(path) for path in tried if path)


def test_an_export_of_the_open_session_holds_what_was_refused_in_its_place(tmp_path: Path, disk: Disk) -> None:
    async def work() -> None:
        async with open_face(tmp_path, "one", "two", "three") as face:
            ask = face.interaction
            disk.full = {"prompt"}
            end = await face.said("lost")
            assert (end.saved, end.extra["unsaved_messages"]) == (False, 1)
            await ask.export("json", str(tmp_path / "first.json"))
            warned = await face.until(n.Warned)
            assert "this is what is in memory" in warned.message, "nothing of the session is stored yet"
            disk.full = set()
            assert (await face.said("a")).saved
            disk.full = {"reply"}
            assert not (await face.said("b")).saved
            disk.full = set()
            end = await face.said("c")
            assert (end.saved, "unsaved_messages" in end.extra) == (True, False)
            await ask.export("json", str(tmp_path / "all.json"))
            await ask.export("md", str(tmp_path / "all.md"))

    run(work)
    first = json.loads((tmp_path / "first.json").read_text())
    assert (first["source"], _states(first)) == ("memory", [("user", "unsaved")])
    found = json.loads((tmp_path / "all.json").read_text())
    assert "source" not in found
    assert [(m["message"]["content"], m["state"]) for m in found["messages"] if m["state"] in ("whole", "unsaved")] == [
        ("lost", "unsaved"),
        ("a", "whole"),
        ("one", "whole"),
        ("b", "whole"),
        ("two", "unsaved"),
        ("c", "whole"),
        ("three", "whole"),
    ]
    assert all((m["seq"] is None) == (m["state"] == "unsaved") for m in found["messages"])
    assert len(found["runs"]) == 3
    shown = (tmp_path / "all.md").read_text()
    assert "## – · User (not in the store)\n" in shown
    assert shown.count("(not in the store)") == 2


@pytest.mark.parametrize("form", ["json", "md"])
def test_where_the_store_cannot_be_read_an_export_is_what_is_in_memory(
    form: Any, tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_given: object, **_more: object) -> Iterator[bytes]:
        yield b"half of a copy"
        raise StoreError("io", "the disk failed")

    path = tmp_path / "out"

    async def work() -> None:
        async with open_face(tmp_path, "one") as face:
            disk.full = {"reply"}
            await face.said("a")
            monkeypatch.setattr("sluice.run.session_requests.exported", broken)
            assert await face.interaction.export(form, str(path)) == str(path)
            assert (await face.until(n.Warned)).message.endswith("the disk failed")

    run(work)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    text = path.read_text()
    if form == "json":
        assert _states(json.loads(text)) == [("user", "whole"), ("assistant", "unsaved")]
    else:
        assert text.startswith("# Session ")
        assert "From memory: the store could not be read.\n" in text
        assert text.endswith("(not in the store)\n\none\n")


def test_a_program_has_it_also_after_the_end(tmp_path: Path, disk: Disk) -> None:
    agent = Agent(tmp_path, model="x", transport=scripted_model("the answer"), session_store=tmp_path / "s" / "s.db")
    disk.full = {"reply"}
    assert (agent.messages, agent.unsaved) == ((), ())
    assert not agent.run_sync("go").saved
    assert [message.content for message in agent.messages] == ["go"]
    assert [message.content for message in agent.unsaved] == ["the answer"]
