"""Sessions of an interaction: opening, forking, undoing, exporting, shrinking, another model, what they cost."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from interaction_face import ESCAPED, open_face, run
from run_world import FakeTransport, Gate, event, text

from sluice.errors import ConfigurationError, StoreError
from sluice.run.config import Settings
from sluice.run.interaction import ApprovalWanted, PromptBegan, SessionOpened
from sluice.run.interactive import open_interaction
from sluice.session.wish import Wish
from sluice.testing.scripted_model import asks
from sluice.values import notices as n
from sluice.values.messages import AssistantMessage, UserMessage


def said(opened: SessionOpened) -> list[Any]:
    return [m.content for m in opened.history if isinstance(m, UserMessage | AssistantMessage)]


def test_another_session_and_back(tmp_path: Path) -> None:
    async def work() -> None:
        transport = FakeTransport([text("one"), text("two"), text("three")])
        async with open_face(tmp_path, transport=transport) as face:
            ask = face.interaction
            first = ask.situation().session
            assert ask.sessions() == (), "nothing is stored before the first prompt"
            await face.said("a")
            await ask.open_session(None)
            opened = await face.until(SessionOpened)
            assert opened.session != first
            assert opened.history == ()
            assert (await face.idle()).turns == 0
            await face.said("b")
            await ask.open_session(first)
            opened = await face.until(SessionOpened)
            assert (opened.session, said(opened)) == (first, ["a", "one"])
            assert (await face.idle()).turns == 1
            await face.said("c")
            assert [row.title for row in ask.sessions()] == ["a", "b"]
            assert [row.messages for row in ask.sessions()] == [4, 2]
            assert not any(row.held for row in ask.sessions()), "held by us is not held"
        assert [m["content"] for m in transport.bodies[2]["messages"][1:]] == ["a", "one", "c"]

    run(work)


def test_the_session_that_is_open_is_shown_again(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_face(tmp_path, "one") as face:
            await face.said("a")
            await face.interaction.open_session(face.interaction.situation().session)
            opened = await face.until(SessionOpened)
            assert said(opened) == ["a", "one"]
            assert opened.subjects["apply_patch"] == "path"

    run(work)


def test_a_session_that_cannot_be_had_changes_nothing(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_face(tmp_path, "one", "two", "three") as face, open_face(tmp_path, "other") as other:
            await other.said("theirs")
            await face.said("a")
            held = other.interaction.situation().session
            for wanted in ("nonsense", held):
                with pytest.raises((ConfigurationError, StoreError)) as refused:
                    await face.interaction.open_session(wanted)
                assert "\n" not in str(refused.value)
            await face.said("b")
            assert len(face.of(SessionOpened)) == 1
            assert [row.messages for row in face.interaction.sessions()] == [4, 2]

    run(work)


def test_a_fork_goes_on_in_a_copy(tmp_path: Path) -> None:
    async def work() -> None:
        transport = FakeTransport([text("one"), text("two"), text("three")])
        async with open_face(tmp_path, transport=transport) as face:
            ask = face.interaction
            with pytest.raises(ConfigurationError, match="nothing to fork"):
                await ask.fork()
            await face.said("a")
            await face.said("b")
            first = ask.situation().session
            copy = await ask.fork(2)
            opened = await face.until(SessionOpened)
            assert (opened.session, said(opened)) == (copy, ["a", "one"])
            with pytest.raises((ConfigurationError, StoreError), match="no message 99"):
                await ask.fork(99)
            await face.idle()
            await face.said("c")
            assert {row.session for row in ask.sessions()} == {first, copy}
        assert [m["content"] for m in transport.bodies[2]["messages"][1:]] == ["a", "one", "c"]

    run(work)


def test_nothing_else_is_done_while_a_run_is_going(tmp_path: Path) -> None:
    async def work() -> None:
        gate = Gate()
        async with open_face(tmp_path, transport=FakeTransport([[gate, *text("one")]])) as face:
            ask = face.interaction
            ask.submit("a")
            await gate.reached.wait()
            for refused in (ask.open_session(None), ask.undo(), ask.compact()):
                with pytest.raises(ConfigurationError, match="a run is going"):
                    await refused
            gate.open.set()
            await face.until(n.RunFinished)

    run(work)


def test_undo_takes_back_the_last_changes(tmp_path: Path) -> None:
    async def work() -> None:
        write = asks("write_file_safe", path="new.txt", content="x")
        async with open_face(tmp_path, write, "done", "sorry", "yes", allow_mutating_tools=True) as face:
            ask = face.interaction
            assert await ask.undo() == ((), ())
            await face.said("a")
            assert (tmp_path / "work" / "new.txt").exists()
            assert await ask.undo() == (("new.txt",), ())
            assert not (tmp_path / "work" / "new.txt").exists()
            assert await ask.undo() == ((), ()), "the run before it changed nothing"
            await face.said("why?")
            await face.said("and?")
            session = ask.situation().session
            await ask.open_session(session)
            prompts = [m.content for m in (await face.until(SessionOpened)).history if isinstance(m, UserMessage)]
            assert str(prompts[1]).startswith("[Added by Sluice: the user took back")
            assert "or are gone where they were new: new.txt. Read them" in str(prompts[1])
            assert str(prompts[1]).endswith("]\n\nwhy?")
            assert prompts[2] == "and?", "told once"

    run(work)


def test_an_export_is_a_new_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    async def work() -> None:
        async with open_face(tmp_path, "one") as face:
            ask = face.interaction
            with pytest.raises(ConfigurationError, match="nothing of this session is stored"):
                await ask.export("json", "a.json")
            await face.said("a")
            assert await ask.export("json", "a.json") == str(tmp_path / "a.json")
            assert await ask.export("md", str(tmp_path / "a.md")) == str(tmp_path / "a.md")
            (tmp_path / "link").symlink_to("elsewhere")
            for taken in ("a.json", "link", "no/folder.md", "nul\0", "~nobody-of-that-name/x"):
                with pytest.raises(ConfigurationError, match="cannot be made"):
                    await ask.export("md", taken)
        assert not (tmp_path / "elsewhere").exists()

    run(work)
    assert json.loads((tmp_path / "a.json").read_text())["sluice_session"]
    assert "one" in (tmp_path / "a.md").read_text()
    assert (tmp_path / "a.md").stat().st_mode & 0o777 == 0o600


def test_what_a_session_cost_is_known_when_it_is_opened_again(tmp_path: Path) -> None:
    usage = {"prompt_tokens": 1000, "completion_tokens": 100}
    priced = {"price_input": 2.0, "price_output": 10.0}

    async def work() -> None:
        reply = {"content": "one", "usage": usage}
        async with open_face(tmp_path, reply, reply, **priced) as face:
            ask = face.interaction
            assert ask.cost_lines() == ("no reply of this session has said yet what it used",)
            await face.said("a")
            await face.said("b")
            now = ask.situation()
            assert (now.usage.input_tokens, now.turns, now.context_tokens) == (2000, 2, 1100)
            assert now.cost == pytest.approx(0.006)
            lines = ask.cost_lines()
            assert lines == (
                "run 1: 1,000 tokens in, 100 out, $0.0030",
                "run 2: 1,000 tokens in, 100 out, $0.0030",
                "  turn 1: 1,000 tokens in, 100 out, $0.0030",
                "session: 2,000 tokens in, 200 out, $0.0060",
            )
        async with open_face(tmp_path, session=Wish(how="continue"), **priced) as face:
            assert face.interaction.cost_lines() == lines
            assert face.interaction.situation().context_tokens == 1100
        async with open_face(tmp_path, reply) as face:
            await face.said("c")
            assert face.interaction.situation().cost is None
            assert face.interaction.cost_lines()[-1].endswith("price not known")

    run(work)


def test_shrinking_now(tmp_path: Path) -> None:
    async def work() -> None:
        replies = ["one " * 500, "two", "three", "four", "short summary", "five"]
        async with open_face(tmp_path, *replies) as face:
            with pytest.raises(ConfigurationError, match="made smaller"):
                await face.interaction.compact()
            for words in ("a", "b", "c", "d"):
                await face.said(words)
            before, after = await face.interaction.compact()
            assert after < before
            told = await face.until(n.Summarised, lambda event: event.ok)
            assert (told.before, told.after) == (before, after)
            assert any(line.startswith("  summary: ") for line in face.interaction.cost_lines())
            assert (await face.said("e")).text == "five"

    run(work)


def test_shrinking_can_be_given_up(tmp_path: Path) -> None:
    async def work() -> None:
        gate = Gate()
        began = event({"content": "S"}, usage={"prompt_tokens": 900, "completion_tokens": 9})
        transport = FakeTransport([*(text("x" * 2000) for _ in range(4)), [began, gate], text("six")])
        async with open_face(tmp_path, transport=transport) as face:
            ask = face.interaction
            for words in ("a", "b", "c", "d"):
                await face.said(words)
            shrinking = asyncio.ensure_future(ask.compact())
            await gate.reached.wait()
            with pytest.raises(ConfigurationError, match="another change is going"):
                await ask.open_session(None)
            ask.submit("waits")
            back = ask.cancel()
            assert [prompt.text for prompt in back] == ["waits"]
            with pytest.raises(ConfigurationError, match="cancelled"):
                await shrinking
            assert [line for line in ask.cost_lines() if line.startswith("  summary: 900 tokens in, 9 out")]
            assert (await face.said("e")).text == "six"

    run(work)


def test_another_model_is_asked_from_the_next_prompt_on(tmp_path: Path) -> None:
    async def work() -> None:
        gate = Gate()
        transport = FakeTransport([[gate, *text("one")], text("two")])
        async with open_face(tmp_path, transport=transport, model="small") as face:
            ask = face.interaction
            ask.submit("a")
            await gate.reached.wait()
            ask.set_model("large")
            assert ask.situation().model == "large"
            for odd in ("", "a\nb", "\x1b"):
                with pytest.raises(ConfigurationError):
                    ask.set_model(odd)
            gate.open.set()
            await face.until(n.RunFinished)
            await face.idle()
            await face.said("b")
            assert ask.models()[0] == "large"
            assert ask.settings_shown()["model"] == "large"
        assert [body["model"] for body in transport.bodies] == ["small", "large"]
        assert [e.model for e in face.of(n.RunStarted)] == ["small", "large"]

    run(work)


@pytest.mark.parametrize("steps", range(10))
def test_closing_at_any_step_on_the_way_to_another_model(tmp_path: Path, steps: int) -> None:
    async def work() -> None:
        async with open_face(tmp_path, "one", session_store=":memory:") as face:
            face.interaction.set_model("large")
            face.interaction.submit("a")
            for _ in range(steps):
                await asyncio.sleep(0)
            await face.interaction.close()

    run(work)


def test_a_model_without_a_key_is_refused(tmp_path: Path) -> None:
    async def work() -> None:
        workspace = tmp_path / "work"
        workspace.mkdir()
        settings = Settings(workspace=str(workspace), base_url="http://127.0.0.1:9", api_key="k" * 20)
        async with open_interaction(settings, escaped=ESCAPED, environ={"OPENAI_API_KEY": "o" * 20}) as ask:
            with pytest.raises(ConfigurationError, match="ANTHROPIC_API_KEY"):
                ask.set_model("anthropic:claude-sonnet-4-5")
            assert ask.situation().model == "gpt-4o"
            ask.set_model("openai:gpt-4o-mini")
            assert ask.situation().model == "openai:gpt-4o-mini"
            offered = ask.models()
            assert any(name.startswith("openai:") for name in offered)
            assert not any(name.startswith("anthropic:") for name in offered)

    run(work)


def test_what_is_in_force_in_words(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_face(tmp_path, sandbox="off", no_tools=True) as face:
            ask = face.interaction
            assert ask.tools() == ()
            assert (ask.situation().policy, ask.situation().sandbox) == ("asks", "none")
            assert ask.policy_lines()[:2] == ("reading: allowed", "changing files: asked about")
        async with open_face(tmp_path, allow_mutating_tools=True) as face:
            states = {name: (category, state) for name, category, state in face.interaction.tools()}
            assert states["write_file_safe"] == ("mutating", "allowed")
            assert states["bash_execute_safe"] == ("execution", "asked")
            assert face.interaction.situation().policy == "edits"
            assert "changing files: allowed" in face.interaction.policy_lines()

    run(work)


def test_the_doctor_comes(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_face(tmp_path) as face:
            lines = await face.interaction.doctor()
            assert lines[0].startswith("sandbox: ")

    run(work)


@pytest.mark.parametrize("what", ["compact", "open", "export", "doctor"])
def test_closing_in_the_middle_of_a_request(tmp_path: Path, what: str) -> None:
    async def work() -> None:
        gate = Gate()
        transport = FakeTransport([*(text("x" * 2000) for _ in range(4)), [gate]])
        async with open_face(tmp_path, transport=transport) as face:
            ask = face.interaction
            for words in ("a", "b", "c", "d"):
                await face.said(words)
            requests: dict[str, Callable[[], Coroutine[Any, Any, object]]] = {
                "compact": ask.compact,
                "open": lambda: ask.open_session(None),
                "export": lambda: ask.export("md", str(tmp_path / "out.md")),
                "doctor": ask.doctor,
            }
            task = asyncio.ensure_future(requests[what]())
            if what == "compact":
                await gate.reached.wait()
            else:
                await asyncio.sleep(0)
            await ask.close()
            await asyncio.wait({task})
            task.exception()

    run(work)


@pytest.mark.parametrize("steps", range(0, 60, 5))
def test_closing_at_any_step_on_the_way_to_another_session(tmp_path: Path, steps: int) -> None:
    async def work() -> None:
        async with open_face(tmp_path, "one") as face:
            await face.said("a")
            task = asyncio.ensure_future(face.interaction.open_session(None))
            for _ in range(steps):
                await asyncio.sleep(0)
            await face.interaction.close()
            await asyncio.wait({task})
            task.exception()
        async with open_face(tmp_path) as face:
            assert [row.title for row in face.interaction.sessions()] == ["a"]

    run(work)


def test_what_was_found_at_the_opening_is_told_at_once(tmp_path: Path) -> None:
    async def work() -> None:
        async with open_face(tmp_path, session=Wish(how="continue")) as face:
            assert "no session yet" in face.of(n.Warned)[0].message

    run(work)


_KILLED = """
import asyncio, sys
from sluice.run.config import Settings
from sluice.run.interactive import open_interaction
from sluice.testing.scripted_model import scripted_model, asks

async def main():
    model = scripted_model("half of it", asks("bash_execute_safe", command="touch x"))
    settings = Settings(workspace=sys.argv[1], mode="mock")
    async with open_interaction(settings, escaped=str, transport=model) as ask:
        ask.submit("first")
        ask.submit("second")
        async for event in ask.events():
            if type(event).__name__ == "ApprovalWanted":
                print(ask.situation().session, flush=True)

asyncio.run(main())
"""


def test_a_kill_leaves_a_session_to_go_on_with(tmp_path: Path) -> None:
    workspace = tmp_path / "work"
    workspace.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", _KILLED, str(workspace)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},  # what is killed leaves its private folders behind
    )
    try:
        assert process.stdout is not None
        session = process.stdout.readline().strip()
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=20)

    async def work() -> None:
        async with open_face(tmp_path, "yes", "and yes") as face:
            (row,) = face.interaction.sessions()
            assert (row.session, row.title, row.held) == (session, "first", False)
            await face.interaction.open_session(session)
            opened = await face.until(SessionOpened)
            assert said(opened)[:3] == ["first", "half of it", "second"]
            wanted = await face.until(ApprovalWanted)
            assert "touch x" in wanted.text
            assert not face.of(PromptBegan)
            assert face.interaction.answer(wanted.number, "deny", "not now")
            assert (await face.until(n.RunFinished)).text == "yes"
            assert (await face.said("go on")).text == "and yes"

    run(work)
