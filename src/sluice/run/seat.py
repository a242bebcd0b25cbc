"""One open session with its agent, as an interaction goes on with it until another one takes its place."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import TypeVar

import msgspec

from sluice.run.agent import Agent
from sluice.run.instructions import Instructions
from sluice.run.sessions import spent_in, store_path
from sluice.run.settings import Settings
from sluice.run.spending import Spending
from sluice.run.wiring import open_agent
from sluice.session.wish import Wish
from sluice.values.messages import Conversation
from sluice.values.ports import Approver, Transport

T = TypeVar("T")


class Seat:
    """An agent that is open. `spending` counts what its session has used."""

    def __init__(self, agent: Agent, spending: Spending, stack: AsyncExitStack) -> None:
        self.agent = agent
        self.spending = spending
        self.context_tokens: int | None = None
        self.context_estimated = True
        self._stack = stack
        if (last := spending.last) is not None and last.usage.input_tokens:
            self.context_tokens = last.usage.input_tokens + last.usage.output_tokens
            self.context_estimated = last.usage.estimated

    @property
    def begun(self) -> bool:
        """Whether its session can be found in the store."""
        return bool(self.agent.session and self.agent.messages)

    async def history(self) -> Conversation:
        """What is stored of its session, oldest first."""
        return await self.agent.parts.store.history()

    async def close(self) -> None:
        """Ends what runs, and lets the session go. Being cancelled does not cut it short."""
        await whole(self._stack.aclose())


async def open_seat(
    settings: Settings,
    wish: Wish,
    *,
    approver: Approver,
    transport: Transport,
    instructions: Instructions,
    in_front_changed: Callable[[], None],
) -> Seat:
    """Opens the session that is wished for. Raises `ConfigurationError`, and leaves nothing open then."""
    settings = msgspec.structs.replace(settings, session=wish)
    async with AsyncExitStack() as stack:
        agent = await stack.enter_async_context(
            open_agent(
                settings,
                approver=approver,
                transport=transport,
                intent=True,
                instructions=instructions,
                in_front_changed=in_front_changed,
            )
        )
        before = []
        if agent.messages and store_path(settings) is not None:
            before = await in_thread(lambda: spent_in(settings, agent.session))
        return Seat(agent, Spending(before), stack.pop_all())


async def whole(work: Awaitable[T]) -> T:
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
    return await whole(asyncio.to_thread(work))
