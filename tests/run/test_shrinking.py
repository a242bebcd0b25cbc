"""A conversation made smaller: no call parted from its result, no summary that is none, nothing lost on failure."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_world import DONE, Answer, Gate, World, calls, check_conversation, done, end_of, event, text

from sluice.errors import StoreError, TransportError
from sluice.run.agent import Agent
from sluice.run.result_text import result_text
from sluice.run.shortening import dropped
from sluice.run.shrinking import shrink
from sluice.session.memory import MemoryStore
from sluice.session.rows import join, split
from sluice.tools.output import bounded
from sluice.tools.spill import Spill
from sluice.values import notices as n
from sluice.values.messages import AssistantMessage, Conversation, ToolCall, ToolMessage, Usage, UserMessage
from sluice.values.results import ToolResult


def _talk(world: World, replies: int, size: int = 3000, calls_each: int = 1) -> Conversation:
    messages: list[Any] = [UserMessage("the task")]
    for number in range(replies):
        made = tuple(ToolCall(id=f"c{number}_{k}", name="look", arguments="{}") for k in range(calls_each))
        messages.append(AssistantMessage(tool_calls=made))
        messages += [ToolMessage(call_id=c.id, name="look", content="r" * size) for c in made]
    world.talk.messages = tuple(messages)
    return world.talk.messages


def _measure(world: World) -> int:
    return len(world.parts.dialect.request(world.talk.to_send(), (), world.parts.options).body)


def _shrink(world: World, max_bytes: int | None) -> tuple[bool, Usage]:
    async def go() -> tuple[bool, Usage]:
        used: list[Usage] = []
        shrunk = await shrink(world.talk, world.parts, lambda: _measure(world), max_bytes, used)
        return shrunk.ok, sum(used, Usage())

    return asyncio.run(go())


def test_old_results_are_shortened_first_and_no_model_is_asked() -> None:
    world = World()
    before = _talk(world, 6)
    assert _shrink(world, 16_000) == (True, Usage())
    assert world.transport.bodies == []
    after = world.talk.messages
    assert len(after) == len(before)
    assert after[-4:] == before[-4:], "the last two exchanges are never touched"
    old = after[2]
    assert isinstance(old, ToolMessage)
    assert "1976 characters left out" in old.content
    check_conversation(after)


def test_then_everything_before_the_last_exchanges_becomes_the_models_summary() -> None:
    world = World([event({"content": "Task: X. Done: Y."}), event({}, "stop"), DONE])
    before = _talk(world, 8)
    ok, usage = _shrink(world, 9_000)
    assert ok
    assert usage.estimated
    first = world.talk.messages[0]
    assert isinstance(first, UserMessage)
    assert first.origin == "host"
    assert "Task: X. Done: Y." in str(first.content)
    assert world.talk.messages[1:] == before[-4:]
    check_conversation(world.talk.messages)
    assert "tools" not in world.transport.bodies[0]


@pytest.mark.parametrize(
    "answer",
    [
        text(""),
        text("  \n"),
        text("z" * 50_000),
        text("half", "length"),
        text("no", "content_filter"),
        text("no end", None),
        calls("look", say="I would rather"),
        [b"<html>gateway</html>"],
        TransportError("tls", "certificate"),
    ],
    ids=["empty", "blank", "larger", "cut", "filtered", "broken", "calls", "html", "transport"],
)
def test_a_summary_that_is_none_leaves_the_conversation_as_it_was(answer: Any) -> None:
    world = World(answer, limits={"max_attempts": 1})
    before = _talk(world, 8)
    ok, _ = _shrink(world, 9_000)
    assert not ok
    assert world.talk.messages == before


def test_where_a_summary_could_not_help_none_is_asked_for() -> None:
    world = World()
    before = world.talk.messages = (UserMessage("x" * 50_000), *_talk(world, 1, size=600)[1:])
    assert _shrink(world, 9_000) == (False, Usage())
    assert world.talk.messages == before
    assert world.transport.bodies == []


@given(
    replies=st.integers(0, 7),
    calls_each=st.integers(0, 3),
    size=st.integers(0, 5000),
    max_bytes=st.one_of(st.none(), st.integers(0, 40_000)),
    summary=st.text(max_size=60),
)
@settings(max_examples=60, deadline=None)
def test_calls_keep_their_results_and_it_is_smaller_or_as_it_was(
    replies: int, calls_each: int, size: int, max_bytes: int | None, summary: str
) -> None:
    world = World(text(summary))
    before = _talk(world, replies, size, calls_each)
    size_before = _measure(world)
    ok, _ = _shrink(world, max_bytes)
    check_conversation(world.talk.messages)
    if ok:
        assert _measure(world) <= (size_before - 1 if max_bytes is None else max_bytes)
    else:
        assert world.talk.messages == before


def _long_run(*more: Any, **limits: Any) -> World:
    async def look(arguments: dict[str, Any], cancel: Any) -> Any:
        return done("look", arguments["path"] * 3000)

    scripts = [calls(("look", f'{{"path": "{at}"}}')) for at in range(5)]
    return World(*scripts, *more, tools={"look": ("read_only", look)}, limits={"max_context_bytes": 14_000, **limits})


def test_in_a_run_shrinking_is_told_and_what_is_stored_stays() -> None:
    world = _long_run(text("fine"))
    notices = world.run()
    told = [x for x in notices if isinstance(x, n.Summarised)]
    assert told
    assert all(x.after < x.before for x in told)
    assert end_of(notices).outcome == "completed"
    rows = [row[2] for row in world.store.rows if row[0] == "message"]
    assert all(len(m.content) == 3000 for m in rows if isinstance(m, ToolMessage))


def test_in_a_run_a_context_that_cannot_be_shrunk_is_a_named_limit_and_loses_nothing() -> None:
    async def look(arguments: dict[str, Any], cancel: Any) -> Any:
        return done("look", "x" * 400)

    prompt = "x" * 13_700  # it fits, and leaves no room for the result
    world = World(calls("look"), tools={"look": ("read_only", look)}, limits={"max_context_bytes": 14_900})
    notices = world.run(prompt)
    assert (end_of(notices).outcome, end_of(notices).exit_code) == ("limit:context", 3)
    kept = world.talk.messages[-1]
    assert isinstance(kept, ToolMessage)
    assert kept.content == "x" * 400


def test_in_a_run_a_summary_costs_but_is_no_turn() -> None:
    usage = {"prompt_tokens": 1000, "completion_tokens": 10, "total_tokens": 1010}
    summary = [event({"content": "S"}), event({}, "stop", usage=usage), DONE]
    world = _long_run(summary, text("fine"), max_context_bytes=8_300)
    world.transport._scripts = iter(
        [*[calls(("look", f'{{"path": "{at}"}}')) for at in range(3)], summary, text("fine")]
    )
    notices = world.run()
    end = end_of(notices)
    assert (end.outcome, end.turns) == ("completed", 4)
    assert len(world.transport.bodies) == 5
    assert end.usage.input_tokens > 1000


def test_cancelled_while_a_summary_is_made_the_conversation_is_as_before() -> None:
    gate = Gate()
    world = _long_run(max_context_bytes=8_300)
    world.transport._scripts = iter([*[calls(("look", f'{{"path": "{at}"}}')) for at in range(3)], [gate]])

    async def go() -> None:
        agent = world.agent()

        async def stop(agent: Agent) -> None:
            await gate.reached.wait()
            agent.cancel()

        stopper = asyncio.create_task(stop(agent))
        async with asyncio.timeout(10):
            notices = [x async for x in agent.run("go")]
        await stopper
        world.check(notices)
        assert end_of(notices).outcome == "cancelled"

    asyncio.run(go())
    assert world.talk.messages[0] == UserMessage("go")
    assert len(world.talk.messages) == 7


def test_results_that_lie_in_files_are_dropped_before_anything_is_shortened() -> None:
    world = World()
    _talk(world, 5, size=1500)
    first = "[lines 1 to 9 of 900; the whole is spill:3]"
    changed = list(world.talk.messages)
    changed[2] = ToolMessage(call_id="c0_0", name="look", content=f"{first}\n" + "x" * 1500, spilled="spill:3")
    world.talk.messages = tuple(changed)
    ok, usage = _shrink(world, _measure(world) - 500)
    assert (ok, usage) == (True, Usage())
    results = [m.content for m in world.talk.messages if isinstance(m, ToolMessage)]
    assert results[0] == f"{first}\n[left out here; it can be read again]"
    assert results[1:] == ["r" * 1500] * 4


@pytest.mark.parametrize("status", ["ok", "failed"])
def test_the_line_that_tools_really_print_is_known(status: Any) -> None:
    """The words of a result that was too long, as the tools' own bound writes them and the model is told them."""
    with Spill() as spill:
        bound = bounded("line\n" * 20_000, max_bytes=4000, spill=spill)
    result = ToolResult(ok=status == "ok", status=status, tool="bash", content=bound.text, exit_code=1)
    told = result_text(result)
    assert "spill:" in told
    world = World()
    _talk(world, 5, size=1500)
    changed = list(world.talk.messages)
    changed[2] = ToolMessage(call_id="c0_0", name="look", content=told, spilled=bound.handle or "")
    world.talk.messages = tuple(changed)
    assert _shrink(world, _measure(world) - 500) == (True, Usage())
    left = next(m.content for m in world.talk.messages if isinstance(m, ToolMessage))
    assert left.endswith("\n[left out here; it can be read again]")
    assert told.startswith(left.rpartition("\n")[0])
    assert "spill:" in left
    assert len(left) < 500


@pytest.mark.parametrize("spilled", ["", "spill:2"])
def test_an_output_that_only_looks_as_if_it_were_kept_is_not_dropped(spilled: str) -> None:
    """What a file says of a handle is no fact, and neither is what another process kept under it."""
    content = "[too long: the whole is spill:1]\n" + "x" * 3000
    message = ToolMessage(call_id="1", name="look", content=content, spilled=spilled)
    assert dropped((message,), slice(None)) == (message,)


def test_a_result_is_known_by_the_file_that_holds_all_of_it_as_long_as_that_is_there() -> None:
    async def look(arguments: dict[str, Any], cancel: Any) -> Any:
        return msgspec.structs.replace(done("look", "long"), facts={"handle": "spill:1"})

    world = World(calls(("look", "{}")), text("fine"), tools={"look": ("read_only", look)})
    world.run("go")
    kept = next(m for m in world.talk.messages if isinstance(m, ToolMessage))
    assert kept.spilled == "spill:1"
    stored = join(*split(kept))
    assert stored == msgspec.structs.replace(kept, spilled="")


@pytest.mark.parametrize("replies", [1, 4])
def test_results_larger_than_the_window_are_shortened_and_no_model_is_asked(replies: int) -> None:
    world = World()
    _talk(world, replies, size=60_000)
    assert _shrink(world, 20_000) == (True, Usage())
    assert world.transport.bodies == []
    assert _measure(world) <= 20_000
    check_conversation(world.talk.messages)


TOO_LONG = Answer(
    b'{"error":{"message":"This model\'s maximum context length is 8192 tokens. Reduce the length.",'
    b'"code":"context_length_exceeded"}}',
    status=400,
)


def test_in_a_run_a_request_too_long_for_the_provider_is_shrunk_once_and_asked_again() -> None:
    world = World(TOO_LONG, text("fine"))
    _talk(world, 6)
    notices = world.run("go")
    end = end_of(notices)
    assert (end.outcome, end.text, end.turns) == ("completed", "fine", 1)
    assert [x.kind for x in notices if isinstance(x, n.Failed)] == ["status"]
    assert sum(isinstance(x, n.TurnStarted) for x in notices) == 1
    first, second = (len(str(body)) for body in world.transport.bodies)
    assert second < first * 0.8
    assert any(isinstance(x, n.Summarised) for x in notices)


def test_in_a_run_a_second_time_too_long_is_a_named_limit() -> None:
    world = World(TOO_LONG, TOO_LONG)
    _talk(world, 6)
    end = end_of(world.run("go"))
    assert (end.outcome, end.exit_code) == ("limit:context", 3)
    assert len(world.transport.bodies) == 2


def test_in_a_run_what_is_too_long_and_cannot_be_shrunk_is_a_named_limit() -> None:
    world = World(TOO_LONG)
    end = end_of(world.run("go"))
    assert end.outcome == "limit:context"
    assert len(world.transport.bodies) == 1


def test_the_model_that_summarises_never_gets_more_than_fits() -> None:
    """A long conversation of words alone: nothing can be shortened, and the whole is more than the model can read."""
    world = World(text("S"))
    messages: list[Any] = [UserMessage("the task")]
    for at in range(40):
        messages += [AssistantMessage(content=f"step {at} " * 100), UserMessage("go on")]
    world.talk.messages = tuple(messages)
    assert _shrink(world, 20_000)[0]
    (sent,) = world.transport.bodies
    assert len(json.dumps(sent, separators=(",", ":"))) <= 20_000
    words = [m["content"] for m in sent["messages"]]
    assert words[1] == "the task", "the task is always told"
    assert words[2].startswith("step 18 "), "the oldest steps are left out, the newest are there"
    assert words[-3].startswith("step 39")


def test_where_not_even_that_fits_the_words_of_it_are_shortened() -> None:
    world = World(text("S"))
    world.talk.messages = (UserMessage("x" * 30_000), *_talk(world, 4, size=100)[1:])
    assert _shrink(world, 20_000)[0]
    (sent,) = world.transport.bodies
    assert "characters left out]" in sent["messages"][1]["content"]
    assert len(json.dumps(sent)) < 20_000


def test_where_nothing_fits_no_model_is_asked() -> None:
    world = World()
    before = _talk(world, 6, size=100)
    assert _shrink(world, 400) == (False, Usage())
    assert world.transport.bodies == []
    assert world.talk.messages == before


def test_in_a_run_what_could_not_be_shrunk_is_told_with_what_it_cost() -> None:
    usage = {"prompt_tokens": 1000, "completion_tokens": 10, "total_tokens": 1010}
    world = _long_run(max_context_bytes=8_300)
    looks = [calls(("look", f'{{"path": "{at}"}}')) for at in range(3)]
    world.transport._scripts = iter([*looks, [event({"content": " "}), event({}, "stop", usage=usage), DONE]])
    notices = world.run()
    (told,) = [x for x in notices if isinstance(x, n.Summarised)]
    assert not told.ok
    assert told.before == told.after
    assert told.usage is not None
    assert told.usage.input_tokens == 1000
    assert end_of(notices).outcome == "limit:context"


def test_in_a_run_a_shrunk_context_that_cannot_be_stored_is_said_and_stops_nothing() -> None:
    class Full(MemoryStore):
        async def shrank(self, messages: Conversation) -> None:
            raise StoreError("full", "the disk is full")

    world = _long_run(text("fine"))
    world = World(
        *[calls(("look", f'{{"path": "{at}"}}')) for at in range(5)],
        text("fine"),
        store=Full(),
        tools={"look": world.tools.tools["look"]},
        limits={"max_context_bytes": 14_000},
    )
    notices = world.run()
    assert end_of(notices).outcome == "completed"
    assert any(isinstance(x, n.Warned) and "disk is full" in x.message for x in notices)
