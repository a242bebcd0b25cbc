"""Conversations that have outgrown the model, in the ways that have killed sessions of other agents."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from run_world import DONE, Answer, Gate, World, calls, check_conversation, done, end_of, event, text
from test_money import PRICED, of, used
from test_shrinking import TOO_LONG, _measure, _shrink, _talk

from sluice.run.agent import Agent
from sluice.run.conversation import Talk
from sluice.run.parts import RandomIds
from sluice.run.result_text import result_text
from sluice.session.disk import reading
from sluice.session.opening import open_session
from sluice.session.usage import replies
from sluice.session.wish import Wish
from sluice.values import notices as n
from sluice.values.messages import (
    AssistantMessage,
    Conversation,
    ImagePart,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from sluice.wire.dialects import DIALECTS

HUGE = 60_000  # characters, in windows that hold 20,000 bytes


async def _big(arguments: dict[str, Any], cancel: Any) -> Any:
    return done("big", "r" * HUGE)


async def _process(path: Path, world: World, *prompts: str, how: str = "continue") -> list[list[n.Notice]]:
    """One process: opens the last session of the store (or a fork of it), answers, and goes."""
    found: Any = Wish(how=how, id="ses_1" if how == "fork" else "")
    opening = await open_session(path, "/p", found, new_id=lambda: f"ses_{how}", words=result_text)
    store: Any = opening.store
    world.parts = dataclasses.replace(world.parts, store=store, ids=RandomIds())
    world.talk = Talk("be good", store, await store.sent(), world.parts.provider)
    agent, told = Agent(world.parts, world.talk), []
    try:
        for prompt in prompts:
            told.append([notice async for notice in agent.run(prompt)])
    finally:
        await store.close()
    return told


# -- what cannot be made to fit by a summary


def test_a_result_larger_than_the_window_does_not_kill_a_resumed_session(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    tools: Any = {"big": ("read_only", _big)}
    first = World(calls("big"), Answer(b"no", status=400), tools=tools, limits={"max_context_bytes": 200_000})
    (ended,) = asyncio.run(_process(path, first, "go"))
    assert end_of(ended).outcome == "provider_error"
    second = World(text("fine"), text("and on"), tools=tools, limits={"max_context_bytes": 20_000})
    for notices in asyncio.run(_process(path, second, "go on", "and on")):
        assert end_of(notices).outcome == "completed"
    assert all(len(json.dumps(body)) <= 21_000 for body in second.transport.bodies)


@pytest.mark.parametrize("before", [0, 1, 4])
def test_a_prompt_larger_than_the_window_ends_its_run_and_not_the_session(before: int) -> None:
    answers = [text(f"answer {at}") for at in range(before)]
    world = World(*answers, text("fine"), text("fine too"), limits={"max_context_bytes": 20_000})
    prompts = [*(f"prompt {at}" for at in range(before)), "x" * HUGE, "what did I paste?", "and now?"]
    ends = [end_of(notices) for notices in world.runs(*prompts)][before:]
    assert [end.outcome for end in ends] == ["limit:context", "completed", "completed"]
    sent = world.transport.bodies[-1]["messages"]
    pasted = next(m["content"] for m in sent if m["role"] == "user" and m["content"].startswith("xxx"))
    assert "characters left out]" in pasted
    assert sent[-1]["content"] == "and now?"


def test_images_of_earlier_prompts_are_left_out_where_nothing_else_helps() -> None:
    image = ImagePart("image/png", "A" * 100_000)
    world = World(text("fine"), limits={"max_context_bytes": 20_000})
    pictures = UserMessage((TextPart("what are these?"), *[image] * 4))
    world.talk.messages = (pictures, AssistantMessage(content="cats"))
    (notices,) = world.runs("are you sure?")
    assert end_of(notices).outcome == "completed"
    (body,) = world.transport.bodies
    assert "image_url" not in json.dumps(body)
    assert "what are these?" in json.dumps(body)


def test_a_call_larger_than_the_window_does_not_kill_the_session() -> None:
    world = World(text("fine"), limits={"max_context_bytes": 20_000})
    arguments = json.dumps({"path": "a.py", "content": "y" * HUGE, "mode": "append"})
    call = ToolCall(id="c", name="write", arguments=arguments)
    world.talk.messages = (
        UserMessage("write it"),
        AssistantMessage(tool_calls=(call,)),
        ToolMessage(call_id="c", name="write", content="written"),
        AssistantMessage(content="done"),
    )
    (notices,) = world.runs("and now?")
    assert end_of(notices).outcome == "completed"
    (body,) = world.transport.bodies
    made = next(m for m in body["messages"] if m.get("tool_calls"))["tool_calls"][0]["function"]
    shown = json.loads(made["arguments"])
    assert (shown["path"], shown["mode"]) == ("a.py", "append")
    assert "characters left out]" in shown["content"]


def test_a_long_answer_just_before_does_not_kill_the_session() -> None:
    world = World(text("z" * HUGE), text("fine"), limits={"max_context_bytes": 20_000})
    first, second = world.runs("write much", "shorter")
    assert [end_of(x).outcome for x in (first, second)] == ["completed", "completed"]


# -- a summary that saves nothing


@pytest.mark.parametrize(("more", "taken"), [(-1, True), (0, False), (1, False)])
def test_a_summary_as_large_as_what_it_would_replace_is_refused(more: int, taken: bool) -> None:
    messages: list[Any] = [UserMessage("the task")]
    for at in range(6):
        messages += [AssistantMessage(content=f"step {at} " * 100), UserMessage("go on", origin="host")]
    before = tuple(messages)
    probe = World(text("s"))
    probe.talk.messages = before
    whole = _measure(probe)
    assert _shrink(probe, whole - 1)[0]
    room = whole - _measure(probe)  # what a summary of one letter saves
    world = World(text("s" * (1 + room + more)))
    world.talk.messages = before
    ok, usage = _shrink(world, whole - 1)
    assert ok is taken
    assert usage.output_tokens > 0, "it is paid for all the same"
    assert (world.talk.messages == before) is not taken


def test_where_what_is_recent_leaves_no_room_for_a_summary_it_is_shortened_for_it() -> None:
    world = World(text("S" * 3000))
    messages: list[Any] = [UserMessage("the task")]
    for _ in range(6):
        messages += [AssistantMessage(content="old " * 200), UserMessage("go on")]
    for at in range(2):
        made = ToolCall(id=f"c{at}", name="look", arguments="{}")
        messages += [
            AssistantMessage(tool_calls=(made,)),
            ToolMessage(call_id=made.id, name="look", content="r" * 8000),
        ]
    world.talk.messages = tuple(messages)
    ok, _ = _shrink(world, 18_000)
    assert ok
    assert _measure(world) <= 18_000
    assert "S" * 3000 in str(world.talk.messages[0].content)  # type: ignore[union-attr]
    check_conversation(world.talk.messages)


def test_where_the_last_prompt_is_alone_too_large_no_summary_is_paid_for() -> None:
    world = World(limits={"max_context_bytes": 20_000})
    _talk(world, 6, size=500)
    (notices,) = world.runs("x" * HUGE)
    (told,) = of(notices, n.Summarised)
    assert (told.ok, told.usage, told.message) == (False, None, "what was said last is alone too large")
    assert end_of(notices).outcome == "limit:context"


# -- too long, by the provider's word


def test_twice_too_long_in_a_row_is_the_end_of_the_run_and_the_next_one_goes_on() -> None:
    world = World(TOO_LONG, TOO_LONG, text("fine"))
    before = _talk(world, 8)
    first, second = world.runs("go", "go on")
    assert [end_of(x).outcome for x in (first, second)] == ["limit:context", "completed"]
    assert len(world.transport.bodies) == 3
    kept = [m for m in before if isinstance(m, ToolMessage)]
    assert len(kept) == 8


def test_too_long_in_one_turn_and_again_in_a_later_one_is_shrunk_each_time() -> None:
    async def look(arguments: dict[str, Any], cancel: Any) -> Any:
        return done("look", "r" * 3000)

    script = [TOO_LONG, calls("look"), TOO_LONG, text("S"), text("fine")]
    world = World(*script, tools={"look": ("read_only", look)})
    _talk(world, 8)
    notices = world.run()
    assert end_of(notices).outcome == "completed"
    assert [told.ok for told in of(notices, n.Summarised)] == [True, True]


def test_a_window_much_smaller_than_was_thought_is_met_by_one_shrinking() -> None:
    """TOO_LONG says 8192 tokens, and nothing was known of the model."""
    world = World(TOO_LONG, text("S"), text("fine"))
    world.talk.messages = tuple(
        message
        for at in range(40)
        for message in (UserMessage(f"prompt {at} " * 200), AssistantMessage(content=f"answer {at} " * 200))
    )
    assert end_of(world.run()).outcome == "completed"
    sizes = [len(json.dumps(body, separators=(",", ":"))) for body in world.transport.bodies]
    assert sizes[0] > 100_000
    assert max(sizes[1:]) <= 8192 * 0.8 * 3


def test_a_summary_that_is_itself_too_long_for_the_provider_is_one_failed_attempt() -> None:
    world = World(TOO_LONG, TOO_LONG)
    world.talk.messages = tuple(
        message
        for at in range(20)
        for message in (UserMessage(f"prompt {at} " * 50), AssistantMessage(content=f"answer {at} " * 50))
    )
    before = world.talk.messages
    notices = world.run()
    assert end_of(notices).outcome == "limit:context"
    assert len(world.transport.bodies) == 2
    assert world.talk.messages[: len(before)] == before


# -- while a person is talking


def test_words_said_while_the_context_is_shrunk_reach_the_model_in_the_next_turn_behind_the_summary() -> None:
    gate = Gate()

    async def look(arguments: dict[str, Any], cancel: Any) -> Any:
        return done("look", "r" * 3000)

    looks = [calls(("look", f'{{"path": "{at}"}}')) for at in range(3)]
    summary = [gate, event({"content": "S"}), event({}, "stop"), DONE]
    world = World(
        *looks,
        summary,
        calls("execute"),
        text("fine"),
        tools={"look": ("read_only", look)},
        limits={"max_context_bytes": 8_300},
    )

    async def go() -> list[n.Notice]:
        agent = world.agent()

        async def say() -> str:
            await gate.reached.wait()
            ticket = agent.steer("and the docs!")
            gate.open.set()
            return ticket.state

        saying = asyncio.create_task(say())
        async with asyncio.timeout(10):
            notices = [notice async for notice in agent.run("go")]
        assert await saying == "waiting"
        return notices

    notices = asyncio.run(go())
    assert end_of(notices).outcome == "completed"
    (told,) = of(notices, n.Steered)
    assert told.turn == 5
    words = [m["content"] for m in world.transport.bodies[-1]["messages"] if m["role"] == "user"]
    assert "\ngo\n\n[Summary" in words[0]
    assert words[-1] == "and the docs!"
    assert "and the docs!" not in json.dumps(world.transport.bodies[3:5])
    check_conversation(world.talk.messages)


def test_words_said_before_a_shrinking_that_fails_are_kept() -> None:
    async def look(arguments: dict[str, Any], cancel: Any) -> Any:
        agent.append(arguments)
        return done("look", "r" * 3000)

    agent: list[Any] = []
    looks = [calls(("look", f'{{"path": "{at}"}}')) for at in range(3)]
    world = World(*looks, text(" "), tools={"look": ("read_only", look)}, limits={"max_context_bytes": 8_300})

    def react(notice: n.Notice, loop: Agent) -> None:
        if isinstance(notice, n.CallFinished) and notice.turn == 3:
            loop.steer("and the docs!")

    notices = world.run(react=react)
    assert end_of(notices).outcome == "limit:context"
    assert world.talk.messages[-1] == UserMessage("and the docs!")
    assert "unsent" not in end_of(notices).extra


# -- shrunk, then forked, then taken up with another provider


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
@pytest.mark.parametrize("how", ["continue", "fork"])
def test_a_shrunk_session_can_be_taken_up_with_any_other_provider(dialect: str, how: str, tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    tools: Any = {"big": ("read_only", _big)}
    script = [calls(("big", f'{{"path": "{at}"}}')) for at in range(4)]
    script.insert(3, text("Task: X. Done: Y."))
    first = World(*script, text("fine"), tools=tools, limits={"max_context_bytes": 20_000}, provider="a")

    async def begin() -> list[n.Notice]:
        opening = await open_session(path, "/p", Wish(), new_id=lambda: "ses_1", words=result_text)
        first.parts = dataclasses.replace(first.parts, store=opening.store, ids=RandomIds())
        first.talk = Talk("be good", opening.store, (), "a")
        try:
            return [notice async for notice in Agent(first.parts, first.talk).run("go")]
        finally:
            await opening.store.close()

    notices = asyncio.run(begin())
    assert any(told.ok for told in of(notices, n.Summarised))
    second = World(Answer(b"stop here", status=400), tools=tools, provider="b", dialect=DIALECTS[dialect])
    asyncio.run(_process(path, second, "more", how=how))
    (body,) = second.transport.bodies
    sent = json.dumps(body)
    assert "more" in sent
    assert len(sent) < 25_000, "it is sent as it was shrunk"
    check_conversation(second.talk.messages)


# -- the border


@given(st.data())
@settings(max_examples=80, deadline=None)
def test_the_last_exchanges_keep_their_calls_and_results_wherever_the_border_falls(data: st.DataObject) -> None:
    """Prompts, steering, notes, replies with and without calls, in any order that a conversation can have."""
    messages: list[Any] = [UserMessage("the task")]
    for number in range(data.draw(st.integers(0, 8))):
        kind = data.draw(st.sampled_from(["calls", "calls", "answer", "prompt", "note"]))
        size = data.draw(st.sampled_from([1, 400, 3000, 9000]))
        if kind == "calls":
            count = data.draw(st.integers(1, 3))
            made = tuple(
                ToolCall(id=f"c{number}_{k}", name="look", arguments=json.dumps({"path": "p" * size}))
                for k in range(count)
            )
            messages.append(AssistantMessage(tool_calls=made))
            messages += [ToolMessage(call_id=one.id, name="look", content="r" * size) for one in made]
        elif kind == "answer":
            messages.append(AssistantMessage(content="a" * size))
        else:
            messages.append(UserMessage("u" * size, origin="user" if kind == "prompt" else "host"))
    world = World(text("S"))
    before: Conversation = tuple(messages)
    world.talk.messages = before
    most = data.draw(st.sampled_from([500, 2500, 6000, 20_000]))
    ok, _ = _shrink(world, most)
    check_conversation(world.talk.messages)
    if not ok:
        assert world.talk.messages == before
        return
    assert _measure(world) <= most
    last = before[-1]
    if isinstance(last, UserMessage) and last.origin == "user":
        assert world.talk.messages[-1] == last, "what was just said is never touched"
    ids = [call.id for m in world.talk.messages if isinstance(m, AssistantMessage) for call in m.tool_calls]
    assert ids == [m.call_id for m in world.talk.messages if isinstance(m, ToolMessage)]


def test_each_word_that_is_paid_for_counts_also_in_the_end(tmp_path: Path) -> None:
    """A session whose context was shrunk with a model of known use adds up in the store."""
    path = tmp_path / "s.db"
    tools: Any = {"big": ("read_only", _big)}
    script: list[Any] = [used(calls(("big", f'{{"path": "{at}"}}')), 10, 1) for at in range(3)]
    script = [*script[:2], used(text("S"), 100, 10), *script[2:], used(text("fine"), 10, 1)]
    world = World(*script, tools=tools, limits={"max_context_bytes": 26_000}, model=PRICED)
    prompt = "the task " * 1500
    (notices,) = asyncio.run(_process(path, world, prompt))
    end = end_of(notices)
    assert end.outcome == "completed"
    assert (end.usage.input_tokens, end.usage.output_tokens) == (140, 14)
    with reading(path) as connection:
        stored = list(replies(connection, "ses_continue"))
    assert [turn for _run, turn, _usage, _cost in stored] == [1, 2, 0, 3, 4]
    assert sum(cost or 0 for *_, cost in stored) == pytest.approx(end.cost)
