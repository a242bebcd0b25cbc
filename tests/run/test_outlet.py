"""The queue of notices: bounded while somebody reads, no obstacle when nobody does."""

from __future__ import annotations

import asyncio

from sluice.run.outlet import Outlet
from sluice.values import notices as n
from sluice.values.messages import Usage

END = n.RunFinished(
    run="r", outcome="completed", exit_code=0, message="", text="", message_id="", turns=1, tool_calls=0, usage=Usage()
)
WARNED = n.Warned(message="x")


def test_a_writer_waits_for_a_reader_that_is_behind_and_goes_on_when_it_leaves() -> None:
    async def go() -> None:
        outlet = Outlet()
        put = 0

        async def write() -> None:
            nonlocal put
            for _ in range(10_000):
                await outlet.put(WARNED)
                put += 1

        writer = asyncio.create_task(write())
        for _ in range(1000):
            await asyncio.sleep(0)
        assert put < 1000
        outlet.abandon()
        await writer
        assert put == 10_000

    asyncio.run(go())


def test_the_last_notice_comes_also_after_the_queue_was_abandoned_full() -> None:
    async def go() -> None:
        outlet = Outlet()
        waiting = [asyncio.create_task(outlet.put(WARNED)) for _ in range(300)]
        await asyncio.sleep(0)
        outlet.abandon()
        await asyncio.gather(*waiting)
        await outlet.put(WARNED)
        await outlet.put(END)
        assert await outlet.next() is END

    asyncio.run(go())
