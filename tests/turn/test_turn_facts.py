"""Facts and commands are plain JSON."""

from __future__ import annotations

import msgspec
import pytest
from turn_world import RUN, broke, call, reply, replying, waiting

from sluice.turn import facts as f
from sluice.values.calls import CallKey

KEY = CallKey(RUN, 1, 0)

FACTS = [
    f.Asked(at=1),
    f.Reopened(at=1, waiting=waiting(call(), call("edit"), results=(broke(),), first=2), can_ask=True, prompt=True),
    f.Prepared(at=1, turn=1, context_bytes=5),
    f.Summarised(at=1, ok=False, context_bytes=5),
    f.Replied(at=1, turn=1, reply=reply(call())),
    f.ModelFailed(at=1, turn=1, kind="incomplete", message="m", partial=reply(call()), bound=None),
    f.Checked(at=1, key=KEY, digest="d", category="read_only"),
    f.Rejected(at=1, key=KEY, result=broke()),
    f.Judged(at=1, key=KEY, digest="d", decision="deny", rule="r", result=broke()),
    f.Answered(at=1, key=KEY, digest="d", granted=True, words="w"),
    f.Started(at=1, key=KEY),
    f.Ran(at=1, key=KEY, result=broke()),
    f.Refused(at=1, key=KEY),
    f.JobsEnded(at=1),
    f.Cancelled(at=1, reason="terminated"),
    f.HostStopped(at=1, outcome="failed", message="m"),
    f.Tick(at=1),
]


def test_every_fact_is_in_the_list() -> None:
    assert {type(fact) for fact in FACTS} == set(f.Fact.__args__)


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: type(fact).__name__)
def test_a_fact_survives_json_with_its_time(fact) -> None:
    again = msgspec.json.decode(msgspec.json.encode(fact), type=f.Fact)
    assert again == fact
    assert again.at == 1


def test_commands_survive_json() -> None:
    world = replying(reply(call("look"), call("edit")))
    world.drive()
    for command in world.given:
        assert msgspec.json.decode(msgspec.json.encode(command), type=f.Command) == command
