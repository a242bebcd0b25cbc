"""Work that a cancellation waits for instead of cutting it short."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


async def shielded(work: Awaitable[T]) -> T:
    """The result of work that is not to be cut short: a cancellation waits for its end, and is raised then."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        task.exception()  # seen; the cancellation goes first
        raise cancelled
    return task.result()


async def in_thread(work: Callable[[], T]) -> T:
    """What `work` returns, which may block; it runs beside the loop, and to its end also if this is cancelled."""
    return await shielded(asyncio.to_thread(work))
