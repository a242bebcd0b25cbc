"""A call that was cut may be checked and judged with closed arguments, and only as W9 lets it."""

from __future__ import annotations

import pytest
from turn_world import RUN, blocked, call, fine

from sluice.errors import InternalError
from sluice.limits import Limits
from sluice.turn import facts as f
from sluice.turn.calls import Calls
from sluice.turn.machine import Machine
from sluice.values.calls import CallKey, call_digest
from sluice.values.healed import HealedArguments, HealedCall, healed_digest
from sluice.values.messages import Reply
from sluice.values.results import failed

CUT = call("look", '{"a":"x', status="cut")
CLOSED = HealedArguments(written='{"a":"x', text='{"a":"x"}')
KEY = CallKey(RUN, 1, 0)
DIGEST = healed_digest("look", CLOSED)


def made(one=CUT, stop: str | None = "max_tokens", healed: tuple[HealedCall, ...] = (HealedCall(0, CLOSED),)) -> Calls:
    return Calls(RUN, 1, (one,), stop, can_ask=False, limit=None, healed=healed)


def advance(calls: Calls) -> list[f.Command]:
    return calls.advance(lambda slot, result: (result, True, None), lambda categories: None)


def test_a_healed_call_goes_the_whole_way_under_its_own_digest() -> None:
    calls = made()
    assert calls.begin() == [f.Check(KEY, "look", CUT.arguments, CLOSED)]
    calls.apply(f.Checked(at=0, key=KEY, digest=DIGEST, category="read_only"))
    assert advance(calls) == [f.Judge(KEY, DIGEST)]
    calls.apply(f.Judged(at=0, key=KEY, digest=DIGEST, decision="allow", rule="healed:read_only"))
    assert advance(calls) == [f.RunTools((KEY,))]


@pytest.mark.parametrize(
    ("one", "stop"),
    [
        (CUT, "content_filter"),
        (CUT, "refusal"),
        (CUT, "end_turn"),
        (CUT, "tool_use"),
        (CUT, "aborted"),
        (CUT, "broken"),
        (CUT, "a new word"),
        (CUT, None),
        (call("look", '{"a":"x', status="malformed"), "max_tokens"),
        (call("look", '{"a":"x', status="cut", kind="custom"), "max_tokens"),
    ],
)
def test_no_other_cut_call_is_even_checked(one, stop: str | None) -> None:
    calls = made(one, stop)
    assert calls.begin() == []
    assert [type(command) for command in advance(calls)] == [f.Refuse]


def test_without_closed_arguments_a_cut_call_is_refused() -> None:
    for healed in ((), (HealedCall(1, CLOSED),)):
        calls = made(healed=healed)
        assert calls.begin() == []
        assert [type(command) for command in advance(calls)] == [f.Refuse]


def test_closed_arguments_change_nothing_for_a_whole_call() -> None:
    calls = made(call("look"))
    assert calls.begin() == [f.Check(KEY, "look", '{"a":1}')]


def test_the_digest_of_the_cut_text_is_about_another_call() -> None:
    calls = made()
    calls.begin()
    for text in (CUT.arguments, CLOSED.text):
        with pytest.raises(InternalError):
            calls.apply(f.Checked(at=0, key=KEY, digest=call_digest("look", text), category="read_only"))


@pytest.mark.parametrize("category", ["mutating", "execution"])
def test_only_a_tool_that_reads_is_taken(category) -> None:
    calls = made()
    calls.begin()
    with pytest.raises(InternalError):
        calls.apply(f.Checked(at=0, key=KEY, digest=DIGEST, category=category))


def test_closed_arguments_that_do_not_fit_leave_the_call_cut() -> None:
    calls = made()
    calls.begin()
    calls.apply(f.Rejected(at=0, key=KEY, result=failed("look", "invalid_arguments", "no path", status="invalid")))
    (refusal,) = advance(calls)
    assert isinstance(refusal, f.Refuse)
    assert refusal.result.error is not None
    assert refusal.result.error.code == "cut_call"
    assert not calls.slots[0].fit  # it counts as cut: asked for again and again, it ends the run


def test_a_denied_healed_call_does_not_run() -> None:
    calls = made()
    calls.begin()
    calls.apply(f.Checked(at=0, key=KEY, digest=DIGEST, category="read_only"))
    advance(calls)
    calls.apply(f.Judged(at=0, key=KEY, digest=DIGEST, decision="deny", rule="healed", result=blocked("look")))
    assert [type(command) for command in advance(calls)] == [f.Refuse]


def test_a_run_goes_on_after_a_healed_call() -> None:
    machine = Machine(RUN, Limits())
    machine.feed(f.Asked(at=0))
    machine.feed(f.Prepared(at=0, turn=1, context_bytes=10))
    reply = Reply(tool_calls=(CUT,), stop_reason="max_tokens")
    assert machine.feed(f.Replied(at=0, turn=1, reply=reply, healed=(HealedCall(0, CLOSED),))) == [
        f.Check(KEY, "look", CUT.arguments, CLOSED)
    ]
    machine.feed(f.Checked(at=0, key=KEY, digest=DIGEST, category="read_only"))
    machine.feed(f.Judged(at=0, key=KEY, digest=DIGEST, decision="allow", rule="healed:read_only"))
    machine.feed(f.Started(at=0, key=KEY))
    assert machine.feed(f.Ran(at=0, key=KEY, result=fine())) == [f.Release(KEY, fine()), f.Prepare(2, ())]
