"""One change at a time; given up, it ends before anything else begins."""

from __future__ import annotations

import asyncio

import pytest

from sluice.errors import ConfigurationError, StoreError
from sluice.run.changes import Changes


async def one() -> int:
    return 1


async def broken() -> int:
    raise StoreError("io", "no")


def test_a_change_returns_or_raises_what_it_does() -> None:
    async def work() -> None:
        ends: list[bool] = []
        changes = Changes(lambda: ends.append(changes.going))
        assert await changes.make(one) == 1
        with pytest.raises(StoreError):
            await changes.make(broken)
        assert ends == [False, False]
        changes.cancel()
        await changes.end()

    asyncio.run(work())


@pytest.mark.parametrize("how", ["cancel", "end", "caller"])
def test_what_is_given_up_has_ended_before_its_caller_goes_on(how: str) -> None:
    async def work() -> None:
        told: list[str] = []
        began, gate = asyncio.Event(), asyncio.Event()

        async def slow() -> None:
            began.set()
            try:
                await gate.wait()
            finally:
                await asyncio.sleep(0)
                told.append("ended")

        changes = Changes(lambda: told.append("over"))
        caller = asyncio.ensure_future(changes.make(slow))
        await began.wait()
        with pytest.raises(ConfigurationError, match="another change"):
            await changes.make(one)
        if how == "caller":
            caller.cancel()
        elif how == "end":
            await changes.end()
            assert told[0] == "ended"
        else:
            changes.cancel()
        with pytest.raises(asyncio.CancelledError if how == "caller" else ConfigurationError):
            await caller
        assert told == ["ended", "over"]
        assert await changes.make(one) == 1

    asyncio.run(work())
