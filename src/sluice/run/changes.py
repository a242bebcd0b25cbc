"""Changes of what an interaction works with: one at a time, each cut short when it is given up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from sluice.errors import ConfigurationError

T = TypeVar("T")


class Changes:
    """The change that is going, if any. `over` is called at the end of each. For one event loop."""

    def __init__(self, over: Callable[[], None]) -> None:
        self._over = over
        self._going: asyncio.Task[Any] | None = None

    @property
    def going(self) -> bool:
        """Whether a change is going."""
        return self._going is not None

    async def make(self, change: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """What the change returns or raises. Being cancelled gives it up, and waits for its end.

        Raises `ConfigurationError` where another one is going, and if it was given up by `cancel`.
        """
        if self._going is not None:
            raise ConfigurationError("another change is going: wait for its end")
        task: asyncio.Task[T] = asyncio.get_running_loop().create_task(change())
        self._going = task
        given_up: asyncio.CancelledError | None = None
        while not task.done():
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError as error:
                given_up = error
                task.cancel()
        self._going = None
        self._over()
        if given_up is not None:
            if not task.cancelled():
                task.exception()  # seen; nobody is there to be told
            raise given_up
        if task.cancelled():
            raise ConfigurationError("it was cancelled")
        return task.result()

    def cancel(self) -> None:
        """Gives the change that is going up."""
        if self._going is not None:
            self._going.cancel()

    async def end(self) -> None:
        """Gives the change that is going up and waits for its end."""
        if self._going is not None:
            self._going.cancel()
            await asyncio.wait({self._going})
