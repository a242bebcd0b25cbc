"""An answer cut at its length: a further turn goes on with it; it is shown as one text and stored as it came."""

from __future__ import annotations

from run_world import World, calls, end_of, shown, text

from sluice.errors import TransportError
from sluice.turn.notes import CONTINUE_NOTE
from sluice.values import notices as n
from sluice.values.messages import AssistantMessage, UserMessage


def test_what_continues_is_one_text_for_people_and_several_messages_in_the_store() -> None:
    world = World(text("One, two, th", "length"), text("ree, fo", "length"), text("ur."))
    notices = world.run()
    end = end_of(notices)
    assert (end.outcome, end.text, end.turns) == ("completed", "One, two, three, four.", 3)
    assert shown(notices) == "One, two, three, four."
    assert [x.continues for x in notices if isinstance(x, n.TurnStarted)] == [False, True, True]
    replies = [m for m in world.talk.messages if isinstance(m, AssistantMessage)]
    assert [(m.content, m.stop_reason) for m in replies] == [
        ("One, two, th", "max_tokens"),
        ("ree, fo", "max_tokens"),
        ("ur.", "end_turn"),
    ]
    notes = [m for m in world.talk.messages if isinstance(m, UserMessage) and m.origin == "host"]
    assert [m.content for m in notes] == [CONTINUE_NOTE] * 2


def test_at_the_bound_the_outcome_is_the_limits_and_the_text_all_that_came() -> None:
    world = World(text("a", "length"), text("b", "length"), limits={"max_continuations": 1})
    end = end_of(world.run())
    assert (end.outcome, end.exit_code, end.text) == ("limit:output_tokens", 3, "ab")


def test_a_continuation_that_fails_keeps_the_answer_and_its_outcome() -> None:
    world = World(text("half", "length"), TransportError("tls", "certificate"))
    end = end_of(world.run())
    assert (end.outcome, end.text) == ("limit:output_tokens", "half")
    assert "certificate" in end.message


def test_a_call_that_comes_instead_runs_and_the_final_text_is_its_own() -> None:
    world = World(text("I will", "length"), calls("look", say=" look"), text("Seen."))
    notices = world.run()
    assert (end_of(notices).outcome, end_of(notices).text) == ("completed", "Seen.")
    assert [x.continues for x in notices if isinstance(x, n.TurnStarted)] == [False, True, False]


def test_a_cut_reply_with_calls_is_not_continued_but_answered() -> None:
    world = World(calls("look", finish="length", say="x"), text("ok"))
    notices = world.run()
    assert [x.continues for x in notices if isinstance(x, n.TurnStarted)] == [False, False]
    assert CONTINUE_NOTE not in str(world.transport.bodies[-1])
