"""Turns the deltas of one reply into notices and hook calls, as they arrive."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from sluice.values import notices as n
from sluice.values.deltas import CallClosed, CallOpened, Delta, ReasoningDelta, TextDelta
from sluice.values.ports import ChunkKind, Hooks

Keep = Callable[[ChunkKind, str], Coroutine[Any, Any, None]]


async def keep_nothing(_kind: ChunkKind, _text: str) -> None:
    """Keeps no delta."""


class TurnWatcher:
    """Watches the attempts at one reply. Adjacent pieces of one read become one notice, kept before it is told."""

    def __init__(
        self,
        turn: int,
        emit: Callable[[n.Notice], Coroutine[Any, Any, None]],
        hooks: Hooks,
        keep: Keep = keep_nothing,
    ) -> None:
        self._turn = turn
        self._emit = emit
        self._hooks = hooks
        self._keep = keep
        self._reasoning = False
        self._intended: dict[int, str] = {}

    async def deltas(self, deltas: list[Delta]) -> None:
        """See `ReplyWatcher.deltas`. A hook that raises stops the reply."""
        text: list[str] = []
        for delta in deltas:
            match delta:
                case TextDelta():
                    if self._reasoning:
                        await self.close()
                    text.append(delta.text)
                    continue
            if text:
                await self._text("".join(text))
                text.clear()
            match delta:
                case ReasoningDelta():
                    self._reasoning = True
                    await self._keep("reasoning", delta.text)
                    await self._emit(n.ReasoningNotice(turn=self._turn, text=delta.text))
                    await self._hooks.reasoning(self._turn, delta.text)
                case CallOpened():
                    await self.close()
                    self._intended[delta.position] = delta.name
                    await self._keep("call", delta.name)
                    await self._emit(
                        n.CallIntended(turn=self._turn, position=delta.position, id=delta.id, tool=delta.name)
                    )
                case CallClosed():
                    pass  # the whole reply says it again, with the arguments
        if text:
            await self._text("".join(text))

    async def waiting(self, attempt: int, seconds: float, reason: str) -> None:
        """See `ReplyWatcher.waiting`."""
        await self._emit(n.Waiting(turn=self._turn, attempt=attempt, seconds=seconds, reason=reason))

    async def close(self) -> None:
        """Says that the reasoning is over, if there was any."""
        if self._reasoning:
            self._reasoning = False
            await self._emit(n.ReasoningEnded(turn=self._turn))
            await self._hooks.reasoning_ended(self._turn)

    async def withdraw_all(self, reason: str) -> None:
        """Takes back every call that was announced, of a reply that is not kept."""
        for position, tool in self._intended.items():
            await self._emit(n.CallWithdrawn(turn=self._turn, position=position, tool=tool, reason=reason))
        self._intended.clear()

    async def _text(self, text: str) -> None:
        await self._keep("text", text)
        await self._emit(n.TextNotice(turn=self._turn, text=text))
        await self._hooks.text(self._turn, text)
