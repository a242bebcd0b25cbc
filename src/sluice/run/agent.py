"""The agent: a loop that fits on one screen and decides nothing.

Facts go into the turn machine, commands come out and are carried out, and what happens is told in notices.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Literal

from sluice.run.commands import Carrier, never_began, nothing_waits
from sluice.run.compacting import Compacting
from sluice.run.conversation import Talk
from sluice.run.execution import Execution, Rates
from sluice.run.inbox import Inbox
from sluice.run.outlet import Outlet
from sluice.run.parts import Parts
from sluice.run.steering import SteeringTicket
from sluice.session.unsaved import Unsaved
from sluice.turn.machine import Machine
from sluice.turn.past import Past
from sluice.values import notices as n
from sluice.values.messages import Conversation, ToolCall, UserMessage
from sluice.wire.surrogates import storable


class Agent:
    """An agent over one workspace and one conversation. Runs do not overlap: a second `run` waits for the first.

    `past` is what the rules of the loop still count of a session that is resumed. Which prompts a cancel covers, and in
    which order runs end, is told in `sluice.run.inbox`.
    """

    def __init__(self, parts: Parts, talk: Talk, past: Past | None = None) -> None:
        self._parts = parts
        self._talk = talk
        self._spoken_to = parts
        self._past = past or Past()
        self._rates = Rates()
        self._inbox = Inbox()
        self._compacting = Compacting()
        self._now: tuple[Carrier, Outlet, asyncio.Task[None]] | None = None

    @property
    def session(self) -> str:
        """The id of the stored session; empty for one that nobody can come back to."""
        return self._parts.store.session

    @property
    def parts(self) -> Parts:
        """What it works with now."""
        return self._parts

    @property
    def messages(self) -> Conversation:
        """The conversation so far, as it is sent: what is stored, unless it was shrunk."""
        return self._talk.messages

    @property
    def unsaved(self) -> tuple[Unsaved, ...]:
        """What the store refused of the conversation, oldest first: it is in memory only. Results are in `messages`, too."""
        return self._talk.unsaved

    @property
    def waiting(self) -> tuple[ToolCall, ...]:
        """The calls that a broken-off run left open while a person was asked about one: the next run takes them up."""
        return self._talk.open_calls() if self._now is None else ()

    async def run(self, prompt: str | UserMessage | None) -> AsyncGenerator[n.Notice, None]:
        """Answers one prompt; yields notices in order, the last of them `RunFinished`, exactly once.

        Calls that wait (`waiting`) are settled first, and the prompt is stored behind their results. Without a prompt they
        are settled and the model goes on from there; where none waits, that ends at once and stores nothing.

        Never raises for what a user, a model, a tool or a server did: the outcome says it. Closing the iterator early, or
        being cancelled, stops the run: tools are ended and what happened is stored before this returns. An iterator that
        is merely dropped is closed by the event loop, some time later, or by `close`.
        """
        async with self._inbox.turn() as ticket:
            if ticket.cancelled is not None:
                yield never_began(self._parts, ticket.cancelled)
                return
            if prompt is None and not self.waiting:
                yield nothing_waits(self._parts)
                return
            outlet, parts = Outlet(), self._parts
            self._serve(parts)
            execution = Execution(parts.executor, parts.audit, parts.store, parts.clock, parts.limits, self._rates)
            carrier = Carrier(parts.ids.new("run"), parts, self._talk, execution, outlet.put)
            driver = asyncio.get_running_loop().create_task(self._drive(carrier, parts, prompt))
            self._now = carrier, outlet, driver
            try:
                while True:
                    notice = await outlet.next()
                    yield notice
                    if isinstance(notice, n.RunFinished):
                        break
            finally:
                await self._end()

    def steer(self, words: str | UserMessage) -> SteeringTicket:
        """Gives the model words between two turns of the run that is going; a `Steered` notice tells when.

        They are stored as the user's own, behind the results of a turn. If no run is going, or it ends before its next
        turn, the ticket is `unsent` (and the text stands in `RunFinished.extra["unsent"]`): nothing was stored.
        """
        message = words if isinstance(words, UserMessage) else UserMessage(storable(words))
        if self._now is None:
            ticket = SteeringTicket(message)
            ticket.take_back()
            return ticket
        return self._now[0].steer(message)

    def send_first(self, *messages: UserMessage) -> None:
        """What every request from the next one on begins with, behind the system text. It is no part of the session."""
        self._talk.before = messages

    def use(self, parts: Parts) -> None:
        """Works with other parts (another model, another policy) from the next run on; a run that is going keeps its own.

        The store must be the one that the conversation is kept in. The old parts are not closed. Raises `ValueError`.
        """
        if parts.store is not self._parts.store:
            raise ValueError("an agent keeps its store: another session is another agent")
        self._parts = parts

    async def compact(self, watch: Callable[[n.Summarised], None] | None = None) -> n.Summarised:
        """Shrinks the context now, as a run does when it grows too large; waits for the runs before it.

        Stored rows stay. `ok` is false where nothing could be made smaller, and where it was cancelled or took longer than
        `max_seconds`: then all is as before. Where a summary alone would pass `max_cost` or `max_tokens_total`, none is
        asked for. What one used counts in the session, whatever came of it; `watch` learns it in every case. Raises
        `StoreError` if it cannot be stored, and changes nothing then.
        """
        async with self._inbox.turn() as ticket:
            self._serve(self._parts)
            return await self._compacting.run(self._talk, self._parts, begin=ticket.cancelled is None, watch=watch)

    def cancel(self, reason: Literal["cancelled", "terminated"] = "cancelled") -> None:
        """Ends the current run and those that wait, with this outcome; their iterators still yield to their ends."""
        self._inbox.cancel(reason)
        self._compacting.cancel()
        if self._now is not None:
            self._now[0].cancel(reason)

    async def close(self) -> None:
        """Ends the current run and those that wait, and returns when what happened is stored and nothing of it is left.

        Whoever still reads its notices gets no more of them but the last. Being cancelled does not cut it short.
        """
        self._inbox.cancel("cancelled")
        self._compacting.cancel()
        await self._end()

    def _serve(self, parts: Parts) -> None:
        if parts is not self._spoken_to:
            self._talk.speak_to(parts.provider, parts.system_prompt)
            self._spoken_to = parts

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

    async def _drive(self, carrier: Carrier, parts: Parts, prompt: str | UserMessage | None) -> None:
        can_ask, window = parts.approver is not None, parts.window_tokens
        machine = Machine(carrier.run, parts.limits, can_ask=can_ask, window_tokens=window, past=self._past)
        try:
            fact = await carrier.begin(UserMessage(storable(prompt)) if isinstance(prompt, str) else prompt)
            while True:
                for command in machine.feed(fact):
                    await carrier.carry_out(command)
                if machine.finished:
                    break
                fact = await carrier.next_fact(machine.deadline())
        except Exception as error:
            await carrier.broke(error)
        finally:
            self._past.fresh_prompt()
            await carrier.settle()
