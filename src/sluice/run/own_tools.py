"""An embedder's own tools: a typed function becomes a tool by `@tool`.

Its annotations become the JSON Schema, its docstring the words for the model. Such a tool passes the same registry,
schema check, verdict, audit and store as every other.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import copy
import functools
import inspect
import json
import threading
import typing
from collections.abc import Callable
from typing import Annotated, Any, Generic, ParamSpec, TypeVar

import msgspec

from sluice.errors import RegistrationError
from sluice.tools.registry import Registry, Tool, ToolContext
from sluice.tools.schema import json_schema
from sluice.values.calls import Category, Risk
from sluice.values.ports import Cancel
from sluice.values.results import ToolResult, failed
from sluice.wire.surrogates import storable

P = ParamSpec("P")
R = TypeVar("R")

_OWN_END_SECONDS = 1.0  # for a function that watches its `Cancel`, or cleans up, after it was told to stop
_SHOWN_ERROR_CHARACTERS = 500  # of an exception's words, shown to the model
_PLAIN = (type(None), bool, int, float, str)


class OwnTool(Generic[P, R]):
    """A function that a model may ask for. Calling it calls the function, so that it can be tested as one.

    `name`, `category` and `description` are as the model and the policy see them.
    """

    def __init__(self, function: Callable[P, R], declared: Tool) -> None:
        self._function = function
        self._declared = declared
        functools.update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Calls the function itself: no schema, no verdict, no record."""
        return self._function(*args, **kwargs)

    @property
    def name(self) -> str:
        """The tool's name."""
        return self._declared.name

    @property
    def category(self) -> Category:
        """What the policy takes it for."""
        return self._declared.category

    @property
    def description(self) -> str:
        """The words that the model reads."""
        return self._declared.words()

    def declared(self) -> Tool:
        """The tool as the registry takes it."""
        return self._declared


def tool(
    *,
    category: Category,
    name: str | None = None,
    changes_repository: bool = False,
    runs_repository_code: bool = False,
    timeout_seconds: float = 30.0,
    max_output_bytes: int = 64 * 1024,
    subject: str | None = None,
    accepts_healed: bool = False,
) -> Callable[[Callable[P, R]], OwnTool[P, R]]:
    """Makes a tool of a function, plain or `async`.

    The parameters' annotations become the arguments' JSON Schema, the docstring the words for the model, and what it says
    of each parameter (`Args:` or the other usual forms) that argument's description. A parameter annotated `Cancel` is no
    argument: it says, by `is_set()`, that the call should stop.

    What the function returns becomes the result: text as it is, a `ToolResult` as it is, anything else as JSON. What it
    raises becomes a failed result whose message the model reads. A plain function runs in a thread of its own, and
    several may run at once if it is `read_only`; an `async` one runs in the agent's event loop and is cancelled when the
    call is.

    `category` says what it needs: nothing (`read_only`), `allow_mutating_tools`, or `allow_execution_tools`; the two
    marks ask for the other approval as well. One call may take `timeout_seconds` and show the model `max_output_bytes`
    (bytes; the run's `max_tool_output_bytes` if that is less). `subject` names the argument that says what a call touches.
    `accepts_healed`, for `read_only` alone, lets a cut call run with its arguments closed where the user allows it.

    Raises `RegistrationError`, where the function is defined, for one that cannot be a tool.
    """

    def made(function: Callable[P, R]) -> OwnTool[P, R]:
        if not inspect.isroutine(function):
            raise RegistrationError("@tool goes on a function")
        own = name or function.__name__
        try:
            arguments, cancel = _arguments(function, own)
            json_schema(arguments)
            if not (timeout_seconds > 0 and max_output_bytes > 0):
                raise RegistrationError("timeout_seconds and max_output_bytes must be more than 0")
        except RegistrationError as error:
            raise RegistrationError(f"tool {own}: {error}") from None
        declared = Tool(
            name=own,
            arguments=arguments,
            run=_Runner(function, own, cancel).run,
            category=category,
            risk=Risk(changes_repository=changes_repository, runs_repository_code=runs_repository_code),
            subject=subject,
            max_output_bytes=max_output_bytes,
            timeout_seconds=timeout_seconds,
            accepts_healed=accepts_healed,
            description=_words(function)[0],
        )
        Registry((declared,))  # its rules hold here already, where the mistake is
        return OwnTool(function, declared)

    return made


class StopWish:
    """A `Cancel` that can be set, and seen from another thread."""

    def __init__(self) -> None:
        self._seen = threading.Event()
        self._woken = asyncio.Event()

    def set(self) -> None:
        """Says that the call should stop; from the event loop's thread."""
        self._seen.set()
        self._woken.set()

    def is_set(self) -> bool:
        """See `Cancel.is_set`."""
        return self._seen.is_set()

    async def wait(self) -> bool:
        """See `Cancel.wait`; in the event loop only."""
        return await self._woken.wait()


class _Raised:
    def __init__(self, error: BaseException) -> None:
        self.error = error


class _Runner:
    def __init__(self, function: Callable[..., Any], name: str, cancel: str | None) -> None:
        self._function = function
        self._name = name
        self._cancel = cancel

    async def run(self, arguments: msgspec.Struct, context: ToolContext) -> ToolResult:
        """One call. Ends what it started as far as that can be: a thread cannot be ended from outside."""
        given = {name: getattr(arguments, name) for name in arguments.__struct_fields__}
        stop = StopWish()
        if self._cancel is not None:
            given[self._cancel] = stop
        work = asyncio.ensure_future(self._called(given))
        wish = asyncio.ensure_future(context.cancel.wait())
        try:
            await asyncio.wait({work, wish}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:  # its time is over
            await self._end(work, wish, stop)
            if work.cancelled() and self._abandoned():
                return self._unstopped("timed_out", "timeout")
            raise
        await self._end(work, wish, stop)
        if work.cancelled():
            if self._abandoned():
                return self._unstopped("cancelled", "cancelled")
            return failed(self._name, "cancelled", "the call was cancelled", failure="none", status="cancelled")
        return self._result(work)

    async def _end(self, work: asyncio.Future[Any], wish: asyncio.Future[bool], stop: StopWish) -> None:
        stop.set()
        wish.cancel()
        if not work.done() and self._cancel is not None:  # it looks whether it is still wanted
            await asyncio.wait({work}, timeout=_OWN_END_SECONDS / 2)
        if not work.done():
            work.cancel()
        await asyncio.wait({work, wish}, timeout=_OWN_END_SECONDS)

    def _abandoned(self) -> bool:
        return not inspect.iscoroutinefunction(self._function)

    def _unstopped(self, status: typing.Literal["timed_out", "cancelled"], code: str) -> ToolResult:
        how = "took too long" if status == "timed_out" else "was cancelled"
        message = f"the call {how}; its function could not be stopped and may still be at work"
        result = failed(self._name, code, message, content=message, status=status)
        return msgspec.structs.replace(result, timed_out=status == "timed_out")

    async def _called(self, given: dict[str, Any]) -> Any:
        try:
            if inspect.iscoroutinefunction(self._function):
                return await self._function(**given)
            return await _in_thread(functools.partial(self._function, **given), self._name)
        except (Exception, SystemExit) as error:  # a tool that exits must not end the program
            return _Raised(error)

    def _result(self, work: asyncio.Future[Any]) -> ToolResult:
        if not work.done():
            message = "the call was cancelled; its function does not end and may still be at work"
            return failed(self._name, "cancelled", message, content=message, status="cancelled")
        value = work.result()
        if isinstance(value, _Raised):
            error = value.error
            words = storable(f"{type(error).__name__}: {error}".rstrip(": ").replace("\n", " "))
            if len(words) > _SHOWN_ERROR_CHARACTERS:
                words = words[: _SHOWN_ERROR_CHARACTERS - 1] + "…"
            return failed(self._name, "raised", words, content=words)
        return self._told(value)

    def _told(self, value: Any) -> ToolResult:
        if value is None:
            text = ""
        elif isinstance(value, str):
            text = storable(value)
        else:
            try:
                text = _as_json(value)
                if isinstance(value, ToolResult):
                    return msgspec.structs.replace(msgspec.json.decode(text, type=ToolResult), tool=self._name)
            except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
                why = storable(str(error))
                message = f"the tool returned a {type(value).__name__}, which cannot be shown as JSON: {why}"
                return failed(self._name, "not_json", message, content=message, failure="fatal")
        return ToolResult(ok=True, status="ok", tool=self._name, content=text)


def _as_json(value: Any) -> str:
    """JSON text of what a function returned. Halves of surrogate pairs, which file names hold that are no UTF-8, become
    U+FFFD: neither a store nor a provider takes them."""
    try:
        return msgspec.json.encode(value).decode("utf-8")
    except UnicodeEncodeError:
        return storable(json.dumps(msgspec.to_builtins(value, str_keys=True), ensure_ascii=False, allow_nan=False))


async def _in_thread(call: Callable[[], Any], name: str) -> Any:
    """What `call` returns or raises, from a thread of its own; cancelling leaves the thread to its end.

    Not from a pool: a pool waits for its threads when the loop is closed, and a function that hangs would hang that too.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def deliver(value: Any, error: BaseException | None) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(value)
        elif isinstance(error, StopIteration):  # a future takes none
            future.set_exception(RuntimeError("StopIteration"))
        else:
            future.set_exception(error)

    def work() -> None:
        value, fault = None, None
        try:
            value = call()
        except BaseException as error:
            fault = error
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(deliver, value, fault)

    thread = threading.Thread(
        target=contextvars.copy_context().run, args=(work,), name=f"sluice tool {name}", daemon=True
    )
    thread.start()
    try:
        return await future
    finally:
        if not future.cancelled():
            thread.join()  # it has nothing left to do


# -- from a function to a declaration


def _arguments(function: Callable[..., Any], name: str) -> tuple[type[msgspec.Struct], str | None]:
    """The struct of a function's arguments, and the parameter that takes the `Cancel`."""
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise RegistrationError("a generator cannot be a tool; return the whole result")
    try:
        hints = typing.get_type_hints(function, include_extras=True)
        parameters = inspect.signature(function).parameters.values()
    except (NameError, TypeError, ValueError, AttributeError) as error:
        raise RegistrationError(f"its annotations cannot be read: {error}") from None
    _whole, described = _words(function)
    fields: list[Any] = []
    cancel: str | None = None
    for one in parameters:
        if one.kind not in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY):
            raise RegistrationError(f"parameter {one.name!r}: every parameter must be one that can be given by name")
        if one.name not in hints:
            raise RegistrationError(f"parameter {one.name!r} has no annotation")
        if hints[one.name] is Cancel:
            cancel = one.name
            continue
        fields.append(_field(one, _described(hints[one.name], described.pop(one.name, ""))))
    described.pop(cancel or "", None)
    if described:
        raise RegistrationError(f"its docstring describes {next(iter(described))!r}, which is no parameter")
    try:
        made = msgspec.defstruct(name, fields, kw_only=True, frozen=True, forbid_unknown_fields=True)
        msgspec.json.schema(made)
    except TypeError as error:
        raise RegistrationError(f"an annotation that has no JSON form: {error}") from None
    return made, cancel


def _described(hint: Any, words: str) -> Any:
    return Annotated[hint, msgspec.Meta(description=words)] if words else hint


def _field(parameter: inspect.Parameter, hint: Any) -> Any:
    if parameter.default is parameter.empty:
        return parameter.name, hint
    if isinstance(parameter.default, _PLAIN):
        return parameter.name, hint, msgspec.field(default=parameter.default)
    return parameter.name, hint, msgspec.field(default_factory=functools.partial(copy.deepcopy, parameter.default))


def _words(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """The description of the tool, and of its arguments by name."""
    import docstring_parser  # wanted where own tools are declared only

    raw = inspect.getdoc(function) or ""
    if not raw.strip():
        raise RegistrationError("it needs a docstring, which tells the model when to use it")
    try:
        found = docstring_parser.parse(raw)
    except docstring_parser.ParseError:
        return raw, {}
    parts = [found.short_description, found.long_description]
    if found.returns is not None and found.returns.description:
        parts.append(f"Returns: {found.returns.description}")
    words = "\n\n".join(part.strip() for part in parts if part and part.strip())
    described = {one.arg_name: " ".join((one.description or "").split()) for one in found.params}
    return words or raw, {key: value for key, value in described.items() if value}
