"""The conversation of a session: stored first, then sent; no result without its call and no call without its result."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from run_world import FailingStore, World, calls, end_of, text

from sluice.run.agent import Agent
from sluice.run.conversation import Talk
from sluice.run.parts import NoHooks
from sluice.session.memory import MemoryStore
from sluice.values import notices as n
from sluice.values.messages import (
    AssistantMessage,
    Conversation,
    ImagePart,
    Reasoning,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)


def _reply(*ids: str) -> AssistantMessage:
    return AssistantMessage(tool_calls=tuple(ToolCall(id=i, name="look", arguments="{}") for i in ids))


def _result(id: str) -> ToolMessage:
    return ToolMessage(call_id=id, name="look", content="x")


def test_the_system_text_is_sent_first_and_only_if_there_is_any() -> None:
    store = MemoryStore()
    assert Talk("be good", store, (UserMessage("a"),)).to_send() == (SystemMessage("be good"), UserMessage("a"))
    assert Talk("", store, (UserMessage("a"),)).to_send() == (UserMessage("a"),)


def test_what_cannot_be_stored_is_not_sent_but_for_results() -> None:
    talk = Talk("", FailingStore("append"))
    for message in (UserMessage("note"), _reply("a"), _result("a")):
        with pytest.raises(OSError, match="No space"):
            asyncio.run(talk.add("run", message))
    assert talk.messages == (_result("a"),)


@pytest.mark.parametrize(
    ("messages", "open_ids"),
    [
        ((), []),
        ((UserMessage("a"),), []),
        ((_reply("a", "b"),), ["a", "b"]),
        ((_reply("a", "b"), _result("a")), ["b"]),
        ((_reply("a", "a"), _result("a")), ["a"]),
        ((_reply("a"), _result("a")), []),
        ((_reply("a"), _result("a"), UserMessage("b")), []),
    ],
)
def test_calls_without_a_result_are_found_also_where_ids_are_the_same(messages: Any, open_ids: list[str]) -> None:
    assert [c.id for c in Talk("", MemoryStore(), messages).open_calls()] == open_ids


def test_ids_of_calls_are_remembered_from_history_and_from_what_is_added() -> None:
    talk = Talk("", MemoryStore(), (_reply("a"), _result("a")))
    asyncio.run(talk.add("run", _reply("b")))
    assert talk.call_ids == {"a", "b"}


@pytest.mark.parametrize(
    ("name", "arguments", "subject"),
    [
        ("look", '{"path": "a.py"}', "a.py"),
        ("look", '{"path": 7}', None),
        ("look", '{"path": ', None),
        ("look", "{}", None),
        ("other", '{"path": "a"}', None),
        ("look", '{"path": "' + "x" * 5000 + '"}', "x" * 2000),
    ],
)
def test_the_subject_of_a_call_is_told_where_it_can_be(name: str, arguments: str, subject: str | None) -> None:
    world = World()
    call = ToolCall(id="a", name=name, arguments=arguments)
    assert world.talk.subject(call, world.tools.specs()) == subject


def test_what_one_provider_signed_is_not_sent_to_another() -> None:
    signed = AssistantMessage(
        content="a",
        reasoning=(Reasoning(text="why", signature="s"), Reasoning(redacted="r")),
        native="[]",
        provider="anthropic",
        dialect="anthropic_messages",
    )
    history = (UserMessage("x"), signed)
    assert Talk("", MemoryStore(), history, "anthropic").to_send() == history
    assert Talk("", MemoryStore(), history, None).to_send()[1] == Talk("", MemoryStore(), history, "p").to_send()[1]
    sent = Talk("", MemoryStore(), history, "proxy.example").to_send()[1]
    assert isinstance(sent, AssistantMessage)
    assert (sent.content, sent.reasoning, sent.native) == ("a", (Reasoning(text="why"),), None)
    unknown = AssistantMessage(content="a", native="[]")  # stored before providers were
    assert Talk("", MemoryStore(), (unknown,), "p").to_send() == (unknown,)


@pytest.mark.parametrize("content", ["a\udcff", (TextPart("a\udcff"), ImagePart("image/png", "AAAA"))])
def test_text_that_is_no_unicode_does_not_spoil_the_requests_after_it(content: Any) -> None:
    world = World(calls("look"), text("ok"), text("more"))

    def steer(notice: n.Notice, agent: Agent) -> None:
        if isinstance(notice, n.CallArrived):
            agent.steer(UserMessage(content))

    first, second = world.runs(UserMessage(content), "and now?", react=steer)  # type: ignore[arg-type]
    assert [end_of(notices).outcome for notices in (first, second)] == ["completed"] * 2
    assert str(world.transport.bodies[2]["messages"]).count("a\ufffd") == 2


def test_a_hooks_text_that_is_no_unicode_is_sent_as_text() -> None:
    class Adds(NoHooks):
        async def prepare_turn(self, turn: int, conversation: Conversation) -> list[UserMessage]:
            return [UserMessage("a\udcff")]

    world = World(text("ok"), hooks=Adds())
    assert end_of(world.run()).outcome == "completed"
    assert "a\ufffd" in str(world.transport.bodies[0]["messages"])
