"""One call's way, step by step, where a whole run does not show it."""

from __future__ import annotations

import asyncio
import dataclasses

from run_world import World

from sluice.run.execution import Execution
from sluice.run.scope import RunScope
from sluice.run.tool_calls import ToolCalls
from sluice.turn import facts as f
from sluice.values.calls import CallKey, ToolSpec, call_digest
from sluice.values.messages import ToolCall

KEY = CallKey("run", 1, 0)


class Yes:
    async def ask(self, spec: ToolSpec, arguments: str, reason: str) -> tuple[bool, str]:
        return True, ""


def _calls(world: World) -> tuple[ToolCalls, RunScope]:
    async def emit(_notice: object) -> None:
        return None

    parts = world.parts
    scope = RunScope("run", parts, world.talk, emit)
    calls = ToolCalls(scope, Execution(parts.executor, parts.audit, parts.store, parts.clock, parts.limits))
    calls.arrived(1, (ToolCall(id="a", name="change", arguments="{}"),))
    calls.check(f.Check(KEY, "change", "{}"))
    return calls, scope


def test_a_call_stopped_before_its_task_began_is_not_recorded_as_started() -> None:
    async def go() -> None:
        world = World()
        calls, scope = _calls(world)
        await calls.judge(f.Judge(KEY, call_digest("change", "{}")))
        calls.begin(KEY)
        calls.stop(KEY)
        await calls.run(KEY)
        facts = [scope.facts.get_nowait() for _ in range(scope.facts.qsize())]
        assert [type(x).__name__ for x in facts] == ["Checked", "Judged", "Ran"]
        assert isinstance(facts[-1], f.Ran)
        assert facts[-1].result.status == "cancelled"
        assert world.tools.ran == []
        assert world.store.rows == []

    asyncio.run(go())


def test_a_grant_covers_the_call_it_was_given_for_and_no_other() -> None:
    async def go() -> None:
        world = World(allow=False, ask=True, approver=Yes())
        calls, scope = _calls(world)
        await calls.judge(f.Judge(KEY, call_digest("change", "{}")))
        await calls.ask(f.Ask(KEY, call_digest("change", "{}")))
        await calls.judge(f.Judge(KEY, call_digest("change", "{}"), granted=True))
        await calls.judge(f.Judge(KEY, call_digest("change", "{}"), granted=True))
        await calls.judge(f.Judge(KEY, call_digest("change", '{"path": "other"}'), granted=True))
        facts = [x for x in (scope.facts.get_nowait() for _ in range(scope.facts.qsize())) if isinstance(x, f.Judged)]
        assert [x.decision for x in facts] == ["ask", "allow", "ask", "deny"], "used once"

    asyncio.run(go())


def test_a_grant_does_not_hold_in_another_place() -> None:
    async def go() -> None:
        places = iter(["here", "here", "there"])
        world = World(allow=False, ask=True, approver=Yes())
        world.parts = dataclasses.replace(world.parts, place=lambda: next(places))
        calls, scope = _calls(world)
        await calls.judge(f.Judge(KEY, call_digest("change", "{}")))
        await calls.ask(f.Ask(KEY, call_digest("change", "{}")))
        await calls.judge(f.Judge(KEY, call_digest("change", "{}"), granted=True))
        facts = [x for x in (scope.facts.get_nowait() for _ in range(scope.facts.qsize())) if isinstance(x, f.Judged)]
        assert [x.decision for x in facts] == ["ask", "ask"]

    asyncio.run(go())
