"""What a person says while a run is going: when the model gets it, in which order, and what becomes of it if it does not."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest
from run_world import FailingStore, FakeTransport, World, calls, end_of, text

from sluice.run.agent import Agent
from sluice.run.parts import Parts
from sluice.run.steering import Steering, SteeringTicket
from sluice.session.memory import MemoryStore
from sluice.values import notices as n
from sluice.values.messages import ImagePart, Message, TextPart, UserMessage, plain_text


def steer_at(kind: type, *words: str, tickets: list[SteeringTicket] | None = None, turn: int = 1):  # type: ignore[no-untyped-def]
    said: list[bool] = []

    def react(notice: n.Notice, agent: Agent) -> None:
        if isinstance(notice, kind) and getattr(notice, "turn", turn) == turn and not said:
            said.append(True)
            for word in words:
                ticket = agent.steer(word)
                if tickets is not None:
                    tickets.append(ticket)

    return react


def test_it_comes_behind_the_results_of_the_turn_and_before_the_next_request_in_order() -> None:
    world = World(calls("look", "look"), text("ok"))
    tickets: list[SteeringTicket] = []
    notices = world.run(react=steer_at(n.CallArrived, "first", "second", tickets=tickets))
    sent = world.transport.bodies[1]["messages"]
    assert [m["role"] for m in sent] == ["system", "user", "assistant", "tool", "tool", "user", "user"]
    assert [m["content"] for m in sent[-2:]] == ["first", "second"]
    told = [x for x in notices if isinstance(x, n.Steered)]
    assert [(x.turn, x.text) for x in told] == [(2, "first"), (2, "second")]
    assert told[0].message_id == "run_1/5"
    assert [t.state for t in tickets] == ["given", "given"]
    kept = [row[2] for row in world.store.rows if row[0] == "message"]
    assert kept[3:5] == [UserMessage("first"), UserMessage("second")], "stored as the user's own words"
    assert "unsent" not in end_of(notices).extra


def test_what_the_run_ended_before_is_unsent_and_stored_nowhere() -> None:
    world = World(text("done"))
    tickets: list[SteeringTicket] = []
    notices = world.run(react=steer_at(n.TurnFinished, "too late", tickets=tickets))
    assert [t.state for t in tickets] == ["unsent"]
    assert end_of(notices).extra["unsent"] == ["too late"]
    assert not any(isinstance(x, n.Steered) for x in notices)
    assert all("too late" not in str(row) for row in world.store.rows)


def test_a_cancel_leaves_it_unsent() -> None:
    world = World(calls("wait"))
    tickets: list[SteeringTicket] = []

    def react(notice: n.Notice, agent: Agent) -> None:
        if isinstance(notice, n.CallStarted):
            tickets.append(agent.steer("never mind"))
            agent.cancel()

    notices = world.run(react=react)
    assert end_of(notices).outcome == "cancelled"
    assert [t.state for t in tickets] == ["unsent"]
    assert end_of(notices).extra["unsent"] == ["never mind"]


def test_a_cancel_while_the_first_is_stored_leaves_the_second_unsent() -> None:
    class Cancelling(MemoryStore):
        async def append(self, run: str, message: Message) -> str:
            if message == UserMessage("first"):
                agents[0].cancel()
            return await super().append(run, message)

    agents: list[Agent] = []
    tickets: list[SteeringTicket] = []
    world = World(calls("look"), store=Cancelling())

    def react(notice: n.Notice, agent: Agent) -> None:
        if isinstance(notice, n.CallArrived):
            agents.append(agent)
            tickets.extend(agent.steer(word) for word in ("first", "second"))

    notices = world.run(react=react)
    assert [t.state for t in tickets] == ["given", "unsent"]
    assert end_of(notices).extra["unsent"] == ["second"]
    assert UserMessage("second") not in world.talk.messages


def test_it_can_be_changed_and_taken_back_while_it_waits() -> None:
    world = World(calls("look"), text("ok"))
    tickets: list[SteeringTicket] = []

    def react(notice: n.Notice, agent: Agent) -> None:
        if isinstance(notice, n.CallArrived):
            tickets.extend(agent.steer(word) for word in ("a", "b"))
            assert tickets[0].edit(UserMessage("A"))
            assert tickets[1].take_back()
            assert not tickets[1].take_back()

    notices = world.run(react=react)
    assert [x.text for x in notices if isinstance(x, n.Steered)] == ["A"]
    assert not tickets[0].edit(UserMessage("late"))
    assert not tickets[0].take_back()
    assert "unsent" not in end_of(notices).extra, "what was taken back is with the person already"


def test_without_a_run_it_is_unsent_at_once() -> None:
    world = World(text("ok"))
    assert world.agent().steer("hello").state == "unsent"
    world.run()
    closed = Steering()
    closed.close()
    assert closed.add(UserMessage("x")).state == "unsent"


def test_a_store_that_refuses_it_ends_the_run_and_the_words_are_given_back() -> None:
    world = World(calls("look"), store=FailingStore("append", 3))
    notices = world.run(react=steer_at(n.CallArrived, "kept?"))
    end = end_of(notices)
    assert end.outcome == "failed"
    assert not end.saved
    assert end.extra["unsent"] == ["kept?"]


def test_attachments_go_along_and_are_left_out_of_the_notice() -> None:
    image = ImagePart(media_type="image/png", data="aGk=")
    message = UserMessage((TextPart("see"), image))
    world = World(calls("look"), text("ok"))
    notices = world.run(react=lambda x, agent: isinstance(x, n.CallArrived) and agent.steer(message))
    assert [x.text for x in notices if isinstance(x, n.Steered)] == ["see"]
    assert world.talk.messages[3] == message
    assert plain_text(message) == "see"


# -- other parts between runs


def other(world: World, **changes: object) -> Parts:
    import dataclasses

    return dataclasses.replace(world.parts, **changes)  # type: ignore[arg-type]


def test_another_model_answers_from_the_next_run_on() -> None:
    world = World(calls("look"), text("old"))
    second = FakeTransport([text("new")])

    async def main() -> None:
        agent = world.agent()
        async with aclosing(agent.run("one")) as stream:
            async for notice in stream:
                if isinstance(notice, n.CallArrived):
                    agent.use(other(world, transport=second, provider="p2", system_prompt="be brief"))
        assert len(world.transport.bodies) == 2, "the run that was going kept its own"
        async with aclosing(agent.run("two")) as stream:
            async for _notice in stream:
                pass

    asyncio.run(main())
    assert [m["content"] for m in second.bodies[0]["messages"] if m["role"] == "system"] == ["be brief"]
    assert [m["role"] for m in second.bodies[0]["messages"]] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
    ]


def test_an_agent_keeps_its_store() -> None:
    world = World()
    with pytest.raises(ValueError, match="store"):
        world.agent().use(other(world, store=MemoryStore()))


def test_rates_hold_across_parts() -> None:
    world = World(calls("look"), text("a"), calls("look"), text("b"), limits={"max_calls_per_minute": 1})

    async def main() -> list[n.Notice]:
        agent, notices = world.agent(), []
        for prompt in ("one", "two"):
            agent.use(other(world, window_tokens=100_000))
            async with aclosing(agent.run(prompt)) as stream:
                notices = [notice async for notice in stream]
        return notices

    assert end_of(asyncio.run(main())).outcome in ("failed", "limit:calls_per_minute")
