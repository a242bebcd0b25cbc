"""A face over an interaction, for tests: requests in, events in a list, waiting for the one that fits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from sluice.run.config import Settings
from sluice.run.interaction import Event, Interaction, PromptBegan, Situation
from sluice.run.interactive import open_interaction
from sluice.testing.scripted_model import scripted_model
from sluice.ui.visible import visible
from sluice.values import notices as n

ESCAPED = partial(visible, strict=True)


class Face:
    """`interaction` with its events so far; `until` waits for the next one behind the last that it found."""

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
                self._seen = len(self.events)
                self._more.clear()
                await self._more.wait()

    async def idle(self) -> Situation:
        found: Situation = await self.until(Situation, lambda event: not event.running)
        return found

    async def idle_for_a_while(self) -> None:
        """Lets the interaction do all that it does by itself."""
        for _ in range(200):
            await asyncio.sleep(0)

    async def said(self, prompt: str) -> n.RunFinished:
        """Submits a prompt and returns the end of its run, once nothing runs any more."""
        self.interaction.submit(prompt)
        end: n.RunFinished = await self.until(n.RunFinished)
        await self.idle()
        return end

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    def check(self) -> None:
        """What holds of every interaction: a run's events stand between its beginning and its one end."""
        going = False
        for event in self.events:
            if isinstance(event, PromptBegan):
                assert going is event.steering, "a prompt begins where none runs; steering only within a run"
                going = True
            elif isinstance(event, n.RunStarted):
                going = True  # without a prompt: it takes up what waits for the person
            elif isinstance(event, n.RunFinished):
                assert going, "one end for each beginning"
                going = False
            elif isinstance(event, n.TurnStarted | n.CallStarted | n.TextNotice):
                assert going
        assert not going, "a run has no end"


@asynccontextmanager
async def open_face(folder: Path, *replies: Any, transport: Any = None, **more: Any) -> AsyncIterator[Face]:
    """A face over a workspace below `folder`, with a model that says `replies`. Closed and checked on leaving."""
    work = folder / "work"
    work.mkdir(exist_ok=True)
    environ = more.pop("environ", {})
    settings = Settings(**{"workspace": str(work.resolve()), "mode": "mock", **more})
    async with open_interaction(
        settings, escaped=ESCAPED, environ=environ, transport=transport or scripted_model(*replies)
    ) as interaction:
        face = Face(interaction)
        try:
            await face.idle()
            yield face
        finally:
            await interaction.close()
            await face.reader
    face.check()


def run(work: Callable[[], Awaitable[None]]) -> None:
    """Runs it, and looks that no task is left."""

    async def all_of_it() -> None:
        async with asyncio.timeout(40):
            await work()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(all_of_it())
