"""What a stored conversation says about the loop: the same as the machine counted while it went."""

from __future__ import annotations

import pytest
from turn_world import fine

from sluice.turn.machine import Machine
from sluice.turn.past import Past, is_answer, past
from sluice.turn.repeats import LOOP_REPEATS, output_digest, output_of
from sluice.values.calls import call_digest
from sluice.values.messages import AssistantMessage, Conversation, Message, ToolCall, ToolMessage, UserMessage
from sluice.values.results import ToolResult, failed

ANSWER = AssistantMessage(content="here it is", stop_reason="end_turn")


def turn(*results: ToolResult, arguments: str = "{}", status: str = "whole") -> list[Message]:
    calls = tuple(
        ToolCall(id=f"c{at}", name=r.tool, arguments=arguments, status=status)  # type: ignore[arg-type]
        for at, r in enumerate(results)
    )
    said = [
        ToolMessage(
            call_id=f"c{at}",
            name=r.tool,
            content=r.content,
            ok=r.ok,
            status=r.status,
            failure=r.failure,
            digest=output_digest(r),
        )
        for at, r in enumerate(results)
    ]
    return [AssistantMessage(tool_calls=calls, stop_reason="tool_use"), *said]


def counted(*messages: Message, broken_off: bool = True) -> Past:
    return past(tuple(messages), broken_off=broken_off, changes=lambda tool: tool == "edit")


LOOK = ("look", "{}", fine())
FAILED = failed("look", "not_found", "no such file")


def test_turns_that_came_back_are_counted_on() -> None:
    found = counted(UserMessage("go"), *turn(fine()) * LOOP_REPEATS)
    assert found.loops.turn_over([LOOK])


def test_one_turn_less_is_no_loop_yet() -> None:
    found = counted(UserMessage("go"), *turn(fine()) * (LOOP_REPEATS - 1))
    assert not found.loops.turn_over([LOOK])
    assert found.loops.near


def test_a_prompt_between_changes_nothing_and_an_answer_ends_the_counting() -> None:
    cut = (*turn(fine()) * 3, UserMessage("go on"), *turn(fine()) * 2)
    assert counted(*cut).loops.turn_over([LOOK])
    answered = (*turn(fine()) * 3, ANSWER, UserMessage("again"), *turn(fine()) * 2)
    assert not counted(*answered).loops.turn_over([LOOK])


def test_other_arguments_or_other_results_are_work() -> None:
    inputs = [m for at in range(8) for m in turn(fine(), arguments=f'{{"a":{at}}}')]
    outputs = [m for at in range(8) for m in turn(fine(content=str(at)))]
    assert not counted(*inputs).loops.turn_over([LOOK])
    assert not counted(*outputs).loops.turn_over([LOOK])


@pytest.mark.parametrize(
    ("message", "answer"),
    [
        (ANSWER, True),
        (AssistantMessage(content="half", stop_reason="aborted"), False),
        (AssistantMessage(content="half", stop_reason="max_tokens"), False),
        (AssistantMessage(content="half"), False),
        (AssistantMessage(stop_reason="tool_use", tool_calls=(ToolCall(id="a", name="look", arguments="{}"),)), False),
    ],
)
def test_what_is_an_answer(message: AssistantMessage, answer: bool) -> None:
    assert is_answer(message) is answer


def test_a_failure_of_a_run_that_was_broken_off_is_counted_on_and_of_one_that_ended_is_not() -> None:
    digest = call_digest("look", "{}")
    messages = (UserMessage("go"), *turn(FAILED))
    end = counted(*messages).failures.note(FAILED, digest)
    assert end is not None
    assert end[0] == "failed"
    assert counted(*messages, broken_off=False).failures.note(FAILED, digest) is None
    assert counted(*messages, UserMessage("try again")).failures.note(FAILED, digest) is None


def test_a_change_that_worked_clears_the_failures_and_reading_does_not() -> None:
    digest = call_digest("look", "{}")
    changed = counted(*turn(FAILED), *turn(ToolResult(ok=True, status="ok", tool="edit")))
    assert changed.failures.note(FAILED, digest) is None
    read = counted(*turn(FAILED), *turn(fine()))
    assert read.failures.note(FAILED, digest) is not None


def test_blocked_calls_are_counted_on() -> None:
    blocked = failed("run", "blocked", "no", status="blocked", failure="blocked")
    found = counted(*turn(blocked))
    end = found.failures.note(blocked, call_digest("run", "{}"))
    assert end is not None
    assert end[0] == "blocked"
    assert counted(*turn(blocked)).failures.turn_over([blocked]) is not None, "two turns of nothing else"


def test_cut_calls_are_counted_on_but_for_those_of_which_nothing_is_known() -> None:
    refused = failed("edit", "cut_call", "cut", status="invalid")
    known = counted(*turn(refused, arguments='{"a', status="cut") * 2)
    assert known.cuts.note("edit", '{"a')
    unknown = counted(*turn(refused, arguments="", status="cut") * 5)
    assert not unknown.cuts.note("edit", '{"a')


def test_results_of_an_older_session_are_not_guessed() -> None:
    old = [AssistantMessage(tool_calls=(ToolCall(id="a", name="look", arguments="{}"),)), ToolMessage("a", "look", "x")]
    assert not counted(*old * 9).loops.turn_over([LOOK])


def test_a_result_without_its_call_is_passed_over() -> None:
    orphans = ToolMessage("x", "look", "orphan"), ToolMessage("y", "look", "orphan")
    found = counted(orphans[0], *turn(fine()), orphans[1], *turn(fine()), *turn(fine()))
    assert found.loops.turn_over([LOOK]) == counted(*turn(fine()) * 3).loops.turn_over([LOOK])


def test_the_number_of_a_spilled_output_is_no_part_of_it() -> None:
    one, two = (fine(content=f"[1 of 9 lines; the whole is spill:{n}]\nx") for n in (3, 14))
    assert output_of(one) == output_of(two)
    assert output_of(one) != output_of(fine(content="[1 of 9 lines; the whole is spill:3]\ny"))


def test_a_machine_without_a_past_begins_with_nothing() -> None:
    from sluice.limits import Limits

    one, two = Machine("r", Limits()), Machine("r", Limits())
    assert one.snapshot() == two.snapshot()
    empty: Conversation = ()
    assert counted(*empty).loops.snapshot() == Past().loops.snapshot()
