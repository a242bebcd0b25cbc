"""The agent: a loop that fits on one screen and decides nothing.

Facts go into the turn machine, commands come out and are carried out, and what happens is told in notices.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Literal

from sluice.run.commands import Carrier, never_began
from sluice.run.conversation import Talk
from sluice.run.execution import Execution
from sluice.run.inbox import Inbox
from sluice.run.outlet import Outlet
from sluice.run.parts import Parts
from sluice.turn.machine import Machine
from sluice.values import notices as n
from sluice.values.messages import UserMessage
from sluice.wire.surrogates import storable


class Agent:
    """An agent over one workspace and one conversation. Runs do not overlap: a second `run` waits for the first.

    Which prompts a cancel covers, and in which order runs end, is told in `sluice.run.inbox`.
    """

    def __init__(self, parts: Parts, talk: Talk) -> None:
        self._parts = parts
        self._talk = talk
        self._execution = Execution(parts.executor, parts.audit, parts.store, parts.clock, parts.limits)
        self._inbox = Inbox()
        self._now: tuple[Carrier, Outlet, asyncio.Task[None]] | None = None

    @property
    def session(self) -> str:
        """The id of the stored session; empty for one that nobody can come back to."""
        return self._parts.store.session

    async def run(self, prompt: str | UserMessage) -> AsyncGenerator[n.Notice, None]:
        """Answers one prompt; yields notices in order, the last of them `RunFinished`, exactly once.

        Never raises for what a user, a model, a tool or a server did: the outcome says it. Closing the iterator early, or
        being cancelled, stops the run: tools are ended and what happened is stored before this returns. An iterator that
        is merely dropped is closed by the event loop, some time later, or by `close`.
        """
        async with self._inbox.turn() as ticket:
            if ticket.cancelled is not None:
                yield never_began(self._parts, ticket.cancelled)
                return
            outlet = Outlet()
            carrier = Carrier(self._parts.ids.new("run"), self._parts, self._talk, self._execution, outlet.put)
            driver = asyncio.get_running_loop().create_task(self._drive(carrier, prompt))
            self._now = carrier, outlet, driver
            try:
                while True:
                    notice = await outlet.next()
                    yield notice
                    if isinstance(notice, n.RunFinished):
                        break
            finally:
                await self._end()

    def cancel(self, reason: Literal["cancelled", "terminated"] = "cancelled") -> None:
        """Ends the current run and those that wait, with this outcome; their iterators still yield to their ends."""
        self._inbox.cancel(reason)
        if self._now is not None:
            self._now[0].cancel(reason)

    async def close(self) -> None:
        """Ends the current run and those that wait, and returns when what happened is stored and nothing of it is left.

        Whoever still reads its notices gets no more of them but the last. Being cancelled does not cut it short.
        """
        self._inbox.cancel("cancelled")
        await self._end()

    async def _end(self) -> None:
        if self._now is None:
            return
        carrier, outlet, driver = self._now
        carrier.cancel("cancelled")
        outlet.abandon()
        cancelled: asyncio.CancelledError | None = None
        while not driver.done():
            try:
                await asyncio.wait({driver})
            except asyncio.CancelledError as error:
                cancelled = error
        self._now = None
        if cancelled is not None:
            raise cancelled
        driver.result()

    async def _drive(self, carrier: Carrier, prompt: str | UserMessage) -> None:
        parts = self._parts
        machine = Machine(
            carrier.run, parts.limits, can_ask=parts.approver is not None, window_tokens=parts.window_tokens
        )
        try:
            fact = await carrier.begin(prompt if isinstance(prompt, UserMessage) else UserMessage(storable(prompt)))
            while True:
                for command in machine.feed(fact):
                    await carrier.carry_out(command)
                if machine.finished:
                    break
                fact = await carrier.next_fact(machine.deadline())
        except Exception as error:
            await carrier.broke(error)
        finally:
            await carrier.settle()
