"""The context shrunk between runs: every step is taken, it is stored, and what fails or is cancelled changes nothing."""

from __future__ import annotations

import asyncio

import pytest
from run_world import DONE, Gate, World, event, text
from test_shrinking import _talk

from sluice.errors import StoreError
from sluice.run.prices import ModelEntry
from sluice.session.memory import MemoryStore
from sluice.values.messages import Conversation, UserMessage
from sluice.values.notices import Notice, Summarised

SUMMARY = [
    event({"content": "S"}),
    event({}, "stop", usage={"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}),
    DONE,
]


class NotingStore(MemoryStore):
    def __init__(self, broken: bool = False) -> None:
        super().__init__()
        self.notes: list[tuple[str, Notice]] = []
        self.broken = broken

    async def noted(self, run: str, notice: Notice) -> None:
        self.notes.append((run, notice))

    async def shrank(self, messages: Conversation) -> None:
        if self.broken:
            raise StoreError("full", "the disk is full")
        await super().shrank(messages)


def _compact(world: World) -> Summarised:
    async def go() -> Summarised:
        if world.talk.messages:
            await world.store.started("before", UserMessage("the task"))
        async with asyncio.timeout(10):
            told = await world.agent().compact()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert world.transport.open == 0
        return told

    return asyncio.run(go())


def test_a_summary_is_made_though_shortening_alone_would_have_made_it_smaller() -> None:
    store = NotingStore()
    world = World(SUMMARY, store=store, model=ModelEntry(input=1.0, output=10.0))
    before = _talk(world, 6)
    told = _compact(world)
    assert told.ok
    assert told.after < told.before
    assert told.usage is not None
    assert told.usage.input_tokens == 100
    assert told.cost == pytest.approx(0.0002)
    assert world.talk.messages[1:] == before[-4:]
    assert asyncio.run(store.sent()) == world.talk.messages
    assert store.notes == [("", told)], "what it cost belongs to the session's last run"


def test_without_a_summary_what_could_be_shortened_is_kept() -> None:
    world = World(text(""))
    before = _talk(world, 6)
    told = _compact(world)
    assert told.ok
    assert len(world.talk.messages) == len(before)
    assert told.after < told.before


def test_a_summary_larger_than_what_it_replaces_is_refused() -> None:
    world = World(text("z" * 20_000))
    before = _talk(world, 6)
    assert _compact(world).ok
    assert len(world.talk.messages) == len(before)


@pytest.mark.parametrize("replies", [0, 1])
def test_where_nothing_can_be_made_smaller_nothing_is_asked_or_changed(replies: int) -> None:
    world = World()
    before = _talk(world, replies, size=100)
    told = _compact(world)
    assert (told.ok, told.usage, told.before) == (False, None, told.after)
    assert world.talk.messages == before


def test_an_empty_conversation_has_nothing_to_note() -> None:
    store = NotingStore()
    world = World(store=store)
    assert not _compact(world).ok
    assert store.notes == []


def test_what_cannot_be_stored_changes_nothing() -> None:
    world = World(SUMMARY, store=NotingStore(broken=True))
    before = _talk(world, 6)
    with pytest.raises(StoreError):
        _compact(world)
    assert world.talk.messages == before


@pytest.mark.parametrize("how", ["cancel", "close", "task"])
def test_cancelled_in_the_middle_everything_is_as_before(how: str) -> None:
    gate = Gate()
    world = World([gate])
    before = _talk(world, 6)

    async def go() -> None:
        agent = world.agent()
        task = asyncio.create_task(agent.compact())
        await gate.reached.wait()
        if how == "task":
            task.cancel()
        elif how == "close":
            await agent.close()
        else:
            agent.cancel()
        async with asyncio.timeout(10):
            if how == "task":
                with pytest.raises(asyncio.CancelledError):
                    await task
            else:
                assert not (await task).ok
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(go())
    assert world.talk.messages == before
    assert world.transport.open == 0


def test_it_waits_for_the_run_before_it_and_a_cancel_covers_it() -> None:
    gate = Gate()
    world = World([gate, *text("ok")])

    async def go() -> None:
        agent = world.agent()

        async def read() -> None:
            async for _notice in agent.run("go"):
                pass

        reading = asyncio.create_task(read())
        await gate.reached.wait()
        wish = asyncio.create_task(agent.compact())
        await asyncio.sleep(0)
        assert not wish.done()
        agent.cancel()
        async with asyncio.timeout(10):
            assert not (await wish).ok
            await reading

    asyncio.run(go())
    assert world.talk.messages[0] == UserMessage("go")


COUNTED = {"prompt_tokens": 5000, "completion_tokens": 30, "total_tokens": 5030}
PRICED = ModelEntry(input=100.0, output=1000.0)


@pytest.mark.parametrize(
    "script",
    [
        [event({"content": "T"}), event({}, usage=COUNTED)],
        [event({"content": " "}), event({}, "stop", usage=COUNTED), DONE],
        [event({"content": "z" * 50_000}), event({}, "stop", usage=COUNTED), DONE],
    ],
    ids=["cut", "empty", "larger"],
)
def test_a_summary_that_is_none_is_paid_for(script: list[bytes]) -> None:
    store = NotingStore()
    world = World(script, store=store, model=PRICED)
    _talk(world, 6)
    told = _compact(world)
    assert told.ok, "what could be shortened is"
    assert told.message
    assert told.usage is not None
    assert told.usage.input_tokens == 5000
    assert told.cost == pytest.approx(0.53)
    assert store.notes == [("", told)]


@pytest.mark.parametrize("how", ["cancel", "task"])
def test_a_summary_that_was_stopped_is_paid_for_and_told(how: str) -> None:
    gate = Gate()
    store = NotingStore()
    world = World([event({"content": "T"}), event({}, usage=COUNTED), gate], store=store, model=PRICED)
    _talk(world, 6)
    told: list[Summarised] = []

    async def go() -> None:
        agent = world.agent()
        task = asyncio.create_task(agent.compact(told.append))
        await gate.reached.wait()
        if how == "task":
            task.cancel()
        else:
            agent.cancel()
        async with asyncio.timeout(10):
            await asyncio.wait({task})
        assert task.cancelled() is (how == "task")

    asyncio.run(go())
    assert [(one.ok, one.cost) for one in told] == [(False, pytest.approx(0.53))]
    assert [note for _run, note in store.notes] == told


def test_what_was_used_counts_also_where_it_cannot_be_stored() -> None:
    world = World(SUMMARY, store=NotingStore(broken=True), model=PRICED)
    _talk(world, 6)
    told: list[Summarised] = []
    with pytest.raises(StoreError):
        asyncio.run(world.agent().compact(told.append))
    assert [(one.ok, one.usage is not None) for one in told] == [(False, True)]


@pytest.mark.parametrize("limits", [{"max_tokens_total": 500}, {"max_cost": 0.01}, {"max_cost": 0.0}])
def test_a_summary_that_would_alone_pass_a_limit_is_not_asked_for(limits: dict[str, float]) -> None:
    world = World(model=PRICED, limits=limits)
    before = _talk(world, 6)
    told = _compact(world)
    assert told.ok
    assert next(iter(limits)) in told.message
    assert (told.usage, told.cost) == (None, None)
    assert world.transport.bodies == []
    assert len(world.talk.messages) == len(before)


def test_a_summary_that_takes_longer_than_a_run_may_is_stopped() -> None:
    gate = Gate()
    world = World([event({"content": "T"}), event({}, usage=COUNTED), gate], model=PRICED, limits={"max_seconds": 0.05})
    before = _talk(world, 6)
    told = _compact(world)
    assert (told.ok, told.message) == (False, "it took longer than 0.05 seconds")
    assert told.cost == pytest.approx(0.53)
    assert world.talk.messages == before


def test_a_limit_that_is_not_passed_stops_nothing() -> None:
    world = World(SUMMARY, model=PRICED, limits={"max_tokens_total": 100_000, "max_cost": 10, "max_seconds": 60})
    _talk(world, 6)
    told = _compact(world)
    assert (told.ok, told.message) == (True, "")
