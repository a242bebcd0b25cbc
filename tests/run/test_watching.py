"""Deltas become notices and hook calls, in order, at once."""

from __future__ import annotations

import asyncio

from sluice.run.parts import NoHooks
from sluice.run.watching import TurnWatcher
from sluice.values import notices as n
from sluice.values.deltas import CallClosed, CallOpened, Delta, ReasoningDelta, TextDelta


def _watch(*reads: list[Delta], withdraw: str = "") -> list[n.Notice]:
    told: list[n.Notice] = []

    async def emit(notice: n.Notice) -> None:
        told.append(notice)

    async def go() -> None:
        watcher = TurnWatcher(3, emit, NoHooks())
        for read in reads:
            await watcher.deltas(read)
        await watcher.close()
        if withdraw:
            await watcher.withdraw_all(withdraw)
            await watcher.withdraw_all(withdraw)

    asyncio.run(go())
    return told


def test_pieces_of_one_read_are_one_notice_and_reads_are_not_joined() -> None:
    told = _watch([TextDelta("a"), TextDelta("b")], [TextDelta("c")])
    assert told == [n.TextNotice(turn=3, text="ab"), n.TextNotice(turn=3, text="c")]


def test_the_end_of_reasoning_is_told_once_before_what_follows() -> None:
    told = _watch([ReasoningDelta("h"), TextDelta("a"), ReasoningDelta("m"), CallOpened(0, "i", "look")])
    assert told == [
        n.ReasoningNotice(turn=3, text="h"),
        n.ReasoningEnded(turn=3),
        n.TextNotice(turn=3, text="a"),
        n.ReasoningNotice(turn=3, text="m"),
        n.ReasoningEnded(turn=3),
        n.CallIntended(turn=3, position=0, id="i", tool="look"),
    ]
    assert _watch([ReasoningDelta("h")])[-1] == n.ReasoningEnded(turn=3)


def test_text_before_and_after_a_call_keeps_its_place() -> None:
    told = _watch([TextDelta("a"), CallOpened(0, "i", "look"), CallClosed(0, "i", "look", "whole"), TextDelta("b")])
    assert [type(x).__name__ for x in told] == ["TextNotice", "CallIntended", "TextNotice"]


def test_what_was_announced_is_withdrawn_once() -> None:
    told = _watch([CallOpened(0, "i", "look"), CallOpened(1, "j", "change")], withdraw="it broke")
    assert told[2:] == [
        n.CallWithdrawn(turn=3, position=0, tool="look", reason="it broke"),
        n.CallWithdrawn(turn=3, position=1, tool="change", reason="it broke"),
    ]
