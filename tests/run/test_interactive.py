"""One person, one workspace, one conversation at a time: requests in, events out, over real sessions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from sluice.run.config import Settings
from sluice.run.interaction import (
    Event,
    Interaction,
    PromptBegan,
    QueueChanged,
    SessionOpened,
    Situation,
)
from sluice.run.interactive import open_interaction
from sluice.testing.scripted_model import scripted_model
from sluice.ui.visible import visible
from sluice.values import notices as n

ESCAPED = partial(visible, strict=True)


class Desk:
    """An interaction with its events in a list; `until` waits for the next one that fits."""

    def __init__(self, interaction: Interaction) -> None:
        self.interaction = interaction
        self.events: list[Event] = []
        self._more = asyncio.Event()
        self._seen = 0
        self.reader = asyncio.get_running_loop().create_task(self._read())

    async def _read(self) -> None:
        async for event in self.interaction.events():
            self.events.append(event)
            self._more.set()

    async def until(self, kind: type[Any], fits: Callable[[Any], bool] = lambda event: True) -> Any:
        async with asyncio.timeout(20):
            while True:
                for place in range(self._seen, len(self.events)):
                    event = self.events[place]
                    if isinstance(event, kind) and fits(event):
                        self._seen = place + 1
                        return event
                self._more.clear()
                await self._more.wait()

    async def idle(self) -> Situation:
        found: Situation = await self.until(Situation, lambda event: not event.running)
        return found

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


@asynccontextmanager
async def at_desk(folder: Path, *replies: Any, transport: Any = None, **more: Any) -> AsyncIterator[Desk]:
    work = folder / "work"
    work.mkdir(exist_ok=True)
    settings = Settings(workspace=str(work), mode="mock", **more)
    async with open_interaction(
        settings, escaped=ESCAPED, environ={}, transport=transport or scripted_model(*replies)
    ) as interaction:
        desk = Desk(interaction)
        try:
            yield desk
        finally:
            await interaction.close()
            await desk.reader


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def all_of_it() -> None:
        async with asyncio.timeout(40):
            await work()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(all_of_it())


def test_a_prompt_is_sent_and_its_notices_come_in_order(tmp_path: Path) -> None:
    async def work() -> None:
        async with at_desk(tmp_path, "Hello") as desk:
            await desk.idle()
            assert desk.interaction.submit("hi") == 1
            end = await desk.until(n.RunFinished)
            assert (end.outcome, end.text) == ("completed", "Hello")
            after = await desk.idle()
            assert after.turns == 1
            assert after.context_tokens
        assert isinstance(desk.events[0], SessionOpened)
        began = desk.events.index(desk.of(PromptBegan)[0])
        started = desk.events.index(desk.of(n.RunStarted)[0])
        assert began < started
        assert [len(event.waiting) for event in desk.of(QueueChanged)] == [1, 0]

    run(work)
