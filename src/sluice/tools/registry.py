"""Which tools there are (P1), whether a call of one makes sense (P2), and the running of an allowed one."""

from __future__ import annotations

import asyncio
import difflib
import importlib.resources
import json
import logging
import re
import typing
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from sluice.errors import ConfigurationError, PathError, RegistrationError
from sluice.limits import DEFAULT_LIMITS, Limits
from sluice.tools.jobs import Jobs
from sluice.tools.output import bounded, clipped
from sluice.tools.sandbox import Sandbox
from sluice.tools.schema import INVALID_ARGUMENTS, decode, json_schema
from sluice.tools.seen import SeenFiles
from sluice.tools.spill import Spill
from sluice.tools.tree_watch import TreeWatch
from sluice.tools.workspace import Workspace
from sluice.values.calls import AllowedCall, Category, Risk, ToolSpec
from sluice.values.healed import AllowedHealedCall
from sluice.values.ports import Cancel, Journal
from sluice.values.results import ErrorInfo, ToolResult, failed

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")  # what every provider takes as a function's name
_STOP_SECONDS = 2.0  # a tool's time to answer a cancel by itself, a little over what ending a process tree takes
_SHOWN_NAME_BYTES = 100  # of a wrong tool name, quoted back to the model
NO_RISK = Risk()
_LOG = logging.getLogger(__name__)


@dataclass
class ToolContext:
    """What a tool may touch: nothing of the machine but through these. Without `sandbox`, commands run as the user."""

    workspace: Workspace
    limits: Limits
    journal: Journal | None
    seen: SeenFiles
    cancel: Cancel
    spill: Spill
    sandbox: Sandbox | None = None
    jobs: Jobs = field(default_factory=Jobs)

    @property
    def watch(self) -> TreeWatch | None:
        """What bounds the memory and the number of processes that all commands hold together."""
        return self.sandbox.watch if self.sandbox is not None else None

    def output_bytes(self, tool: Tool) -> int:
        """Bytes that a result of `tool` may show: the smaller of its own bound and the run's."""
        return min(tool.max_output_bytes, self.limits.max_tool_output_bytes)

    def body_bytes(self, tool: Tool, closing: int) -> int:
        """`output_bytes` less `closing` bytes for the lines a tool adds at the end (of a small bound, a quarter)."""
        bound = self.output_bytes(tool)
        return bound - min(closing, bound // 4)


@dataclass(frozen=True, kw_only=True)
class Tool:
    """A tool as its module declares it.

    `arguments` is a struct class with `forbid_unknown_fields`; `run` takes an instance of it and returns the result, or
    raises `PathError` for a path it could not use. The words for the model stand in a `.md` file beside the module of
    `run`, unless `description` gives them. `timeout_seconds` may depend on the user's limits.
    """

    name: str
    arguments: type[msgspec.Struct]
    run: Callable[[Any, ToolContext], Awaitable[ToolResult]]
    category: Category
    risk: Risk = NO_RISK
    subject: str | None = None
    max_output_bytes: int = 64 * 1024
    timeout_seconds: float | Callable[[Limits], float] = 30.0
    accepts_healed: bool = False
    description: str | None = None

    def words(self) -> str:
        """The description for the model. Raises `RegistrationError` if there is none."""
        text = self.description
        if text is None:
            package, _, module = self.run.__module__.rpartition(".")
            try:
                text = importlib.resources.files(package).joinpath(f"{module}.md").read_text(encoding="utf-8")
            except (OSError, ValueError, ImportError):
                raise RegistrationError(f"tool {self.name}: no words for the model in {module}.md") from None
        if not text.strip():
            raise RegistrationError(f"tool {self.name}: its words for the model are empty")
        return text.strip()


class Registry:
    """The tools of a run, in the order of registration."""

    def __init__(self, tools: Iterable[Tool] = (), *, limits: Limits = DEFAULT_LIMITS) -> None:
        self.limits = limits
        self._tools: dict[str, Tool] = {}
        self._specs: dict[str, ToolSpec] = {}
        for tool in tools:
            self.register(tool)

    def register(self, tool: Tool) -> None:
        """Adds a tool. Raises `RegistrationError` for a name that is empty, taken or not of `[a-zA-Z0-9_-]{1,64}`, for a
        read-only tool with a risk mark, for any other that accepts healed calls, and for arguments that would let unknown
        keys through."""
        if not _NAME.fullmatch(tool.name):
            raise RegistrationError(f"tool name {tool.name!r} must match [a-zA-Z0-9_-]{{1,64}}")
        if tool.name in self._tools:
            raise RegistrationError(f"two tools are named {tool.name}")
        if tool.category not in typing.get_args(Category):
            raise RegistrationError(f"tool {tool.name}: {tool.category!r} is no category")
        if tool.category == "read_only" and tool.risk != NO_RISK:
            raise RegistrationError(f"tool {tool.name} is read_only and has a risk mark; it cannot be both")
        if tool.accepts_healed and tool.category != "read_only":
            raise RegistrationError(
                f"tool {tool.name} is {tool.category}; only read_only tools may accept healed calls"
            )
        schema = json_schema(tool.arguments)
        if tool.subject is not None and tool.subject not in schema["properties"]:
            raise RegistrationError(f"tool {tool.name}: its subject {tool.subject!r} is none of its arguments")
        self._tools[tool.name] = tool

    def names(self) -> tuple[str, ...]:
        """All names, in order."""
        return tuple(self._tools)

    def tool(self, name: str) -> Tool | None:
        """The tool of that very name, if there is one."""
        return self._tools.get(name)

    def spec(self, name: str) -> ToolSpec:
        """What model and policy see of a tool, made once. Raises `KeyError`; `RegistrationError` if it has no words."""
        found = self._specs.get(name)
        if found is None:
            tool = self._tools[name]
            limit = tool.timeout_seconds
            found = self._specs[name] = ToolSpec(
                name=name,
                description=tool.words(),
                parameters=json_schema(tool.arguments),
                category=tool.category,
                risk=tool.risk,
                max_output_bytes=tool.max_output_bytes,
                timeout_seconds=limit(self.limits) if callable(limit) else limit,
                subject=tool.subject,
                accepts_healed=tool.accepts_healed,
            )
        return found

    def specs(self) -> tuple[ToolSpec, ...]:
        """All specs, in order."""
        return tuple(self.spec(name) for name in self._tools)

    def subset(self, names: Iterable[str]) -> Registry:
        """A registry of these tools only, in this registry's order (`--tools a,b`; none for `--no-tools`).

        Raises `ConfigurationError` for a name that is not there.
        """
        wanted = set(names)
        unknown = sorted(wanted - set(self._tools))
        if unknown:
            raise ConfigurationError(f"no tool is named {unknown[0]!r}; there are: {', '.join(self._tools) or 'none'}")
        return Registry((tool for name, tool in self._tools.items() if name in wanted), limits=self.limits)


class Executor:
    """A `ToolExecutor` over a registry. `context` makes what one call may touch, with the cancel of that call."""

    def __init__(self, registry: Registry, context: Callable[[Cancel], ToolContext]) -> None:
        self._registry = registry
        self._context = context

    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools offered now."""
        return self._registry.specs()

    def check(self, name: str, arguments: str) -> ToolSpec | ToolResult:
        """The spec of a call that makes sense, else an `invalid` result: `unknown_tool` or `invalid_arguments`."""
        tool = self._registry.tool(name)
        if tool is None:
            return self._unknown(name)
        decoded = decode(tool.arguments, arguments)
        if isinstance(decoded, ErrorInfo):
            return _invalid(tool.name, decoded)
        return self._registry.spec(name)

    async def run(self, call: AllowedCall, cancel: Cancel) -> ToolResult:
        """Runs one allowed call within its time and returns its result, bounded; see `ToolExecutor.run`.

        A tool that is over its time, or does not answer a cancel by itself within two seconds, is cancelled. What a tool
        raises is its own fault: a `fatal` result that shows the model no traceback.
        """
        tool = self._registry.tool(call.tool)
        if tool is None:
            return self._unknown(call.tool)
        return await self._run(tool, call.arguments, cancel)

    async def run_healed(self, call: AllowedHealedCall, cancel: Cancel) -> ToolResult:
        """Runs a read-only call whose arguments were closed by us, as `run` does; see `ToolExecutor.run_healed`.

        What the registry holds is asked again: a tool that does not accept healed calls is not run.
        """
        tool = self._registry.tool(call.tool)
        if tool is None:
            return self._unknown(call.tool)
        if not tool.accepts_healed or tool.category != "read_only":
            words = "the tool does not take a call that was cut"
            return failed(tool.name, "cut_call", words, status="invalid", content=words)
        return await self._run(tool, call.arguments.text, cancel)

    async def _run(self, tool: Tool, arguments: str, cancel: Cancel) -> ToolResult:
        decoded = decode(tool.arguments, arguments)
        if isinstance(decoded, ErrorInfo):
            return _invalid(tool.name, decoded)
        context = self._context(cancel)
        seconds = self._registry.spec(tool.name).timeout_seconds
        result = await _supervised(tool, _started(tool, decoded, context), seconds, cancel)
        return _within_bounds(result, context.output_bytes(tool), context)

    def _unknown(self, name: str) -> ToolResult:
        known = self._registry.names()
        close = difflib.get_close_matches(name[:64], known, n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        shown = json.dumps(clipped(name, _SHOWN_NAME_BYTES))
        message = f"there is no tool {shown}; {hint}the tools are: {', '.join(known) or 'none'}"
        return failed(clipped(name, _SHOWN_NAME_BYTES), "unknown_tool", message, status="invalid", content=message)


def _invalid(tool: str, error: ErrorInfo) -> ToolResult:
    return failed(tool, INVALID_ARGUMENTS, error.message, path=error.path, status="invalid", content=error.message)


async def _started(tool: Tool, arguments: msgspec.Struct, context: ToolContext) -> ToolResult:
    return await tool.run(arguments, context)  # in a task of its own, so that nothing it raises gets past `_answer`


async def _supervised(tool: Tool, work: Awaitable[ToolResult], seconds: float, cancel: Cancel) -> ToolResult:
    task = asyncio.ensure_future(work)
    wish = asyncio.ensure_future(cancel.wait())
    try:
        await asyncio.wait({task, wish}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        cancelled = not task.done() and wish.done()
        if cancelled:
            await asyncio.wait({task}, timeout=_STOP_SECONDS)
        if task.done():
            return _answer(tool, task)
    finally:
        task.cancel()
        wish.cancel()
        await asyncio.wait({task, wish}, timeout=_STOP_SECONDS)
        if task.done() and not task.cancelled():
            task.exception()  # seen, so that asyncio does not complain of it later
    if task.done() and not task.cancelled() and task.exception() is None:
        return _answer(tool, task)  # it had its result ready while it was being stopped
    if cancelled:
        return failed(tool.name, "cancelled", "the call was cancelled", failure="none", status="cancelled")
    message = f"the call took more than {seconds:g} s and was stopped"
    result = failed(tool.name, "timeout", message, failure="retryable", status="timed_out", content=message)
    return msgspec.structs.replace(result, timed_out=True)


def _answer(tool: Tool, task: asyncio.Future[ToolResult]) -> ToolResult:
    if task.cancelled():
        return _fault(tool, "it was cancelled by something else")
    error = task.exception()
    if error is None:
        result: object = task.result()
        if isinstance(result, ToolResult):
            return result
        return _fault(tool, f"it returned {type(result).__name__} instead of a result")
    if isinstance(error, PathError):
        return failed(tool.name, error.code, str(error), path=error.path, content=str(error))
    if not isinstance(error, Exception):
        raise error
    _LOG.debug("tool %s failed by its own fault", tool.name, exc_info=error)
    return _fault(tool, type(error).__name__)


def _fault(tool: Tool, what: str) -> ToolResult:
    message = f"the tool failed by a fault of its own ({what}); the arguments are not to blame"
    return failed(tool.name, "executor_fault", message, failure="fatal", content=message)


def _within_bounds(result: ToolResult, max_bytes: int, context: ToolContext) -> ToolResult:
    """The last line of P11: a tool that kept its own bound comes back unchanged."""
    if len(result.content) * 4 <= max_bytes or len(result.content.encode("utf-8", "replace")) <= max_bytes:
        return result
    cut = bounded(
        result.content, max_bytes=max_bytes, spill=context.spill, max_spill_bytes=context.limits.max_spill_bytes
    )
    return msgspec.structs.replace(result, content=cut.text, truncated=True)
