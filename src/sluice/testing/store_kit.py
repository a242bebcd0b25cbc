"""What every `Store` must do: scenarios that a new store is tested by.

    @pytest.mark.parametrize("name", SCENARIOS)
    def test_my_store(name):
        asyncio.run(SCENARIOS[name](MyStore()))

Each scenario takes an empty store and raises `AssertionError` where it does not keep the contract.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from sluice.errors import StoreError
from sluice.values.calls import AllowedCall, CallKey, Verdict, call_digest
from sluice.values.messages import (
    AssistantMessage,
    Conversation,
    ImagePart,
    Reasoning,
    TextPart,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from sluice.values.notices import TurnFinished, Warned
from sluice.values.ports import Store
from sluice.values.results import ToolResult


def allowed(run: str, turn: int = 1, position: int = 0, tool: str = "look", arguments: str = "{}") -> AllowedCall:
    """A call with an allowing verdict, as an executor gets it."""
    key, digest = CallKey(run, turn, position), call_digest(tool, arguments)
    verdict = Verdict(key=key, digest=digest, decision="allow", rule="read_only")
    return AllowedCall(key=key, tool=tool, arguments=arguments, verdict=verdict)


def asks(*ids: str, text: str | None = None, tool: str = "look") -> AssistantMessage:
    """A reply that asks for one call for each id."""
    calls = tuple(ToolCall(id=id, name=tool, arguments="{}", index=at) for at, id in enumerate(ids))
    return AssistantMessage(content=text, tool_calls=calls, stop_reason="tool_use")


def well(tool: str = "look", content: str = "seen") -> ToolResult:
    """A result of a call that went well."""
    return ToolResult(ok=True, status="ok", tool=tool, content=content)


async def refused(work: Awaitable[object]) -> None:
    """Raises unless `work` is refused with `StoreError` of the kind `refused`."""
    try:
        await work
    except StoreError as error:
        if error.kind == "refused":
            return
        raise
    raise AssertionError("the store took what it must refuse")


def pairs_hold(messages: Conversation) -> None:
    """Raises unless every call has its one result directly behind its reply, in call order (P1)."""
    waiting: list[str] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            assert waiting, "a result without its call"
            assert message.call_id == waiting.pop(0), "results are not in call order"
            continue
        assert not waiting, "a call without its result"
        waiting = [c.id for c in message.tool_calls] if isinstance(message, AssistantMessage) else []
    assert not waiting, "a call without its result"


async def a_run_comes_back_as_it_was(store: Store) -> None:
    """Prompt, streamed reply, call, result, answer: the history equals what was given."""
    await store.started("r", UserMessage("hello"))
    await store.reply_began("r", 1)
    await store.delta("r", "reasoning", "hm")
    await store.delta("r", "text", "let me ")
    await store.delta("r", "text", "look")
    await store.delta("r", "call", "look")
    await store.call_grew("r", 0, 8)
    asked = AssistantMessage(
        content="let me look",
        reasoning=(Reasoning(text="hm", signature="s"),),
        tool_calls=(ToolCall(id="a", name="look", arguments='{"x": 1}'),),
        stop_reason="tool_use",
        usage=Usage(input_tokens=3, output_tokens=2, cost=0.5),
        provider="p",
        dialect="openai_chat",
        model="m",
        native='[{"odd": true}]',
    )
    await store.append("r", asked)
    call = allowed("r", arguments='{"x": 1}')
    await store.call_started(call)
    await store.call_ended(call, well())
    await store.noted("r", TurnFinished(turn=1, stop_reason="tool_use", usage=asked.usage))
    await store.noted("r", Warned(message="mind this"))
    result = ToolMessage("a", "look", "seen")
    await store.append("r", result)
    await store.reply_began("r", 2)
    last = AssistantMessage(content="done", stop_reason="end_turn")
    await store.append("r", last)
    await store.finished("r", "completed")
    assert await store.history() == (UserMessage("hello"), asked, result, last)


async def all_kinds_of_messages_come_back(store: Store) -> None:
    """Images, empty words, host's notes, replies with nothing, no ASCII: equal again (S8)."""
    parts = UserMessage((TextPart("see"), ImagePart("image/png", "aGk="), TextPart("")), origin="user")
    given: list[UserMessage | AssistantMessage] = [
        UserMessage("note", origin="host"),
        UserMessage(""),
        AssistantMessage(),
        AssistantMessage(content="", stop_reason="odd word"),
        AssistantMessage(reasoning=(Reasoning(redacted="x"), Reasoning(text="naïve 🜂\x00"))),
    ]
    await store.started("r", parts)
    for message in given:
        await store.append("r", message)
    await store.finished("r", "completed")
    assert await store.history() == (parts, *given)


async def a_run_starts_and_ends_once(store: Store) -> None:
    """D4: no second start, no second end, and nothing after the end."""
    await store.started("r", UserMessage("a"))
    await refused(store.started("r", UserMessage("again")))
    await store.finished("r", "completed")
    await refused(store.finished("r", "completed"))
    await refused(store.append("r", AssistantMessage(content="late")))
    await refused(store.reply_began("r", 1))
    await refused(store.delta("r", "text", "late"))
    await store.started("q", UserMessage("next"))
    await store.finished("q", "cancelled")
    assert await store.history() == (UserMessage("a"), UserMessage("next"))


async def a_call_starts_and_ends_once(store: Store) -> None:
    """X1: a second start or end, and an end without a start, are refused."""
    await store.started("r", UserMessage("a"))
    await store.append("r", asks("a", "b"))
    await store.call_started(allowed("r"))
    await refused(store.call_started(allowed("r")))
    await refused(store.call_started(allowed("r", arguments='{"other": 1}')))
    await store.call_ended(allowed("r"), well())
    await refused(store.call_ended(allowed("r"), well()))
    await refused(store.call_ended(allowed("r", position=1), well()))
    await refused(store.call_started(allowed("r")))


async def each_call_has_one_result(store: Store) -> None:
    """P1: a result without its call, a double one, and one out of order are refused at the write."""
    await store.started("r", UserMessage("a"))
    await refused(store.append("r", ToolMessage("a", "look", "x")))
    await store.append("r", asks("a", "b"))
    await refused(store.append("r", ToolMessage("b", "look", "x")))
    await store.append("r", ToolMessage("a", "look", "x"))
    await refused(store.append("r", ToolMessage("a", "look", "x")))
    await store.append("r", ToolMessage("b", "look", "y"))
    await refused(store.append("r", ToolMessage("b", "look", "y")))
    await store.append("r", asks("a"))
    await store.append("r", ToolMessage("a", "look", "the same id in a later turn"))
    await store.finished("r", "completed")
    pairs_hold(await store.history())


async def a_reply_that_is_not_kept_is_no_part(store: Store) -> None:
    """A reply that was begun and dropped is not in the history; the next one is."""
    await store.started("r", UserMessage("a"))
    await store.reply_began("r", 1)
    await store.delta("r", "text", "half")
    await store.reply_began("r", 2)
    await store.delta("r", "text", "whole")
    await store.append("r", AssistantMessage(content="whole"))
    await store.reply_began("r", 3)
    await store.finished("r", "cancelled")
    assert await store.history() == (UserMessage("a"), AssistantMessage(content="whole"))


async def a_delta_needs_a_reply(store: Store) -> None:
    """D2: a delta before its reply was begun, or after it was kept, is refused."""
    await store.started("r", UserMessage("a"))
    await refused(store.delta("r", "text", "early"))
    await refused(store.call_grew("r", 0, 1))
    await store.reply_began("r", 1)
    await store.append("r", AssistantMessage(content="x"))
    await refused(store.delta("r", "text", "late"))


async def what_is_sent_may_be_shrunk(store: Store) -> None:
    """L10: a shrunk form is sent in place of what it stands for, and the history stays whole."""
    await refused(store.shrank((UserMessage("of nothing"),)))
    assert await store.sent() == ()
    await store.started("r", UserMessage("a"))
    await store.append("r", asks("a"))
    await store.append("r", ToolMessage("a", "look", "x" * 1000))
    whole = await store.history()
    assert await store.sent() == whole
    short = (UserMessage("a summary", origin="host"),)
    await store.shrank(short)
    await store.append("r", AssistantMessage(content="next"))
    assert await store.sent() == (*short, AssistantMessage(content="next"))
    await store.shrank((*short, *short))
    await store.finished("r", "completed")
    assert await store.sent() == (*short, *short)
    assert await store.history() == (*whole, AssistantMessage(content="next"))


async def a_run_may_begin_without_a_prompt(store: Store) -> None:
    """Its prompt comes later, or never; nothing waits in a session that no process died over."""
    assert await store.waiting() is None
    await store.started("r", UserMessage("a"))
    await store.append("r", asks("a"))
    await store.asked(CallKey("r", 1, 0), "look", call_digest("look", "{}"))
    assert await store.waiting() is None, "its run goes on"
    await store.answered(CallKey("r", 1, 0), False)
    await store.append("r", ToolMessage("a", "look", "no", False, status="blocked"))
    await store.finished("r", "completed")
    await store.started("q", None)
    await refused(store.started("q", None))
    await store.append("q", UserMessage("later"))
    await store.append("q", AssistantMessage(content="yes"))
    await store.finished("q", "completed")
    assert await store.waiting() is None
    history = await store.history()
    assert history[-2:] == (UserMessage("later"), AssistantMessage(content="yes"))
    pairs_hold(history)


async def the_end_of_a_session_tells_how_it_went(store: Store) -> None:
    """The last replies with their results, and whether the last run was ended from outside."""
    assert await store.last_exchanges(3) == ()
    assert not await store.broken_off()
    await store.started("r", UserMessage("a"))
    for id in ("a", "b"):
        await store.append("r", asks(id))
        result = ToolMessage(id, "look", "no", False, status="failed", failure="retryable", digest="d" * 64)
        await store.append("r", result)
    await store.finished("r", "terminated")
    history = await store.history()
    assert await store.last_exchanges(1) == history[-2:]
    assert history[-1] == result, "status, class and digest come back"
    assert await store.last_exchanges(9) == history
    assert await store.broken_off()
    await store.started("q", UserMessage("b"))
    await store.finished("q", "completed")
    assert not await store.broken_off()


SCENARIOS: dict[str, Callable[[Store], Awaitable[None]]] = {
    scenario.__name__: scenario
    for scenario in (
        a_run_comes_back_as_it_was,
        all_kinds_of_messages_come_back,
        a_run_starts_and_ends_once,
        a_call_starts_and_ends_once,
        each_call_has_one_result,
        a_reply_that_is_not_kept_is_no_part,
        a_delta_needs_a_reply,
        what_is_sent_may_be_shrunk,
        a_run_may_begin_without_a_prompt,
        the_end_of_a_session_tells_how_it_went,
    )
}
