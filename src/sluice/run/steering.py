"""Words that a person gives while a run is going: they reach the model between two turns of it.

They go into the conversation behind the results of a turn and before the next request, as the user's own words, in the
order in which they were given. What a run ended before was never sent, and its ticket says so.
"""

from __future__ import annotations

from typing import Literal

from sluice.values.messages import UserMessage


class SteeringTicket:
    """One such message. `state` is `waiting`, then `given` (stored; the model gets it) or `unsent`, for good."""

    def __init__(self, message: UserMessage) -> None:
        self.message = message
        self.state: Literal["waiting", "given", "unsent"] = "waiting"

    def edit(self, message: UserMessage) -> bool:
        """Other words in place of these; false, changing nothing, if they do not wait any more."""
        if self.state != "waiting":
            return False
        self.message = message
        return True

    def take_back(self) -> bool:
        """Makes it `unsent`; false if it does not wait any more."""
        if self.state != "waiting":
            return False
        self.state = "unsent"
        return True


class Steering:
    """The messages that wait for the next turn of one run. For one event loop."""

    def __init__(self) -> None:
        self._tickets: list[SteeringTicket] = []
        self._over = False

    def add(self, message: UserMessage) -> SteeringTicket:
        """Takes a message. It is `unsent` at once if the run gives nothing to the model any more."""
        ticket = SteeringTicket(message)
        if self._over:
            ticket.state = "unsent"
        else:
            self._tickets.append(ticket)
        return ticket

    def first(self) -> SteeringTicket | None:
        """The first of those that wait, if any does; to be marked as `given` by whoever gives it."""
        return next((ticket for ticket in self._tickets if ticket.state == "waiting"), None)

    def close(self) -> tuple[UserMessage, ...]:
        """Nothing is given any more: what still waits is `unsent`, and is returned in order."""
        self._over = True
        return tuple(ticket.message for ticket in self._tickets if ticket.take_back())
