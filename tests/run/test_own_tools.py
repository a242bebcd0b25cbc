"""Own tools: what a function's annotations and docstring become, and what comes of calling it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Annotated, Any, Literal, cast

import msgspec
import pytest

from sluice import Cancel, RegistrationError, ToolResult, tool
from sluice.run.own_tools import StopWish
from sluice.tools.registry import Executor, Registry, ToolContext
from sluice.values.calls import AllowedCall, CallKey, ToolSpec, Verdict, call_digest


class Place(msgspec.Struct, forbid_unknown_fields=True):
    city: str
    zone: int = 0


class Loose(msgspec.Struct):
    city: str


class World:
    """One executor over own tools, with a cancel of the test's own."""

    def __init__(self, *tools: Any) -> None:
        self.cancel = StopWish()
        limits, spill = msgspec.defstruct("L", [])(), None
        context = cast(Any, ToolContext)(
            workspace=None, limits=limits, journal=None, seen=None, cancel=self.cancel, spill=spill
        )
        context.output_bytes = lambda tool: 65536
        self.executor = Executor(Registry(one.declared() for one in tools), lambda cancel: context)

    def spec(self) -> ToolSpec:
        return self.executor.specs()[0]

    async def result(self, arguments: str = "{}", name: str = "") -> ToolResult:
        name = name or self.spec().name
        checked = self.executor.check(name, arguments)
        if isinstance(checked, ToolResult):
            return checked
        key, digest = CallKey("r", 1, 0), call_digest(name, arguments)
        verdict = Verdict(key=key, digest=digest, decision="allow", rule="test")
        call = AllowedCall(key=key, tool=name, arguments=arguments, verdict=verdict)
        return await self.executor.run(call, self.cancel)

    def ran(self, arguments: str = "{}") -> ToolResult:
        return asyncio.run(self.result(arguments))


# -- the declaration


def test_annotations_and_docstring_become_schema_and_words() -> None:
    @tool(category="mutating", subject="path", timeout_seconds=5)
    def put(
        path: str,
        size: Annotated[int, msgspec.Meta(ge=1)] = 3,
        *,
        how: Literal["a", "b"] = "a",
        at: Place | None = None,
    ) -> str:
        """Puts a thing.

        Only where
        it belongs.

        Args:
            path: Where it goes,
                from the root.
            how: In which way.

        Returns:
            What it came to.
        """
        return path

    spec = World(put).spec()
    assert (spec.name, spec.category, spec.subject, spec.timeout_seconds) == ("put", "mutating", "path", 5)
    assert spec.description == "Puts a thing.\n\nOnly where\nit belongs.\n\nReturns: What it came to."
    assert spec.parameters == {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "Where it goes, from the root."},
            "size": {"type": "integer", "minimum": 1, "default": 3},
            "how": {"enum": ["a", "b"], "default": "a", "description": "In which way."},
            "at": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "zone": {"type": "integer", "default": 0}},
                "required": ["city"],
                "additionalProperties": False,
            },
        },
        "required": ["path"],
        "additionalProperties": False,
    }
    assert put("x") == "x"


@pytest.mark.parametrize(
    "doc", ["Says it.\n\n:param word: The word.", "Says it.\n\nParameters\n----------\nword : str\n    The word."]
)
def test_other_forms_of_docstring_are_read(doc: str) -> None:
    def say(word: str) -> str:
        return word

    say.__doc__ = doc
    spec = World(tool(category="read_only")(say)).spec()
    assert spec.description == "Says it."
    assert spec.parameters["properties"]["word"]["description"] == "The word."


@pytest.mark.parametrize("accepts", [True, False])
def test_a_reading_tool_can_accept_calls_that_were_closed(accepts: bool) -> None:
    @tool(category="read_only", accepts_healed=accepts)
    def look(word: str) -> str:
        """Looks."""
        return word

    assert World(look).spec().accepts_healed is accepts


def _bare(word: str) -> str:
    return word


def _untyped(word) -> str:  # type: ignore[no-untyped-def]
    """Says it."""
    return str(word)


def _many(*words: str) -> str:
    """Says it."""
    return words[0]


def _open(word: dict[str, str]) -> str:
    """Says it."""
    return str(word)


def _loose(word: Loose) -> str:
    """Says it."""
    return str(word)


def _thread(word: threading.Thread) -> str:
    """Says it."""
    return str(word)


def _wrong(word: str) -> str:
    """Says it.

    Args:
        wrod: The word.
    """
    return word


def _later(word: Nowhere) -> str:  # type: ignore[name-defined]  # noqa: F821
    """Says it."""
    return str(word)


def _yields() -> Any:
    """Says it."""
    yield 1


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (_bare, "needs a docstring"),
        (_untyped, "parameter 'word' has no annotation"),
        (_many, "parameter 'words': every parameter must be one that can be given by name"),
        (_open, "every object in a tool's arguments must be a struct"),
        (_loose, "every object in a tool's arguments must be a struct"),
        (_thread, "an annotation that has no JSON form"),
        (_wrong, "its docstring describes 'wrod', which is no parameter"),
        (_later, "its annotations cannot be read: name 'Nowhere' is not defined"),
        (_yields, "a generator cannot be a tool"),
        (Place, "@tool goes on a function"),
    ],
)
def test_what_cannot_be_a_tool_is_said_where_it_is_defined(function: Callable[..., Any], words: str) -> None:
    with pytest.raises(RegistrationError, match=words) as caught:
        tool(category="read_only")(function)
    assert str(caught.value).count("tool _") <= 1


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"name": "no good"}, "tool name 'no good' must match"),
        ({"category": "writing"}, "tool give: 'writing' is no category"),
        ({"category": "read_only", "changes_repository": True}, "read_only and has a risk mark"),
        ({"category": "mutating", "accepts_healed": True}, "only read_only tools may accept healed calls"),
        ({"subject": "nothing"}, "its subject 'nothing' is none of its arguments"),
        ({"timeout_seconds": 0}, "must be more than 0"),
        ({"max_output_bytes": float("nan")}, "must be more than 0"),
    ],
)
def test_the_registrys_rules_hold_where_it_is_defined(given: dict[str, Any], words: str) -> None:
    def give(what: str) -> str:
        """Gives."""
        return what

    with pytest.raises(RegistrationError, match=words):
        tool(**{"category": "mutating", **given})(give)


# -- the result


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("as it is", "as it is"),
        (None, ""),
        ({"a": [1, None]}, '{"a":[1,null]}'),
        (Place("Ulm"), '{"city":"Ulm","zone":0}'),
        (7, "7"),
    ],
)
@pytest.mark.parametrize("asynchronous", [False, True])
def test_what_is_returned_becomes_the_result(value: Any, content: str, asynchronous: bool) -> None:
    if asynchronous:

        @tool(category="read_only", name="give")
        async def later() -> Any:
            """Gives."""
            await asyncio.sleep(0)
            return value

        result = World(later).ran()
    else:

        @tool(category="read_only", name="give")
        def now() -> Any:
            """Gives."""
            return value

        result = World(now).ran()
    assert (result.ok, result.status, result.content, result.tool) == (True, "ok", content, "give")


def test_a_result_of_ones_own_keeps_what_it_says() -> None:
    @tool(category="read_only")
    def give() -> ToolResult:
        """Gives."""
        return ToolResult(ok=False, status="failed", tool="other", content="no", end_turn=True)

    result = World(give).ran()
    assert (result.ok, result.tool, result.content, result.end_turn) == (False, "give", "no", True)


@pytest.mark.parametrize(
    "value",
    [
        "a\udcff.txt",
        {"a\udcff.txt": ("a\udcff.txt", 1)},
        ToolResult(ok=True, status="ok", tool="x", content="a\udcff.txt", facts={"a\udcff": ["\udcff"]}),
        ValueError("a\udcff.txt"),
    ],
)
def test_what_is_no_text_is_made_text_that_can_be_stored(value: Any) -> None:
    """As `os.listdir` gives names that are no UTF-8: the end of the call could not be stored, and the run broke."""

    @tool(category="read_only")
    def give() -> Any:
        """Gives."""
        if isinstance(value, Exception):
            raise value
        return value

    result = World(give).ran()
    assert result.failure != "fatal"
    assert "a\ufffd.txt" in result.content
    assert msgspec.json.decode(msgspec.json.encode(result), type=ToolResult) == result


def test_a_result_of_ones_own_that_cannot_be_stored_is_a_fault_of_the_tool() -> None:
    @tool(category="read_only")
    def give() -> ToolResult:
        """Gives."""
        return ToolResult(ok=True, status="ok", tool="x", facts={"what": object()})

    result = World(give).ran()
    assert (result.ok, result.failure) == (False, "fatal")
    assert "cannot be shown as JSON" in result.content


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError("no such\ncity"), "ValueError: no such city"),
        (KeyError(), "KeyError"),
        (SystemExit(3), "SystemExit: 3"),
        (StopIteration(), "RuntimeError: StopIteration"),
        (ValueError("x" * 2000), "ValueError: " + "x" * 487 + "…"),
    ],
)
def test_what_is_raised_becomes_a_failed_result(error: BaseException, words: str) -> None:
    @tool(category="read_only")
    def give() -> str:
        """Gives."""
        raise error

    result = World(give).ran()
    assert (result.ok, result.status, result.content) == (False, "failed", words)
    assert result.error is not None
    assert result.error.code == "raised"


def test_what_has_no_json_form_is_said() -> None:
    @tool(category="read_only")
    def give() -> Any:
        """Gives."""
        return threading.Event()

    result = World(give).ran()
    assert result.error is not None
    assert (result.ok, result.error.code) == (False, "not_json")
    assert "returned a Event" in result.content


def test_arguments_are_checked_before_the_function_sees_them() -> None:
    @tool(category="read_only")
    def give(at: Place, many: list[int] = [1, 2]) -> str:  # noqa: B006
        """Gives."""
        many.append(3)
        return f"{at.city} {many}"

    for _again in range(2):  # a default is not shared
        assert World(give).ran('{"at": {"city": "Ulm"}}').content == "Ulm [1, 2, 3]"
    world = World(give)
    for wrong in ("{}", '{"at": {"city": 1}}', '{"at": {"city": "Ulm", "x": 1}}', '{"at": {"city": "Ulm"}, "y": 1}'):
        assert world.ran(wrong).status == "invalid"


def test_a_plain_function_runs_off_the_loop_and_several_at_once() -> None:
    both = threading.Barrier(2, timeout=20)

    @tool(category="read_only")
    def meet() -> str:
        """Waits for the other."""
        both.wait()
        return threading.current_thread().name

    async def run() -> None:
        world = World(meet)
        results = await asyncio.gather(world.result(), world.result())
        assert [r.content for r in results] == ["sluice tool meet"] * 2

    asyncio.run(run())


# -- stopping


def test_an_async_function_is_cancelled_with_its_call() -> None:
    ended: list[str] = []

    async def run() -> None:
        begun = asyncio.Event()

        @tool(category="read_only")
        async def wait() -> str:
            """Waits."""
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.append("cleaned up")
            return ""

        world = World(wait)
        call = asyncio.ensure_future(world.result())
        await begun.wait()
        world.cancel.set()
        assert (await call).status == "cancelled"

    asyncio.run(run())
    assert ended == ["cleaned up"]


@pytest.mark.parametrize("how", ["cancelled", "timed_out"])
def test_a_function_that_watches_its_cancel_ends_by_itself(how: str) -> None:
    threads: list[threading.Thread] = []

    async def run() -> ToolResult:
        begun = asyncio.Event()
        loop = asyncio.get_running_loop()

        @tool(category="read_only", timeout_seconds=30 if how == "cancelled" else 0.05)
        def wait(cancel: Cancel) -> str:
            """Waits."""
            threads.append(threading.current_thread())
            loop.call_soon_threadsafe(begun.set)
            while not cancel.is_set():
                threading.Event().wait(0.005)
            return "ended by itself"

        world = World(wait)
        assert world.spec().parameters["properties"] == {}
        call = asyncio.ensure_future(world.result())
        await begun.wait()
        if how == "cancelled":
            world.cancel.set()
        return await call

    result = asyncio.run(run())
    threads[0].join(20)
    assert result.status == ("ok" if how == "cancelled" else "timed_out")
    assert "at work" not in result.content


@pytest.mark.parametrize("how", ["cancelled", "timed_out"])
def test_a_thread_that_cannot_be_stopped_is_said_to_be_at_work(how: str) -> None:
    release = threading.Event()
    threads: list[threading.Thread] = []

    async def run() -> ToolResult:
        begun = asyncio.Event()
        loop = asyncio.get_running_loop()

        @tool(category="mutating", timeout_seconds=30 if how == "cancelled" else 0.05)
        def hang() -> str:
            """Hangs."""
            threads.append(threading.current_thread())
            loop.call_soon_threadsafe(begun.set)
            release.wait(20)
            return "late"

        world = World(hang)
        call = asyncio.ensure_future(world.result())
        await begun.wait()
        if how == "cancelled":
            world.cancel.set()
        return await call

    try:
        result = asyncio.run(run())  # and the loop closes although the thread is at work
    finally:
        release.set()
        threads[0].join(20)
    assert result.status == how
    assert "may still be at work" in result.content
    assert result.timed_out is (how == "timed_out")
