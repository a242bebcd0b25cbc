"""The queue of prompts against a model in memory: any order of prompts, cancels, ends and places that are given up."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from sluice.run.inbox import Inbox, Reason, Ticket


@dataclass
class Prompt:
    """A prompt as the machine made it (`ticket`, once it has its turn) and as the model has it (`covered`)."""

    task: asyncio.Task[None]
    end: asyncio.Event
    ticket: Ticket | None = None
    covered: Reason | None = None


@dataclass
class Order:
    """In which order prompts had their turn."""

    begun: list[Prompt] = field(default_factory=list)


class InboxModel(RuleBasedStateMachine):
    """`waiting[0]` has its turn; the others stand in the order in which they were accepted."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.inbox = Inbox()
        self.waiting: list[Prompt] = []
        self.order = Order()
        self.expected: list[Prompt] = []

    def _settle(self) -> None:
        for _ in range(5):
            self.loop.run_until_complete(asyncio.sleep(0))
        if self.waiting and self.waiting[0] not in self.expected:
            self.expected.append(self.waiting[0])

    @precondition(lambda self: len(self.waiting) < 8)
    @rule()
    def accept(self) -> None:
        async def turn() -> None:
            async with self.inbox.turn() as ticket:
                prompt.ticket = ticket
                self.order.begun.append(prompt)
                await prompt.end.wait()

        prompt = Prompt(self.loop.create_task(turn()), asyncio.Event())
        self.waiting.append(prompt)
        self._settle()

    @precondition(lambda self: self.waiting)
    @rule()
    def end(self) -> None:
        prompt = self.waiting.pop(0)
        prompt.end.set()
        self._settle()
        assert prompt.task.done()

    @rule(reason=st.sampled_from(["cancelled", "terminated"]))
    def cancel(self, reason: Reason) -> None:
        self.inbox.cancel(reason)
        for prompt in self.waiting:
            prompt.covered = prompt.covered or reason

    @precondition(lambda self: self.waiting)
    @rule(which=st.integers(0, 7))
    def give_up(self, which: int) -> None:
        prompt = self.waiting.pop(which % len(self.waiting))
        prompt.task.cancel()
        self._settle()
        assert prompt.task.cancelled()

    @invariant()
    def one_at_a_time_and_in_order(self) -> None:
        assert self.order.begun == self.expected
        running = [prompt for prompt in self.order.begun if not prompt.task.done()]
        assert running == self.waiting[:1]

    @invariant()
    def a_cancel_covers_what_was_accepted_before_it_and_nothing_else(self) -> None:
        for prompt in self.order.begun:
            assert prompt.ticket is not None
            assert prompt.ticket.cancelled == prompt.covered

    def teardown(self) -> None:
        for prompt in self.waiting:
            prompt.task.cancel()
        self._settle()
        self.loop.close()


InboxModel.TestCase.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
TestInboxModel = InboxModel.TestCase
