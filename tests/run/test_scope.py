"""The scope of a run: what is given up once it is to stop, and what is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from run_world import FailingStore, Gate, World

from sluice.errors import AuditError
from sluice.run.scope import RunScope, StoppedError, words_of
from sluice.turn import facts as f
from sluice.values.messages import ToolMessage, UserMessage


def _scope(world: World | None = None) -> RunScope:
    async def emit(_notice: object) -> None:
        return None

    world = world or World()
    return RunScope("run", world.parts, world.talk, emit)


def _in_loop(work: Coroutine[Any, Any, None]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(10):
            await work
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(limited())


def test_work_is_given_up_when_the_run_is_to_stop() -> None:
    async def go() -> None:
        scope, gate = _scope(), Gate()
        waiting = asyncio.create_task(scope.until_stopped(gate.wait()))
        await gate.reached.wait()
        scope.stopping.set()
        with pytest.raises(StoppedError):
            await waiting

    _in_loop(go())


def test_in_a_run_that_stops_work_without_grace_is_not_begun() -> None:
    async def go() -> None:
        scope, gate = _scope(), Gate()
        scope.stopping.set()
        with pytest.raises(StoppedError):
            await scope.until_stopped(gate.wait())
        assert not gate.reached.is_set()

    _in_loop(go())


def test_with_grace_work_that_ends_in_time_counts() -> None:
    async def quick() -> str:
        await asyncio.sleep(0)
        return "done"

    async def go() -> None:
        scope = _scope()
        scope.stopping.set()
        assert await scope.until_stopped(quick(), grace=5) == "done"

    _in_loop(go())


def test_the_answer_to_being_cancelled_counts_too() -> None:
    async def stubborn() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "what there is"
        return "never"

    async def go() -> None:
        scope = _scope()
        work = asyncio.create_task(scope.until_stopped(stubborn()))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        scope.stopping.set()
        assert await work == "what there is"

    _in_loop(go())


def test_settling_waits_for_what_is_being_stored_and_ends_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluice.run.scope._SETTLE_SECONDS", 0.05)
    done: list[str] = []

    async def store() -> None:
        for _ in range(20):
            await asyncio.sleep(0)
        done.append("stored")

    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            done.append("ended")

    async def go() -> None:
        scope = _scope()
        scope.spawn(store(), scope.host_failed)
        scope.spawn(hang(), scope.host_failed)
        await asyncio.sleep(0)
        await scope.settle()
        assert done == ["stored", "ended"]
        assert scope.facts.empty()

    _in_loop(go())


def test_what_a_task_raises_is_told_to_its_answerer() -> None:
    async def fail() -> None:
        raise LookupError("gone")

    async def go() -> None:
        scope = _scope()
        scope.spawn(fail(), scope.host_failed)
        fact = await scope.facts.get()
        assert isinstance(fact, f.HostStopped)
        assert fact.message == "LookupError: gone"

    _in_loop(go())


def test_what_could_not_be_kept_is_remembered() -> None:
    scope = _scope(World(store=FailingStore("append")))
    for message in (UserMessage("x"), ToolMessage(call_id="a", name="b", content="c")):
        with pytest.raises(OSError, match="No space"):
            asyncio.run(scope.keep(message))
    assert [what for what, _reason in scope.unsaved] == ["a message", "a result"]


def test_errors_of_ours_speak_for_themselves() -> None:
    assert words_of(AuditError("the log is full")) == "the log is full"
    assert words_of(KeyError("a")) == "KeyError: 'a'"


def test_a_reason_that_is_that_of_several_losses_is_said_once() -> None:
    scope = _scope()
    assert scope.lost() is None
    scope.unsaved += [("a message", "the disk is full"), ("a message", "the disk is full")]
    assert scope.lost() == "a message was not stored: the disk is full"
    scope.unsaved += [("the end of the run", "the disk is full"), ("what was used or told", "it is held")]
    assert scope.lost() == (
        "a message and the end of the run were not stored: the disk is full; "
        "what was used or told was not stored: it is held"
    )
