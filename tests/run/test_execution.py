"""The execution commit: rate, timeout and record come before a tool, and a missing one means that it does not start."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from run_world import FailingStore, FakeAudit, FakeClock, FakeTools, World, calls, done, end_of, results

from sluice.limits import Limits
from sluice.run.execution import Execution
from sluice.values.calls import AllowedCall, CallKey, ToolSpec, Verdict, call_digest
from sluice.values.results import ToolResult


def _call(tool: str = "look", position: int = 0) -> AllowedCall:
    key = CallKey("run", 1, position)
    verdict = Verdict(key=key, digest=call_digest(tool, "{}"), decision="allow", rule="read_only")
    return AllowedCall(key=key, tool=tool, arguments="{}", verdict=verdict)


class Bench:
    def __init__(self, *, audit: FakeAudit | None = None, store: FailingStore | None = None, **limits: Any) -> None:
        async def look(arguments: dict[str, Any], cancel: Any) -> ToolResult:
            return done("look", "seen")

        async def bad(arguments: dict[str, Any], cancel: Any) -> ToolResult:
            raise KeyError("gone")

        self.tools = FakeTools({"look": ("read_only", look), "bad": ("read_only", bad), "change": ("mutating", look)})
        self.audit = audit or FakeAudit()
        self.store = store or FailingStore()
        self.calls = 0
        self.clock = FakeClock()
        self.execution = Execution(self.tools, self.audit, self.store, self.clock, Limits(**limits))

    def spec(self, tool: str = "look", **changes: Any) -> ToolSpec:
        import msgspec

        spec = self.tools.check(tool, "{}")
        assert isinstance(spec, ToolSpec)
        return msgspec.structs.replace(spec, **changes)

    def commit(self, tool: str = "look", **changes: Any) -> ToolResult | None:
        self.calls += 1  # no call starts twice
        return asyncio.run(self.execution.commit(_call(tool, self.calls), self.spec(tool, **changes)))

    def code(self, tool: str = "look", **changes: Any) -> str | None:
        refusal = self.commit(tool, **changes)
        assert refusal is None or (not refusal.ok and refusal.failure == "fatal")
        return refusal.error.code if refusal and refusal.error else None


def test_a_commit_is_on_disk_and_in_the_store_before_it_returns() -> None:
    bench = Bench()
    assert bench.commit() is None
    event, fields = bench.audit.lines[0]
    assert (event, fields["tool"], fields["category"], fields["rule"]) == (
        "call_started",
        "look",
        "read_only",
        "read_only",
    )
    assert fields["digest"] == call_digest("look", "{}")
    assert bench.store.rows[0][0] == "call_started"


def test_a_rate_is_kept_by_category_and_forgets_after_a_minute() -> None:
    bench = Bench(max_calls_per_minute=2)
    assert [bench.code() for _ in range(3)] == [None, None, "rate_limited"]
    assert bench.code("change") is None
    bench.clock.advance(61)
    assert bench.code() is None


def test_a_tool_without_a_timeout_does_not_start() -> None:
    bench = Bench()
    assert bench.code(timeout_seconds=0.0) == "no_timeout"
    assert bench.audit.lines == []


@pytest.mark.parametrize(
    ("tool", "code"), [("look", None), ("change", "audit_unavailable")], ids=["read_only", "mutating"]
)
def test_without_the_audit_line_nothing_that_changes_anything_starts(tool: str, code: str | None) -> None:
    bench = Bench(audit=FakeAudit(broken=True))
    assert bench.code(tool) == code
    assert bool(bench.store.rows) is (code is None)


def test_a_start_that_cannot_be_stored_is_no_start() -> None:
    assert Bench(store=FailingStore("call_started")).code() == "store_unavailable"


def test_what_an_executor_raises_is_a_fatal_result() -> None:
    result = asyncio.run(Bench().execution.run(_call("bad"), asyncio.Event()))
    assert (result.ok, result.failure) == (False, "fatal")
    assert result.error is not None
    assert "KeyError" in result.error.message


def test_a_call_that_was_stopped_before_its_tool_began_does_not_begin() -> None:
    bench = Bench()
    cancel = asyncio.Event()
    cancel.set()
    result = asyncio.run(bench.execution.run(_call(), cancel))
    assert result.status == "cancelled"
    assert bench.tools.ran == []


def test_an_end_is_recorded_even_where_the_store_fails() -> None:
    bench = Bench(store=FailingStore("call_ended"))
    with pytest.raises(OSError, match="No space"):
        asyncio.run(bench.execution.ended(_call(), done("look")))
    assert bench.audit.lines[-1][0] == "call_ended"


def test_in_a_run_a_tool_without_a_timeout_is_refused() -> None:
    world = World(calls("look"), timeout_seconds=0.0)
    notices = world.run()
    assert world.tools.ran == []
    assert results(notices)[0].error.code == "no_timeout"  # type: ignore[union-attr]
    assert end_of(notices).outcome == "failed"
    assert ("call_refused", "look") in [(event, fields["tool"]) for event, fields in world.audit.lines]
