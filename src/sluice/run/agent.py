"""The agent: a loop that fits on one screen and decides nothing.

Facts go into the turn machine, commands come out and are carried out, and what happens is told in notices.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Literal

from sluice.run.commands import Carrier
from sluice.run.conversation import Talk
from sluice.run.execution import Execution
from sluice.run.parts import Parts
from sluice.turn import facts as f
from sluice.turn.machine import Machine
from sluice.values import notices as n
from sluice.values.messages import UserMessage

_QUEUED_NOTICES = 256  # a slow watcher slows the run down, it does not fill the memory


class Agent:
    """An agent over one workspace and one conversation. Runs do not overlap: a second `run` waits for the first."""

    def __init__(self, parts: Parts, talk: Talk) -> None:
        self._parts = parts
        self._talk = talk
        self._execution = Execution(parts.executor, parts.audit, parts.store, parts.clock, parts.limits)
        self._turn = asyncio.Lock()
        self._carrier: Carrier | None = None

    async def run(self, prompt: str | UserMessage) -> AsyncIterator[n.Notice]:
        """Answers one prompt; yields notices in order, the last of them `RunFinished`, exactly once.

        Never raises for what a user, a model, a tool or a server did: the outcome says it. Leaving the iterator early,
        or being cancelled, stops the run: tools are ended and what happened is stored before this returns.
        """
        async with self._turn:
            notices: asyncio.Queue[n.Notice] = asyncio.Queue(_QUEUED_NOTICES)
            carrier = Carrier(self._parts.ids.new("run"), self._parts, self._talk, self._execution, notices.put)
            self._carrier = carrier
            driver = asyncio.get_running_loop().create_task(self._drive(carrier, prompt))
            try:
                while True:
                    notice = await notices.get()
                    yield notice
                    if isinstance(notice, n.RunFinished):
                        break
            finally:
                self.cancel()
                while not driver.done():  # nobody reads any more, but the run must be able to end
                    while not notices.empty():
                        notices.get_nowait()
                    await asyncio.wait({driver}, timeout=0.05)
                self._carrier = None
                driver.result()

    def cancel(self, reason: Literal["cancelled", "terminated"] = "cancelled") -> None:
        """Ends the current run, if there is one, with this outcome; its iterator still yields to its end."""
        if self._carrier is not None:
            self._carrier.facts.put_nowait(f.Cancelled(at=self._carrier.now(), reason=reason))

    async def _drive(self, carrier: Carrier, prompt: str | UserMessage) -> None:
        parts = self._parts
        machine = Machine(
            carrier.run, parts.limits, can_ask=parts.approver is not None, window_tokens=parts.window_tokens
        )
        try:
            await carrier.begin(prompt if isinstance(prompt, UserMessage) else UserMessage(prompt))
            commands = machine.feed(f.Asked(at=carrier.now()))
            while True:
                for command in commands:
                    try:
                        await carrier.carry_out(command)
                    except Exception as error:  # the store or a hook failed: the machine ends the run in good order
                        carrier.host_failed(error)
                if machine.finished:
                    break
                commands = machine.feed(await carrier.next_fact(machine.deadline()))
        except Exception as error:  # a fault of our own: still exactly one last notice (L9)
            await carrier.settle()
            await carrier.finished("failed", f"a fault inside Sluice ended the run: {type(error).__name__}: {error}")
        finally:
            await carrier.settle()
