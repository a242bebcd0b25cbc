"""Every sequence of facts, walked: the first of the three proofs."""

from __future__ import annotations

import itertools

import msgspec
import pytest
from turn_world import RUN, World, blocked, broke, call, fine, reply, started, taken_up, waiting

from sluice.errors import InternalError
from sluice.limits import Limits
from sluice.turn import facts as f
from sluice.turn.machine import Machine
from sluice.values.calls import CallKey, call_digest


def options(world: World, replies: tuple, rich: bool) -> list[f.Fact]:
    """Every fact that can come now. `rich` adds the rarer answers."""
    facts: list[f.Fact] = []
    for command in world.out:
        facts += _answers(command, world, replies, rich)
    if not world.stopped or rich:
        facts.append(f.Cancelled(at=0))
        if rich:
            facts.append(f.HostStopped(at=0, outcome="failed", message="a hook failed"))
    return facts


def _answers(command: f.Command, world: World, replies: tuple, rich: bool) -> list[f.Fact]:
    match command:
        case f.KeepPrompt():
            return [f.Asked(at=0), f.HostStopped(at=0, outcome="failed", message="the disk is full")]
        case f.Prepare():
            return [f.Prepared(at=0, turn=command.turn, context_bytes=size) for size in ((1, 10**9) if rich else (1,))]
        case f.Summarise():
            return [f.Summarised(at=0, ok=True, context_bytes=1), f.Summarised(at=0, ok=False, context_bytes=10**9)]
        case f.CallModel():
            chosen = replies[min(command.turn, len(replies)) - 1]
            facts: list[f.Fact] = [f.Replied(at=0, turn=command.turn, reply=one) for one in chosen]
            facts.append(f.ModelFailed(at=0, turn=command.turn, kind="incomplete", message="", partial=chosen[0]))
            if rich:
                over = f.ModelFailed(
                    at=0, turn=command.turn, kind="provider_error", message="", code="context_overflow"
                )
                facts.append(over)
            return facts
        case f.Check():
            category = {"look": "read_only", "edit": "mutating"}[command.name]
            digest = call_digest(command.name, command.arguments)
            good = f.Checked(at=0, key=command.key, digest=digest, category=category)
            bad = f.Rejected(at=0, key=command.key, result=broke(command.name, status="invalid"))
            return [good, bad] if rich else [good]
        case f.Judge():
            return [
                f.Judged(at=0, key=command.key, digest=command.digest, decision=d, rule="r", result=blocked())
                for d in ("allow", "ask", "deny")
            ]
        case f.Ask():
            said = [(True, ""), (False, "")] + ([(False, "use look")] if rich else [])
            return [
                f.Answered(at=0, key=command.key, digest=command.digest, granted=yes, words=words)
                for yes, words in said
            ]
        case f.RunTools(keys=(key,)):
            name = world.calls[key].name
            results = [fine(name), broke(name)]
            if rich:
                results += [fine(name, end_turn=True), broke(name, failure="fatal")]
            ran = [f.Ran(at=0, key=key, result=result) for result in results]
            begun = any(isinstance(x, f.Started) and x.key == key for x in world.facts)
            return ran if begun else [f.Started(at=0, key=key), *ran[-1:]]
        case f.Refuse():
            return [f.Refused(at=0, key=command.key)]
        case f.EndJobs():
            return [f.JobsEnded(at=0)]
    raise AssertionError(command)


def state_of(world: World) -> str:
    begun = sorted(k for k in world.running if any(isinstance(x, f.Started) and x.key == k for x in world.facts))
    books = (world.out, sorted(world.verdicts), sorted(world.grants), sorted(world.withdrawn), begun)
    return repr((world.machine.snapshot(), books, world.released, world.stopped))


def walk(world: World, replies: tuple, *, rich: bool, most: int) -> tuple[int, set[str]]:
    """Visits every state that can be reached, once; drives each to its end. Returns their number and the outcomes."""
    seen = {state_of(world)}
    todo = [world]
    outcomes: set[str] = set()
    while todo:
        here = todo.pop()
        end = here.copy().drive()
        outcomes.add(end.outcome)
        for fact in options(here, replies, rich):
            there = here.copy()
            there.feed(fact)
            state = state_of(there)
            if state not in seen:
                seen.add(state)
                todo.append(there)
        assert len(seen) < most, "the walk has grown beyond what is fast"
    return len(seen), outcomes


LOOK, LOOK2 = call("look", '{"a":1}'), call("look", '{"a":2}')
EDIT = call("edit", '{"b":1}')


END = (reply(),)


@pytest.mark.parametrize(
    ("first", "second", "rich"),
    [
        (reply(LOOK, LOOK2), END, True),
        (reply(EDIT, LOOK), END, True),
        (reply(LOOK, call("look", '{"a":', "cut")), END, True),
        (reply(LOOK, LOOK2, EDIT), END, False),
        (reply(LOOK, LOOK2, EDIT), END, True),
        (reply(LOOK, LOOK2), (reply(), reply(EDIT)), False),
        (reply(LOOK, EDIT), (reply(LOOK), reply(EDIT)), False),
        (reply(LOOK, EDIT, stop="aborted"), END, True),
        (reply(LOOK, EDIT, stop="odd"), (reply(EDIT, stop="odd"),), True),
    ],
    ids=[
        "2 reads",
        "edit+read",
        "read+cut",
        "2 reads+edit",
        "the same, all answers",
        "2 reads, edit",
        "read+edit, 2 turns",
        "aborted",
        "odd stop",
    ],
)
def test_no_sequence_of_facts_breaks_a_rule_and_all_can_end(first, second, rich) -> None:
    """The rules are those of `World`: it raises where a command breaks one."""
    world = started(Limits(max_turns=3))
    states, outcomes = walk(world, ((first,), second, END), rich=rich, most=30_000)
    assert states > 20
    assert {"completed", "cancelled"} <= outcomes


@pytest.mark.parametrize("prompt", [True, False], ids=["prompt", "no prompt"])
@pytest.mark.parametrize(
    ("left", "rich"),
    [
        (waiting(EDIT), True),
        (waiting(EDIT, LOOK, first=1), True),
        (waiting(LOOK, LOOK2, results=(broke(status="unknown_outcome"),)), True),
        (waiting(LOOK, EDIT, call("look", "{", "cut")), False),
    ],
    ids=["edit", "edit+read", "read+known", "read+edit+cut"],
)
def test_calls_that_are_taken_up_break_no_rule_and_run_only_by_a_yes(left, rich, prompt) -> None:
    world = taken_up(left, Limits(max_turns=2), prompt=prompt)
    states, outcomes = walk(world, (END, END), rich=rich, most=30_000)
    assert states > 20
    assert {"completed", "cancelled"} <= outcomes


def test_where_nobody_can_be_asked_nothing_that_is_taken_up_is_judged() -> None:
    world = taken_up(waiting(EDIT, LOOK, results=(fine(),)), can_ask=False)
    assert world.drive().outcome == "completed"
    assert not any(isinstance(x, f.Judge | f.Ask | f.RunTools | f.Check) for x in world.given)
    told = [x.result for x in world.given if isinstance(x, f.Release)]
    assert [(x.status, x.error.code if x.error else None) for x in told] == [("skipped", "not_started"), ("ok", None)]


def test_the_walk_reaches_the_ends_it_should() -> None:
    _, outcomes = walk(started(Limits(max_turns=2)), ((reply(LOOK, EDIT),), (reply(EDIT),)), rich=True, most=30_000)
    expected = {"completed", "cancelled", "blocked", "failed", "incomplete", "limit:turns", "limit:context"}
    assert expected <= outcomes


def test_a_fact_that_cannot_be_is_refused_and_changes_nothing() -> None:
    """At every state of a walk, every fact of a fixed set is taken or raises InternalError without a trace."""
    key = CallKey(RUN, 1, 0)
    digest = call_digest("look", LOOK.arguments)
    odd: list[f.Fact] = [
        f.Asked(at=0),
        f.Reopened(at=0, waiting=waiting(LOOK), can_ask=True, prompt=True),
        f.Prepared(at=0, turn=7, context_bytes=1),
        f.Replied(at=0, turn=7, reply=reply()),
        f.ModelFailed(at=0, turn=7, kind="connect", message=""),
        f.Judged(at=0, key=key, digest="0" * 64, decision="allow", rule="r"),
        f.Answered(at=0, key=key, digest="0" * 64, granted=True),
        f.Checked(at=0, key=key, digest="0" * 64, category="read_only"),
        f.Ran(at=0, key=CallKey(RUN, 1, 9), result=fine()),
        f.Ran(at=0, key=CallKey("other", 1, 0), result=fine()),
        f.Ran(at=0, key=CallKey(RUN, 9, 0), result=fine()),
        f.Judged(at=0, key=key, digest=digest, decision="allow", rule="r"),
        f.Answered(at=0, key=key, digest=digest, granted=True),
        f.Started(at=0, key=key),
        f.Ran(at=0, key=key, result=fine()),
        f.Refused(at=0, key=key),
        f.Summarised(at=0, ok=True, context_bytes=1),
        f.JobsEnded(at=0),
    ]
    wrong = {id(fact) for fact in odd[1:11]}
    world = started()
    todo, seen, refusals = [world], {state_of(world)}, 0
    while todo:
        here = todo.pop()
        for fact in odd:
            machine, before = here.machine.copy(), repr(here.machine.snapshot())
            try:
                machine.feed(fact)
            except InternalError:
                refusals += 1
                assert repr(machine.snapshot()) == before
            else:
                assert id(fact) not in wrong or isinstance(fact, f.Prepared)
        for fact in options(here, ((reply(LOOK, LOOK2),), END), False):
            there = here.copy()
            there.feed(fact)
            if state_of(there) not in seen:
                seen.add(state_of(there))
                todo.append(there)
    assert refusals > 1000


def test_replaying_the_facts_of_any_path_gives_the_same_state_and_commands() -> None:
    """Also after the facts went through JSON, as a session keeps them."""
    limits = Limits(max_turns=2)
    world = started(limits)
    todo, seen, paths = [world], {state_of(world)}, 0
    while todo:
        here = todo.pop()
        end = here.copy()
        end.drive()
        if end.finish.outcome not in ("cancelled",) or paths % 7 == 0:
            kept = [msgspec.json.decode(msgspec.json.encode(fact), type=f.Fact) for fact in end.facts]
            machine, commands = Machine.replay(kept, RUN, limits, can_ask=True)
            assert machine.snapshot() == end.machine.snapshot()
            assert list(itertools.chain(*commands)) == end.given
        paths += 1
        for fact in options(here, ((reply(LOOK, EDIT),), END), False):
            there = here.copy()
            there.feed(fact)
            if state_of(there) not in seen:
                seen.add(state_of(there))
                todo.append(there)
    assert paths > 200
