"""The second proof: the machine and a naive one do the same, on random scenarios."""

from __future__ import annotations

import random
import zlib

from hypothesis import given, settings
from hypothesis import strategies as st
from naive_machine import Naive
from turn_world import BEFORE, RUN, World, benign, blocked, broke, call, fine

from sluice.limits import Limits
from sluice.turn import facts as f
from sluice.values.messages import Reply
from sluice.values.waiting import WaitingCalls

calls = st.builds(
    call,
    name=st.sampled_from(["look", "look", "edit", "exec"]),
    arguments=st.sampled_from(['{"a":1}', '{"a":2}']),
    status=st.sampled_from(["whole"] * 8 + ["cut", "malformed"]),
)
replies = st.builds(
    lambda asked, stop: Reply(text="words", tool_calls=tuple(asked), stop_reason=stop),
    st.lists(calls, max_size=4),
    st.sampled_from(["tool_use"] * 8 + ["end_turn", "max_tokens", "pause", "odd", "aborted", "refusal", None]),
)


class Script:
    """Answers every command by its name alone, so that two machines hear the same whatever the order they ask in.

    `ill` (0 to 9): how many of ten answers are unpleasant.
    """

    def __init__(self, seed: int, asked: list[Reply], ill: int) -> None:
        self.seed, self.asked, self.ill = seed, asked, ill

    def dice(self, *words: object) -> random.Random:
        return random.Random(zlib.crc32(repr((self.seed, words)).encode()))

    def rank(self, command: f.Command) -> float:
        keys = getattr(command, "keys", None) or getattr(command, "key", None)
        return self.dice("rank", type(command).__name__, keys).random()

    def answer(self, command: f.Command, world: World) -> f.Fact:
        dice = self.dice(type(command).__name__, getattr(command, "turn", None), getattr(command, "key", None))
        bad = dice.randrange(10) < self.ill
        match command:
            case f.CallModel():
                if bad and dice.random() < 0.2:
                    code = "context_overflow"
                    partial = dice.choice([None, None, self.asked[0]])
                    return f.ModelFailed(
                        at=0, turn=command.turn, kind="provider_error", message="", code=code, partial=partial, tokens=9
                    )
                if bad and dice.random() < 0.3:
                    kind, partial = dice.choice(
                        [
                            ("incomplete", self.asked[0]),
                            ("incomplete", None),
                            ("provider_error", None),
                            ("connect", None),
                        ]
                    )
                    return f.ModelFailed(at=0, turn=command.turn, kind=kind, message="", partial=partial, tokens=60)
                if command.turn > len(self.asked):
                    return benign(command, world)
                cost = dice.choice([None, 0.0, 0.25, 1.0])
                return f.Replied(at=0, turn=command.turn, reply=self.asked[command.turn - 1], tokens=100, cost=cost)
            case f.Prepare() if bad and dice.random() < 0.2:
                return f.Prepared(at=0, turn=command.turn, context_bytes=10**6)
            case f.Summarise() if bad:
                return f.Summarised(
                    at=0, ok=dice.random() < 0.5, context_bytes=dice.choice([5, 10**6]), tokens=50, cost=0.5
                )
            case f.Check() if bad and dice.random() < 0.5:
                return f.Rejected(at=0, key=command.key, result=broke(command.name, status="invalid"))
            case f.Judge() if bad:
                word = (
                    dice.choice(["ask", "ask", "deny"])
                    if not command.granted
                    else dice.choice(["ask", "deny", "allow"])
                )
                name = world.calls[command.key].name
                return f.Judged(
                    at=0, key=command.key, digest=command.digest, decision=word, rule="r", result=blocked(name)
                )
            case f.Ask() if bad:
                words = dice.choice(["", "no"])
                return f.Answered(at=0, key=command.key, digest=command.digest, granted=False, words=words)
            case f.RunTools(keys=(key,)):
                dice = self.dice("ran", key)
                name = world.calls[key].name
                if dice.randrange(10) < self.ill:
                    more = dice.choice([{}, {}, {"failure": "fatal"}, {"status": "timed_out"}])
                    return f.Ran(at=0, key=key, result=broke(name, **more))
                tokens, cost = dice.choice([(0, None)] * 4 + [(120, None), (60, 0.5)])
                result = fine(name, end_turn=dice.random() < 0.02)
                return f.Ran(at=0, key=key, result=result, tokens=tokens, cost=cost)
        return benign(command, world)


def shown(command: f.Command) -> list[object]:
    """What the naive machine shows of it, too."""
    match command:
        case f.KeepPrompt():
            return ["KeepPrompt"]
        case f.Prepare() | f.CallModel():
            return [(type(command).__name__, command.turn)]
        case f.Ask() | f.StopTool():
            return [(type(command).__name__, command.key)]
        case f.RunTools():
            return [("RunTools", command.keys)]
        case f.Release():
            return [("Release", command.key, command.result.status)]
        case f.Finish():
            return [("Finish", command.outcome)]
        case f.Summarise() | f.StopModel() | f.EndJobs():
            return [type(command).__name__]
    return []


def play(
    script: Script, limits: Limits, can_ask: bool, cancel_at: int | None, begin: f.Fact | None = None
) -> tuple[World, list[f.Fact]]:
    world = World(limits, can_ask=can_ask)
    fact: f.Fact = begin or f.Asked(at=0)
    for step in range(2000):
        world.feed(fact)
        if world.finish:
            return world, world.facts
        fact = f.Cancelled(at=0) if step == cancel_at else script.answer(min(world.out, key=script.rank), world)
    raise AssertionError("no end")


@settings(max_examples=1000, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    asked=st.lists(replies, min_size=1, max_size=8),
    ill=st.integers(0, 6),
    can_ask=st.booleans(),
    cancel_at=st.none() | st.integers(0, 40),
    bounds=st.sampled_from([(20, 8, 50), (3, 8, 50), (20, 2, 50), (20, 8, 6)]),
    money=st.sampled_from([(None, None), (None, None), (1.0, None), (0.0, None), (None, 250), (2.0, 400)]),
)
def test_a_naive_machine_does_the_same(seed, asked, ill, can_ask, cancel_at, bounds, money) -> None:
    turns, per_turn, total = bounds
    limits = Limits(
        max_turns=turns,
        max_tool_calls_per_turn=per_turn,
        max_total_tool_calls=total,
        max_cost=money[0],
        max_tokens_total=money[1],
    )
    world, facts = play(Script(seed, asked, ill), limits, can_ask, cancel_at)
    naive = Naive(RUN, limits, can_ask).program()
    next(naive)
    theirs = [item for fact in facts for item in naive.send(fact)]
    ours = [item for command in world.given for item in shown(command)]
    assert ours == theirs


known = st.sampled_from(
    [None, None, None, fine(), broke(), broke(status="unknown_outcome"), broke(failure="fatal"), fine(end_turn=True)]
)


@settings(max_examples=500, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    left=st.lists(st.tuples(calls, known), min_size=1, max_size=5),
    first=st.integers(0, 2),
    stop=st.sampled_from(["tool_use", "tool_use", "max_tokens", "odd", None]),
    asked=st.lists(replies, min_size=1, max_size=4),
    ill=st.integers(0, 6),
    can_ask=st.booleans(),
    person=st.booleans(),
    prompt=st.booleans(),
    cancel_at=st.none() | st.integers(0, 25),
    bounds=st.sampled_from([(20, 8, 50), (3, 8, 50), (20, 2, 50), (20, 8, 3)]),
)
def test_a_naive_machine_takes_up_what_was_left_open_as_well(
    seed, left, first, stop, asked, ill, can_ask, person, prompt, cancel_at, bounds
) -> None:
    turns, per_turn, total = bounds
    limits = Limits(max_turns=turns, max_tool_calls_per_turn=per_turn, max_total_tool_calls=total)
    open_calls = WaitingCalls(
        run=BEFORE,
        turn=1,
        first=first,
        calls=tuple(asked_for for asked_for, _ in left),
        results=(None, *(result for _, result in left[1:])),
        stop_reason=stop,
    )
    begin = f.Reopened(at=0, waiting=open_calls, can_ask=person, prompt=prompt)
    world, facts = play(Script(seed, asked, ill), limits, can_ask, cancel_at, begin)
    naive = Naive(RUN, limits, can_ask).program()
    next(naive)
    theirs = [item for fact in facts for item in naive.send(fact)]
    assert [item for command in world.given for item in shown(command)] == theirs
    yes = {x.key for x in facts if isinstance(x, f.Answered) and x.granted}
    ran = {key for x in world.given if isinstance(x, f.RunTools) for key in x.keys}
    assert {key for key in ran if key.run == BEFORE} <= yes


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 10**6), ill=st.integers(0, 3), one=replies)
def test_the_same_reply_for_ever_ends_alike(seed, ill, one) -> None:
    """Loops, repeated failures and repeated cut calls."""
    world, facts = play(Script(seed, [one] * 12, ill), Limits(), True, None)
    naive = Naive(RUN, Limits(), True).program()
    next(naive)
    theirs = [item for fact in facts for item in naive.send(fact)]
    assert [item for command in world.given for item in shown(command)] == theirs
