"""A store that is full while a run goes on: the run ends with a word, and what it did until then is kept."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import msgspec
from run_world import end_of

from sluice.run import sessions
from sluice.run.config import Settings, Wish
from sluice.run.wiring import open_agent
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
