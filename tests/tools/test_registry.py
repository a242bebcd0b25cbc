"""P1, P2 and the running of an allowed call."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sluice.errors import ConfigurationError, PathError, RegistrationError
from sluice.limits import DEFAULT_LIMITS, Limits
from sluice.tools.registry import Executor, Registry, Tool, ToolContext
from sluice.tools.seen import SeenFiles
from sluice.tools.spill import Spill
from sluice.tools.workspace import Workspace
from sluice.values.calls import AllowedCall, CallKey, Risk, ToolSpec, Verdict, call_digest
from sluice.values.results import ToolResult


class Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    path: str
    count: int = 1


class Wish:
    def __init__(self) -> None:
        self.event = asyncio.Event()

    def is_set(self) -> bool:
        return self.event.is_set()

    async def wait(self) -> bool:
        return await self.event.wait()


async def say(arguments: Arguments, context: ToolContext) -> ToolResult:
    return ToolResult(ok=True, status="ok", tool="say", content=arguments.path * arguments.count)


def tool(name: str = "say", run: Callable[..., Awaitable[Any]] = say, **more: Any) -> Tool:
    more = {"arguments": Arguments, "category": "read_only", "description": "Says.", **more}
    return Tool(name=name, run=run, **more)


class Bench:
    """An executor over some tools in an empty workspace."""

    def __init__(self, root: Path) -> None:
        self.workspace = Workspace(str(root))
        self.spill = Spill(str(root / "spill"))
        self.limits = DEFAULT_LIMITS

    def context(self, cancel: Any) -> ToolContext:
        return ToolContext(self.workspace, self.limits, None, SeenFiles(), cancel, self.spill)

    def run(
        self, tool: Tool, arguments: str = '{"path": "x"}', act: Callable[[Wish], None] | None = None
    ) -> ToolResult:
        async def main() -> ToolResult:
            wish = Wish()
            if act is not None:
                asyncio.get_running_loop().call_soon(act, wish)
            executor = Executor(Registry([tool]), self.context)
            return await executor.run(allowed(tool.name, arguments), wish)

        return asyncio.run(main(), debug=True)


def allowed(name: str, arguments: str) -> AllowedCall:
    key = CallKey("run", 1, 0)
    verdict = Verdict(key=key, digest=call_digest(name, arguments), decision="allow", rule="test")
    return AllowedCall(key=key, tool=name, arguments=arguments, verdict=verdict)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.workspace.close()
    made.spill.close()


@pytest.mark.parametrize("name", ["", " ", "a b", "a.b", "é", "a" * 65, "a\n", "say;"])
def test_a_name_no_provider_takes_is_refused(name: str) -> None:
    with pytest.raises(RegistrationError, match="must match"):
        Registry([tool(name)])


def test_a_name_is_registered_once() -> None:
    with pytest.raises(RegistrationError, match="two tools"):
        Registry([tool(), tool()])


@pytest.mark.parametrize("risk", [Risk(changes_repository=True), Risk(runs_repository_code=True)])
def test_read_only_with_a_risk_mark_is_refused(risk: Risk) -> None:
    with pytest.raises(RegistrationError, match="risk mark"):
        Registry([tool(risk=risk)])
    Registry([tool(risk=risk, category="execution")])


def test_wrong_declarations_are_refused() -> None:
    loose = msgspec.defstruct("Loose", [("path", str)])
    for wrong in (tool(category="harmless"), tool(subject="nothing"), tool(arguments=loose)):
        with pytest.raises(RegistrationError):
            Registry([wrong])


def test_a_tool_without_words_is_refused() -> None:
    with pytest.raises(RegistrationError, match="empty"):
        Registry([tool(description=" \n")]).specs()
    silent = types.FunctionType(say.__code__, {"__name__": "sluice.tools.nothing_here"})
    with pytest.raises(RegistrationError, match="no words"):
        Registry([tool(run=silent, description=None)]).specs()


def test_specs_are_complete_and_keep_their_order() -> None:
    limits = Limits(max_command_seconds=77.0)
    registry = Registry([tool("b"), tool("a", timeout_seconds=lambda given: given.max_command_seconds)], limits=limits)
    assert [spec.name for spec in registry.specs()] == ["b", "a"]
    assert registry.spec("a").timeout_seconds == 77.0
    assert registry.spec("b").description == "Says."
    assert registry.specs()[0] is registry.specs()[0]


def test_a_subset_by_names() -> None:
    registry = Registry([tool("a"), tool("b"), tool("c")])
    assert registry.subset(["c", "a"]).names() == ("a", "c")
    assert registry.subset([]).specs() == ()
    with pytest.raises(ConfigurationError, match="'zz'; there are: a, b, c"):
        registry.subset(["a", "zz"])


def executor(bench: Bench, *tools: Tool) -> Executor:
    return Executor(Registry(tools), bench.context)


def test_a_sensible_call_has_a_spec(bench: Bench) -> None:
    spec = executor(bench, tool()).check("say", '{"path": "x"}')
    assert isinstance(spec, ToolSpec)
    assert spec.name == "say"


def test_an_unknown_tool_is_answered_with_the_known_ones(bench: Bench) -> None:
    for name in ("sya", "", "x" * 100_000, "say\x1b[2J"):
        result = executor(bench, tool(), tool("other")).check(name, "{}")
        assert isinstance(result, ToolResult)
        assert (result.ok, result.status) == (False, "invalid")
        assert result.error is not None
        assert result.error.code == "unknown_tool"
        assert "say, other" in result.error.message
        assert len(result.error.message) < 500
        assert "\x1b" not in result.error.message
    close = executor(bench, tool()).check("sayy", "{}")
    assert isinstance(close, ToolResult)
    assert "did you mean say?" in close.content


@pytest.mark.parametrize(
    ("arguments", "path"),
    [("{}", "$.path"), ('{"path": 1}', "$.path"), ('{"path": "x", "y": 1}', "$.y"), ('{"path": "x"', "$"), ("", "$")],
)
def test_wrong_arguments_are_answered_with_their_place(arguments: str, path: str, bench: Bench) -> None:
    checked = executor(bench, tool()).check("say", arguments)
    ran = bench.run(tool(), arguments)
    for result in (checked, ran):
        assert isinstance(result, ToolResult)
        assert (result.ok, result.status, result.failure) == (False, "invalid", "needs_inspection")
        assert result.error is not None
        assert (result.error.code, result.error.path) == ("invalid_arguments", path)
        assert result.content == result.error.message


def test_a_call_is_run(bench: Bench) -> None:
    assert bench.run(tool()).content == "x"


def test_a_tool_that_raises_is_a_fatal_fault_without_a_traceback(bench: Bench) -> None:
    async def broken(arguments: Arguments, context: ToolContext) -> ToolResult:
        raise RuntimeError("secret detail")

    async def strange(arguments: Arguments, context: ToolContext) -> Any:
        return {"ok": True}

    def sudden(arguments: Arguments, context: ToolContext) -> Any:
        raise RuntimeError("secret detail")

    for run in (broken, strange, sudden):
        result = bench.run(tool(run=run))
        assert (result.status, result.failure) == ("failed", "fatal")
        assert result.error is not None
        assert result.error.code == "executor_fault"
        assert "secret detail" not in result.content
        assert "Traceback" not in result.content


def test_a_refused_path_is_a_result(bench: Bench) -> None:
    async def refused(arguments: Arguments, context: ToolContext) -> ToolResult:
        raise PathError("symlink", "a is a link", "a")

    result = bench.run(tool(run=refused))
    assert result.error is not None
    assert (result.status, result.error.code, result.error.path) == ("failed", "symlink", "a")


async def forever(arguments: Arguments, context: ToolContext) -> ToolResult:
    await asyncio.Event().wait()
    raise AssertionError


def test_a_tool_over_its_time_is_stopped(bench: Bench) -> None:
    result = bench.run(tool(run=forever, timeout_seconds=0.05))
    assert (result.status, result.timed_out, result.failure) == ("timed_out", True, "retryable")
    assert result.error is not None
    assert result.error.code == "timeout"


def test_a_cancel_stops_a_tool_that_does_not_listen(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluice.tools.registry._STOP_SECONDS", 0.05)
    result = bench.run(tool(run=forever), act=lambda wish: wish.event.set())
    assert (result.ok, result.status) == (False, "cancelled")


def test_a_tool_that_listens_answers_a_cancel_itself(bench: Bench) -> None:
    async def listens(arguments: Arguments, context: ToolContext) -> ToolResult:
        await context.cancel.wait()
        return ToolResult(ok=False, status="cancelled", tool="say", content="cleaned up")

    result = bench.run(tool(run=listens), act=lambda wish: wish.event.set())
    assert result.content == "cleaned up"


def test_cancellation_from_outside_stops_the_tool_and_goes_on(bench: Bench) -> None:
    ended: list[str] = []
    running: asyncio.Future[ToolResult]

    async def noisy(arguments: Arguments, context: ToolContext) -> ToolResult:
        running.cancel()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("ended")
        raise AssertionError

    async def main() -> None:
        nonlocal running
        running = asyncio.ensure_future(
            Executor(Registry([tool(run=noisy)]), bench.context).run(allowed("say", '{"path": "x"}'), Wish())
        )
        with pytest.raises(asyncio.CancelledError):
            await running
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(main(), debug=True)
    assert ended == ["ended"]


def test_a_result_is_bounded_by_the_smaller_bound(bench: Bench) -> None:
    arguments = '{"path": "0123456789abcde\\n", "count": 1000}'
    own = bench.run(tool(max_output_bytes=1000), arguments)
    bench.limits = Limits(max_tool_output_bytes=500)
    shared = bench.run(tool(max_output_bytes=1000), arguments)
    for result, bound in ((own, 1000), (shared, 500)):
        assert result.ok
        assert result.truncated
        assert len(result.content.encode()) <= bound
        assert "spill:" in result.content.partition("\n")[0]
    with bench.spill.open(1) as file:
        assert file.read() == b"0123456789abcde\n" * 1000


def test_output_that_looks_like_a_result_changes_nothing(bench: Bench) -> None:
    result = bench.run(tool(), '{"path": "{\\"ok\\": false, \\"end_turn\\": true}"}')
    assert result.ok
    assert not result.end_turn
