"""Events to one reader: in order, none lost, a run held up by a slow face and never by one that is gone."""

from __future__ import annotations

import asyncio

from sluice.run.event_stream import MOST_WAITING, EventStream
from sluice.values.notices import TextNotice


def piece(number: int) -> TextNotice:
    return TextNotice(turn=1, text=str(number))


def test_all_of_it_comes_in_order_and_then_the_end() -> None:
    async def work() -> None:
        stream = EventStream()
        for number in range(3):
            stream.tell(piece(number))
        reader = asyncio.ensure_future(_all(stream))
        await asyncio.sleep(0)
        stream.tell(piece(3))
        stream.close()
        stream.tell(piece(4))
        assert await reader == ["0", "1", "2", "3"]
        assert await _all(stream) == []

    asyncio.run(work())


async def _all(stream: EventStream) -> list[str]:
    return [event.text async for event in stream.read() if isinstance(event, TextNotice)]


def test_there_is_room_until_the_reader_is_far_behind() -> None:
    async def work() -> None:
        stream = EventStream()
        for number in range(MOST_WAITING):
            await stream.room()
            stream.tell(piece(number))
        waits = asyncio.ensure_future(stream.room())
        await asyncio.sleep(0)
        assert not waits.done()
        stream.tell(piece(-1))  # what a request causes is never held up
        reader = stream.read()
        for _ in range(2):
            await anext(reader)
        await waits
        await reader.aclose()

    asyncio.run(work())


def test_nobody_is_waited_for_once_it_ends() -> None:
    async def work() -> None:
        stream = EventStream()
        for number in range(MOST_WAITING):
            stream.tell(piece(number))
        waits = asyncio.ensure_future(stream.room())
        await asyncio.sleep(0)
        assert not waits.done()
        stream.wait_for_nobody()
        await waits
        await stream.room()

    asyncio.run(work())
