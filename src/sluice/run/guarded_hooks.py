"""An embedder's hooks behind a guard: whatever one raises or wrongly returns is a failure that names the place.

A cancellation that nobody asked for is a failure too. Passed on as it is, it would look as if the run were to stop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import TypeVar

from sluice.errors import SluiceError
from sluice.run.scope import words_of
from sluice.values.calls import ToolSpec
from sluice.values.messages import AssistantMessage, Conversation, UserMessage
from sluice.values.ports import Hooks
from sluice.values.results import ToolResult

T = TypeVar("T")


class HookError(SluiceError):
    """A hook of the embedder's failed. `str(error)` names the hook and what it did."""


class GuardedHooks:
    """Implements `values.ports.Hooks` by asking `hooks`. Raises `HookError` for all that one raises or wrongly returns.

    A cancellation of the task that asks goes through as it is.
    """

    def __init__(self, hooks: Hooks) -> None:
        self._hooks = hooks

    async def prepare_turn(self, turn: int, conversation: Conversation) -> Sequence[UserMessage]:
        """See `Hooks.prepare_turn`. The messages are marked as the host's words and not the user's (L6)."""
        added = await _guarded("prepare_turn", self._hooks.prepare_turn(turn, conversation))
        if not isinstance(added, (list, tuple)):
            raise HookError(f"the hook prepare_turn returned {_kind(added)} instead of a list of messages")
        for message in added:
            if not isinstance(message, UserMessage):
                raise HookError(f"the hook prepare_turn may add a UserMessage only, and added {_kind(message)}")
        return tuple(UserMessage(one.content, origin="host") for one in added)

    async def text(self, turn: int, text: str) -> None:
        """See `Hooks.text`."""
        await _guarded("text", self._hooks.text(turn, text))

    async def reasoning(self, turn: int, text: str) -> None:
        """See `Hooks.reasoning`."""
        await _guarded("reasoning", self._hooks.reasoning(turn, text))

    async def reasoning_ended(self, turn: int) -> None:
        """See `Hooks.reasoning_ended`."""
        await _guarded("reasoning_ended", self._hooks.reasoning_ended(turn))

    async def call(self, turn: int, spec: ToolSpec, arguments: str) -> str | None:
        """See `Hooks.call`."""
        return await _guarded("call", self._hooks.call(turn, spec, arguments))

    async def result(self, turn: int, result: ToolResult) -> None:
        """See `Hooks.result`."""
        await _guarded("result", self._hooks.result(turn, result))

    async def turn_finished(self, turn: int, message: AssistantMessage, cost: float | None) -> None:
        """See `Hooks.turn_finished`."""
        await _guarded("turn_finished", self._hooks.turn_finished(turn, message, cost))

    async def stop_when(self, turn: int) -> str | None:
        """See `Hooks.stop_when`."""
        return await _guarded("stop_when", self._hooks.stop_when(turn))


async def _guarded(place: str, asked: Awaitable[T]) -> T:
    try:
        return await asked
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise HookError(f"the hook {place} failed: it was cancelled, and nobody had asked for that") from error
    except Exception as error:
        raise HookError(f"the hook {place} failed: {words_of(error)}") from error


def _kind(value: object) -> str:
    return type(value).__name__
