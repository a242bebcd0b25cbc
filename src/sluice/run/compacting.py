"""The context shrunk between two runs, because a person wants it so."""

from __future__ import annotations

import asyncio

from sluice.errors import StoreError
from sluice.run.conversation import Talk
from sluice.run.images import overweight
from sluice.run.parts import Parts
from sluice.run.shrinking import shrink
from sluice.values.notices import Summarised


class Compacting:
    """At most one shrinking at a time, which can be stopped. For one event loop."""

    def __init__(self) -> None:
        self._task: asyncio.Task[Summarised] | None = None

    def cancel(self) -> None:
        """Ends what runs; nothing of it is kept."""
        if self._task is not None:
            self._task.cancel()

    async def run(self, talk: Talk, parts: Parts, *, begin: bool = True) -> Summarised:
        """Shrinks what `talk` sends by every step there is, and stores it; what a summary used counts for the session.

        With `begin` false nothing is tried. Nothing is changed where nothing can be made smaller (`ok` is false), if it is
        cancelled, or if it cannot be stored: then it raises `StoreError`.
        """
        before = _size(talk, parts)
        nothing = Summarised(before=before, after=before, ok=False)
        if not begin:
            return nothing
        self._task = task = asyncio.get_running_loop().create_task(_compact(talk, parts, before))
        try:
            await asyncio.wait({task})
        finally:
            self._task = None
            if not task.done():  # the caller was cancelled
                task.cancel()
                await asyncio.wait({task})
        return nothing if task.cancelled() else task.result()


async def _compact(talk: Talk, parts: Parts, before: int) -> Summarised:
    original = talk.messages
    ok, usage = await shrink(talk, parts, lambda: _size(talk, parts), None, wanted=True)
    if ok:
        try:
            await parts.store.shrank(talk.messages)
        except StoreError:
            talk.messages = original
            raise
    asked = usage if usage.input_tokens + usage.output_tokens else None
    cost = parts.model.cost(usage) if asked else None
    told = Summarised(before=before, after=_size(talk, parts), ok=ok, usage=asked, cost=cost)
    if original:
        await parts.store.noted("", told)
    return told


def _size(talk: Talk, parts: Parts) -> int:
    conversation = talk.to_send(extra=False)
    request = parts.dialect.request(conversation, parts.executor.specs(), parts.options)
    return len(request.body) - overweight(conversation)
