"""A call that was cut at the length limit, through a whole run: refused, unless the user said otherwise (W9)."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec
import pytest
from run_world import DONE, TOOLS, FakeTools, World, call, event, text

from sluice.errors import RegistrationError
from sluice.policy.rules import Policy, Rule
from sluice.tools.builtin import default_tools
from sluice.tools.registry import Registry
from sluice.values import notices as n
from sluice.values.calls import ToolSpec
from sluice.values.healed import AllowedHealedCall, healed_digest
from sluice.values.ports import Cancel
from sluice.values.results import ToolResult

WRITTEN = '{"path":"src/a.py","lim'
CLOSED = '{"path":"src/a.py"}'


class HealingTools(FakeTools):
    """Every tool claims to take healed calls, so that only the rules of the host hold it back."""

    def __init__(self) -> None:
        super().__init__(TOOLS)
        self.healed: list[AllowedHealedCall] = []

    def _spec(self, name: str) -> ToolSpec:
        return msgspec.structs.replace(super()._spec(name), accepts_healed=True)

    async def run_healed(self, call: AllowedHealedCall, cancel: Cancel) -> ToolResult:
        self.healed.append(call)
        return ToolResult(ok=True, status="ok", tool=call.tool, content="saw it")


def cut(name: str = "look", arguments: str = WRITTEN, finish: str | None = "length") -> list[bytes]:
    return [call(name, arguments), *([event({}, finish), DONE] if finish else [])]


def healing(
    *scripts: Any, policy: Policy | None = None, tools: HealingTools | None = None
) -> tuple[World, HealingTools]:
    taker = tools or HealingTools()
    everything = Policy(allow_mutating_tools=True, allow_execution_tools=True, accept_healed=True)
    return World(*scripts, executor=taker, policy=policy or everything), taker


def test_it_runs_with_its_arguments_closed_and_everybody_is_told() -> None:
    world, taker = healing(cut(), text("done"))
    notices = world.run()
    (ran,) = taker.healed
    assert (ran.arguments.text, ran.arguments.written, taker.ran) == (CLOSED, WRITTEN, [])
    assert ran.verdict.digest == healed_digest("look", ran.arguments)
    arrived = next(one for one in notices if isinstance(one, n.CallArrived))
    assert (arrived.status, arrived.arguments) == ("cut", WRITTEN)  # what was written stays what it was
    judged = next(one for one in notices if isinstance(one, n.CallJudged))
    assert (judged.decision, judged.rule) == ("allow", "healed:read_only")
    assert next(one for one in notices if isinstance(one, n.CallStarted)).healed == CLOSED
    finished = next(one for one in notices if isinstance(one, n.CallFinished))
    assert finished.result.facts["healed"] == CLOSED
    sent = world.transport.bodies[1]["messages"][-1]
    assert sent["role"] == "tool"
    assert CLOSED in sent["content"]
    started = next(fields for name, fields in world.audit.lines if name == "call_started")
    assert (started["healed"], started["arguments"], started["rule"]) == (CLOSED, WRITTEN, "healed:read_only")


@pytest.mark.parametrize(
    "policy",
    [
        Policy(),
        Policy(allow_mutating_tools=True, allow_execution_tools=True, rules=(Rule("allow", "*"),)),
        Policy(accept_healed=True, rules=(Rule("deny", "look"),)),
        Policy(accept_healed=True, broken="line 3"),
    ],
)
def test_it_does_not_run_unless_the_switch_is_on_and_the_policy_allows_it(policy: Policy) -> None:
    world, taker = healing(cut(), text("done"), policy=policy)
    notices = world.run()
    assert (taker.healed, taker.ran) == ([], [])
    assert not any(isinstance(one, n.CallStarted) for one in notices)


@pytest.mark.parametrize("name", ["change", "execute"])
def test_nothing_but_reading_runs_so_even_if_it_says_that_it_takes_it(name: str) -> None:
    world, taker = healing(cut(name), text("done"))
    world.run()
    assert (taker.healed, taker.ran) == ([], [])


@pytest.mark.parametrize(
    ("arguments", "finish"),
    [
        (WRITTEN, "content_filter"),
        (WRITTEN, "stop"),
        (WRITTEN, "tool_calls"),
        (WRITTEN, None),
        ('{"path":"a"}}', "length"),  # wrong, not cut short
        ("[1", "length"),  # no object
    ],
)
def test_no_other_end_of_a_reply_lets_a_cut_call_run(arguments: str, finish: str | None) -> None:
    world, taker = healing(cut("look", arguments, finish), text("done"), text("done"))
    world.run()
    assert (taker.healed, taker.ran) == ([], [])


def test_closed_arguments_that_the_schema_refuses_leave_the_call_cut() -> None:
    class Strict(HealingTools):
        def check(self, name: str, arguments: str) -> ToolSpec | ToolResult:
            assert arguments == CLOSED
            return ToolResult(ok=False, status="invalid", tool=name, content="lim is missing")

    world, taker = healing(cut(), text("done"), tools=Strict())
    notices = world.run()
    finished = next(one for one in notices if isinstance(one, n.CallFinished))
    assert finished.result.error is not None
    assert finished.result.error.code == "cut_call"
    assert taker.healed == []


def test_a_call_that_came_whole_in_the_same_reply_runs_as_ever() -> None:
    world, taker = healing(
        [call("look", '{"path":"b"}'), call("look", WRITTEN, index=1, id="2"), event({}, "length"), DONE], text("ok")
    )
    world.run()
    assert taker.ran == ["look"]
    assert [one.key.position for one in taker.healed] == [1]


def test_only_a_tool_that_reads_can_be_registered_as_taking_it() -> None:
    reading = next(tool for tool in default_tools() if tool.name.startswith("read_file"))
    assert reading.accepts_healed
    for tool in default_tools():
        assert not tool.accepts_healed or tool.category == "read_only"
        if tool.category != "read_only":
            with pytest.raises(RegistrationError, match="healed"):
                Registry((dataclasses.replace(tool, accepts_healed=True),))
