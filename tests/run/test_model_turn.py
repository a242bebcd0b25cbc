"""The model's side of a turn, where a whole run does not show it."""

from __future__ import annotations

import pytest
from run_world import DONE, Answer, World, call, end_of, event, text

from sluice.values import notices as n
from sluice.values.messages import AssistantMessage

COUNTED = {"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107}


def test_usage_is_the_providers_or_marked_as_estimated() -> None:
    counted = World([event({"content": "hi"}), event({}, "stop", usage=COUNTED), DONE]).run()
    assert (end_of(counted).usage.input_tokens, end_of(counted).usage.estimated) == (100, False)
    guessed = World(text("hello there")).run()
    assert end_of(guessed).usage.estimated
    assert end_of(guessed).usage.output_tokens == len("hello there") // 4


def test_usage_is_summed_over_turns_and_told_for_each() -> None:
    broken = [event({"content": "a"}), event({"content": "b"}, usage=COUNTED)]
    notices = World(broken, [event({"content": "c"}), event({}, "stop", usage=COUNTED), DONE]).run()
    turns = [x for x in notices if isinstance(x, n.TurnFinished)]
    assert [x.usage.input_tokens for x in turns if x.usage] == [100, 100]
    assert end_of(notices).usage.output_tokens == 14


def test_tolerances_of_a_reply_are_told() -> None:
    odd = event({"content": "a"}, "stop").rstrip(b"\n")
    notices = World([odd]).run()
    finished = next(x for x in notices if isinstance(x, n.TurnFinished))
    assert isinstance(finished.tolerances, dict)
    assert end_of(notices).text == "a"


def test_ids_of_calls_are_unique_in_the_conversation_even_where_a_provider_gives_none() -> None:
    nameless = event({"tool_calls": [{"index": 0, "function": {"name": "look", "arguments": "{}"}}]})
    world = World(*[[nameless, event({}, "tool_calls"), DONE] for _ in range(3)], text("ok"))
    world.run()
    ids = [m["tool_call_id"] for m in world.transport.bodies[-1]["messages"] if m["role"] == "tool"]
    assert len(set(ids)) == 3


def test_a_refusal_kept_apart_is_the_text_of_the_run() -> None:
    end = end_of(World([event({"refusal": "I will not."}), event({}, "stop"), DONE]).run())
    assert end.text == "I will not."


def test_an_error_status_says_no_more_than_its_one_line() -> None:
    notices = World(Answer(b"no", status=400)).run()
    assert [type(x).__name__ for x in notices] == ["RunStarted", "TurnStarted", "Failed", "RunFinished"]


def test_calls_that_arrive_in_another_order_than_they_are_numbered_can_be_told_apart() -> None:
    world = World([call("look", index=2), call("change", index=0), event({}, "tool_calls"), DONE], text("done"))
    notices = world.run()
    intended = [(x.arrival, x.tool) for x in notices if isinstance(x, n.CallIntended)]
    arrived = [(x.position, x.arrival, x.tool) for x in notices if isinstance(x, n.CallArrived)]
    assert intended == [(0, "look"), (1, "change")]
    assert arrived == [(0, 1, "change"), (1, 0, "look")]


def test_withdrawn_calls_are_named_by_arrival_and_by_place() -> None:
    world = World([call("look", '{"a', index=2), call("change", '{"b', index=0)])
    notices = world.run()
    withdrawn = [(x.arrival, x.position, x.tool) for x in notices if isinstance(x, n.CallWithdrawn)]
    assert withdrawn == [(1, 0, "change"), (0, 1, "look")]


@pytest.mark.parametrize("intent", [False, True])
def test_intent_is_told_only_where_it_is_wanted(intent: bool) -> None:
    world = World([call("change", '{"path": "a"}'), event({}, "tool_calls"), DONE], text("done"), intent=intent)
    told = [x for x in world.run() if isinstance(x, n.CallIntent | n.CallProgressed)]
    assert bool(told) is intent


def test_calls_inside_text_are_run_where_the_form_is_known() -> None:
    words = 'So:\n<tool_call>\n{"name": "look", "arguments": {}}\n</tool_call>'
    notices = World(text(words), text("done"), inline="hermes").run()
    assert [x.tool for x in notices if isinstance(x, n.CallFinished)] == ["look"]
    assert not [x for x in World(text(words)).run() if isinstance(x, n.CallArrived)]


def test_a_stored_reply_says_who_gave_it() -> None:
    world = World(text("hi"), provider="router")
    world.run()
    (message,) = [m for m in world.talk.messages if isinstance(m, AssistantMessage)]
    assert (message.provider, message.dialect, message.model) == ("router", "openai_chat", "m")
