"""The way of events from an interaction to the one face that shows it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator

from sluice.run.interaction import Event

MOST_WAITING = 512  # events of a run that wait for a slow face before the run waits for it


class EventStream:
    """Events in order, for one reader. `tell` never waits; a run calls `room`, which does while the reader is far behind."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque()
        self._arrived = asyncio.Event()
        self._taken = asyncio.Event()
        self._unheard = False
        self._closed = False

    def tell(self, event: Event) -> None:
        """Puts one event at the end. After `close` it is dropped."""
        if not self._closed:
            self._events.append(event)
            self._arrived.set()

    async def room(self) -> None:
        """Returns when the reader is not too far behind, or nobody is waited for any more."""
        while len(self._events) >= MOST_WAITING and not self._unheard:
            self._taken.clear()
            await self._taken.wait()

    def wait_for_nobody(self) -> None:
        """From now on `room` returns at once: the end of a run must not hang on a face that is gone."""
        self._unheard = True
        self._taken.set()

    def close(self) -> None:
        """The reader gets what is there, and then the end."""
        self._closed = True
        self._arrived.set()

    async def read(self) -> AsyncGenerator[Event, None]:
        """The events from the first one on; ends after `close`."""
        while True:
            while self._events:
                event = self._events.popleft()
                self._taken.set()
                yield event
            if self._closed:
                return
            self._arrived.clear()
            await self._arrived.wait()
