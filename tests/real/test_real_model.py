"""The agent against a real small model behind a real server that nobody here scripted.

llama.cpp's own HTTP server, embedded in the xllamacpp wheel, serves a 135M instruct model. A model this small does not
choose tools by itself: a hook begins its reply with the start marker of a call, and the server's grammar does the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from model_server import Server

from sluice import NoHooks, Settings, open_agent
from sluice.limits import Limits
from sluice.values.messages import AssistantMessage, Conversation
from sluice.values.notices import CallArrived, CallFinished, CallStarted, Failed, Notice, RunFinished, TextNotice

pytestmark = [pytest.mark.realmodel, pytest.mark.timeout(120)]


BEGIN = "<tool_call>\n"
LIST = 'Repeat this call: <tool_call>\n{"name": "list_files_bounded", "arguments": {"directory": "."}}\n</tool_call>'
READ = 'Call read_file_safe with {"path": "README.md"} and nothing else.'


class BeginCall(NoHooks):
    """Begins the model's first reply for it, so that it has to go on with a call."""

    def __init__(self, beginning: str) -> None:
        self.beginning = beginning

    async def prepare_turn(self, turn: int, conversation: Conversation) -> Sequence[AssistantMessage]:
        return (AssistantMessage(content=self.beginning),) if turn == 1 else ()


def run(url: str, folder: Path, prompt: str, *, tokens: int, call: str = "", on_text: object = None) -> list[Notice]:
    (folder / "README.md").write_text("# Hello\n")
    system = folder / "system.txt"
    system.write_text("You are a coding agent. Use the tools.")
    settings = Settings(
        workspace=str(folder),
        base_url=f"{url}/v1",
        model="tiny",
        temperature=0.0,
        seed=1,
        max_output_tokens=tokens,
        system_prompt_file=str(system),
        tools=("read_file_safe", "list_files_bounded"),
        tool_choice="required" if call else None,
        parallel_tool_calls=False if call else None,
        no_tools=not call,
        limits=Limits(max_turns=1 if call else 3),
    )

    async def go() -> list[Notice]:
        notices: list[Notice] = []
        async with open_agent(settings, hooks=BeginCall(call) if call else None) as agent:
            async for notice in agent.run(prompt):
                notices.append(notice)
                if callable(on_text) and isinstance(notice, TextNotice):
                    on_text()
        return notices

    return asyncio.run(go())


def finish(notices: list[Notice]) -> RunFinished:
    last = notices[-1]
    assert isinstance(last, RunFinished)
    assert sum(isinstance(n, RunFinished) for n in notices) == 1
    return last


def of(notices: list[Notice], kind: type) -> list:
    return [n for n in notices if isinstance(n, kind)]


def test_text_is_streamed(server: Server, tmp_path: Path) -> None:
    notices = run(server.url, tmp_path, "Say hello to Bob.", tokens=64)
    pieces = [n.text for n in of(notices, TextNotice)]
    last = finish(notices)
    assert len(pieces) > 5
    assert "".join(pieces) == last.text
    assert last.usage.output_tokens > 5
    assert not last.usage.estimated
    assert last.outcome in ("completed", "limit:output_tokens")


def test_a_forced_call_runs(server: Server, tmp_path: Path) -> None:
    notices = run(server.url, tmp_path, LIST, tokens=64, call=BEGIN)
    arrived = of(notices, CallArrived)
    finished = of(notices, CallFinished)
    started = of(notices, CallStarted)
    whole = [c for c in arrived if c.status == "whole"]
    assert whole, arrived
    assert len(finished) == len(arrived)  # every call has one result, the cut one as well
    assert [s.position for s in started] == [whole[0].position]
    ran = finished[whole[0].position]
    assert ran.tool in ("read_file_safe", "list_files_bounded")
    assert ran.result.ok, ran.result
    for call in arrived:
        if call.status != "whole":
            assert not finished[call.position].result.ok


def test_a_call_cut_by_max_tokens_never_runs(server: Server, tmp_path: Path) -> None:
    notices = run(server.url, tmp_path, READ, tokens=18, call=BEGIN)
    arrived = of(notices, CallArrived)
    assert [c.status for c in arrived] == ["cut"], arrived
    assert not of(notices, CallStarted)
    (result,) = of(notices, CallFinished)
    assert result.result.error.code == "cut_call"


def test_a_server_killed_in_mid_stream_is_no_success(packages: None, tmp_path: Path) -> None:
    own = Server()
    try:
        notices = run(own.url, tmp_path, "Write a long story about a ship.", tokens=64, on_text=own.kill)
    finally:
        own.close()
    last = finish(notices)
    assert last.outcome in ("incomplete", "provider_error")
    assert last.exit_code == 1
    assert of(notices, Failed)[0].kind == "incomplete"
    assert last.text or of(notices, TextNotice)  # what had arrived is kept
