"""One person, one workspace, one conversation at a time: requests in, events out, over real sessions."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interaction_face import ESCAPED, Face, open_face, run
from run_world import DONE, FakeTransport, Gate, event, text

from sluice.errors import ConfigurationError
from sluice.run.agent import Agent
from sluice.run.config import Settings
from sluice.run.event_stream import MOST_WAITING
from sluice.run.interaction import (
    ApprovalSettled,
    ApprovalWanted,
    PromptBegan,
    QueueChanged,
    Queued,
    SessionOpened,
    Situation,
)
from sluice.run.interactive import open_interaction
from sluice.testing.scripted_model import asks
from sluice.values import notices as n


def said_by_user(transport: FakeTransport, request: int = -1) -> list[str]:
    return [m["content"] for m in transport.bodies[request]["messages"] if m["role"] == "user"]


# -- prompts


def test_a_prompt_is_sent_and_its_notices_come_in_order(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_face(tmp_path, "Hello") as face:
            assert face.interaction.submit("hi") == 1
            end = await face.until(n.RunFinished)
            assert (end.outcome, end.text) == ("completed", "Hello")
            after = await face.idle()
            assert after.turns == 1
            assert after.context_tokens
        assert isinstance(face.events[0], SessionOpened)
        assert face.events.index(face.of(PromptBegan)[0]) < face.events.index(face.of(n.RunStarted)[0])
        assert [len(event.waiting) for event in face.of(QueueChanged)] == [1, 0]

    run(work)


def test_prompts_given_during_a_run_wait_and_can_be_edited_and_taken_back(tmp_path: Path) -> None:
    async def work() -> None:
        gate = Gate()
        transport = FakeTransport([[gate, *text("one")], text("two"), text("four")])
        async with open_face(tmp_path, transport=transport) as face:
            ask = face.interaction
            assert [ask.submit(words) for words in ("first", "second", "third", "fourth")] == [1, 2, 3, 4]
            await gate.reached.wait()
            assert ask.edit(2, "second, better")
            assert ask.take_back(3) == "third"
            assert ask.take_back(3) is None
            assert not ask.edit(3, "no")
            assert not ask.edit(1, "too late")
            assert face.interaction.situation().running
            gate.open.set()
            for _ in range(3):
                await face.until(n.RunFinished)
            await face.idle()
        assert [(p.number, p.text) for p in face.of(PromptBegan)] == [
            (1, "first"),
            (2, "second, better"),
            (4, "fourth"),
        ]
        assert said_by_user(transport) == ["first", "second, better", "fourth"]
        assert face.of(QueueChanged)[-1].waiting == ()

    run(work)


def test_a_cancel_ends_the_run_and_gives_back_what_waits(tmp_path: Path) -> None:
    async def work() -> None:
        gate = Gate()
        transport = FakeTransport([[*text("half a", finish=None), gate], text("again")])
        async with open_face(tmp_path, transport=transport) as face:
            for words in ("first", "second"):
                face.interaction.submit(words)
            await face.until(n.TextNotice)
            assert face.interaction.cancel() == (Queued(number=2, text="second"),)
            end = await face.until(n.RunFinished)
            assert (end.outcome, end.text) == ("cancelled", "half a")
            await face.idle()
            assert face.interaction.cancel() == ()
            assert (await face.said("third")).text == "again"
            assert said_by_user(transport) == ["first", "third"]
        assert [p.number for p in face.of(PromptBegan)] == [1, 3]

    run(work)


def test_a_prompt_that_is_cancelled_before_it_begins_never_does(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_face(tmp_path, "Hello") as face:
            face.interaction.submit("no")
            assert [p.text for p in face.interaction.cancel()] == ["no"]
            assert (await face.said("yes")).text == "Hello"
        assert [p.text for p in face.of(PromptBegan)] == ["yes"]

    run(work)


@pytest.mark.parametrize("words", ["", " \n", "x" * (4 * 1024 * 1024 + 1)])
def test_a_prompt_that_cannot_be_sent_is_refused_in_one_line(tmp_path: Path, words: str) -> None:
    async def work() -> None:
        async with open_face(tmp_path) as face:
            with pytest.raises(ConfigurationError, match=r"^the prompt is [^\n]+$"):
                face.interaction.submit(words)
        assert not face.of(QueueChanged)

    run(work)


# -- steering


def test_steering_goes_to_the_model_between_two_turns(tmp_path: Path) -> None:
    async def work() -> None:
        gate = Gate()
        look = {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "list_files_bounded", "arguments": "{}"}}]}
        transport = FakeTransport([[event(look), gate, event({}, "tool_calls"), DONE], text("done")])
        async with open_face(tmp_path, transport=transport) as face:
            ask = face.interaction
            ask.submit("look")
            await gate.reached.wait()
            numbers = [ask.submit(words, steering=True) for words in ("a", "b", "c")]
            assert ask.edit(numbers[0], "only the top")
            assert ask.take_back(numbers[1]) == "b"
            gate.open.set()
            end = await face.until(n.RunFinished)
            assert end.text == "done"
            await face.idle()
            assert said_by_user(transport) == ["look", "only the top", "c"]
        began = [(p.text, p.steering) for p in face.of(PromptBegan)]
        assert began == [("look", False), ("only the top", True), ("c", True)]
        assert len(face.of(n.RunFinished)) == 1

    run(work)


def test_steering_that_comes_too_late_is_the_next_prompt(tmp_path: Path) -> None:
    async def work() -> None:
        gate = Gate()
        transport = FakeTransport([[gate, *text("one")], text("two")])
        async with open_face(tmp_path, transport=transport) as face:
            face.interaction.submit("first")
            await gate.reached.wait()
            face.interaction.submit("and", steering=True)
            gate.open.set()
            ends = [await face.until(n.RunFinished) for _ in range(2)]
            assert [end.text for end in ends] == ["one", "two"]
            await face.idle()
        assert [(p.text, p.steering) for p in face.of(PromptBegan)] == [("first", False), ("and", False)]

    run(work)


def test_a_cancel_gives_steering_back_as_well(tmp_path: Path) -> None:
    async def work() -> None:
        gate = Gate()
        async with open_face(tmp_path, transport=FakeTransport([[gate]])) as face:
            face.interaction.submit("first")
            await gate.reached.wait()
            face.interaction.submit("and", steering=True)
            assert [p.text for p in face.interaction.cancel()] == ["and"]
            await face.until(n.RunFinished)
            await face.idle()
        assert [p.text for p in face.of(PromptBegan)] == ["first"]

    run(work)


def test_steering_with_no_run_is_a_prompt(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_face(tmp_path, "Hello") as face:
            face.interaction.submit("hi", steering=True)
            assert (await face.until(n.RunFinished)).text == "Hello"

    run(work)


# -- the end


@pytest.mark.parametrize("where", ["idle", "waiting", "streaming", "asking", "steered", "commanding"])
def test_closing_at_any_time_leaves_nothing(tmp_path: Path, where: str) -> None:
    async def work() -> None:
        gate = Gate()
        transport: Any = FakeTransport([[*text("half", finish=None), gate]])
        replies = [asks("write_file_safe", path="a.txt", content="x")]
        more: dict[str, Any] = {}
        if where == "commanding":
            replies = [asks("bash_execute_safe", command="sleep 1000")]
            more = {"allow_execution_tools": True, "sandbox": "off"}
        if where in ("asking", "commanding"):
            transport = None
        async with open_face(tmp_path, *replies, transport=transport, **more) as face:
            ask = face.interaction
            if where != "idle":
                ask.submit("go")
            if where == "asking":
                await face.until(ApprovalWanted)
            elif where == "commanding":
                await face.until(Situation, lambda event: event.job)
            elif where not in ("idle", "waiting"):
                await gate.reached.wait()
            if where == "steered":
                ask.submit("more", steering=True)
                ask.submit("later")
            await asyncio.gather(ask.close(), ask.close())
            with pytest.raises(ConfigurationError, match="closed"):
                ask.submit("more")
            await ask.close()
            assert not ask.situation().running
        if where == "asking":
            assert [event.decision for event in face.of(ApprovalSettled)] == ["withdrawn"]
            assert not (tmp_path / "work" / "a.txt").exists()
        if where == "steered":
            assert [p.text for p in face.of(PromptBegan)] == ["go"]

    run(work)


def test_a_face_that_reads_nothing_holds_a_run_up_and_not_its_end(tmp_path: Path) -> None:
    async def work() -> None:
        words = [piece for number in range(4 * MOST_WAITING) for piece in text(f"{number} ", finish=None)]
        workspace = tmp_path / "work"
        workspace.mkdir()
        set_up = Settings(workspace=str(workspace), mode="mock", session_store=":memory:")
        transport = FakeTransport([words])
        async with open_interaction(set_up, escaped=ESCAPED, transport=transport) as ask:
            ask.submit("go")
            for _ in range(10_000):
                await asyncio.sleep(0)
            assert transport.open == 1, "it waits for the reader"
            await ask.close()
        events = [event async for event in ask.events()]
        assert len(events) < 3 * MOST_WAITING
        assert isinstance([e for e in events if isinstance(e, n.RunFinished)][-1], n.RunFinished)

    run(work)


def test_settings_that_cannot_be_used_open_nothing(tmp_path: Path) -> None:
    async def work() -> None:
        for more in ({"session_store": "/dev/null/x"}, {"dialect": "esperanto"}, {"tools": ("nothing",)}):
            set_up = Settings(workspace=str(tmp_path), mode="mock", mock_fixture="/nowhere", **more)
            with pytest.raises(ConfigurationError):
                async with open_interaction(set_up, escaped=ESCAPED, transport=FakeTransport([])):
                    raise AssertionError

    run(work)


def test_a_fault_of_ours_ends_the_run_and_not_the_interaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        async with open_face(tmp_path, "yes") as face:

            async def breaks(self: Agent, prompt: str) -> AsyncGenerator[n.Notice, None]:
                yield n.Warned(message="so far")
                raise RuntimeError("a fault")

            with monkeypatch.context() as patch:
                patch.setattr(Agent, "run", breaks)
                end = await face.said("a")
            assert (end.outcome, end.saved) == ("failed", False)
            assert "RuntimeError: a fault" in end.message
            assert (await face.said("b")).text == "yes"

    run(work)


# -- any order of requests

REQUESTS = st.lists(
    st.sampled_from(["submit", "steer", "cancel", "edit", "take", "wait", "new", "look", "answer"]), max_size=14
)


@settings(max_examples=25, deadline=None)
@given(requests=REQUESTS)
def test_whatever_is_asked_in_whatever_order_each_prompt_has_one_fate(
    tmp_path_factory: pytest.TempPathFactory, requests: list[str]
) -> None:
    async def work() -> None:
        replies = [asks("list_files_bounded") if number % 3 == 0 else "yes" for number in range(60)]
        replies[4] = asks("write_file_safe", path="a.txt", content="x")
        async with open_face(tmp_path_factory.mktemp("any"), *replies, session_store=":memory:") as face:
            fates: dict[int, str] = {}
            for request in requests:
                await _one(face, request, fates)
            back = face.interaction.cancel()
            fates.update({p.number: "back" for p in back})
            if face.interaction.situation().running:
                await face.idle()
        for prompt in face.of(PromptBegan):
            assert prompt.number not in fates, "begun once, and not given back"
            fates[prompt.number] = "begun"
        assert sorted(fates) == list(range(1, len(fates) + 1))

    run(work)


async def _one(face: Face, request: str, fates: dict[int, str]) -> None:
    ask = face.interaction
    last = max((p.number for e in face.of(QueueChanged) for p in e.waiting), default=1)
    match request:
        case "submit":
            ask.submit("go")
        case "steer":
            ask.submit("more", steering=True)
        case "cancel":
            fates.update({p.number: "back" for p in ask.cancel()})
        case "edit":
            ask.edit(last, "other")
        case "take":
            if ask.take_back(last) is not None:
                fates[last] = "taken"
        case "answer":
            ask.answer(1, "session")
        case "new":
            with contextlib.suppress(ConfigurationError):  # a run is going
                await ask.open_session(None)
        case "look":
            assert all((ask.tools(), ask.policy_lines(), ask.cost_lines(), ask.settings_shown()))
        case "wait":
            for _ in range(25):
                await asyncio.sleep(0)
