"""A call that a person was asked about when the process died: it waits, and the next run takes it up, once at most."""

from __future__ import annotations

import asyncio
import dataclasses
import sqlite3
from collections.abc import Callable
from contextlib import aclosing, closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from run_world import Gate, World, calls, check_conversation, check_notices, check_request, done, end_of, results, text

from sluice.errors import StoreError
from sluice.policy.rules import Policy, Rule
from sluice.run.agent import Agent
from sluice.run.conversation import Talk
from sluice.run.parts import NoHooks
from sluice.run.recalling import recalled
from sluice.run.result_text import result_text
from sluice.session import catalog
from sluice.session.check import check
from sluice.session.disk import reading
from sluice.session.opening import open_session
from sluice.session.wish import How, Wish
from sluice.values import notices as n
from sluice.values.calls import call_digest
from sluice.values.messages import AssistantMessage, ToolMessage, UserMessage
from sluice.values.requests import ModelOptions
from sluice.values.results import ToolResult
from sluice.wire.dialects import DIALECTS

Notices = list[n.Notice]


class Person:
    """Answers each question with the next of `answers`, the last of them for ever; `None` is never."""

    def __init__(self, *answers: bool | None, words: str = "") -> None:
        self.answers, self.words = list(answers), words
        self.asked: list[str] = []
        self.reasons: list[str] = []
        self.silent = asyncio.Event()

    async def ask(self, spec: Any, arguments: str, reason: str) -> tuple[bool, str]:
        self.asked.append(spec.name)
        self.reasons.append(reason)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer is None:
            self.silent.set()
            await asyncio.Event().wait()
        return bool(answer), "" if answer else self.words


def _asking(*scripts: Any, person: Person | None, allow: bool = False, **more: Any) -> World:
    """A world whose person, if there is one, is asked about what changes something."""
    return World(*scripts, allow=allow, ask=person is not None, approver=person, **more)


class Process:
    """One process on the session of `path`: what it tells, run by run."""

    def __init__(self, path: Path, world: World, name: str, how: How = "continue") -> None:
        self.path, self.world, self.name, self.how = path, world, name, how
        self.news: tuple[str, ...] = ()

    async def __aenter__(self) -> Process:
        opening = await open_session(self.path, "/p", Wish(how=self.how), new_id=lambda: "ses_1", words=result_text)
        self.store: Any = opening.store
        self.news = opening.news
        world = self.world

        class Ids:
            count = 0

            def new(self, kind: str, name: str = self.name) -> str:
                self.count += 1
                return f"{kind}_{name}_{self.count}"

        world.parts = dataclasses.replace(world.parts, store=self.store, ids=Ids())
        world.talk = Talk("be good", self.store, await self.store.sent())
        self.agent = Agent(world.parts, world.talk, await recalled(self.store, world.tools))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.store.close()
        await self.agent.close()

    async def run(self, prompt: str | None, react: Callable[[n.Notice, Agent], object] | None = None) -> Notices:
        told: Notices = []
        async with asyncio.timeout(20), aclosing(self.agent.run(prompt)) as notices:
            async for notice in notices:
                told.append(notice)
                if react is not None:
                    react(notice, self.agent)
        check_notices(told)
        check_conversation(self.world.talk.messages)
        for body in self.world.transport.bodies:
            check_request(body)
        return told

    async def dies_while(self, prompt: str | None, moment: asyncio.Event) -> None:
        """Begins a run and dies at that moment: nothing is stored after it."""

        async def go() -> None:
            async with aclosing(self.agent.run(prompt)) as notices:
                async for _notice in notices:
                    pass

        running = asyncio.create_task(go())
        async with asyncio.timeout(20):
            await moment.wait()
        await self.store.close()
        await self.agent.close()
        await running


def one_run(path: Path, world: World, prompt: str | None = "go on", name: str = "b", **more: Any) -> Notices:
    async def body() -> Notices:
        async with Process(path, world, name) as process:
            return await process.run(prompt, **more)

    return asyncio.run(body())


def die(path: Path, world: World, moment: asyncio.Event, prompt: str | None = "go", name: str = "a") -> None:
    async def body() -> None:
        async with Process(path, world, name, "new" if name == "a" else "continue") as process:
            await process.dies_while(prompt, moment)

    asyncio.run(body())


def killed_while_asked(path: Path, *wanted: Any, answers: tuple[bool | None, ...] = (None,), **more: Any) -> None:
    """The first process: asks for `wanted`, and dies while its person is asked."""
    person = Person(*answers)
    world = _asking(calls(*(wanted or ("change",))), person=person, **more)
    die(path, world, person.silent)


def broken(path: Path) -> list[str]:
    with reading(path) as connection:
        return [f"{one.promise} {one.where}: {one.words}" for one in check(connection, path).broken]


def rows_of(path: Path, query: str) -> list[tuple[Any, ...]]:
    with reading(path) as connection:
        return connection.execute(query).fetchall()


def pending(path: Path) -> tuple[str, ...]:
    with reading(path) as connection:
        return next(catalog.listed(connection, path)).pending


def history(path: Path) -> Any:
    async def body() -> Any:
        opening = await open_session(path, "/p", Wish(how="continue"), new_id=lambda: "x", words=result_text)
        try:
            return await opening.store.history()
        finally:
            await opening.store.close()

    return asyncio.run(body())


def said(notices: Notices) -> list[tuple[str, str | None]]:
    return [(result.status, result.error.code if result.error else None) for result in results(notices)]


# -- it waits


def test_it_waits_for_as_long_as_nobody_decides(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    killed_while_asked(path)
    assert pending(path) == ("change",), "before anybody opened it again"
    news = []

    async def look() -> None:
        opening = await open_session(path, "/p", Wish(how="continue"), new_id=lambda: "x", words=result_text)
        news.append(opening.news)
        waiting = await opening.store.waiting()
        assert waiting is not None
        assert (waiting.run, waiting.turn, waiting.first, waiting.tools) == ("run_a_1", 1, 0, ("change",))
        await opening.store.close()

    for _ in range(3):
        asyncio.run(look())
    assert all("waiting for your approval: change" in lines[0] for lines in news)
    assert ["interrupted" in lines[0] for lines in news] == [True, False, False]
    assert pending(path) == ("change",)
    assert broken(path) == []
    assert rows_of(path, "SELECT outcome FROM run") == [("interrupted",)]
    assert isinstance(history(path)[-1], AssistantMessage)


# -- it is taken up


def test_a_yes_runs_it_once_under_the_key_it_had_and_the_prompt_follows(tmp_path: Path) -> None:
    path, person = tmp_path / "s.db", Person(True)
    killed_while_asked(path)
    world = _asking(text("fine"), person=person)
    notices = one_run(path, world, "and now?")
    assert (person.asked, world.tools.ran) == (["change"], ["change"])
    assert end_of(notices).outcome == "completed"
    assert rows_of(path, "SELECT run, turn, position, status FROM call") == [("run_a_1", 1, 0, "ok")]
    (body,) = world.transport.bodies
    assert [m["role"] for m in body["messages"]] == ["system", "user", "assistant", "tool", "user"]
    assert body["messages"][3]["content"] == "changed"
    assert body["messages"][4]["content"] == "and now?"
    assert rows_of(path, "SELECT run, role FROM message ORDER BY seq")[2:] == [
        ("run_b_1", "tool"),
        ("run_b_1", "user"),
        ("run_b_1", "assistant"),
    ]
    about = [x for x in notices if isinstance(x, n.CallArrived | n.CallJudged | n.CallStarted | n.CallFinished)]
    assert [(type(x).__name__, x.turn, x.position) for x in about] == [
        (kind, 0, 0) for kind in ("CallArrived", "CallJudged", "CallJudged", "CallStarted", "CallFinished")
    ]
    assert [x.decision for x in about if isinstance(x, n.CallJudged)] == ["ask", "allow"]
    assert (end_of(notices).tool_calls, end_of(notices).turns) == (1, 1)
    assert pending(path) == ()
    assert broken(path) == []


def test_every_guard_holds_and_in_order(tmp_path: Path) -> None:
    """The hook, the verdict, the question, the second verdict, the record of the start, and only then the call."""
    path, order = tmp_path / "s.db", []

    class Hooks(NoHooks):
        async def call(self, turn: int, spec: Any, arguments: str) -> None:
            order.append(f"hook {turn}")

        async def result(self, turn: int, result: Any) -> None:
            order.append(f"result {turn}")

    class Asked(Person):
        async def ask(self, *given: Any) -> tuple[bool, str]:
            order.append("asked")
            return await super().ask(*given)

    async def change(arguments: Any, cancel: Any) -> ToolResult:
        assert rows_of(path, "SELECT granted FROM approval") == [(1,)]
        assert rows_of(path, "SELECT status FROM call") == [(None,)]
        assert broken(path) == [], "a check while it runs finds nothing"
        order.append("ran")
        return done("change")

    killed_while_asked(path)
    tools: Any = {"change": ("mutating", change)}
    world = _asking(text("fine"), person=Asked(True), tools=tools, hooks=Hooks())
    record = world.audit.record
    world.audit.record = lambda event, **fields: (order.append(f"{event} {fields['run']}"), record(event, **fields))  # type: ignore[method-assign,assignment]
    one_run(path, world)
    assert order == [
        "hook 0",
        "verdict run_a_1",
        "asked",
        "verdict run_a_1",
        "call_started run_a_1",
        "ran",
        "call_ended run_a_1",
        "result 0",
    ]


@pytest.mark.parametrize("words", ["", "do it otherwise"])
def test_a_no_is_a_refusal_and_a_prompt_goes_on_from_there(words: str, tmp_path: Path) -> None:
    path, person = tmp_path / "s.db", Person(False, words=words)
    killed_while_asked(path)
    world = _asking(text("I see"), person=person)
    notices = one_run(path, world)
    assert world.tools.ran == []
    assert said(notices) == [("blocked", "refused")]
    assert end_of(notices).outcome == "completed", "the person has said what they want"
    assert world.transport.bodies[0]["messages"][-1]["content"] == "go on"
    assert (pending(path), broken(path)) == ((), [])


def test_without_a_prompt_the_model_goes_on_from_the_result(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    killed_while_asked(path)
    world = _asking(text("done"), person=Person(True))
    notices = one_run(path, world, None)
    assert (end_of(notices).outcome, world.tools.ran) == ("completed", ["change"])
    assert world.transport.bodies[0]["messages"][-1]["role"] == "tool"
    assert broken(path) == []


def test_without_a_prompt_a_plain_no_ends_the_run_and_a_word_does_not(tmp_path: Path) -> None:
    for words, outcome in (("", "blocked"), ("use look", "completed")):
        path = tmp_path / f"{outcome}.db"
        killed_while_asked(path)
        notices = one_run(path, _asking(text("as you like"), person=Person(False, words=words)), None)
        assert end_of(notices).outcome == outcome
        assert broken(path) == []


def test_a_run_without_a_prompt_where_nothing_waits_does_nothing(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    notices = one_run(path, World(), None)
    assert len(notices) == 1
    assert (end_of(notices).outcome, end_of(notices).exit_code) == ("completed", 0)
    assert rows_of(path, "SELECT count(*) FROM run") == [(0,)]
    assert [end_of(told).message for told in World(text("hi")).runs("go")] == [""]


def test_where_nobody_can_be_asked_it_was_not_started(tmp_path: Path) -> None:
    """Even where it would be allowed now: nobody has said yes to it."""
    path = tmp_path / "s.db"
    killed_while_asked(path)
    world = _asking(text("I leave it"), person=None, allow=True)
    notices = one_run(path, world)
    assert (world.tools.ran, said(notices)) == ([], [("skipped", "not_started")])
    assert end_of(notices).outcome == "completed"
    assert (pending(path), broken(path)) == ((), [])


def test_it_is_asked_about_even_if_the_policy_would_allow_it_now(tmp_path: Path) -> None:
    path, person = tmp_path / "s.db", Person(False, words="not any more")
    killed_while_asked(path)
    world = _asking(text("ok"), person=person, allow=True)
    notices = one_run(path, world)
    assert (person.asked, world.tools.ran, said(notices)) == (["change"], [], [("blocked", "refused")])
    assert person.reasons == ["waited: the process ended while you were asked about it"]


def test_what_the_policy_denies_today_is_denied_unasked(tmp_path: Path) -> None:
    path, person = tmp_path / "s.db", Person(True)
    killed_while_asked(path)
    world = _asking(text("ok"), person=person)
    policy = msgspec.structs.replace(world.parts.policy, rules=(Rule("deny", "change"),))
    world.parts = dataclasses.replace(world.parts, policy=policy)
    notices = one_run(path, world)
    assert (person.asked, world.tools.ran, said(notices)) == ([], [], [("blocked", "blocked")])
    assert broken(path) == []


def test_a_tool_that_is_gone_is_told_and_nothing_runs(tmp_path: Path) -> None:
    path, person = tmp_path / "s.db", Person(True)
    killed_while_asked(path)
    world = _asking(text("ok"), person=person)
    del world.tools.tools["change"]
    notices = one_run(path, world)
    assert (person.asked, said(notices)) == ([], [("invalid", "unknown_tool")])
    assert broken(path) == []


def test_a_guarding_hook_may_refuse_it(tmp_path: Path) -> None:
    class Guard(NoHooks):
        async def call(self, turn: int, spec: Any, arguments: str) -> str:
            return "not today"

    path, person = tmp_path / "s.db", Person(True)
    killed_while_asked(path)
    world = _asking(text("ok"), person=person, hooks=Guard())
    assert said(one_run(path, world)) == [("blocked", "refused_by_hook")]
    assert (person.asked, world.tools.ran) == ([], [])


def test_without_its_audit_record_it_does_not_start(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    killed_while_asked(path)
    world = _asking(text("ok"), person=Person(True))
    world.audit.broken = True
    notices = one_run(path, world)
    assert (world.tools.ran, said(notices)) == ([], [("failed", "audit_unavailable")])
    assert broken(path) == []


# -- several calls


def test_what_stands_before_it_has_its_result_and_what_stands_behind_waits_with_it(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    killed_while_asked(path, "look", ("change", '{"path": "1"}'), ("change", '{"path": "2"}'), "look")
    assert [m.content for m in history(path) if isinstance(m, ToolMessage)] == ["saw all"]
    assert pending(path) == ("change", "change", "look")
    assert broken(path) == []
    person = Person(True)
    world = _asking(text("fine"), person=person)
    notices = one_run(path, world)
    assert person.asked == ["change", "change", "look"]
    assert world.tools.ran == ["change", "change", "look"]
    assert [x.position for x in notices if isinstance(x, n.CallFinished)] == [1, 2, 3]
    assert rows_of(path, "SELECT run, position, status FROM call ORDER BY position") == [
        ("run_a_1", at, "ok") for at in range(4)
    ]
    assert broken(path) == []


def test_a_no_to_the_first_leaves_the_others_undone(tmp_path: Path) -> None:
    path, person = tmp_path / "s.db", Person(False, words="stop that")
    killed_while_asked(path, ("change", '{"path": "1"}'), ("change", '{"path": "2"}'))
    world = _asking(text("fine"), person=person)
    assert said(one_run(path, world)) == [("blocked", "refused"), ("skipped", "skipped")]
    assert (person.asked, world.tools.ran) == (["change"], [])


def test_a_yes_that_no_start_followed_is_asked_for_again(tmp_path: Path) -> None:
    """X2: it held for the process that asked. Here two that read are asked about before either of them runs."""
    path, person = tmp_path / "s.db", Person(True, None)
    world = _asking(calls(("look", '{"path": "1"}'), ("look", '{"path": "2"}')), person=person)
    policy = Policy(ask=True, rules=(Rule("ask", "look"),))
    world.parts = dataclasses.replace(world.parts, policy=policy)
    die(path, world, person.silent)
    assert rows_of(path, "SELECT granted FROM approval ORDER BY position") == [(1,), (None,)]
    again = Person(True, False, words="not that one")
    second = _asking(text("fine"), person=again)
    notices = one_run(path, second)
    assert (again.asked, second.tools.ran) == (["look", "look"], ["look"])
    assert said(notices) == [("ok", None), ("blocked", "refused")]
    assert rows_of(path, "SELECT granted FROM approval ORDER BY position") == [(1,), (0,)]
    assert broken(path) == []


def test_one_that_had_started_behind_it_keeps_what_became_of_it(tmp_path: Path) -> None:
    """A granted call that had not started before one beside it had: both were read-only, and ran side by side."""
    path = tmp_path / "s.db"
    killed_while_asked(path, ("change", '{"path": "1"}'), "look", "wait")
    with closing(sqlite3.connect(path)) as connection, connection:
        for position, status, result in (
            (1, "ok", '{"ok":true,"status":"ok","tool":"look","content":"seen"}'),
            (2, None, None),
        ):
            tool = ("look", "wait")[position - 1]
            digest = call_digest(tool, "{}")
            connection.execute(
                "INSERT INTO call VALUES ('run_a_1', 1, ?, ?, ?, 'read_only', 0, ?, ?)",
                (position, tool, digest, status, result),
            )
    world = _asking(text("fine"), person=Person(True))
    notices = one_run(path, world)
    assert world.tools.ran == ["change"], "what had started does not start again"
    assert said(notices) == [("ok", None), ("ok", None), ("unknown_outcome", None)]
    assert results(notices)[1].content == "seen"
    assert rows_of(path, "SELECT status FROM call ORDER BY position") == [("ok",), ("ok",), ("unknown_outcome",)]
    assert broken(path) == []


# -- it is interrupted again


def test_a_death_while_it_is_asked_about_again_leaves_it_waiting(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    killed_while_asked(path)
    for name in ("b", "c"):
        person = Person(None)
        die(path, _asking(person=person), person.silent, "go on", name)
        assert pending(path) == ("change",)
        assert [one for one in broken(path) if not one.startswith("D4")] == []
    world = _asking(text("at last"), person=Person(True))
    notices = one_run(path, world, name="d")
    assert (world.tools.ran, end_of(notices).outcome) == (["change"], "completed")
    assert rows_of(path, "SELECT run, status FROM call") == [("run_a_1", "ok")]
    assert rows_of(path, "SELECT outcome FROM run ORDER BY number") == [
        ("interrupted",),
        ("interrupted",),
        ("interrupted",),
        ("completed",),
    ]
    assert [m.content for m in history(path) if isinstance(m, UserMessage)] == ["go", "go on"], (
        "an unsent prompt is none"
    )
    assert broken(path) == []


def test_a_death_while_it_runs_leaves_an_unknown_outcome_and_nothing_starts_again(tmp_path: Path) -> None:
    path, gate = tmp_path / "s.db", Gate()

    async def change(arguments: Any, cancel: Any) -> ToolResult:
        await asyncio.wait(
            [asyncio.create_task(gate.wait()), asyncio.create_task(cancel.wait())], return_when="FIRST_COMPLETED"
        )
        gate.open.set()
        return done("change")

    killed_while_asked(path, "change", ("change", '{"path": "2"}'))
    tools: Any = {"change": ("mutating", change)}
    die(path, _asking(person=Person(True), tools=tools), gate.reached, "go on", "b")
    assert broken(path) == []
    person = Person(True)
    world = _asking(text("hm"), person=person)
    one_run(path, world, name="c")
    assert (person.asked, world.tools.ran) == ([], [])
    told = [(m.status, m.content.split("]")[0]) for m in history(path) if isinstance(m, ToolMessage)]
    assert told == [("unknown_outcome", "[unknown_outcome"), ("skipped", "[not_started")]
    assert rows_of(path, "SELECT status FROM call") == [("unknown_outcome",)]
    assert broken(path) == []


def test_a_cancel_while_it_is_asked_about_gives_it_up_and_the_prompt_back(tmp_path: Path) -> None:
    path, person = tmp_path / "s.db", Person(None)
    killed_while_asked(path)

    async def body() -> Notices:
        async with Process(path, _asking(person=person), "b") as process:

            async def cancel() -> None:
                await person.silent.wait()
                process.agent.steer("and mind this")
                process.agent.cancel()
                process.agent.cancel()

            cancelling = asyncio.create_task(cancel())
            told = await process.run("now do this")
            await cancelling
            return told

    notices = asyncio.run(body())
    end = end_of(notices)
    assert (end.outcome, end.extra["unsent"]) == ("cancelled", ["now do this", "and mind this"])
    assert "the prompt was not sent" in end.message
    assert said(notices) == [("cancelled", "not_started")]
    assert (pending(path), broken(path)) == ((), [])
    assert [m.content for m in history(path) if isinstance(m, UserMessage)] == ["go"]


def test_words_given_while_it_is_asked_about_reach_the_model_behind_the_prompt(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    killed_while_asked(path)
    world = _asking(text("fine"), person=Person(True))

    def react(notice: n.Notice, agent: Agent) -> None:
        if isinstance(notice, n.CallJudged) and notice.decision == "ask":
            agent.steer("and mind this")

    notices = one_run(path, world, react=react)
    assert [m["content"] for m in world.transport.bodies[0]["messages"][-2:]] == ["go on", "and mind this"]
    assert any(isinstance(x, n.Steered) for x in notices)
    assert broken(path) == []


def test_a_run_that_cannot_begin_leaves_it_waiting(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    killed_while_asked(path)

    async def body() -> None:
        world = _asking(text("fine"), person=Person(True))
        async with Process(path, world, "b") as process:
            started = process.store.started

            async def full(*_: Any) -> None:
                raise StoreError("full", "the disk is full")

            process.store.started = full
            told = [notice async for notice in process.agent.run("go on")]
            assert (end_of(told).outcome, end_of(told).saved) == ("failed", False)
            assert [call.name for call in process.agent.waiting] == ["change"]
            process.store.started = started
            assert end_of(await process.run("go on")).outcome == "completed"
        assert world.tools.ran == ["change"]

    asyncio.run(body())
    assert broken(path) == []


# -- limits count in the new run


def test_limits_of_the_new_run_count_it(tmp_path: Path) -> None:
    for name, limits, outcome in (
        ("calls", {"max_total_tool_calls": 1}, "limit:total_tool_calls"),
        ("turn", {"max_tool_calls_per_turn": 1}, "limit:tool_calls_per_turn"),
    ):
        path, person = tmp_path / f"{name}.db", Person(True)
        killed_while_asked(path, ("change", '{"path": "1"}'), ("change", '{"path": "2"}'))
        world = _asking(person=person, limits=limits)
        notices = one_run(path, world)
        assert (end_of(notices).outcome, person.asked, world.tools.ran) == (outcome, [], [])
        assert end_of(notices).extra["unsent"] == ["go on"]
        assert broken(path) == []


def test_it_takes_of_the_calls_that_a_run_may_make(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    killed_while_asked(path)
    world = _asking(calls("look"), person=Person(True), limits={"max_total_tool_calls": 1})
    notices = one_run(path, world)
    assert (end_of(notices).outcome, world.tools.ran) == ("limit:total_tool_calls", ["change"])


def test_time_runs_while_it_is_settled(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    killed_while_asked(path)
    world = _asking(person=Person(True), limits={"max_seconds": 5.0})

    def react(notice: n.Notice, _agent: Agent) -> None:
        if isinstance(notice, n.CallStarted):
            world.clock.advance(6)

    notices = one_run(path, world, react=react)
    assert end_of(notices).outcome == "limit:seconds"
    assert end_of(notices).extra["unsent"] == ["go on"]
    assert broken(path) == []


# -- what else may be done with such a session


@pytest.mark.parametrize("dialect", ["anthropic_messages", "openai_responses", "gemini", "ollama"])
def test_another_dialect_is_sent_the_pair(dialect: str, tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    killed_while_asked(path)

    async def body() -> None:
        world = _asking(text("fine"), person=Person(True))
        async with Process(path, world, "b") as process:
            waits = world.talk.to_send()
            assert "waits for the user's approval" in waits[-1].content  # type: ignore[operator]
            DIALECTS[dialect].request(waits, (), ModelOptions(model="m"))
            await process.run("go on")
            DIALECTS[dialect].request(world.talk.to_send(), (), ModelOptions(model="m"))

    asyncio.run(body())
    assert broken(path) == []


@pytest.mark.parametrize("since", ["its death", "it was opened again", "one that took it up died"])
def test_a_fork_has_it_as_not_started_and_the_source_keeps_it(since: str, tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    killed_while_asked(path, "look", "change", "look")
    if since == "one that took it up died":
        person = Person(None)
        die(path, _asking(person=person), person.silent, "go on", "b")

    async def body() -> Any:
        if since == "it was opened again":
            await (
                await open_session(path, "/p", Wish(how="continue"), new_id=lambda: "x", words=result_text)
            ).store.close()
        wish = Wish(how="fork", id="ses_1")
        opening = await open_session(path, "/p", wish, new_id=lambda: "ses_2", words=result_text)
        try:
            assert await opening.store.waiting() is None
            return await opening.store.history()
        finally:
            await opening.store.close()

    copied = asyncio.run(body())
    check_conversation(copied)
    told = [m.content for m in copied if isinstance(m, ToolMessage)]
    assert [words.split("]")[0] for words in told] == ["saw all", "[not_started", "[not_started"]
    assert broken(path) == []
    world = _asking(text("fine"), person=Person(True))

    async def original() -> None:
        opening = await open_session(path, "/p", Wish(how="resume", id="ses_1"), new_id=lambda: "x", words=result_text)
        assert await opening.store.waiting() is not None
        await opening.store.close()

    asyncio.run(original())
    assert world.tools.ran == []
    assert broken(path) == []


def test_a_shrunk_context_keeps_it_and_sends_the_pair(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    person = Person(None)
    steps = [calls(("big", f'{{"path": "file{at}"}}')) for at in range(4)]

    async def big(arguments: Any, cancel: Any) -> ToolResult:
        return done("big", f"{arguments['path']} " * 800)

    tools: Any = {"big": ("read_only", big)}
    die(path, _asking(*steps, calls("change"), person=person, tools=tools), person.silent)

    async def body() -> None:
        world = _asking(text("a summary of it"), text("fine"), person=Person(True), tools=tools)
        async with Process(path, world, "b") as process:
            told = await process.agent.compact()
            assert told.ok
            assert [call.name for call in process.agent.waiting] == ["change"]
        second = _asking(text("fine"), person=Person(True), tools=tools)
        async with Process(path, second, "c") as process:
            assert [call.name for call in process.agent.waiting] == ["change"]
            await process.run("go on")
        assert second.tools.ran == ["change"]

    asyncio.run(body())
    assert broken(path) == []


def test_another_model_may_take_it_up(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    killed_while_asked(path)

    async def body() -> None:
        world = _asking(text("fine"), person=Person(True))
        async with Process(path, world, "b") as process:
            process.agent.use(dataclasses.replace(world.parts, provider="another", system_prompt="be brief"))
            await process.run(None)
        assert world.tools.ran == ["change"]
        assert world.transport.bodies[0]["messages"][0]["content"] == "be brief"

    asyncio.run(body())
    assert broken(path) == []


def test_only_the_taken_up_calls_are_asked_about_where_nobody_else_is(tmp_path: Path) -> None:
    """A person who can be asked about what waited need not be asked about what comes later."""
    path, person = tmp_path / "s.db", Person(True)
    killed_while_asked(path)
    world = World(calls("change"), text("no"), allow=False, ask_waiting=person)
    notices = one_run(path, world)
    assert (person.asked, world.tools.ran) == (["change"], ["change"])
    assert said(notices) == [("ok", None), ("blocked", "blocked")]
    assert broken(path) == []
