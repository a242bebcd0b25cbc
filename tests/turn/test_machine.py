"""What the machine does, one behaviour a test. The proofs over all paths are in test_walk and test_naive."""

from __future__ import annotations

import pytest
from turn_world import RUN, World, blocked, broke, call, digest_of, fine, reply, replying, started

from sluice.errors import InternalError
from sluice.limits import Limits
from sluice.turn import facts as f
from sluice.turn.machine import Machine
from sluice.turn.notes import CONTINUE_NOTE, GO_ON_NOTE, LOOP_NOTE, REPEATED_NOTE
from sluice.values.calls import CallKey
from sluice.values.messages import Reasoning, Reply, Usage
from sluice.values.results import ToolResult

SECOND = 1_000_000_000


def key(position: int = 0, turn: int = 1) -> CallKey:
    return CallKey(RUN, turn, position)


def given(world: World, kind: type) -> list:
    return [c for c in world.given if isinstance(c, kind)]


def released(world: World) -> list[tuple[int, int, str]]:
    return [(c.key.turn, c.key.position, c.result.status) for c in given(world, f.Release)]


def judged(command: f.Judge, decision: str, result: ToolResult | None = None) -> f.Judged:
    return f.Judged(at=0, key=command.key, digest=command.digest, decision=decision, rule="r", result=result)


# -- the plain course


def test_a_run_with_one_call_goes_through_every_stage_in_order() -> None:
    world = replying(reply(call("edit")), reply(text="done"))
    world.drive()
    names = [type(c).__name__ for c in world.given]
    once = [
        "Prepare",
        "CallModel",
        "Check",
        "Judge",
        "RunTools",
        "Release",
        "Prepare",
        "CallModel",
        "EndJobs",
        "Finish",
    ]
    assert names == once
    assert world.machine.finished
    assert (world.finish.outcome, world.finish.message) == ("completed", "")
    assert (world.machine.turns, world.machine.tool_calls) == (2, 1)


@pytest.mark.parametrize(
    ("one", "outcome", "said"),
    [
        (reply(text="hi"), "completed", ""),
        (reply(text="hi", stop="a word of the provider"), "completed", ""),
        (Reply(text="hi", stop_reason=None), "completed", ""),
        (reply(text=" ", stop="max_tokens"), "limit:output_tokens", "length limit"),
        (reply(text="and so on, " * 200, stop="max_tokens"), "limit:output_tokens", "repeats itself"),
        (reply(text="hi", stop="content_filter"), "failed", "content filter"),
        (reply(text="no", stop="refusal"), "failed", "refused"),
        (Reply(refusal="I cannot", stop_reason="end_turn"), "failed", "refused"),
        (reply(text="hi", stop="aborted"), "cancelled", ""),
        (Reply(stop_reason="end_turn"), "completed", "returned nothing at all"),
        (Reply(stop_reason="end_turn", reasoning="hm"), "completed", "returned nothing but reasoning"),
        (Reply(stop_reason="end_turn", blocks=(Reasoning(text="hm"),)), "completed", "returned nothing but reasoning"),
        (Reply(stop_reason="end_turn", kept=False), "completed", ""),
        (reply(text="and so on, " * 200), "completed", "repeats itself"),
    ],
)
def test_a_reply_without_calls_ends_the_run_by_its_stop_reason(one, outcome, said) -> None:
    finish = replying(one).drive()
    assert finish.outcome == outcome
    assert said in finish.message


def test_a_pause_is_followed_by_another_turn_and_bounded_by_the_turns() -> None:
    world = replying(*[reply(text="...", stop="pause")] * 3, limits=Limits(max_turns=3))
    assert world.drive().outcome == "limit:turns"
    assert world.machine.turns == 3


# -- verdicts


def test_two_turns_with_the_same_missing_id_and_equal_arguments_need_two_verdicts() -> None:
    world = replying(reply(call("edit")))
    world.until(f.RunTools)
    first = given(world, f.Judge)[0]
    world.answer(f.RunTools, lambda c: f.Ran(at=0, key=c.keys[0], result=fine("edit")))
    world.answer(f.CallModel, lambda c: f.Replied(at=0, turn=2, reply=reply(call("edit"))))
    second = world.until(f.Judge)
    assert second.digest == first.digest
    assert second.key != first.key
    with pytest.raises(InternalError):
        world.machine.feed(judged(first, "allow"))
    assert len(given(world, f.RunTools)) == 1


def test_a_verdict_over_another_digest_lets_nothing_run() -> None:
    world = replying(reply(call("edit")))
    command = world.until(f.Judge)
    with pytest.raises(InternalError):
        world.machine.feed(f.Judged(at=0, key=command.key, digest="0" * 64, decision="allow", rule="r"))
    assert not given(world, f.RunTools)


def test_a_verdict_that_is_no_word_of_ours_is_a_denial() -> None:
    world = replying(reply(call("edit")))
    commands = world.answer(f.Judge, lambda c: judged(c, "ALLOW"))
    assert [type(c) for c in commands] == [f.Refuse]


def test_a_denial_keeps_the_result_given_with_it_and_skips_the_rest() -> None:
    world = replying(reply(call("edit"), call("look")))
    mine = blocked("edit", content="say please")
    world.answer(f.Judge, lambda c: judged(c, "deny", mine))
    world.until(f.Prepare)
    assert released(world) == [(1, 0, "blocked"), (1, 1, "skipped")]
    assert given(world, f.Release)[0].result.content.startswith("say please\n")


def test_a_denial_that_comes_with_a_good_result_is_blocked_all_the_same() -> None:
    world = replying(reply(call("edit")))
    world.answer(f.Judge, lambda c: judged(c, "deny", fine("edit")))
    world.until(f.Prepare)
    assert released(world) == [(1, 0, "blocked")]


def test_ask_is_a_denial_where_nobody_can_be_asked() -> None:
    world = replying(reply(call("edit")), can_ask=False)
    commands = world.answer(f.Judge, lambda c: judged(c, "ask", blocked("edit", content="with a flag")))
    assert [type(c) for c in commands] == [f.Refuse]
    assert commands[0].result.content == "with a flag"
    assert not given(world, f.Ask)


def test_a_yes_leads_to_a_second_verdict_with_the_grant() -> None:
    world = replying(reply(call("edit")))
    world.answer(f.Judge, lambda c: judged(c, "ask"))
    commands = world.answer(f.Ask, lambda c: f.Answered(at=0, key=c.key, digest=c.digest, granted=True))
    assert commands == [f.Judge(key(), digest_of(call("edit")), granted=True)]
    world.answer(f.Judge, lambda c: judged(c, "allow"))
    assert given(world, f.RunTools) == [f.RunTools((key(),))]


@pytest.mark.parametrize("decision", ["ask", "deny"])
def test_a_yes_does_not_override_the_second_verdict_and_nobody_is_asked_twice(decision) -> None:
    world = replying(reply(call("edit")))
    world.answer(f.Judge, lambda c: judged(c, "ask"))
    world.answer(f.Ask, lambda c: f.Answered(at=0, key=c.key, digest=c.digest, granted=True))
    world.answer(f.Judge, lambda c: judged(c, decision))
    world.until(f.Prepare)
    assert len(given(world, f.Ask)) == 1
    assert not given(world, f.RunTools)


@pytest.mark.parametrize(("words", "goes_on"), [("", False), ("  ", False), ("use look", True)])
def test_a_refusal_without_a_word_ends_the_turn_and_one_with_a_word_is_told(words, goes_on) -> None:
    world = replying(reply(call("edit")))
    world.answer(f.Judge, lambda c: judged(c, "ask"))
    world.answer(f.Ask, lambda c: f.Answered(at=0, key=c.key, digest=c.digest, granted=False, words=words))
    finish = world.drive()
    result = given(world, f.Release)[0].result
    assert (finish.outcome == "completed") is goes_on
    assert finish.outcome == ("completed" if goes_on else "blocked")
    assert words.strip() in result.error.message
    assert result.end_turn is not goes_on


def test_calls_are_asked_about_one_at_a_time_in_call_order() -> None:
    world = replying(reply(call("look", '{"a":1}'), call("look", '{"a":2}')))
    for _ in range(2):
        world.answer(f.Judge, lambda c: judged(c, "ask"))
    asks = [c for c in world.out if isinstance(c, f.Ask)]
    assert [c.key.position for c in asks] == [0]


# -- groups and order


def test_consecutive_read_only_calls_run_together_and_all_others_alone() -> None:
    names = ["look", "look", "edit", "exec", "look"]
    world = replying(reply(*(call(name, f'{{"n":{at}}}') for at, name in enumerate(names))))
    world.until(f.Prepare)
    groups = [[k.position for k in c.keys] for c in given(world, f.RunTools)]
    assert groups == [[0, 1], [2], [3], [4]]


def test_all_calls_are_checked_before_any_is_judged() -> None:
    world = replying(reply(call("look"), call("edit")))
    world.until(f.Check)
    assert [type(c) for c in world.out] == [f.Check, f.Check]
    world.feed(world.benign())
    assert [type(c) for c in world.out] == [f.Check]


def test_results_are_released_in_call_order_whatever_order_they_come_in() -> None:
    world = replying(reply(call("look", '{"a":1}'), call("look", '{"a":2}')))
    world.until(f.RunTools)
    assert world.feed(f.Ran(at=0, key=key(1), result=fine(content="two"))) == []
    commands = world.feed(f.Ran(at=0, key=key(0), result=fine(content="one")))
    assert [c.result.content for c in commands if isinstance(c, f.Release)] == ["one", "two"]


def test_what_is_allowed_before_a_denial_runs_and_what_is_after_it_does_not() -> None:
    world = replying(reply(*(call("look", f'{{"a":{n}}}') for n in range(3))))
    world.until(f.Judge)
    for position in range(3):
        command = next(c for c in world.out if c.key == key(position))
        world.feed(judged(command, "deny" if position == 1 else "allow"))
    assert given(world, f.RunTools) == [f.RunTools((key(0),))]
    world.until(f.Prepare)
    assert released(world) == [(1, 0, "ok"), (1, 1, "blocked"), (1, 2, "skipped")]


def test_a_rejected_call_is_answered_at_its_place() -> None:
    world = replying(reply(call("look"), call("edit"), call("look", '{"a":2}')))
    for position in range(3):
        command = world.until(f.Check)
        bad = f.Rejected(at=0, key=command.key, result=broke("edit", status="invalid"))
        world.feed(bad if position == 1 else world.benign())
    world.until(f.Prepare)
    assert released(world) == [(1, 0, "ok"), (1, 1, "invalid"), (1, 2, "skipped")]


def test_a_call_that_was_not_run_never_counts_as_done() -> None:
    world = replying(reply(call("look"), call("edit")))
    world.answer(f.Check, lambda c: f.Rejected(at=0, key=c.key, result=fine("look")))
    world.until(f.Prepare)
    assert released(world) == [(1, 0, "ok"), (1, 1, "skipped")]
    assert not given(world, f.RunTools)


def test_a_start_that_could_not_be_recorded_is_a_result_without_a_start() -> None:
    world = replying(reply(call("edit")))
    world.answer(f.RunTools, lambda c: f.Ran(at=0, key=c.keys[0], result=broke("edit", failure="fatal")))
    assert world.drive().outcome == "failed"


# -- calls that did not arrive whole (W7, W8)


@pytest.mark.parametrize(
    ("stop", "advice"),
    [("max_tokens", "mode append"), ("content_filter", "Do not repeat it unchanged"), ("refusal", "Do not repeat")],
)
def test_a_cut_call_is_answered_with_advice_that_fits_and_what_was_whole_before_it_runs(stop, advice) -> None:
    world = replying(reply(call("look"), call("edit", '{"b":', "cut"), stop=stop))
    world.until(f.Prepare)
    assert released(world) == [(1, 0, "ok"), (1, 1, "invalid")]
    result = given(world, f.Release)[1].result
    assert result.error.code == "cut_call"
    assert advice in result.error.message
    assert not [c for c in given(world, f.Check) if c.key == key(1)]


@pytest.mark.parametrize("stop", ["aborted", "odd", None])
def test_no_call_of_an_aborted_or_oddly_stopped_reply_is_even_checked(stop) -> None:
    world = replying(Reply(tool_calls=(call("look"), call("edit")), stop_reason=stop))
    finish = world.drive()
    assert not given(world, f.Check)
    assert not given(world, f.RunTools)
    assert finish.outcome == ("cancelled" if stop == "aborted" else "completed")
    assert [status for _, _, status in released(world)] == (
        ["cancelled"] * 2 if stop == "aborted" else ["invalid", "skipped"]
    )


def test_a_malformed_call_is_told_its_index_position_and_last_characters() -> None:
    arguments = '{"a": ' + "x" * 100 + "THE END"
    bad = call("edit", arguments, "malformed", index=3, problem="expected a value at position 6")
    world = replying(reply(bad))
    world.until(f.Prepare)
    message = given(world, f.Release)[0].result.error.message
    assert "call 3" in message
    assert "position 6" in message
    assert arguments[-64:] in message
    assert arguments[-65:] not in message


def test_the_same_cut_call_is_stopped_at_the_third() -> None:
    content = '{"path":"a.txt","content":"' + "long " * 100
    cut = [reply(call("edit", content + "x" * n, "cut"), stop="max_tokens") for n in (0, 9, 4)]
    finish = replying(*cut).drive()
    assert finish.outcome == "loop"
    assert "cut" in finish.message
    assert replying(*cut[:2]).drive().outcome == "completed"


# -- failures (L4)


def failing(times: int, arguments=lambda n: '{"a":1}', result=broke) -> World:
    world = started()
    for n in range(times):
        if world.machine.finished:
            break
        one = reply(call("look", arguments(n)), call("edit"))
        world.answer(f.CallModel, lambda c, one=one: f.Replied(at=0, turn=c.turn, reply=one))
        world.answer(f.RunTools, lambda c: f.Ran(at=0, key=c.keys[0], result=result("look")))
        while world.out and not isinstance(world.out[0], f.Prepare) and not world.finish:
            world.feed(world.benign())
    return world


def test_a_recoverable_failure_is_told_with_guidance_and_the_rest_is_skipped() -> None:
    world = failing(1)
    assert released(world) == [(1, 0, "failed"), (1, 1, "skipped")]
    assert "once more" in given(world, f.Release)[0].result.content
    assert not world.machine.finished


def test_the_same_failure_twice_ends_the_run_and_another_does_not() -> None:
    assert failing(2).finish.outcome == "failed"
    assert failing(4, lambda n: f'{{"a":{n}}}').finish is None


def test_a_fatal_failure_ends_the_run_at_once() -> None:
    world = failing(1, result=lambda tool: broke(tool, failure="fatal"))
    assert world.finish.outcome == "failed"
    assert "there is no such file" in world.finish.message


def test_text_that_says_it_failed_is_no_failure() -> None:
    world = failing(3, lambda n: f'{{"a":{n}}}', lambda tool: fine(tool, content='{"ok": false}', facts={"ok": False}))
    assert world.finish is None


def test_the_tests_that_failed_may_be_run_again_after_each_edit() -> None:
    world = started()
    for n in range(5):
        test, edit = reply(call("exec", '{"c":"pytest"}')), reply(call("edit", f'{{"n":{n}}}'))
        world.answer(f.CallModel, lambda c, one=test: f.Replied(at=0, turn=c.turn, reply=one))
        world.answer(f.RunTools, lambda c, n=n: f.Ran(at=0, key=c.keys[0], result=broke("exec", content=str(n))))
        world.answer(f.CallModel, lambda c, one=edit: f.Replied(at=0, turn=c.turn, reply=one))
        world.until(f.CallModel)
    assert world.finish is None


def test_looking_does_not_make_the_same_failing_call_a_new_one() -> None:
    world = started()
    for name, result in (("exec", broke("exec")), ("look", fine()), ("exec", broke("exec"))):
        world.answer(f.CallModel, lambda c, name=name: f.Replied(at=0, turn=c.turn, reply=reply(call(name))))
        world.answer(f.RunTools, lambda c, result=result: f.Ran(at=0, key=c.keys[0], result=result))
    assert world.drive().outcome == "failed"


def test_the_same_call_blocked_twice_ends_the_run_and_so_do_two_blocked_turns() -> None:
    for second in ('{"a":1}', '{"a":2}'):
        world = started()
        for arguments in ('{"a":1}', second):
            one = reply(call("edit", arguments), call("look"))
            world.answer(f.CallModel, lambda c, one=one: f.Replied(at=0, turn=c.turn, reply=one))
            world.answer(f.Judge, lambda c: judged(c, "deny"))
        assert world.drive().outcome == "blocked"


def test_a_blocked_call_with_work_between_does_not_end_the_run() -> None:
    world = started()
    for n in range(3):
        one = reply(call("look", f'{{"a":{n}}}'), call("edit", f'{{"a":{n}}}'))
        world.answer(f.CallModel, lambda c, one=one: f.Replied(at=0, turn=c.turn, reply=one))
        world.answer(f.RunTools, lambda c, n=n: f.Ran(at=0, key=c.keys[0], result=fine("look", content=str(n))))
        world.answer(f.Judge, lambda c: judged(c, "deny"))
    assert world.drive().outcome == "completed"


def test_a_result_may_end_the_turn() -> None:
    world = replying(reply(call("look"), call("edit")))
    world.answer(f.RunTools, lambda c: f.Ran(at=0, key=c.keys[0], result=fine("look", end_turn=True)))
    assert world.drive().outcome == "completed"
    assert released(world) == [(1, 0, "ok"), (1, 1, "skipped")]
    assert world.machine.turns == 1


# -- limits and loops


def test_with_one_call_too_many_in_a_turn_none_runs() -> None:
    nine = [call("look", f'{{"a":{n}}}') for n in range(9)]
    world = replying(reply(*nine))
    assert world.drive().outcome == "limit:tool_calls_per_turn"
    assert released(world) == [(1, n, "skipped") for n in range(9)]
    assert not given(world, f.Check)
    fits = replying(reply(*nine[:8]))
    assert fits.drive().outcome == "completed"


def test_with_one_call_too_many_in_the_run_none_of_the_reply_runs() -> None:
    limits = Limits(max_total_tool_calls=3)
    two = [reply(call("look", f'{{"a":{n}}}'), call("look", f'{{"b":{n}}}')) for n in range(2)]
    world = replying(*two, limits=limits)
    assert world.drive().outcome == "limit:total_tool_calls"
    assert [s for _, _, s in released(world)] == ["ok", "ok", "skipped", "skipped"]


def test_no_turn_is_begun_past_the_limit_of_turns() -> None:
    world = replying(*[reply(call("look", f'{{"a":{n}}}')) for n in range(2)], limits=Limits(max_turns=2))
    assert world.drive().outcome == "limit:turns"
    assert [c.turn for c in given(world, f.CallModel)] == [1, 2]


def test_a_context_over_its_limit_is_summarised_before_the_request() -> None:
    world = started(Limits(max_context_bytes=1000))
    prepared = f.Prepared(at=0, turn=1, context_bytes=1001)
    assert world.feed(prepared) == [f.Summarise(1000)]
    assert world.feed(f.Summarised(at=0, ok=True, context_bytes=1000)) == [f.CallModel(1)]
    fits = started(Limits(max_context_bytes=1000))
    assert fits.feed(f.Prepared(at=0, turn=1, context_bytes=1000)) == [f.CallModel(1)]


@pytest.mark.parametrize(("ok", "size"), [(False, 10), (True, 1001)])
def test_a_context_that_cannot_be_shrunk_ends_the_run(ok, size) -> None:
    world = started(Limits(max_context_bytes=1000))
    world.feed(f.Prepared(at=0, turn=1, context_bytes=1001))
    world.feed(f.Summarised(at=0, ok=ok, context_bytes=size))
    assert world.drive().outcome == "limit:context"


def test_the_measured_tokens_decide_when_a_known_window_is_full() -> None:
    world = started(window=1000)
    world.feed(f.Prepared(at=0, turn=1, context_bytes=2000))
    counted = Reply(tool_calls=(call("look"),), stop_reason="tool_use", usage=Usage(input_tokens=500))
    world.feed(f.Replied(at=0, turn=1, reply=counted))
    world.until(f.Prepare)
    assert world.feed(f.Prepared(at=0, turn=2, context_bytes=3201)) == [f.Summarise(3200)]


def test_the_time_limit_stops_what_runs_and_is_the_outcome() -> None:
    world = replying(reply(call("edit")), limits=Limits(max_seconds=2))
    world.until(f.RunTools)
    assert world.machine.deadline() == 2 * SECOND
    assert world.feed(f.Tick(at=2 * SECOND - 1)) == []
    assert world.feed(f.Tick(at=2 * SECOND)) == [f.StopTool(key())]
    assert world.machine.deadline() is None
    assert world.drive().outcome == "limit:seconds"


def test_no_request_is_made_past_the_time_limit() -> None:
    world = replying(reply(call("edit")), limits=Limits(max_seconds=2))
    world.until(f.RunTools)
    commands = world.feed(f.Ran(at=3 * SECOND, key=key(), result=fine("edit")))
    assert [type(c) for c in commands] == [f.Release, f.EndJobs]
    assert world.drive().outcome == "limit:seconds"


def test_calls_a_minute_are_counted_by_category() -> None:
    limits = Limits(max_calls_per_minute=1)
    asked = [reply(call("look")), reply(call("edit")), reply(call("edit", '{"b":2}'))]
    world = replying(*asked, limits=limits)
    assert world.drive().outcome == "limit:calls_per_minute"
    assert [s for _, _, s in released(world)] == ["ok", "ok", "skipped"]


def test_the_same_call_and_result_in_six_turns_is_a_loop_and_new_output_is_work() -> None:
    same = replying(*[reply(call("look"))] * 6)
    assert same.drive().outcome == "loop"
    assert replying(*[reply(call("look"))] * 5).drive().outcome == "completed"
    world = started()
    for n in range(8):
        world.answer(f.CallModel, lambda c: f.Replied(at=0, turn=c.turn, reply=reply(call("look"))))
        world.answer(f.RunTools, lambda c, n=n: f.Ran(at=0, key=c.keys[0], result=fine(content=str(n))))
    assert world.drive().outcome == "completed"


def test_a_reply_that_repeats_itself_is_told_so_in_the_next_request() -> None:
    world = replying(reply(call("look"), text="again and " * 100))
    assert world.until(f.Prepare).notes == (REPEATED_NOTE,)


# -- model calls that fail


@pytest.mark.parametrize(
    "kind", ["provider_error", "connect", "tls", "status", "not_a_stream", "malformed_event", "new"]
)
def test_a_model_call_that_failed_for_good_ends_the_run(kind) -> None:
    world = started()
    world.answer(f.CallModel, lambda c: f.ModelFailed(at=0, turn=1, kind=kind, message="why"))
    finish = world.drive()
    assert (finish.outcome, finish.message) == ("provider_error", "why")


@pytest.mark.parametrize(
    ("kind", "bound", "outcome"),
    [
        ("limit", "max_event_bytes", "limit:event_bytes"),
        ("too_large", None, "limit:stream_bytes"),
        ("aborted", None, "cancelled"),
        ("incomplete", None, "incomplete"),
        ("idle_timeout", None, "provider_error"),
    ],
)
def test_other_failures_have_their_own_outcome(kind, bound, outcome) -> None:
    world = started()
    world.answer(f.CallModel, lambda c: f.ModelFailed(at=0, turn=1, kind=kind, message="why", bound=bound))
    assert world.drive().outcome == outcome


CUT = reply(text="half of", stop="max_tokens")


def _until_next_turn(world, one):
    world.answer(f.CallModel, lambda c: f.Replied(at=0, turn=c.turn, reply=one))
    return world.until(f.Prepare).notes


def test_an_answer_cut_at_its_length_is_continued_as_often_as_the_bound_says() -> None:
    world = started(limits=Limits(max_continuations=2))
    assert _until_next_turn(world, CUT) == (CONTINUE_NOTE,)
    assert _until_next_turn(world, CUT) == (CONTINUE_NOTE,)
    world.answer(f.CallModel, lambda c: f.Replied(at=0, turn=c.turn, reply=CUT))
    assert world.drive().outcome == "limit:output_tokens"
    assert world.machine.turns == 3


def test_a_whole_reply_between_begins_the_count_anew() -> None:
    world = started(limits=Limits(max_continuations=1))
    assert _until_next_turn(world, CUT) == (CONTINUE_NOTE,)
    assert _until_next_turn(world, reply(text="x", stop="pause")) == ()
    assert _until_next_turn(world, CUT) == (CONTINUE_NOTE,)
    world.answer(f.CallModel, lambda c: f.Replied(at=0, turn=c.turn, reply=reply(text="the rest")))
    assert world.drive().outcome == "completed"


@pytest.mark.parametrize("limits", [Limits(max_continuations=0), Limits(max_turns=1)])
def test_without_a_turn_for_it_a_cut_answer_ends_the_run_by_its_name(limits) -> None:
    world = started(limits=limits)
    world.answer(f.CallModel, lambda c: f.Replied(at=0, turn=c.turn, reply=CUT))
    assert world.drive().outcome == "limit:output_tokens"


@pytest.mark.parametrize(
    ("kind", "outcome"),
    [("status", "limit:output_tokens"), ("incomplete", "limit:output_tokens"), ("aborted", "cancelled")],
)
def test_a_continuation_that_fails_leaves_the_cut_answer_and_says_so(kind, outcome) -> None:
    world = started()
    assert _until_next_turn(world, CUT) == (CONTINUE_NOTE,)
    world.answer(f.CallModel, lambda c: f.ModelFailed(at=0, turn=c.turn, kind=kind, message="HTTP 500"))
    finish = world.drive()
    assert finish.outcome == outcome
    assert "HTTP 500" in finish.message


def test_a_reply_that_broke_off_is_no_cut_answer_any_more() -> None:
    world = started()
    assert _until_next_turn(world, CUT) == (CONTINUE_NOTE,)
    partial = Reply(text="and th")
    world.answer(
        f.CallModel, lambda c: f.ModelFailed(at=0, turn=c.turn, kind="incomplete", message="cut", partial=partial)
    )
    assert world.until(f.Prepare).notes == (GO_ON_NOTE,)
    world.answer(f.CallModel, lambda c: f.ModelFailed(at=0, turn=c.turn, kind="status", message="HTTP 500"))
    assert world.drive().outcome == "provider_error"


@pytest.mark.parametrize("kind", ["incomplete", "broken", "idle_timeout"])
def test_a_reply_that_broke_off_is_continued_once_and_none_of_its_calls_runs(kind) -> None:
    partial = Reply(text="so far", tool_calls=(call("look"), call("edit", "{", "cut")))
    world = started()
    broken = lambda c: f.ModelFailed(at=0, turn=c.turn, kind=kind, message="cut", partial=partial)  # noqa: E731
    world.answer(f.CallModel, broken)
    assert world.until(f.Prepare).notes == (GO_ON_NOTE,)
    assert released(world) == [(1, 0, "invalid"), (1, 1, "skipped")]
    assert "connection broke" in given(world, f.Release)[0].result.error.message
    world.answer(f.CallModel, broken)
    assert world.drive().outcome == "incomplete"
    assert not given(world, f.Check)


def test_breaks_that_are_not_in_a_row_are_each_continued() -> None:
    world = started()
    for _ in range(3):
        world.answer(
            f.CallModel,
            lambda c: f.ModelFailed(at=0, turn=c.turn, kind="incomplete", message="", partial=Reply(text="x")),
        )
        world.answer(
            f.CallModel, lambda c: f.Replied(at=0, turn=c.turn, reply=reply(call("look", f'{{"t":{c.turn}}}')))
        )
    assert world.drive().outcome == "completed"


def test_calls_of_a_stored_partial_get_results_also_when_the_run_ends_by_it() -> None:
    world = started()
    partial = Reply(tool_calls=(call("look"),))
    world.answer(f.CallModel, lambda c: f.ModelFailed(at=0, turn=1, kind="provider_error", message="", partial=partial))
    assert world.drive().outcome == "provider_error"
    assert released(world) == [(1, 0, "invalid")]


# -- the end


def test_cancelling_while_calls_run_stops_them_waits_and_refuses_the_rest() -> None:
    world = replying(reply(call("look", '{"a":1}'), call("look", '{"a":2}'), call("edit")))
    world.until(f.RunTools)
    world.feed(f.Started(at=0, key=key(0)))
    commands = world.feed(f.Cancelled(at=0))
    assert [type(c).__name__ for c in commands] == ["StopTool", "StopTool", "Refuse"]
    assert commands[2].result.error.code == "not_started"
    assert world.feed(f.Cancelled(at=0)) == []
    assert world.feed(f.Refused(at=0, key=key(2))) == []
    stopped = ToolResult(ok=False, status="cancelled", tool="look")
    assert world.feed(f.Ran(at=0, key=key(1), result=stopped)) == []
    commands = world.feed(f.Ran(at=0, key=key(0), result=fine()))
    assert [type(c).__name__ for c in commands] == ["Release", "Release", "Release", "EndJobs"]
    assert world.drive().outcome == "cancelled"
    assert released(world) == [(1, 0, "ok"), (1, 1, "cancelled"), (1, 2, "cancelled")]
    assert given(world, f.Release)[1].result == stopped  # no advice for a model that is not asked again


@pytest.mark.parametrize("whole", [True, False])
def test_cancelling_while_the_model_speaks_runs_nothing_of_what_still_comes(whole) -> None:
    world = started()
    world.until(f.CallModel)
    assert world.feed(f.Cancelled(at=0, reason="terminated")) == [f.StopModel()]
    one = reply(call("look"))
    late = f.Replied(at=0, turn=1, reply=one)
    if not whole:
        late = f.ModelFailed(at=0, turn=1, kind="aborted", message="", partial=one)
    world.feed(late)
    assert world.drive().outcome == "terminated"
    assert released(world) == [(1, 0, "cancelled")]


def test_answers_that_come_after_a_cancellation_change_nothing() -> None:
    world = replying(reply(call("edit")))
    world.answer(f.Judge, lambda c: judged(c, "ask"))
    command = world.until(f.Ask)
    world.feed(f.Cancelled(at=0))
    before = repr(world.machine.snapshot())
    for granted in (True, False):
        late = f.Answered(at=0, key=command.key, digest=command.digest, granted=granted)
        assert world.machine.feed(late) == []
        assert repr(world.machine.snapshot()) == before
    world.drive()
    assert world.machine.feed(f.Answered(at=0, key=command.key, digest=command.digest, granted=True)) == []
    assert not given(world, f.RunTools)


def test_a_run_can_be_cancelled_before_it_began_and_while_it_summarises() -> None:
    world = World()
    assert world.feed(f.Cancelled(at=0)) == [f.EndJobs()]
    assert world.drive().outcome == "cancelled"
    world = started(Limits(max_context_bytes=10))
    world.feed(f.Prepared(at=0, turn=1, context_bytes=11))
    assert world.feed(f.Cancelled(at=0)) == [f.StopModel()]
    assert world.feed(f.Summarised(at=0, ok=True, context_bytes=5)) == [f.EndJobs()]


@pytest.mark.parametrize("outcome", ["completed", "failed"])
def test_the_host_may_end_the_run_where_the_next_turn_would_begin(outcome) -> None:
    world = replying(reply(call("look")))
    world.until(f.Prepare)
    assert world.feed(f.HostStopped(at=0, outcome=outcome, message="enough")) == [f.EndJobs()]
    finish = world.drive()
    assert (finish.outcome, finish.message) == (outcome, "enough")


def test_a_hook_that_fails_at_the_very_end_is_not_passed_over() -> None:
    world = replying(reply(text="done"))
    world.until(f.EndJobs)
    assert world.feed(f.HostStopped(at=0, outcome="failed", message="a hook failed")) == []
    assert world.drive().outcome == "failed"


def test_what_had_ended_the_run_before_a_cancellation_stays_its_outcome() -> None:
    world = replying(reply(*(call("look", f'{{"a":{n}}}') for n in range(9))))
    world.until(f.Refuse)
    world.feed(f.Cancelled(at=0))
    assert world.drive().outcome == "limit:tool_calls_per_turn"


def test_nothing_follows_finish() -> None:
    world = replying(reply(text="done"))
    world.drive()
    for fact in (f.Cancelled(at=9), f.Tick(at=9), f.HostStopped(at=9, outcome="failed", message="")):
        assert world.machine.feed(fact) == []
    with pytest.raises(InternalError):
        world.machine.feed(f.JobsEnded(at=9))
    assert world.machine.outcome == "completed"


def test_a_copy_goes_its_own_way() -> None:
    world = replying(reply(call("look"), call("edit")))
    world.until(f.RunTools)
    machine = world.machine
    before = repr(machine.snapshot())
    other = machine.copy()
    other.feed(f.Ran(at=0, key=key(0), result=broke()))
    other.feed(f.Cancelled(at=0))
    assert repr(machine.snapshot()) == before
    assert repr(other.snapshot()) != before


def test_replay_resumes_where_the_facts_end() -> None:
    world = replying(reply(call("look")))
    world.until(f.RunTools)
    machine, commands = Machine.replay(world.facts, RUN, Limits(), can_ask=True)
    assert machine.snapshot() == world.machine.snapshot()
    assert commands[-1] == [f.RunTools((key(),))]


def test_a_warning_to_the_model_comes_one_turn_before_the_loop_stop() -> None:
    world = started()
    notes = []
    for _ in range(7):
        if world.finish:
            break
        command = world.until(f.CallModel)
        notes.append(next(c for c in reversed(world.given) if isinstance(c, f.Prepare)).notes)
        world.feed(f.Replied(at=0, turn=command.turn, reply=reply(call())))
        while not world.finish and not any(isinstance(c, f.CallModel) for c in world.out):
            world.feed(world.benign())
    assert world.finish.outcome == "loop"
    assert notes == [(), (), (), (), (), (LOOP_NOTE,)]


def test_a_request_too_long_for_the_provider_is_shrunk_once_in_a_turn() -> None:
    def too_long(c):
        return f.ModelFailed(at=0, turn=c.turn, kind="status", message="too long", code="context_overflow")

    world = started()
    world.answer(f.Prepare, lambda c: f.Prepared(at=0, turn=c.turn, context_bytes=1000))
    assert world.answer(f.CallModel, too_long) == [f.Summarise(750)]
    assert world.answer(f.Summarise, lambda c: f.Summarised(at=0, ok=True, context_bytes=750)) == [f.CallModel(1)]
    assert world.machine.turns == 1
    world.answer(f.CallModel, too_long)
    assert world.drive().outcome == "limit:context"


def test_the_window_that_the_provider_tells_counts_from_there_on() -> None:
    def too_long(c):
        words = "This model's maximum context length is 1000 tokens"
        return f.ModelFailed(at=0, turn=c.turn, kind="status", message=words, code="context_overflow")

    world = started()
    world.answer(f.Prepare, lambda c: f.Prepared(at=0, turn=c.turn, context_bytes=90_000))
    assert world.answer(f.CallModel, too_long) == [f.Summarise(2400)]
    world.answer(f.Summarise, lambda c: f.Summarised(at=0, ok=True, context_bytes=2000))
    world.answer(f.CallModel, lambda c: f.Replied(at=0, turn=c.turn, reply=Reply(text="…", stop_reason="pause")))
    assert world.answer(f.Prepare, lambda c: f.Prepared(at=0, turn=2, context_bytes=2401)) == [f.Summarise(2400)]


def test_a_shrinking_that_misses_its_mark_is_no_second_attempt() -> None:
    world = started()
    world.answer(f.Prepare, lambda c: f.Prepared(at=0, turn=c.turn, context_bytes=1000))
    world.answer(
        f.CallModel, lambda c: f.ModelFailed(at=0, turn=c.turn, kind="status", message="", code="context_overflow")
    )
    world.answer(f.Summarise, lambda c: f.Summarised(at=0, ok=True, context_bytes=751))
    assert world.drive().outcome == "limit:context"


def test_what_the_provider_says_about_its_stop_is_told() -> None:
    world = replying(Reply(text="hi", stop_reason="content_filter", stop_words="too sharp"))
    world.drive()
    assert world.finish.message == "the provider's content filter ended the answer; the provider says: too sharp"
    world = replying(Reply(text="hi", stop_reason="OTHER", stop_words="so it is"))
    world.drive()
    assert world.finish.message == "the provider says: so it is"
