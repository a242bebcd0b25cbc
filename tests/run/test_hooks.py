"""Hooks around the loop: each place is asked, may stop what it guards, and fails closed; none can hold up a stop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from run_world import FakeTools, Gate, World, calls, done, end_of, event, results, shown, text

from sluice.run.agent import Agent
from sluice.run.parts import NoHooks
from sluice.values import notices as n
from sluice.values.calls import ToolSpec
from sluice.values.messages import AssistantMessage, Conversation, SystemMessage, ToolCall, ToolMessage, UserMessage
from sluice.values.results import ToolResult

PLACES = [
    "prepare_turn",
    "text",
    "reasoning",
    "reasoning_ended",
    "call",
    "result",
    "turn_finished",
    "stop_when",
]


CANCELS_ITSELF = object()
ONLY = "may add user messages and the beginning of a reply"


class Hooks(NoHooks):
    """Notes every place it is asked at; at `at` it does `act`."""

    def __init__(self, at: str = "", act: Any = None) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self._at, self._act = at, act

    async def _note(self, place: str, *words: Any) -> Any:
        self.asked.append((place, *words))
        if place == self._at:
            if isinstance(self._act, BaseException):
                raise self._act
            if isinstance(self._act, Gate):
                await self._act.wait()
                return None
            if self._act is CANCELS_ITSELF:
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
                await asyncio.sleep(0)
            return self._act
        return None

    async def prepare_turn(self, turn: int, conversation: Conversation) -> Sequence[UserMessage]:
        return await self._note("prepare_turn", turn) or ()

    async def text(self, turn: int, text: str) -> None:
        await self._note("text", turn, text)

    async def reasoning(self, turn: int, text: str) -> None:
        await self._note("reasoning", turn, text)

    async def reasoning_ended(self, turn: int) -> None:
        await self._note("reasoning_ended", turn)

    async def call(self, turn: int, spec: ToolSpec, arguments: str) -> str | None:
        return await self._note("call", turn, spec.name)  # type: ignore[no-any-return]

    async def result(self, turn: int, result: ToolResult) -> None:
        await self._note("result", turn, result.tool)

    async def turn_finished(self, turn: int, message: AssistantMessage, cost: float | None) -> None:
        await self._note("turn_finished", turn, cost)

    async def stop_when(self, turn: int) -> str | None:
        return await self._note("stop_when", turn)  # type: ignore[no-any-return]


def _script() -> list[Any]:
    return [[event({"reasoning_content": "hm"}), *calls("look", say="so")], text("done"), text("next"), text("more")]


def test_every_place_is_asked_in_order() -> None:
    hooks = Hooks()
    World(*_script(), hooks=hooks).run()
    assert hooks.asked == [
        ("prepare_turn", 1),
        ("reasoning", 1, "hm"),
        ("reasoning_ended", 1),
        ("text", 1, "so"),
        ("turn_finished", 1, None),
        ("call", 1, "look"),
        ("result", 1, "look"),
        ("stop_when", 1),
        ("prepare_turn", 2),
        ("text", 2, "done"),
        ("turn_finished", 2, None),
    ]


@pytest.mark.parametrize(
    ("raised", "words"),
    [
        (ValueError("not today"), "failed: ValueError: not today"),
        (asyncio.CancelledError(), "failed: it was cancelled, and nobody had asked for that"),
        (CANCELS_ITSELF, "failed: it was cancelled, and nobody had asked for that"),
        (GeneratorExit(), "failed: GeneratorExit"),
    ],
)
@pytest.mark.parametrize("place", PLACES)
def test_a_hook_that_raises_stops_what_it_guards(place: str, raised: object, words: str) -> None:
    world = World(*_script(), hooks=Hooks(place, raised))
    first = world.run()
    end = end_of(first)
    if place == "call":
        assert results(first)[0].status == "blocked"
        assert f"the hook call {words}" in results(first)[0].error.message  # type: ignore[union-attr]
        assert world.tools.ran == []
        assert end.outcome == "completed"
        return
    assert (end.outcome, end.exit_code) == ("failed", 1)
    assert f"the hook {place} {words}" in end.message
    if place in ("text", "reasoning_ended", "turn_finished"):
        assert world.tools.ran == []
    if place == "text":
        kept = world.talk.messages[1]
        assert isinstance(kept, AssistantMessage)
        assert kept.content == shown(first) == "so", "what was shown is kept"


@pytest.mark.parametrize("place", PLACES)
def test_a_hook_that_raises_once_does_not_spoil_the_next_run(place: str) -> None:
    hooks = Hooks(place, ValueError("not today"))
    world = World(*_script(), hooks=hooks)

    def mend(notice: n.Notice, agent: Agent) -> None:
        if isinstance(notice, n.RunFinished):
            hooks._at = ""

    assert end_of(world.runs("go", "again", react=mend)[1]).outcome == "completed"


@pytest.mark.parametrize("place", PLACES)
def test_a_hook_that_hangs_does_not_hold_up_a_stop(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("scope", "model_turn", "tool_calls"):
        monkeypatch.setattr(f"sluice.run.{module}.HOOK_SECONDS", 0.01)

    async def go() -> None:
        gate = Gate()
        world = World(*_script(), hooks=Hooks(place, gate))
        agent = world.agent()

        async def stop() -> None:
            await gate.reached.wait()
            agent.cancel()

        stopper = asyncio.create_task(stop())
        async with asyncio.timeout(10):
            notices = [x async for x in agent.run("go")]
        await stopper
        world.check(notices)
        assert end_of(notices).outcome == "cancelled"

    asyncio.run(go())


def test_a_word_from_the_call_hook_refuses_the_call_and_the_run_goes_on() -> None:
    world = World(calls("look"), text("fine"), hooks=Hooks("call", "not this file"))
    notices = world.run()
    assert world.tools.ran == []
    assert results(notices)[0].status == "blocked"
    assert "not this file" in world.transport.bodies[1]["messages"][-1]["content"]
    assert end_of(notices).outcome == "completed"


def test_a_call_hook_that_refuses_without_a_word_ends_the_run() -> None:
    world = World(calls("look"), hooks=Hooks("call", ""))
    notices = world.run()
    assert results(notices)[0].end_turn
    assert (end_of(notices).outcome, world.tools.ran) == ("blocked", [])


def test_the_call_hook_cannot_let_through_what_the_policy_blocks() -> None:
    world = World(calls("change"), text("ok"), hooks=Hooks("call", None), allow=False)
    world.run()
    assert world.tools.ran == []


def test_stop_when_ends_the_run_with_its_words() -> None:
    end = end_of(World(calls("look"), hooks=Hooks("stop_when", "enough")).run())
    assert (end.outcome, end.message, end.turns) == ("completed", "enough", 1)


@pytest.mark.parametrize("place", ["call", "stop_when"])
def test_a_hook_that_returns_no_words_has_failed(place: str) -> None:
    notices = World(*_script(), hooks=Hooks(place, 5)).run()
    words = f"the hook {place} returned int instead of words or None"
    if place == "call":
        assert words in results(notices)[0].error.message  # type: ignore[union-attr]
    else:
        assert end_of(notices).outcome == "failed"
        assert words in end_of(notices).message


def test_prepare_turn_adds_to_one_request_only_and_stores_nothing() -> None:
    class Once(Hooks):
        async def prepare_turn(self, turn: int, conversation: Conversation) -> Sequence[UserMessage]:
            return (UserMessage("it is raining"),) if turn == 1 else ()

    world = World(calls("look"), text("ok"), hooks=Once())
    world.run()
    assert world.transport.bodies[0]["messages"][-1] == {"role": "user", "content": "it is raining"}
    assert "raining" not in str(world.transport.bodies[1])
    assert "raining" not in str(world.talk.messages)


def test_what_prepare_turn_adds_is_marked_as_the_hosts_word() -> None:
    class Once(Hooks):
        async def prepare_turn(self, turn: int, conversation: Conversation) -> Sequence[UserMessage]:
            return (UserMessage("it is raining"),)

    world = World(text("ok"), hooks=Once())
    world.run()
    assert world.talk.extra == (UserMessage("it is raining", origin="host"),)


@pytest.mark.parametrize(
    ("added", "words"),
    [
        ("text", "returned str instead of a list of messages"),
        (None, "returned NoneType instead of a list of messages"),
        ([1], f"{ONLY}, and added int"),
        (
            [AssistantMessage(tool_calls=(ToolCall(id="c", name="look", arguments="{}"),))],
            f"{ONLY}, and added a reply with calls",
        ),
        ([SystemMessage("obey")], f"{ONLY}, and added SystemMessage"),
        ([ToolMessage("c", "look", "seen")], f"{ONLY}, and added ToolMessage"),
    ],
)
def test_prepare_turn_speaks_for_nobody_but_the_host(added: Any, words: str) -> None:
    class Odd(NoHooks):
        async def prepare_turn(self, turn: int, conversation: Conversation) -> Any:
            return added

    world = World(text("ok"), hooks=Odd())
    end = end_of(world.run())
    assert (end.outcome, world.transport.bodies) == ("failed", [])
    assert f"the hook prepare_turn {words}" in end.message


def test_prepare_turn_may_begin_the_models_reply() -> None:
    class Begins(NoHooks):
        async def prepare_turn(self, turn: int, conversation: Conversation) -> Sequence[AssistantMessage]:
            return [AssistantMessage(content="Once upon")]

    world = World(text(" a time"), hooks=Begins())
    assert end_of(world.run()).outcome == "completed"
    assert world.transport.bodies[0]["messages"][-1] == {"role": "assistant", "content": "Once upon"}
    assert "Once upon" not in str(world.talk.messages)


def test_what_prepare_turn_adds_counts_for_the_context() -> None:
    class Loud(Hooks):
        async def prepare_turn(self, turn: int, conversation: Conversation) -> Sequence[UserMessage]:
            return (UserMessage("x" * 10_000),)

    world = World(hooks=Loud(), limits={"max_context_bytes": 5_000})
    assert end_of(world.run()).outcome == "limit:context"


def test_tools_that_change_between_turns_are_offered_afresh() -> None:
    class Growing(Hooks):
        tools: FakeTools

        async def result(self, turn: int, result: ToolResult) -> None:
            async def new(arguments: dict[str, Any], cancel: Any) -> ToolResult:
                return done("new")

            self.tools.tools["new"] = ("read_only", new)

    hooks = Growing()
    world = World(calls("look"), calls("new"), text("ok"), hooks=hooks)
    hooks.tools = world.tools
    world.run()
    assert world.tools.ran == ["look", "new"]
    assert "new" in str(world.transport.bodies[1]["tools"])
