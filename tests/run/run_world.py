"""A world of fakes for one agent: a model that plays scripts byte by byte, tools, a store, an audit, a clock, hooks.

Every run through `World.runs` is checked for what must hold of any run, however it ended: one last notice, one result for
each call directly behind its reply and in call order, nothing left at work, every exchange closed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from sluice.errors import AuditError
from sluice.limits import Limits
from sluice.policy.rules import Policy
from sluice.run.agent import Agent
from sluice.run.conversation import Talk
from sluice.run.parts import NoHooks, Parts
from sluice.session.memory import MemoryStore
from sluice.values import notices as n
from sluice.values.calls import AllowedCall, Category, ToolSpec
from sluice.values.messages import AssistantMessage, Conversation, Message, ToolMessage, UserMessage
from sluice.values.ports import Cancel
from sluice.values.requests import ModelOptions, Request
from sluice.values.results import ToolResult, failed
from sluice.wire.dialects import DIALECTS

# -- what a server says


def event(delta: Mapping[str, Any] | None = None, finish: str | None = None, **more: Any) -> bytes:
    choice = {"index": 0, "delta": dict(delta or {}), "finish_reason": finish}
    return b"data: " + json.dumps({"id": "c", "model": "m", "choices": [choice], **more}).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"


def text(words: str, finish: str | None = "stop") -> list[bytes]:
    return [event({"content": words}), *([event({}, finish), DONE] if finish else [])]


def call(name: str, arguments: str = "{}", *, index: int = 0, id: str | None = None) -> bytes:
    function = {"name": name, "arguments": arguments}
    made = {"index": index, "id": id or f"id_{name}_{index}", "type": "function", "function": function}
    return event({"tool_calls": [made]})


def calls(*wanted: str | tuple[str, str], finish: str | None = "tool_calls", say: str = "") -> list[bytes]:
    pairs = [(w, "{}") if isinstance(w, str) else w for w in wanted]
    body = [event({"content": say})] if say else []
    body += [call(name, arguments, index=at) for at, (name, arguments) in enumerate(pairs)]
    return [*body, *([event({}, finish), DONE] if finish else [])]


class Gate:
    """A place where something waits: `reached` is set on arrival, and `open` lets it go on."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.open = asyncio.Event()

    async def wait(self) -> None:
        self.reached.set()
        await self.open.wait()


class Answer:
    """One HTTP answer: items are bytes to return, exceptions to raise, gates to wait at, calls to make."""

    def __init__(self, *items: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        self.items = items
        self.status = status
        self.headers = headers or {}


class FakeExchange:
    def __init__(self, answer: Answer, transport: FakeTransport) -> None:
        self.status = answer.status
        self.headers = answer.headers
        self._items = iter(answer.items)
        self._transport = transport
        self._closed = False
        transport.open += 1

    async def read(self) -> bytes:
        for item in self._items:
            if isinstance(item, BaseException):
                raise item
            if isinstance(item, Gate):
                await item.wait()
            elif callable(item):
                item()
            else:
                return bytes(item)
        return b""

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._transport.open -= 1


class FakeTransport:
    """Answers request k with script k; an exception in place of a script is raised by `send`."""

    def __init__(self, scripts: Iterable[Any]) -> None:
        self._scripts = iter(scripts)
        self.bodies: list[dict[str, Any]] = []
        self.open = 0

    async def send(self, request: Request) -> FakeExchange:
        self.bodies.append(json.loads(request.body))
        script = next(self._scripts, None)
        assert script is not None, "one request too many"
        if isinstance(script, BaseException):
            raise script
        if isinstance(script, Gate):
            await script.wait()
            return await self.send(request)
        return FakeExchange(script if isinstance(script, Answer) else Answer(*script), self)

    async def close(self) -> None:
        assert self.open == 0


# -- tools

Tool = Callable[[dict[str, Any], Cancel], Awaitable[ToolResult]]


def done(tool: str, content: str = "", **more: Any) -> ToolResult:
    return ToolResult(ok=True, status="ok", tool=tool, content=content, **more)


class FakeTools:
    """`tools` maps a name to its category and what it does. Names that begin with `bad` are refused by the schema."""

    def __init__(self, tools: Mapping[str, tuple[Category, Tool]], timeout_seconds: float = 30.0) -> None:
        self.tools = dict(tools)
        self.timeout_seconds = timeout_seconds
        self.ran: list[str] = []

    def specs(self) -> tuple[ToolSpec, ...]:
        return tuple(self._spec(name) for name in self.tools)

    def _spec(self, name: str) -> ToolSpec:
        return ToolSpec(
            name=name,
            description=f"does {name}",
            parameters={"type": "object", "properties": {"path": {"type": "string"}}},
            category=self.tools[name][0],
            timeout_seconds=self.timeout_seconds,
            subject="path",
        )

    def check(self, name: str, arguments: str) -> ToolSpec | ToolResult:
        if name not in self.tools:
            return failed(name, "unknown_tool", "there is no such tool", status="invalid")
        return self._spec(name)

    async def run(self, call: AllowedCall, cancel: Cancel) -> ToolResult:
        self.ran.append(call.tool)
        return await self.tools[call.tool][1](json.loads(call.arguments), cancel)


async def _look(arguments: dict[str, Any], cancel: Cancel) -> ToolResult:
    return done("look", f"saw {arguments.get('path', 'all')}")


async def _change(arguments: dict[str, Any], cancel: Cancel) -> ToolResult:
    return done("change", "changed")


async def _execute(arguments: dict[str, Any], cancel: Cancel) -> ToolResult:
    return done("execute", "executed", exit_code=0)


async def _wait_for_cancel(arguments: dict[str, Any], cancel: Cancel) -> ToolResult:
    await cancel.wait()
    return failed("wait", "cancelled", "cancelled", status="cancelled", failure="none")


TOOLS: dict[str, tuple[Category, Tool]] = {
    "look": ("read_only", _look),
    "change": ("mutating", _change),
    "execute": ("execution", _execute),
    "wait": ("read_only", _wait_for_cancel),
}


# -- the rest of the host


class FakeClock:
    def __init__(self) -> None:
        self.ns = 0

    def advance(self, seconds: float) -> None:
        self.ns += int(seconds * 1e9)

    def monotonic_ns(self) -> int:
        return self.ns

    def now(self) -> float:
        return 1e9 + self.ns / 1e9


class CountedIds:
    def __init__(self) -> None:
        self.count = 0

    def new(self, kind: str) -> str:
        self.count += 1
        return f"{kind}_{self.count}"


class FakeAudit:
    def __init__(self, broken: bool = False) -> None:
        self.lines: list[tuple[str, dict[str, Any]]] = []
        self.broken = broken

    def record(self, event: str, **fields: Any) -> None:
        if self.broken:
            raise AuditError("the audit log cannot be written: disk full")
        self.lines.append((event, fields))


class FailingStore(MemoryStore):
    """Fails at call number `at` (from 1) of `method`, or at every call with `at` 0."""

    def __init__(self, method: str = "", at: int = 0) -> None:
        super().__init__()
        self._method, self._at, self._count = method, at, 0

    def _maybe(self, method: str) -> None:
        if method == self._method:
            self._count += 1
            if self._at in (0, self._count):
                raise OSError(28, "No space left on device")

    async def started(self, run: str, prompt: UserMessage) -> None:
        self._maybe("started")
        await super().started(run, prompt)

    async def append(self, run: str, message: Message) -> str:
        self._maybe("append")
        if isinstance(message, ToolMessage):
            self._maybe("append_result")
        return await super().append(run, message)

    async def call_started(self, call: AllowedCall) -> None:
        self._maybe("call_started")
        await super().call_started(call)

    async def call_ended(self, call: AllowedCall, result: ToolResult) -> None:
        self._maybe("call_ended")
        await super().call_ended(call, result)

    async def finished(self, run: str, outcome: str) -> None:
        self._maybe("finished")
        await super().finished(run, outcome)


async def no_sleep(_seconds: float) -> None:
    await asyncio.sleep(0)


React = Callable[[n.Notice, Agent], object]


class World:
    """Everything an agent is made of, as fakes that tests may look into."""

    def __init__(
        self,
        *scripts: Any,
        tools: Mapping[str, tuple[Category, Tool]] | None = None,
        allow: bool = True,
        ask: bool = False,
        store: MemoryStore | None = None,
        audit: FakeAudit | None = None,
        timeout_seconds: float = 30.0,
        limits: Mapping[str, Any] | None = None,
        **parts: Any,
    ) -> None:
        self.transport = FakeTransport(scripts)
        self.tools = FakeTools(TOOLS if tools is None else {**TOOLS, **tools}, timeout_seconds)
        self.store = MemoryStore() if store is None else store
        self.audit = audit or FakeAudit()
        self.clock = FakeClock()
        self.waits: list[float] = []
        self.parts = Parts(
            **{
                "transport": self.transport,
                "dialect": DIALECTS["openai_chat"],
                "options": ModelOptions(model="m"),
                "executor": self.tools,
                "policy": Policy(allow_mutating_tools=allow, allow_execution_tools=allow, ask=ask),
                "store": self.store,
                "audit": self.audit,
                "limits": Limits(**(limits or {})),
                "system_prompt": "be good",
                "workspace": "/w",
                "hooks": NoHooks(),
                "clock": self.clock,
                "ids": CountedIds(),
                "random": lambda: 0.5,
                "sleep": self._sleep,
                **parts,
            }
        )
        self.talk = Talk("be good", self.store)

    async def _sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        await asyncio.sleep(0)

    def agent(self) -> Agent:
        return Agent(self.parts, self.talk)

    def run(self, prompt: str = "go", *, react: React | None = None) -> list[n.Notice]:
        """The notices of one run."""
        return self.runs(prompt, react=react)[0]

    def runs(self, *prompts: str, react: React | None = None) -> list[list[n.Notice]]:
        """The notices of several runs of one agent, each checked."""
        return asyncio.run(self._runs(prompts, react))

    async def _runs(self, prompts: Sequence[str], react: React | None) -> list[list[n.Notice]]:
        agent, told = self.agent(), []
        for prompt in prompts:
            notices: list[n.Notice] = []
            async with asyncio.timeout(20), aclosing(agent.run(prompt)) as stream:
                async for notice in stream:
                    notices.append(notice)
                    if react is not None:
                        found = react(notice, agent)
                        if asyncio.iscoroutine(found):
                            await found
            told.append(notices)
            self.check(notices)
        return told

    def check(self, notices: list[n.Notice]) -> None:
        """What holds of every run."""
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert self.transport.open == 0
        check_notices(notices)
        check_conversation(self.talk.messages)
        for body in self.transport.bodies:
            check_request(body)


def check_notices(notices: list[n.Notice]) -> None:
    assert [type(x) for x in notices].count(n.RunFinished) == 1
    assert isinstance(notices[-1], n.RunFinished)
    assert all(x.v == 1 for x in notices)
    if len(notices) > 1:
        assert isinstance(notices[0], n.RunStarted)
    arrived = [(x.turn, x.position) for x in notices if isinstance(x, n.CallArrived)]
    assert arrived == [(x.turn, x.position) for x in notices if isinstance(x, n.CallFinished)], "results in call order"
    started = [(x.turn, x.position) for x in notices if isinstance(x, n.CallStarted)]
    assert len(set(started)) == len(started) == notices[-1].tool_calls
    judged = {(x.turn, x.position) for x in notices if isinstance(x, n.CallJudged) and x.decision == "allow"}
    assert set(started) <= judged, "nothing starts without an allowing verdict"


def check_conversation(messages: Conversation) -> None:
    waiting: list[str] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            assert waiting, "a result without a call"
            assert message.call_id == waiting.pop(0)
            continue
        assert not waiting, f"calls without results before {message}"
        if isinstance(message, AssistantMessage):
            waiting = [c.id for c in message.tool_calls]
    assert not waiting, f"calls without results: {waiting}"


def check_request(body: dict[str, Any]) -> None:
    waiting: list[str] = []
    for message in body["messages"]:
        if message["role"] == "tool":
            assert message["tool_call_id"] == waiting.pop(0)
            continue
        assert not waiting
        waiting = [c["id"] for c in message.get("tool_calls", ())]
        for made in message.get("tool_calls", ()):
            assert isinstance(json.loads(made["function"]["arguments"]), dict)
    assert not waiting


def kinds(notices: Iterable[n.Notice]) -> list[str]:
    """The types of notices, equal neighbours once."""
    found: list[str] = []
    for notice in notices:
        name = type(notice).__name__
        if not found or found[-1] != name:
            found.append(name)
    return found


def end_of(notices: Sequence[n.Notice]) -> n.RunFinished:
    last = notices[-1]
    assert isinstance(last, n.RunFinished)
    return last


def results(notices: Iterable[n.Notice]) -> list[ToolResult]:
    return [x.result for x in notices if isinstance(x, n.CallFinished)]


def shown(notices: Iterable[n.Notice]) -> str:
    return "".join(x.text for x in notices if isinstance(x, n.TextNotice))
