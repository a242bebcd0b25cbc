"""Stores that may take no more: at their bound while a run goes on, and on a full disk, where removing makes room."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path

import msgspec
import pytest
from run_world import end_of

from sluice.errors import StoreError
from sluice.run import sessions, store_places
from sluice.run.config import Settings, Wish
from sluice.run.wiring import open_agent
from sluice.testing.fault_disk import small_disk
from sluice.values import notices as n


def test_a_run_ends_at_the_bound_of_its_store_and_what_it_did_is_kept(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("words and more words\n" * 5000)
    read = {"tool_calls": [{"function": {"name": "read_file_safe", "arguments": {"path": "a.txt"}}}]}
    (tmp_path / "fixture.json").write_text(json.dumps([{"role": "assistant", **read}] * 20))
    settings = Settings(
        workspace=str(tmp_path / "work"),
        mode="mock",
        mock_fixture=str(tmp_path / "fixture.json"),
        session_store=str(tmp_path / "s.db"),
        session_store_bytes=200_000,
    )

    async def body() -> list[n.Notice]:
        async with open_agent(settings) as agent:
            return [x async for x in agent.run("go")]

    found = asyncio.run(body())
    end = end_of(found)
    assert end.outcome == "failed"
    assert "session_store_bytes" in end.message
    assert sum(isinstance(x, n.CallFinished) for x in found) < 10
    (listed,) = sessions.listed(settings, False)
    assert (listed.outcome, listed.messages > 2) == ("failed", True)
    more = msgspec.structs.replace(settings, session_store_bytes=9_000_000, session=Wish(how="continue"))
    (tmp_path / "fixture.json").write_text(json.dumps([{"role": "assistant", "content": "done"}]))
    settings = more
    assert end_of(asyncio.run(body())).outcome == "completed"


def _made(settings: Settings, count: int) -> list[str]:
    async def body() -> str:
        async with open_agent(settings) as agent:
            return str(end_of([x async for x in agent.run("go")]).extra["session"])

    return [asyncio.run(body()) for _ in range(count)]


def _filled_up(place: Path) -> None:
    with contextlib.suppress(OSError), (place / "rest").open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * 512)


def test_on_a_full_disk_whole_stores_go_and_make_room_for_removing_from_others(tmp_path: Path) -> None:
    place = tmp_path / "disk"
    place.mkdir()
    with small_disk(place) as there, pytest.MonkeyPatch.context() as patch:
        if not there:
            pytest.skip("NOT CHECKED: no disk of our own can be had here, so none was full")
        patch.setattr(store_places, "data_folder", lambda: place)
        fixture = tmp_path / "fixture.json"
        fixture.write_text(json.dumps([{"role": "assistant", "content": "hi"}]))
        settings = [Settings(workspace=str(tmp_path / name), mode="mock", mock_fixture=str(fixture)) for name in "ab"]
        for one in settings:
            Path(one.workspace).mkdir()
        kept, gone = _made(settings[0], 2)
        _filled_up(place)
        with pytest.raises(StoreError, match=r"the disk is full.*removing all of them needs none"):
            sessions.removed(settings[0], [gone])
        assert [one.id for one in sessions.listed(settings[0], False)] == [gone, kept]
        (place / "rest").unlink()
        (other,) = _made(settings[1], 1)
        _filled_up(place)
        assert set(sessions.removed(settings[0], [gone, other], everywhere=True)) == {gone, other}
        assert [one.id for one in sessions.listed(settings[0], True)] == [kept]
        assert sessions.removed(settings[0], [], older_than=0) == [kept]
        assert sessions.listed(settings[0], True) == []
