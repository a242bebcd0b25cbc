"""Whole runs over fakes: how they go, how they end, and what must hold however they end."""

from __future__ import annotations

import asyncio
import gc
from contextlib import aclosing
from typing import Any

import pytest
from run_world import (
    DONE,
    FailingStore,
    FakeAudit,
    Gate,
    World,
    call,
    calls,
    check_conversation,
    done,
    end_of,
    event,
    kinds,
    results,
    shown,
    text,
)

from sluice.errors import StoreError, TransportError
from sluice.run.agent import Agent
from sluice.session.memory import MemoryStore
from sluice.values import notices as n
from sluice.values.messages import AssistantMessage, ToolMessage, UserMessage
from sluice.values.ports import Cancel
from sluice.values.results import ToolResult, failed


def test_a_run_with_a_call_tells_everything_in_order() -> None:
    world = World(calls(("look", '{"path": "a.py"}'), say="Let me see."), text("It is fine."))
    notices = world.run("how is it?")
    assert kinds(notices) == [
        "RunStarted",
        "TurnStarted",
        "TextNotice",
        "CallIntended",
        "CallArrived",
        "TurnFinished",
        "CallJudged",
        "CallStarted",
        "CallFinished",
        "TurnStarted",
        "TextNotice",
        "TurnFinished",
        "RunFinished",
    ]
    end = end_of(notices)
    assert (end.outcome, end.exit_code, end.text, end.turns, end.tool_calls) == ("completed", 0, "It is fine.", 2, 1)
    assert end.saved
    assert end.message_id == "run_1/4"
    roles = [m["role"] for m in world.transport.bodies[1]["messages"]]
    assert roles == ["system", "user", "assistant", "tool"]
    assert world.transport.bodies[1]["messages"][-1]["content"] == "saw a.py"
    arrived = next(x for x in notices if isinstance(x, n.CallArrived))
    assert (arrived.subject, arrived.status) == ("a.py", "whole")


def test_everything_is_stored_before_the_last_notice_and_the_start_of_a_call_before_its_tool() -> None:
    order: list[str] = []

    async def look(arguments: dict[str, Any], cancel: Cancel) -> ToolResult:
        order.extend(row[0] for row in world.store.rows)
        return done("look", "x")

    world = World(calls("look"), text("ok"), tools={"look": ("read_only", look)})
    world.run()
    assert order[-1] == "call_started"
    assert [row[0] for row in world.store.rows] == [
        "started",
        "message",
        "call_started",
        "call_ended",
        "message",
        "message",
        "finished",
    ]


def test_read_only_calls_run_side_by_side_and_results_keep_call_order() -> None:
    here, there = asyncio.Event(), asyncio.Event()

    async def first(arguments: dict[str, Any], cancel: Cancel) -> ToolResult:
        here.set()
        await there.wait()  # set only by the second, which must therefore be running
        return done("first", "1")

    async def second(arguments: dict[str, Any], cancel: Cancel) -> ToolResult:
        await here.wait()
        there.set()
        return done("second", "2")

    world = World(
        calls("first", "second"), text("ok"), tools={"first": ("read_only", first), "second": ("read_only", second)}
    )
    assert [r.content for r in results(world.run())] == ["1", "2"]


def test_what_writes_or_executes_runs_alone() -> None:
    at_work: set[str] = set()

    def tool(name: str) -> Any:
        async def work(arguments: dict[str, Any], cancel: Cancel) -> ToolResult:
            assert not (at_work and (name != "look" or at_work - {"look"}))
            at_work.add(name)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            at_work.discard(name)
            return done(name)

        return work

    tools: Any = {
        "look": ("read_only", tool("look")),
        "change": ("mutating", tool("change")),
        "execute": ("execution", tool("execute")),
    }
    world = World(calls("look", "look", "change", "execute", "look"), text("ok"), tools=tools)
    notices = world.run()
    assert end_of(notices).outcome == "completed"
    assert world.tools.ran == ["look", "look", "change", "execute", "look"]
    assert all(r.ok for r in results(notices))


# -- policy


@pytest.mark.parametrize("tool", ["change", "execute"])
def test_what_is_not_allowed_is_blocked_and_says_how_to_allow_it(tool: str) -> None:
    world = World(calls(tool, "look"), text("I could not."), allow=False)
    notices = world.run()
    blocked, skipped = results(notices)
    assert blocked.status == "blocked"
    assert blocked.blocked is not None
    assert "--allow-" in blocked.blocked.how_to_allow
    assert skipped.status == "skipped"
    assert world.tools.ran == []
    assert end_of(notices).exit_code == 0
    assert "--allow-" in world.transport.bodies[1]["messages"][3]["content"]


def test_the_same_blocked_call_again_ends_the_run_as_blocked() -> None:
    notices = World(calls("change"), calls("change"), allow=False).run()
    assert (end_of(notices).outcome, end_of(notices).exit_code) == ("blocked", 4)


class Person:
    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []

    async def ask(self, spec: Any, arguments: str, reason: str) -> tuple[bool, str]:
        self.asked.append(spec.name)
        answer = self._answers.pop(0)
        if isinstance(answer, Gate):
            await answer.wait()
        if isinstance(answer, BaseException):
            raise answer
        return answer  # type: ignore[no-any-return]


def test_a_person_may_say_yes_to_one_call_and_no_to_the_next() -> None:
    person = Person((True, ""), (False, "not that one"))
    world = World(calls("change"), calls("change"), text("fine"), allow=False, ask=True, approver=person)
    notices = world.run()
    assert world.tools.ran == ["change"]
    assert person.asked == ["change", "change"]
    assert [r.status for r in results(notices)] == ["ok", "blocked"]
    assert "not that one" in world.transport.bodies[2]["messages"][-1]["content"]
    assert end_of(notices).outcome == "completed"


def test_a_persons_bare_no_ends_the_run() -> None:
    world = World(calls("change"), allow=False, ask=True, approver=Person((False, "")))
    assert (end_of(world.run()).outcome, world.tools.ran) == ("blocked", [])


@pytest.mark.parametrize("answer", [RuntimeError("no terminal"), asyncio.CancelledError(), ("yes", ""), (1, "")])
def test_an_approver_that_breaks_or_does_not_say_true_is_a_no(answer: Any) -> None:
    world = World(calls("change"), allow=False, ask=True, approver=Person(answer))
    assert end_of(world.run()).exit_code == 4
    assert world.tools.ran == []


# -- limits, each with its name


@pytest.mark.parametrize(
    ("limits", "scripts", "outcome"),
    [
        ({"max_turns": 1}, [calls("look")], "limit:turns"),
        ({"max_tool_calls_per_turn": 2}, [calls("look", "look", "look")], "limit:tool_calls_per_turn"),
        ({"max_total_tool_calls": 1}, [calls("look"), calls("look", "look")], "limit:total_tool_calls"),
        ({"max_calls_per_minute": 1}, [calls("look"), calls(("look", '{"path": "b"}'))], "limit:calls_per_minute"),
        ({"max_calls_per_reply": 2}, [calls("look", "look", "look")], "limit:calls_per_reply"),
        ({"max_stream_bytes": 2000}, [[event({"content": "x" * 500})] * 9], "limit:stream_bytes"),
        ({"max_event_bytes": 100}, [[b"data: " + b"x" * 2_000_000]], "limit:event_bytes"),
        ({"max_context_bytes": 200}, [], "limit:context"),
        ({"max_continuations": 0}, [text("half an ans", "length")], "limit:output_tokens"),
        ({}, [text("half an ans", "length")] * 3, "limit:output_tokens"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_limit_met_is_a_named_outcome_and_exit_code_3(limits: Any, scripts: Any, outcome: str) -> None:
    end = end_of(World(*scripts, limits=limits).run())
    assert (end.outcome, end.exit_code) == (outcome, 3)
    assert end.message


def test_with_one_call_too_many_none_of_the_reply_runs() -> None:
    world = World(calls("look", "look", "look"), limits={"max_tool_calls_per_turn": 2})
    notices = world.run()
    assert world.tools.ran == []
    assert {r.status for r in results(notices)} == {"skipped"}


def test_a_run_over_its_time_stops_what_is_at_work() -> None:
    def late(notice: n.Notice, agent: Agent) -> None:
        if isinstance(notice, n.CallStarted):
            world.clock.advance(100)

    world = World(calls("wait"), limits={"max_seconds": 0.05})
    notices = world.run(react=late)
    assert (end_of(notices).outcome, end_of(notices).exit_code) == ("limit:seconds", 3)
    assert results(notices)[0].status == "cancelled"


def test_the_same_call_with_the_same_result_too_often_is_a_loop() -> None:
    notices = World(*[calls("look") for _ in range(6)]).run()
    assert (end_of(notices).outcome, end_of(notices).exit_code) == ("loop", 3)


# -- replies that are not what was hoped for


@pytest.mark.parametrize(
    ("script", "outcome", "words"),
    [
        ([event({}, "stop"), DONE], "completed", "returned nothing"),
        ([event({"reasoning_content": "hm"}), event({}, "stop"), DONE], "completed", "but reasoning"),
        ([event({"refusal": "I will not."}), event({}, "stop"), DONE], "failed", "refused"),
        (text("so", "content_filter"), "failed", "content filter"),
    ],
)
def test_an_odd_end_of_a_reply_is_said(script: Any, outcome: str, words: str) -> None:
    end = end_of(World(script).run())
    assert end.outcome == outcome
    assert words in end.message


def test_a_call_cut_by_length_never_runs_and_the_third_time_ends_the_run() -> None:
    cut = calls(("change", '{"path": "a", "content": "aaaa'), finish="length")
    world = World(cut, cut, cut)
    notices = world.run()
    assert world.tools.ran == []
    assert (end_of(notices).outcome, end_of(notices).exit_code) == ("loop", 3)
    assert [r.error.code for r in results(notices) if r.error] == ["cut_call"] * 3
    told = world.transport.bodies[1]["messages"][-1]["content"]
    assert "append" in told
    assert "pieces" in told
    assert any(isinstance(x, n.CallWithdrawn) for x in notices)


def test_malformed_arguments_are_answered_and_history_holds_an_empty_object() -> None:
    raw = '{"path": "a", "path": "b", "tail": "' + "z" * 80 + '"}'
    world = World(calls(("look", raw)), text("sorry"))
    notices = world.run()
    assert world.tools.ran == []
    error = results(notices)[0].error
    assert error is not None
    assert error.code == "malformed_call"
    assert "call 0" in error.message
    assert "position" in error.message
    assert repr(raw[-64:]) in error.message
    sent = world.transport.bodies[1]["messages"][2]["tool_calls"][0]["function"]["arguments"]
    assert sent == "{}"
    kept = world.talk.messages[1]
    assert isinstance(kept, AssistantMessage)
    assert kept.tool_calls[0].arguments == raw
    assert end_of(notices).outcome == "completed"


def test_a_stream_broken_after_text_is_continued_by_one_new_turn() -> None:
    broken = [event({"content": "Half a "}), call("look", '{"pa'), TransportError("broken", "the connection broke")]
    world = World(broken, text("sentence."))
    notices = world.run()
    end = end_of(notices)
    assert (end.outcome, end.turns, end.text) == ("completed", 2, "sentence.")
    assert world.tools.ran == []
    assert [r.error.code for r in results(notices) if r.error] == ["cut_call"]
    messages = world.transport.bodies[1]["messages"]
    assert [m["role"] for m in messages] == ["system", "user", "assistant", "tool", "user"]
    assert messages[2]["content"] == "Half a "
    assert "broke off" in messages[4]["content"]
    assert world.waits == []
    assert isinstance(world.talk.messages[3], UserMessage)
    assert world.talk.messages[3].origin == "host"


def test_the_second_broken_stream_in_a_row_ends_the_run() -> None:
    world = World([event({"content": "a"})], [event({"content": "b"})])
    end = end_of(world.run())
    assert (end.outcome, end.exit_code, end.text) == ("incomplete", 1, "b")


def test_a_reply_that_broke_off_while_it_was_only_thinking_is_kept_and_continued() -> None:
    world = World([event({"reasoning_content": "Let me see"})], text("Here."))
    notices = world.run()
    assert (end_of(notices).outcome, end_of(notices).text, end_of(notices).turns) == ("completed", "Here.", 2)
    kept = world.talk.messages[1]
    assert isinstance(kept, AssistantMessage)
    assert kept.reasoning[0].text == "Let me see"
    assert world.transport.bodies[1]["messages"][2]["content"] == ""


def test_half_a_character_in_a_prompt_or_a_result_spoils_no_request() -> None:
    async def look(arguments: dict[str, Any], cancel: Cancel) -> ToolResult:
        return done("look", "before\ud800after")

    world = World(calls("look"), text("ok"), tools={"look": ("read_only", look)})
    assert end_of(world.run("good \udcff morning")).outcome == "completed"
    assert world.transport.bodies[1]["messages"][-1]["content"] == "before\ufffdafter"


def test_an_executor_that_returns_no_result_is_a_fatal_result() -> None:
    async def look(arguments: dict[str, Any], cancel: Cancel) -> Any:
        return None

    notices = World(calls("look"), tools={"look": ("read_only", look)}).run()
    assert end_of(notices).outcome == "failed"
    assert results(notices)[0].failure == "fatal"


# -- cancelled at every point


POINTS = [
    "RunStarted",
    "TurnStarted",
    "TextNotice",
    "CallIntended",
    "CallArrived",
    "TurnFinished",
    "CallJudged",
    "CallStarted",
    "CallFinished",
]


@pytest.mark.parametrize("reason", ["cancelled", "terminated"])
@pytest.mark.parametrize("point", POINTS)
def test_cancelled_at_any_notice_the_run_ends_in_order(point: str, reason: Any) -> None:
    def react(notice: n.Notice, agent: Agent) -> None:
        if type(notice).__name__ == point:
            agent.cancel(reason)
            agent.cancel("cancelled")  # a second wish changes nothing

    end = end_of(World(calls("look", "wait", say="hm"), text("ok")).run(react=react))
    assert (end.outcome, end.exit_code) == (reason, 130 if reason == "cancelled" else 143)


def test_after_a_cancelled_run_the_next_one_sends_a_valid_conversation() -> None:
    cancelled: list[str] = []

    def react(notice: n.Notice, agent: Agent) -> None:
        if isinstance(notice, n.CallStarted) and not cancelled:
            cancelled.append(notice.tool)
            agent.cancel()

    world = World(calls("wait", "look", "change"), text("fine"))
    first, second = world.runs("go", "go on", react=react)
    assert end_of(first).outcome == "cancelled"
    assert end_of(second).outcome == "completed"
    assert [m["role"] for m in world.transport.bodies[1]["messages"]] == [
        "system",
        "user",
        "assistant",
        "tool",
        "tool",
        "tool",
        "user",
    ]


def test_cancelled_before_the_first_byte() -> None:
    gate = Gate()
    world = World(gate)

    async def go() -> list[n.Notice]:
        agent = world.agent()

        async def stop() -> None:
            await gate.reached.wait()
            agent.cancel()

        task = asyncio.create_task(stop())
        notices = [x async for x in agent.run("go")]
        await task
        world.check(notices)
        return notices

    notices = asyncio.run(go())
    assert end_of(notices).outcome == "cancelled"
    assert not any(isinstance(x, n.Failed) for x in notices)
    assert world.talk.messages == (UserMessage("go"),)


def test_cancelled_in_mid_text_the_partial_reply_is_kept_and_its_calls_do_not_run() -> None:
    def react(notice: n.Notice, agent: Agent) -> None:
        if isinstance(notice, n.CallIntended):
            agent.cancel()

    world = World([event({"content": "I will"}), call("change", '{"path": "a"}'), Gate()])
    notices = world.run(react=react)
    assert (end_of(notices).outcome, end_of(notices).text) == ("cancelled", "I will")
    assert world.tools.ran == []
    kept = world.talk.messages[1]
    assert isinstance(kept, AssistantMessage)
    assert kept.content == "I will"
    assert isinstance(world.talk.messages[2], ToolMessage)


def test_cancelled_while_a_person_is_asked_nothing_runs() -> None:
    gate = Gate()
    world = World(calls("change"), allow=False, ask=True, approver=Person(gate))

    async def react(agent: Agent) -> None:
        await gate.reached.wait()
        agent.cancel()

    notices = world.run(react=lambda x, agent: react(agent) if isinstance(x, n.CallJudged) else None)
    assert end_of(notices).outcome == "cancelled"
    assert world.tools.ran == []


def test_cancelled_during_the_wait_between_attempts() -> None:
    gate = Gate()

    async def sleep(seconds: float) -> None:
        await gate.wait()

    def react(notice: n.Notice, agent: Agent) -> None:
        if isinstance(notice, n.Waiting):
            agent.cancel()

    world = World(TransportError("connect", "no way there"), text("never"), sleep=sleep)
    assert end_of(world.run(react=react)).outcome == "cancelled"


def test_cancelled_after_any_number_of_steps_of_the_loop_the_run_ends() -> None:
    """No step is left out, also those between two notices."""

    async def go(steps: int) -> None:
        world = World(calls("look", "wait", say="a"), text("b"))
        agent = world.agent()
        notices: list[n.Notice] = []

        async def read() -> None:
            async for notice in agent.run("go"):
                notices.append(notice)

        reader = asyncio.create_task(read())
        for _ in range(steps):
            await asyncio.sleep(0)
        agent.cancel()
        async with asyncio.timeout(10):
            await reader
        world.check(notices)
        assert end_of(notices).outcome == "cancelled"

    for steps in range(1, 61):
        asyncio.run(go(steps))


# -- readers that leave


@pytest.mark.parametrize("point", POINTS)
def test_a_reader_that_leaves_early_ends_the_run(point: str) -> None:
    world = World(calls("look", "wait", say="hm"), text("fine"))

    async def go() -> None:
        agent = world.agent()
        async with aclosing(agent.run("go")) as notices:
            async for notice in notices:
                if type(notice).__name__ == point:
                    break
        assert asyncio.all_tasks() == {asyncio.current_task()}
        assert world.transport.open == 0
        check_conversation(world.talk.messages)
        assert world.store.rows[-1] == ("finished", "run_1", "cancelled")

    asyncio.run(go())


def test_a_dropped_iterator_does_not_block_the_next_run() -> None:
    world = World([event({"content": "a"}), Gate()], text("second"))

    async def go() -> None:
        agent = world.agent()
        async for notice in agent.run("go"):
            if isinstance(notice, n.TextNotice):
                break
        gc.collect()
        async with asyncio.timeout(10):
            notices = [x async for x in agent.run("again")]
        world.check(notices)
        assert end_of(notices).text == "second"

    asyncio.run(go())


@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_reader_that_is_cancelled_even_repeatedly_leaves_nothing(times: int) -> None:
    world = World(calls("wait"))

    async def go() -> None:
        agent = world.agent()
        started = asyncio.Event()

        async def read() -> None:
            async with aclosing(agent.run("go")) as notices:
                async for notice in notices:
                    if isinstance(notice, n.CallStarted):
                        started.set()

        reader = asyncio.create_task(read())
        await started.wait()
        for _ in range(times):
            reader.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await reader
        assert asyncio.all_tasks() == {asyncio.current_task()}
        check_conversation(world.talk.messages)
        assert world.store.rows[-1][0] == "finished"

    asyncio.run(go())


def test_a_reader_slower_than_the_model_gets_everything() -> None:
    pieces = [event({"content": f"{i} "}) for i in range(1000)]
    world = World([*pieces, event({}, "stop"), DONE])
    notices = world.run(react=lambda _x, _a: asyncio.sleep(0))
    assert shown(notices) == end_of(notices).text == "".join(f"{i} " for i in range(1000))


def test_a_reader_that_leaves_while_the_run_waits_for_it() -> None:
    world = World([*[event({"content": "x"})] * 1000, event({}, "stop"), DONE])

    async def go() -> None:
        agent = world.agent()
        async with aclosing(agent.run("go")) as notices:
            async for _ in notices:
                for _turn in range(2000):
                    await asyncio.sleep(0)
                break
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(go())


def test_two_prompts_at_once_are_answered_one_after_the_other() -> None:
    world = World(text("one"), text("two"))

    async def go() -> list[str]:
        agent = world.agent()

        async def answer(prompt: str) -> str:
            return end_of([x async for x in agent.run(prompt)]).text

        return await asyncio.gather(answer("a"), answer("b"))

    assert asyncio.run(go()) == ["one", "two"]
    assert [m["role"] for m in world.transport.bodies[1]["messages"]] == ["system", "user", "assistant", "user"]


def test_close_ends_a_run_that_somebody_else_reads() -> None:
    world = World(calls("wait"))

    async def go() -> None:
        agent = world.agent()
        started = asyncio.Event()

        async def read() -> list[n.Notice]:
            notices = []
            async for notice in agent.run("go"):
                notices.append(notice)
                if isinstance(notice, n.CallStarted):
                    started.set()
            return notices

        reader = asyncio.create_task(read())
        await started.wait()
        await agent.close()
        assert end_of(await reader).outcome == "cancelled"
        await agent.close()  # nothing to close is fine

    asyncio.run(go())


# -- a host that fails


@pytest.mark.parametrize("at", [1, 2, 3, 0])
@pytest.mark.parametrize("method", ["started", "append", "append_result", "call_started", "call_ended", "finished"])
def test_a_store_that_fails_ends_the_run_in_order_and_says_what_is_not_saved(method: str, at: int) -> None:
    store = FailingStore(method, at)
    scripts = [calls("look", "change", say="x"), text("ok"), text("next"), text("more")]
    world = World(*scripts, store=store)
    first, second = world.runs("go", "again")
    end = end_of(first)
    reached = {"started": 1, "append": 4, "append_result": 2, "call_started": 2, "call_ended": 2, "finished": 1}
    if at <= reached[method]:
        if method == "finished":
            assert (end.outcome, end.saved) == ("completed", False)
        else:
            assert (end.outcome, end.exit_code) == ("failed", 1)
            assert "No space left" in end.message
        if method != "call_started":  # there the call did not start, so nothing is lost
            assert not end.saved
            assert "No space left" in (end.unsaved or "")
    else:
        assert (end.outcome, end.saved) == ("completed", True)
    if at == 1:
        assert end_of(second).outcome == "completed"


def test_usage_that_cannot_be_stored_stops_nothing_and_is_told() -> None:
    class Forgetful(MemoryStore):
        async def noted(self, run: str, notice: n.Notice) -> None:
            raise StoreError("full", "the disk is full")

    end = end_of(World(text("ok"), store=Forgetful()).run())
    assert (end.outcome, end.saved) == ("completed", False)
    assert end.unsaved == "what was used or told was not stored: the disk is full"


def test_a_tool_whose_end_cannot_be_stored_still_has_its_own_result() -> None:
    world = World(calls("change"), store=FailingStore("call_ended"))
    notices = world.run()
    assert results(notices)[0].ok
    assert end_of(notices).outcome == "failed"


def test_a_tool_whose_start_cannot_be_stored_does_not_start() -> None:
    world = World(calls("change"), store=FailingStore("call_started"))
    notices = world.run()
    assert world.tools.ran == []
    error = results(notices)[0].error
    assert error is not None
    assert error.code == "store_unavailable"


@pytest.mark.parametrize(
    ("raised", "words"),
    [(ZeroDivisionError("oops"), "ZeroDivisionError"), (asyncio.CancelledError(), "nobody had asked for that")],
)
def test_an_executor_that_raises_is_a_fatal_result_and_recorded_as_ended(raised: BaseException, words: str) -> None:
    async def look(arguments: dict[str, Any], cancel: Cancel) -> ToolResult:
        raise raised

    world = World(calls("look", "change"), tools={"look": ("read_only", look)})
    notices = world.run()
    assert (end_of(notices).outcome, end_of(notices).exit_code) == ("failed", 1)
    assert words in results(notices)[0].error.message  # type: ignore[union-attr]
    assert [row[0] for row in world.store.rows].count("call_ended") == 1
    assert "call_ended" in [line[0] for line in world.audit.lines]


def test_an_executor_that_cannot_check_is_no_reason_to_run() -> None:
    world = World(calls("look"))

    def check(name: str, arguments: str) -> Any:
        raise RuntimeError("schema store is gone")

    world.tools.check = check  # type: ignore[method-assign]
    notices = world.run()
    assert world.tools.ran == []
    assert end_of(notices).outcome == "failed"


def test_an_executor_that_cannot_say_its_tools_ends_the_run_in_order() -> None:
    world = World()

    def specs() -> Any:
        raise RuntimeError("registry is gone")

    world.tools.specs = specs  # type: ignore[method-assign]
    end = end_of(world.run())
    assert end.outcome == "failed"
    assert "registry is gone" in end.message


@pytest.mark.parametrize("error", [OSError("cable cut"), ValueError("odd"), KeyError("x")])
@pytest.mark.parametrize("where", ["send", "read", "mid"])
def test_a_transport_that_raises_what_it_should_not_ends_the_run_as_failed(error: Exception, where: str) -> None:
    scripts: Any = {"send": error, "read": [error], "mid": [event({"content": "half"}), error]}[where]
    world = World(scripts, text("next"))
    first, second = world.runs("go", "again")
    end = end_of(first)
    assert (end.outcome, end.exit_code) == ("failed", 1)
    assert type(error).__name__ in end.message
    assert end.text == ("half" if where == "mid" else "")
    assert end_of(second).outcome == "completed"


@pytest.mark.parametrize(("tool", "runs"), [("look", True), ("change", False), ("execute", False)])
def test_without_an_audit_log_only_reading_goes_on(tool: str, runs: bool) -> None:
    world = World(calls(tool), text("ok"), audit=FakeAudit(broken=True))
    notices = world.run()
    assert (world.tools.ran == [tool]) is runs
    assert results(notices)[0].ok is runs
    assert end_of(notices).outcome == ("completed" if runs else "failed")
    assert [x.message for x in notices if isinstance(x, n.Warned)] == ["the audit log cannot be written: disk full"]


def test_every_decision_and_execution_is_in_the_audit_log() -> None:
    world = World(calls("look"), calls("change"), text("ok"), allow=False)
    world.run()
    assert [(event, fields["tool"]) for event, fields in world.audit.lines] == [
        ("verdict", "look"),
        ("call_started", "look"),
        ("call_ended", "look"),
        ("verdict", "change"),
        ("call_refused", "change"),
    ]


def test_a_broken_rule_of_our_own_still_ends_with_one_notice_and_no_open_call(monkeypatch: pytest.MonkeyPatch) -> None:
    from sluice.turn.machine import Machine

    feed = Machine.feed

    def broken(self: Machine, fact: Any) -> Any:
        if type(fact).__name__ == "Ran":
            raise ArithmeticError("two and two are five")
        return feed(self, fact)

    monkeypatch.setattr(Machine, "feed", broken)
    notices: list[n.Notice] = []
    world = World(calls("look", "look"))

    async def go() -> None:
        async for notice in world.agent().run("go"):
            notices.append(notice)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(go())
    assert [type(x) for x in notices].count(n.RunFinished) == 1
    assert "two and two are five" in end_of(notices).message
    check_conversation(world.talk.messages)
    assert isinstance(world.talk.messages[-1], ToolMessage)
    assert "unknown_outcome" in world.talk.messages[-1].content


def test_a_result_that_asks_for_it_ends_the_run() -> None:
    async def look(arguments: dict[str, Any], cancel: Cancel) -> ToolResult:
        return done("look", "that was all", end_turn=True)

    world = World(calls("look", "look"), tools={"look": ("read_only", look)})
    assert end_of(world.run()).outcome == "completed"


def test_text_of_a_tool_that_looks_like_a_failure_changes_nothing() -> None:
    async def look(arguments: dict[str, Any], cancel: Cancel) -> ToolResult:
        return done("look", '{"ok": false, "status": "blocked", "end_turn": true}')

    world = World(calls("look"), text("ok"), tools={"look": ("read_only", look)})
    assert end_of(world.run()).outcome == "completed"


def test_a_failure_that_comes_back_ends_the_run_and_the_rest_of_its_turn_is_skipped() -> None:
    async def look(arguments: dict[str, Any], cancel: Cancel) -> ToolResult:
        return failed("look", "not_text", "that is no text")

    tools: Any = {"look": ("read_only", look)}
    notices = World(calls("look", "change"), calls("look"), tools=tools).run()
    assert [r.status for r in results(notices)] == ["failed", "skipped", "failed"]
    assert (end_of(notices).outcome, end_of(notices).exit_code) == ("failed", 1)
