"""A small synchronous wrapper around the agent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing

from sluice.errors import InternalError
from sluice.run.config import Settings
from sluice.run.wiring import open_agent
from sluice.values.notices import Notice, RunFinished
from sluice.values.ports import Approver, Hooks


def run_once(
    settings: Settings,
    prompt: str,
    *,
    watch: Callable[[Notice], None] | None = None,
    hooks: Hooks | None = None,
    approver: Approver | None = None,
) -> RunFinished:
    """Answers one prompt in an event loop of its own and returns the last notice; `watch` sees every notice in order.

    `settings.workspace` must be absolute and exist. Raises `ConfigurationError` for settings that cannot be used, and
    what `watch` raises, after the run has been stopped and stored. A key press (`KeyboardInterrupt`) does the same.
    """

    async def run() -> RunFinished:
        async with (
            open_agent(settings, hooks=hooks, approver=approver) as agent,
            aclosing(agent.run(prompt)) as notices,
        ):
            return await last_notice(notices, watch)

    return asyncio.run(run())


async def last_notice(notices: AsyncIterator[Notice], watch: Callable[[Notice], None] | None) -> RunFinished:
    """The end of a run whose notices these are; `watch` sees every one in order, and what it raises goes through."""
    async for notice in notices:
        if watch is not None:
            watch(notice)
        if isinstance(notice, RunFinished):
            return notice
    raise InternalError("the run ended without its last notice")
