"""The prompts of one person that wait: for their turn, or for the next turn of the run that is going (steering)."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from sluice.errors import ConfigurationError
from sluice.run.interaction import Queued
from sluice.run.steering import SteeringTicket
from sluice.values.messages import UserMessage
from sluice.wire.surrogates import storable

MAX_PROMPT_BYTES = 4 * 1024 * 1024  # of one prompt, as on standard input
MAX_WAITING = 100  # prompts at one time; a person who types does not come near

Steer = Callable[[UserMessage], SteeringTicket]


class WaitingPrompts:
    """The queue. Numbers count from 1 and are never used again. For one event loop."""

    def __init__(self) -> None:
        self._queue: list[Queued] = []
        self._steering: list[tuple[Queued, SteeringTicket]] = []
        self._last = 0

    def shown(self) -> tuple[Queued, ...]:
        """All that wait, in the order in which they will be sent."""
        return (*(prompt for prompt, _ticket in self._steering), *self._queue)

    def any(self) -> bool:
        """Whether a prompt waits for a run of its own."""
        return bool(self._queue)

    def add(self, text: str, steer: Steer | None = None) -> Queued:
        """Takes a prompt; with `steer` it is given to the run that is going. Raises `ConfigurationError`."""
        _usable(text)
        if len(self._queue) + len(self._steering) >= MAX_WAITING:
            raise ConfigurationError(f"{MAX_WAITING} prompts wait already")
        self._last += 1
        prompt = Queued(number=self._last, text=text, steering=steer is not None)
        if steer is None:
            self._queue.append(prompt)
        else:
            self._steering.append((prompt, steer(_message(text))))
        return prompt

    def edit(self, number: int, text: str) -> bool:
        """Other words for a prompt that still waits; false if it does not. Raises `ConfigurationError`."""
        _usable(text)
        for place, prompt in enumerate(self._queue):
            if prompt.number == number:
                self._queue[place] = msgspec.structs.replace(prompt, text=text)
                return True
        for place, (prompt, ticket) in enumerate(self._steering):
            if prompt.number == number and (ticket.edit(_message(text)) or ticket.state == "unsent"):
                self._steering[place] = msgspec.structs.replace(prompt, text=text), ticket
                return True
        return False

    def take_back(self, number: int) -> str | None:
        """Removes a prompt that still waits; its text, or `None`."""
        for prompt in self._queue:
            if prompt.number == number:
                self._queue.remove(prompt)
                return prompt.text
        for entry in self._steering:
            if entry[0].number == number and _held_back(entry[1]):
                self._steering.remove(entry)
                return entry[0].text
        return None

    def take_all_back(self) -> tuple[Queued, ...]:
        """Removes all that still wait."""
        steering = [prompt for prompt, ticket in self._steering if _held_back(ticket)]
        back = (*steering, *self._queue)
        self._queue.clear()
        self._steering = [entry for entry in self._steering if entry[0] not in steering]
        return back

    def next(self) -> Queued | None:
        """The next prompt for a run of its own; it does not wait any more."""
        return self._queue.pop(0) if self._queue else None

    def given(self) -> Queued | None:
        """The first steering prompt that the model has been given and that has not been returned here yet."""
        for entry in self._steering:
            if entry[1].state == "given":
                self._steering.remove(entry)
                return entry[0]
        return None

    def run_ended(self) -> bool:
        """What a run ended before becomes the first to wait for a run of its own; whether anything changed."""
        late = [msgspec.structs.replace(p, steering=False) for p, ticket in self._steering if ticket.state != "given"]
        self._queue[:0] = late
        self._steering.clear()
        return bool(late)


def _held_back(ticket: SteeringTicket) -> bool:
    """Whether the model never gets it; a run that was over already has not taken it."""
    return ticket.take_back() or ticket.state == "unsent"


def _usable(text: str) -> None:
    if not text.strip():
        raise ConfigurationError("the prompt is empty")
    if len(text.encode("utf-8", "surrogatepass")) > MAX_PROMPT_BYTES:
        raise ConfigurationError(f"the prompt is larger than {MAX_PROMPT_BYTES} bytes")


def _message(text: str) -> UserMessage:
    return UserMessage(storable(text))
