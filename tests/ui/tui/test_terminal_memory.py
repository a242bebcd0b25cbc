"""The terminal face over a long session: what it keeps does not grow (a short form of `bench/tui.py`)."""

from __future__ import annotations

import asyncio
import gc

import pytest

from sluice.testing.scripted_interaction import ScriptedInteraction, finished
from sluice.ui.tui import transcript
from sluice.ui.tui.app import TerminalFace
from sluice.values import notices as n
from sluice.values.results import ToolResult


def _run(number: int) -> list[n.Notice]:
    asked = {"id": "c", "tool": "bash", "arguments": "{}", "status": "whole", "subject": f"make {number}"}
    result = ToolResult(ok=True, status="ok", tool="bash", content=f"output {number}\n" * 500)
    return [
        n.TurnStarted(run=f"r{number}", turn=1),
        n.ReasoningNotice(turn=1, text=f"thought {number} " * 50),
        *(n.TextNotice(turn=1, text=f"words of run {number}.{piece} **and** more\n\n") for piece in range(20)),
        n.CallIntended(turn=1, arrival=0, id="c", tool="bash"),
        n.CallArrived(turn=1, position=0, arrival=0, **asked),
        n.CallStarted(turn=1, position=0, tool="bash"),
        n.CallFinished(turn=1, position=0, id="c", tool="bash", result=result),
        finished(),
    ]


def test_what_it_keeps_does_not_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcript, "MAX_BLOCKS", 100)

    async def main() -> list[tuple[int, int]]:
        interaction = ScriptedInteraction()
        app = TerminalFace(interaction)
        sizes: list[tuple[int, int]] = []
        async with app.run_test(size=(80, 24)) as pilot:
            for number in range(60):
                interaction.tell(*_run(number))
                await interaction.settled()
                app.transcript.flush()
                if number % 10 == 9:
                    await pilot.pause()
                if number in (29, 59):
                    gc.collect()
                    kept = sum(block.weight for block in app.transcript.feed.blocks)
                    sizes.append((len(gc.get_objects()), kept))
            assert len(app.transcript.feed.blocks) <= 100
            assert not app.transcript.feed.running
            await interaction.close()
        return sizes

    (objects, kept), (objects_later, kept_later) = asyncio.run(main())
    assert objects_later < objects * 1.1  # about a tenth of what 30 runs would leave if nothing of them went
    assert kept_later < kept * 1.2
