"""Turns the deltas of one reply into notices and hook calls, as they arrive."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from sluice.values import notices as n
from sluice.values.calls import ToolSpec
from sluice.values.deltas import CallArgument, CallClosed, CallOpened, CallProgress, Delta, ReasoningDelta, TextDelta
from sluice.values.ports import ChunkKind, Clock, Hooks

PROGRESS_NS = 50_000_000  # between two notices of the progress of one call: as often as an eye can follow
MAX_SUBJECT = 2000  # characters of a subject that are told

Keep = Callable[[ChunkKind, str], Coroutine[Any, Any, None]]
Grew = Callable[[int, int], Coroutine[Any, Any, None]]


async def keep_nothing(_kind: ChunkKind, _text: str) -> None:
    """Keeps no delta."""


async def keep_no_size(_call: int, _size: int) -> None:
    """Keeps no size of a call."""


class _Growing:
    """What was not yet told of the value that a call is writing."""

    __slots__ = ("name", "tails", "told")

    def __init__(self) -> None:
        self.name = ""
        self.tails: list[str] = []
        self.told: int | None = None


class TurnWatcher:
    """Watches the attempts at one reply. Adjacent pieces of one read become one notice, kept before it is told."""

    def __init__(
        self,
        turn: int,
        emit: Callable[[n.Notice], Coroutine[Any, Any, None]],
        hooks: Hooks,
        keep: Keep = keep_nothing,
        grew: Grew = keep_no_size,
        *,
        specs: Sequence[ToolSpec] = (),
        clock: Clock | None = None,
    ) -> None:
        self._turn = turn
        self._emit = emit
        self._hooks = hooks
        self._keep = keep
        self._grew = grew
        self._reasoning = False
        self._intended: dict[int, str] = {}
        self._sizes: dict[int, int] = {}
        self._specs = {spec.name: spec for spec in specs}
        self._clock = clock  # without one, all progress is told
        self._growing: dict[int, _Growing] = {}

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
                        n.CallIntended(turn=self._turn, arrival=delta.position, id=delta.id or None, tool=delta.name)
                    )
                case CallArgument():
                    await self._argument(delta)
                case CallProgress():
                    await self._progress(delta)
                case CallClosed():
                    pass  # the whole reply says it again, with the arguments
        if text:
            await self._text("".join(text))

    async def sizes(self, sizes: dict[int, int]) -> None:
        """See `ReplyWatcher.sizes`. A call that was not announced is not spoken of."""
        for number, position in enumerate(self._intended):
            size = sizes.get(position, 0)
            if size > self._sizes.get(position, 0):
                self._sizes[position] = size
                await self._grew(number, size)

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
        for arrival, tool in self._intended.items():
            await self._emit(n.CallWithdrawn(turn=self._turn, arrival=arrival, tool=tool, reason=reason))
        self._intended.clear()

    async def _argument(self, delta: CallArgument) -> None:
        """Tells what a call will touch, once that is known. A call that was not announced is not spoken of."""
        tool = self._intended.get(delta.position)
        spec = self._specs.get(tool) if tool is not None else None
        if spec is None or spec.subject != delta.name or not isinstance(delta.value, str):
            return
        intent = n.CallIntent(
            turn=self._turn,
            arrival=delta.position,
            tool=spec.name,
            subject=delta.value[:MAX_SUBJECT],
            category=spec.category,
        )
        await self._emit(intent)

    async def _progress(self, delta: CallProgress) -> None:
        tool = self._intended.get(delta.position)
        if tool is None:
            return
        growing = self._growing.setdefault(delta.position, _Growing())
        if growing.name != delta.name:  # what another value had gained is in the past
            growing.name = delta.name
            growing.tails.clear()
        if delta.tail:
            growing.tails.append(delta.tail)
        now = self._clock.monotonic_ns() if self._clock is not None else None
        if now is not None and growing.told is not None and now - growing.told < PROGRESS_NS:
            return
        growing.told = now
        tail = "".join(growing.tails)
        growing.tails.clear()
        await self._emit(
            n.CallProgressed(
                turn=self._turn, arrival=delta.position, tool=tool, size=delta.size, tail=tail, name=delta.name
            )
        )

    async def _text(self, text: str) -> None:
        await self._keep("text", text)
        await self._emit(n.TextNotice(turn=self._turn, text=text))
        await self._hooks.text(self._turn, text)
