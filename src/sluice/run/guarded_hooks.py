"""An embedder's hooks behind a guard: whatever one raises or wrongly returns is a failure that names the place.

A cancellation that nobody asked for is a failure too. Passed on as it is, it would look as if the run were to stop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from sluice.errors import SluiceError
from sluice.run.parts import NoHooks
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

    def _idle(self, place: str) -> bool:
        """Whether this place of `NoHooks` was left as it is: at each piece of text a task would be dear."""
        return getattr(type(self._hooks), place, None) is getattr(NoHooks, place)

    async def prepare_turn(self, turn: int, conversation: Conversation) -> Sequence[UserMessage | AssistantMessage]:
        """See `Hooks.prepare_turn`. The messages are marked as the host's words and not the user's (L6)."""
        added = await _guarded("prepare_turn", lambda: self._hooks.prepare_turn(turn, conversation))
        if not isinstance(added, (list, tuple)):
            raise HookError(f"the hook prepare_turn returned {_kind(added)} instead of a list of messages")
        return tuple(map(_hosts_word, added))

    async def text(self, turn: int, text: str) -> None:
        """See `Hooks.text`."""
        if not self._idle("text"):
            await _guarded("text", lambda: self._hooks.text(turn, text))

    async def reasoning(self, turn: int, text: str) -> None:
        """See `Hooks.reasoning`."""
        if not self._idle("reasoning"):
            await _guarded("reasoning", lambda: self._hooks.reasoning(turn, text))

    async def reasoning_ended(self, turn: int) -> None:
        """See `Hooks.reasoning_ended`."""
        if not self._idle("reasoning_ended"):
            await _guarded("reasoning_ended", lambda: self._hooks.reasoning_ended(turn))

    async def call(self, turn: int, spec: ToolSpec, arguments: str) -> str | None:
        """See `Hooks.call`."""
        return await _words("call", lambda: self._hooks.call(turn, spec, arguments))

    async def result(self, turn: int, result: ToolResult) -> None:
        """See `Hooks.result`."""
        await _guarded("result", lambda: self._hooks.result(turn, result))

    async def turn_finished(self, turn: int, message: AssistantMessage, cost: float | None) -> None:
        """See `Hooks.turn_finished`."""
        await _guarded("turn_finished", lambda: self._hooks.turn_finished(turn, message, cost))

    async def stop_when(self, turn: int) -> str | None:
        """See `Hooks.stop_when`."""
        return await _words("stop_when", lambda: self._hooks.stop_when(turn))


async def _guarded(place: str, asked: Callable[[], Awaitable[T]]) -> T:
    """What the hook returns. It is a task of its own: one that cancels the task it is in cancels nobody else's."""
    try:
        work = asyncio.ensure_future(asked())
    except Exception as error:
        raise HookError(f"the hook {place} failed: {words_of(error)}") from error
    try:
        await asyncio.wait({work})
    except asyncio.CancelledError:
        work.cancel()
        await asyncio.wait({work})
        if not work.cancelled():
            work.exception()  # it ends anyway
        raise
    if work.cancelled():
        raise HookError(f"the hook {place} failed: it was cancelled, and nobody had asked for that")
    raised = work.exception()
    if raised is not None:
        words = words_of(raised) if isinstance(raised, Exception) else type(raised).__name__
        raise HookError(f"the hook {place} failed: {words}") from raised
    return work.result()


async def _words(place: str, asked: Callable[[], Awaitable[str | None]]) -> str | None:
    said: object = await _guarded(place, asked)
    if said is not None and not isinstance(said, str):
        raise HookError(f"the hook {place} returned {_kind(said)} instead of words or None")
    return said


def _hosts_word(message: object) -> UserMessage | AssistantMessage:
    """What a hook may add: words to the model, or a beginning of its reply."""
    if isinstance(message, UserMessage):
        return UserMessage(message.content, origin="host")
    if isinstance(message, AssistantMessage) and not message.tool_calls:
        return message
    what = "a reply with calls" if isinstance(message, AssistantMessage) else _kind(message)
    raise HookError(f"the hook prepare_turn may add user messages and the beginning of a reply, and added {what}")


def _kind(value: object) -> str:
    return type(value).__name__
