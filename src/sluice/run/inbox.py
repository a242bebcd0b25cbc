"""The order of prompts, cancels and ends in one agent.

1. A prompt is accepted when its run's iterator is first asked for a notice. Prompts run one at a time, in the order in
   which they were accepted.
2. A cancel covers every prompt that was accepted before it and has not ended: the one that runs, which ends in good
   order, and those that wait, which never begin. It covers nothing that is accepted after it.
3. Ends come in the order of acceptance, exactly one for each prompt. The end of a prompt that never began says
   `cancelled`, and the prompt is no part of the session.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal

Reason = Literal["cancelled", "terminated"]


class Ticket:
    """A prompt's place. `cancelled` is the reason once a cancel has covered it."""

    def __init__(self) -> None:
        self.cancelled: Reason | None = None


class Inbox:
    """The queue of prompts. For one event loop; not for several threads."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()  # wakes waiters in the order in which they came
        self._accepted: list[Ticket] = []

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[Ticket]:
        """Accepts a prompt and waits for its turn; the turn is over on leaving. Being cancelled gives the place up."""
        ticket = Ticket()
        self._accepted.append(ticket)
        try:
            async with self._turn:
                yield ticket
        finally:
            self._accepted.remove(ticket)

    def cancel(self, reason: Reason) -> None:
        """Covers every prompt that is accepted and has not ended. The first reason stays."""
        for ticket in self._accepted:
            ticket.cancelled = ticket.cancelled or reason
