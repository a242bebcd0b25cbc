"""Deltas become notices and hook calls, in order, at once."""

from __future__ import annotations

import asyncio

from sluice.run.parts import NoHooks
from sluice.run.watching import MAX_SUBJECT, TurnWatcher
from sluice.values import notices as n
from sluice.values.calls import ToolSpec
from sluice.values.deltas import CallArgument, CallClosed, CallOpened, CallProgress, Delta, ReasoningDelta, TextDelta


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
        n.CallIntended(turn=3, arrival=0, id="i", tool="look"),
    ]
    assert _watch([ReasoningDelta("h")])[-1] == n.ReasoningEnded(turn=3)


def test_text_before_and_after_a_call_keeps_its_place() -> None:
    told = _watch([TextDelta("a"), CallOpened(0, "i", "look"), CallClosed(0, "i", "look", "whole"), TextDelta("b")])
    assert [type(x).__name__ for x in told] == ["TextNotice", "CallIntended", "TextNotice"]


def test_what_was_announced_is_withdrawn_once() -> None:
    told = _watch([CallOpened(0, "i", "look"), CallOpened(1, "j", "change")], withdraw="it broke")
    assert told[2:] == [
        n.CallWithdrawn(turn=3, arrival=0, tool="look", reason="it broke"),
        n.CallWithdrawn(turn=3, arrival=1, tool="change", reason="it broke"),
    ]


SPEC = ToolSpec(name="change", description="", parameters={}, category="mutating", subject="path")


class Clock:
    def __init__(self) -> None:
        self.ns = 0

    def monotonic_ns(self) -> int:
        return self.ns

    def now(self) -> float:
        return 0.0


def _watch_intent(*reads: tuple[float, list[Delta]]) -> list[n.Notice]:
    """The notices of deltas that come at certain seconds, after a call of `change` was opened."""
    told: list[n.Notice] = []
    clock = Clock()

    async def emit(notice: n.Notice) -> None:
        told.append(notice)

    async def go() -> None:
        watcher = TurnWatcher(3, emit, NoHooks(), specs=[SPEC], clock=clock)
        await watcher.deltas([CallOpened(1, "", "change")])
        for seconds, deltas in reads:
            clock.ns = int(seconds * 1e9)
            await watcher.deltas(deltas)

    asyncio.run(go())
    assert told.pop(0) == n.CallIntended(turn=3, arrival=1, id=None, tool="change")
    return told


def test_what_a_call_will_touch_is_told_once_it_is_known() -> None:
    told = _watch_intent(
        (0, [CallArgument(1, "mode", "x"), CallArgument(1, "path", "a.py"), CallArgument(2, "path", "b")])
    )
    assert told == [n.CallIntent(turn=3, arrival=1, tool="change", subject="a.py", category="mutating")]


def test_a_subject_that_is_no_text_or_too_long_is_not_told_as_it_is() -> None:
    assert _watch_intent((0, [CallArgument(1, "path", ["a"])])) == []
    (told,) = _watch_intent((0, [CallArgument(1, "path", "x" * 10_000)]))
    assert isinstance(told, n.CallIntent)
    assert len(told.subject) == MAX_SUBJECT


def test_progress_is_told_at_most_twenty_times_a_second_and_loses_nothing_of_a_value() -> None:
    reads = [(at / 100, [CallProgress(1, at + 1, "ab"[at % 2], "content")]) for at in range(100)]
    told = _watch_intent(*reads)
    assert 18 <= len(told) <= 20
    assert all(isinstance(notice, n.CallProgressed) and notice.name == "content" for notice in told)
    assert "".join(notice.tail for notice in told if isinstance(notice, n.CallProgressed)) == "ab" * 48
    assert told[0] == n.CallProgressed(turn=3, arrival=1, tool="change", size=1, tail="a", name="content")


def test_what_a_finished_value_had_gained_is_not_told_under_the_next_ones_name() -> None:
    told = _watch_intent(
        (0, [CallProgress(1, 1, "a", "old")]),
        (0.01, [CallProgress(1, 2, "LOST", "old"), CallProgress(1, 3, "n", "new")]),
        (0.2, [CallProgress(1, 4, "w", "new")]),
    )
    assert [(x.name, x.tail, x.size) for x in told if isinstance(x, n.CallProgressed)] == [
        ("old", "a", 1),
        ("new", "nw", 4),
    ]


def test_a_call_that_was_not_announced_is_not_spoken_of() -> None:
    assert _watch_intent((0, [CallProgress(7, 3, "x", ""), CallArgument(7, "path", "a")])) == []


def test_the_size_of_a_call_is_kept_by_the_order_of_the_names() -> None:
    kept: list[tuple[int, int]] = []

    async def emit(_notice: n.Notice) -> None:
        pass

    async def grew(call: int, size: int) -> None:
        kept.append((call, size))

    async def go() -> None:
        watcher = TurnWatcher(3, emit, NoHooks(), grew=grew)
        await watcher.sizes({0: 3})
        await watcher.deltas([CallOpened(1, "", "change")])
        await watcher.sizes({0: 3, 1: 5})
        await watcher.deltas([CallOpened(0, "", "look")])
        await watcher.sizes({0: 9, 1: 5})
        await watcher.sizes({0: 9, 1: 12})

    asyncio.run(go())
    assert kept == [(0, 5), (1, 9), (0, 12)]
