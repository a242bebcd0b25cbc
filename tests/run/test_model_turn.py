"""The model's side of a turn, where a whole run does not show it."""

from __future__ import annotations

from run_world import DONE, Answer, World, end_of, event, text

from sluice.values import notices as n

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
