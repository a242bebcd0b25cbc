"""The way of notices from a run to whoever reads them."""

from __future__ import annotations

import asyncio

from sluice.values.notices import Notice, RunFinished

_QUEUED_NOTICES = 256  # a slow watcher slows the run down, it does not fill the memory


class Outlet:
    """A bounded queue of notices. Once `abandon` was called nobody is waited for any more."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Notice] = asyncio.Queue(_QUEUED_NOTICES)
        self._abandoned = False

    async def put(self, notice: Notice) -> None:
        """Takes a notice; waits while the reader is too far behind."""
        if not self._abandoned:
            await self._queue.put(notice)
        elif isinstance(notice, RunFinished):
            self._make_room()
            self._queue.put_nowait(notice)  # somebody may still be waiting for the end

    async def next(self) -> Notice:
        """The next notice, in order."""
        return await self._queue.get()

    def abandon(self) -> None:
        """Nobody reads on: what is queued, and all that comes but the last notice, is dropped."""
        self._abandoned = True
        self._make_room()

    def _make_room(self) -> None:
        while not self._queue.empty():
            self._queue.get_nowait()
