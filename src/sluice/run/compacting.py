"""The context shrunk between two runs, because a person wants it so.

It is bounded as a run is: a summary that would alone pass `max_cost` or `max_tokens_total` is not asked for, and one that
takes longer than `max_seconds` is stopped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from sluice.errors import StoreError
from sluice.run.conversation import Talk
from sluice.run.images import overweight
from sluice.run.metering import Meter, least
from sluice.run.parts import Parts
from sluice.run.shrinking import Shrunk, shrink
from sluice.values.messages import Usage
from sluice.values.notices import Summarised

Watch = Callable[[Summarised], None]


class Compacting:
    """At most one shrinking at a time, which can be stopped. For one event loop."""

    def __init__(self) -> None:
        self._task: asyncio.Task[Shrunk] | None = None

    def cancel(self) -> None:
        """Ends what runs; nothing of it is kept."""
        if self._task is not None:
            self._task.cancel()

    async def run(self, talk: Talk, parts: Parts, *, begin: bool = True, watch: Watch | None = None) -> Summarised:
        """Shrinks what `talk` sends by every step there is, and stores it; what a summary used counts for the session.

        With `begin` false nothing is tried. Nothing is changed where nothing can be made smaller (`ok` is false), if it is
        cancelled or takes too long, or if it cannot be stored: then it raises `StoreError`. `watch` is given what is
        returned, and what was used also where this is cancelled or raises.
        """
        before = _size(talk, parts)
        told = Summarised(before=before, after=before, ok=False, message="it was stopped")
        if not begin:
            return told
        used: list[Usage] = []
        self._task = task = asyncio.get_running_loop().create_task(_compact(talk, parts, used))
        try:
            await asyncio.wait({task}, timeout=parts.limits.max_seconds)
            if not task.done():
                told = msgspec.structs.replace(
                    told, message=f"it took longer than {parts.limits.max_seconds:g} seconds"
                )
        finally:
            self._task = None
            if not task.done():  # it is late, or the caller was cancelled
                task.cancel()
                await asyncio.wait({task})
            if not task.cancelled() and task.exception() is None:
                shrunk = task.result()
                told = Summarised(before=before, after=_size(talk, parts), ok=shrunk.ok, message=shrunk.message)
            told = await _told(talk, parts, told, used, watch)
        if not task.cancelled():
            task.result()
        return told


async def _told(talk: Talk, parts: Parts, told: Summarised, used: list[Usage], watch: Watch | None) -> Summarised:
    """Notes what was done and what it used, and says it."""
    charge = Meter(parts.model.cost, parts.limits).count(used)
    if used:
        told = msgspec.structs.replace(told, usage=charge.usage, cost=charge.cost)
    if talk.messages:
        await parts.store.noted("", told)
    if watch is not None:
        watch(told)
    return told


async def _compact(talk: Talk, parts: Parts, used: list[Usage]) -> Shrunk:
    original = talk.messages

    def may_ask(sent: int) -> str:
        return _refusal(parts, least(sent))

    shrunk = await shrink(talk, parts, lambda: _size(talk, parts), None, used, wanted=True, may_ask=may_ask)
    if shrunk.ok:
        try:
            await parts.store.shrank(talk.messages)
        except StoreError:
            talk.messages = original
            raise
    return shrunk


def _refusal(parts: Parts, sent: Usage) -> str:
    """Why a summary whose request is as large as this is not asked for; empty if it may be."""
    tokens, dollars, cost = parts.limits.max_tokens_total, parts.limits.max_cost, parts.model.cost(sent)
    if tokens is not None and sent.input_tokens >= tokens:
        return f"a summary would take about {sent.input_tokens:,} tokens, and max_tokens_total allows {tokens:,}"
    if dollars is not None and cost is not None and cost >= dollars and cost > 0:
        return f"a summary would cost about ${cost:.4f}, and max_cost allows ${dollars:g}"
    return ""


def _size(talk: Talk, parts: Parts) -> int:
    conversation = talk.to_send(extra=False)
    request = parts.dialect.request(conversation, parts.executor.specs(), parts.options)
    return len(request.body) - overweight(conversation)
