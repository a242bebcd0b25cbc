"""The agent for programs: what its arguments come to, how it is opened, and that own tools go through every gate."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from sluice import (
    Agent,
    CallFinished,
    ConfigurationError,
    Limits,
    MemoryStore,
    NoHooks,
    Policy,
    RegistrationError,
    Rule,
    RunFinished,
    Settings,
    ToolSpec,
    tool,
)
from sluice.run.store_places import data_folder
from sluice.run.wiring import state_folder
from sluice.testing.scripted_model import asks, scripted_model
from sluice.transport.scripted import ScriptedExchange, ScriptedTransport
from sluice.values import notices as n
from sluice.values.messages import AssistantMessage, Conversation, Message, UserMessage
from sluice.values.requests import Request

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b55"
    "0000000a49444154789c636800000082008177cd72b60000000049454e44ae426082"
)
GIF = bytes.fromhex("47494638396101000100800000000000ffffff2c00000000010001000002024401003b")


@tool(category="mutating")
def paint(colour: str) -> str:
    """Paints the house."""
    return f"painted {colour}"


@tool(category="read_only", subject="street")
def look(street: str) -> dict[str, int]:
    """Looks at a street."""
    return {"houses": len(street)}


def _agent(workspace: Path, *replies: Any, **more: Any) -> Agent:
    return Agent(workspace, transport=scripted_model(*replies), **{"session_store": ":memory:", **more})


def _finished(notices: list[n.Notice]) -> list[CallFinished]:
    return [notice for notice in notices if isinstance(notice, CallFinished)]


# -- opening and running


def test_five_lines(tmp_path: Path) -> None:
    async def run() -> list[n.Notice]:
        async with _agent(tmp_path, "Hello") as agent:
            return [notice async for notice in agent.run("Hi")]

    notices = asyncio.run(run())
    assert isinstance(notices[-1], RunFinished)
    assert (notices[-1].outcome, notices[-1].text) == ("completed", "Hello")


def test_without_an_event_loop_the_conversation_goes_on(tmp_path: Path) -> None:
    agent = _agent(tmp_path, "one", "two")
    seen: list[n.Notice] = []
    assert agent.run_sync("a").text == "one"
    assert agent.run_sync("b", watch=seen.append).text == "two"
    assert isinstance(seen[0], n.RunStarted)
    assert agent._store is not None
    history = asyncio.run(agent._store.history())
    assert [m.content for m in history if isinstance(m, UserMessage | AssistantMessage)] == ["a", "one", "b", "two"]


def test_a_stored_conversation_goes_on_in_another_program(tmp_path: Path) -> None:
    work, store = tmp_path / "w", tmp_path / "sessions.db"

    class Heard(NoHooks):
        async def prepare_turn(self, turn: int, conversation: Conversation) -> tuple[Message, ...]:
            heard.append(len(conversation))
            return ()

    heard: list[int] = []

    async def first() -> str:
        async with _agent(work, "one", session_store=store) as agent:
            assert agent.session
            async for _ in agent.run("a"):
                pass
            return agent.session

    session = asyncio.run(first())
    for resume in (session, "last"):
        _agent(work, "more", session_store=store, resume=resume, hooks=Heard()).run_sync("b")
    assert heard == [3, 5]
    again = _agent(work, "x", "y", session_store=store, hooks=Heard())
    again.run_sync("new")
    again.run_sync("goes on")
    assert heard == [3, 5, 1, 3]


def test_ones_own_store_is_used_and_not_closed(tmp_path: Path) -> None:
    store = MemoryStore()
    Agent(tmp_path, transport=scripted_model("one"), store=store).run_sync("a")
    assert [row[0] for row in store.rows] == ["started", "message", "finished"]
    assert not list(data_folder().rglob("*"))
    with pytest.raises(ConfigurationError, match="resume names a session on disk"):
        Agent(tmp_path, transport=scripted_model("one"), store=store, resume="last").run_sync("a")


def test_misuse_is_said(tmp_path: Path) -> None:
    agent = _agent(tmp_path, "one")
    with pytest.raises(RuntimeError, match="not open"):
        agent.run("x")
    agent.cancel()  # nothing runs

    async def run() -> None:
        async with agent:
            with pytest.raises(RuntimeError, match="open already"):
                await agent.__aenter__()
            with pytest.raises(RuntimeError, match="use `run` inside it"):
                agent.run_sync("x")
        with pytest.raises(RuntimeError, match="running event loop"):
            agent.run_sync("x")

    asyncio.run(run())


def test_leaving_and_cancelling_end_a_run(tmp_path: Path) -> None:
    @tool(category="read_only")
    async def wait() -> str:
        """Waits."""
        await asyncio.Event().wait()
        return ""

    async def run(how: str) -> str:
        outcome = ""
        async with _agent(tmp_path, asks("wait"), tools=[wait]) as agent:
            async for notice in agent.run("go"):
                if isinstance(notice, n.CallStarted) and how == "leave":
                    break
                if isinstance(notice, n.CallStarted):
                    agent.cancel()
                if isinstance(notice, RunFinished):
                    outcome = notice.outcome
        return outcome

    assert asyncio.run(run("cancel")) == "cancelled"
    assert asyncio.run(run("leave")) == ""


def test_words_reach_a_run_that_is_going(tmp_path: Path) -> None:
    store = MemoryStore()

    async def run() -> list[str]:
        states = []
        replies = [asks("look", street="A"), "done"]
        async with Agent(tmp_path, transport=scripted_model(*replies), store=store, tools=[look]) as agent:
            async for notice in agent.run("go"):
                if isinstance(notice, n.CallStarted):
                    ticket = agent.steer("look twice")
            states.append(ticket.state)
            states.append(agent.steer("too late").state)
        return states

    assert asyncio.run(run()) == ["given", "unsent"]
    said = [m.content for m in asyncio.run(store.history()) if isinstance(m, UserMessage)]
    assert said == ["go", "look twice"]


# -- what is allowed


def _outcome(tmp_path: Path, policy: Policy | None, **more: Any) -> CallFinished:
    seen: list[n.Notice] = []
    _agent(tmp_path, asks("paint", colour="red"), "done", tools=[paint], policy=policy, **more).run_sync(
        "go", watch=seen.append
    )
    return _finished(seen)[0]


def test_an_own_tool_needs_what_its_category_needs(tmp_path: Path) -> None:
    blocked = _outcome(tmp_path, None)
    assert blocked.result.status == "blocked"
    assert blocked.result.blocked is not None
    assert blocked.result.blocked.missing == ("allow_mutating_tools",)
    allowed = _outcome(tmp_path, Policy(allow_mutating_tools=True))
    assert (allowed.result.ok, allowed.result.content) == (True, "painted red")
    denied = _outcome(tmp_path, Policy(allow_mutating_tools=True, rules=(Rule("deny", "paint"),)))
    assert denied.result.status == "blocked"
    broken = _outcome(tmp_path, Policy(allow_mutating_tools=True, broken="no rules"))
    assert broken.result.status == "blocked"


def test_an_own_tool_is_audited_and_stored(tmp_path: Path) -> None:
    store = MemoryStore()
    _outcome(tmp_path, Policy(allow_mutating_tools=True), store=store, session_store=None)
    lines = [json.loads(line) for line in (state_folder() / "audit.jsonl").read_text().splitlines()]
    assert [(line["event"], line["fields"]["tool"]) for line in lines] == [
        ("verdict", "paint"),
        ("call_started", "paint"),
        ("call_ended", "paint"),
    ]
    assert [what for what, _run, _detail in store.rows if what.startswith("call_")] == ["call_started", "call_ended"]


def test_an_approver_is_asked_and_a_policy_that_asks_needs_one(tmp_path: Path) -> None:
    class Person:
        asked: list[str] = []

        async def ask(self, spec: ToolSpec, arguments: str, reason: str) -> tuple[bool, str]:
            self.asked.append(spec.name)
            return True, ""

    assert _outcome(tmp_path, None, approver=Person()).result.ok
    assert Person.asked == ["paint"]
    with pytest.raises(ConfigurationError, match="nobody can be asked"):
        _outcome(tmp_path, Policy(ask=True))


def test_a_workspace_file_narrows_and_never_widens(tmp_path: Path) -> None:
    (tmp_path / ".sluice").mkdir()
    (tmp_path / ".sluice" / "config.toml").write_text(
        'allow_mutating_tools = true\nmax_turns = 1\n[[rules]]\neffect = "deny"\ntool = "look"\n'
    )
    assert _outcome(tmp_path, None).result.status == "blocked"
    seen: list[n.Notice] = []
    replies = [asks("look", street="A"), "done"]
    end = _agent(tmp_path, *replies, tools=[look]).run_sync("go", watch=seen.append)
    assert end.outcome == "limit:turns"
    assert _finished(seen)[0].result.status == "blocked"
    own = Policy(rules=(Rule("allow", "look"),))
    seen_again: list[n.Notice] = []
    _agent(tmp_path, *replies, tools=[look], policy=own).run_sync("go", watch=seen_again.append)
    assert _finished(seen_again)[0].result.status == "blocked"  # a deny of the folder holds beside one's own policy
    assert any("ignored allow_mutating_tools" in notice.message for notice in seen if isinstance(notice, n.Warned))


# -- what the arguments come to


@pytest.mark.parametrize(
    ("builtin", "own", "offered"),
    [
        (False, [look], ("look",)),
        (False, [], ()),
        (["read_file_safe"], [look], ("read_file_safe", "look")),
        (["read_file_safe"], [], ("read_file_safe",)),
    ],
)
def test_which_tools_are_offered(tmp_path: Path, builtin: Any, own: Any, offered: tuple[str, ...]) -> None:
    seen: list[n.Notice] = []
    _agent(tmp_path, "x", builtin_tools=builtin, tools=own).run_sync("go", watch=seen.append)
    assert isinstance(seen[0], n.RunStarted)
    assert seen[0].tools == offered


def test_a_name_that_is_taken_or_unknown_is_refused_before_anything_is_sent(tmp_path: Path) -> None:
    @tool(category="read_only", name="git_diff")
    def other() -> str:
        """Takes the name."""
        return ""

    with pytest.raises(RegistrationError, match="two tools are named git_diff"):
        _agent(tmp_path, "x", tools=[other]).run_sync("go")
    with pytest.raises(ConfigurationError, match="no tool is named 'nonsense'"):
        _agent(tmp_path, "x", builtin_tools=["nonsense"]).run_sync("go")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"model": " "}, "argument model: model cannot be ' '; expected some text"),
        ({"base_url": "nowhere"}, "argument base_url: base_url cannot be 'nowhere'"),
        ({"api_key": "a b"}, "argument api_key: api_key cannot be its value"),
        ({"limits": Limits(max_turns=0)}, "argument max_turns: max_turns cannot be 0"),
    ],
)
def test_bad_arguments_are_one_line(tmp_path: Path, given: Mapping[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        _agent(tmp_path, "x", **given).run_sync("go")


def test_a_key_is_needed_and_may_stand_in_its_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigurationError, match=r"no API key for https://api\.openai\.com/v1"):
        Agent(tmp_path, model="openai:gpt-5").run_sync("go")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-x")
    assert Agent(tmp_path, model="openai:gpt-5")._settings()[0].api_key == "sk-x"
    assert Agent(tmp_path, model="anthropic:claude")._settings()[0].api_key is None
    assert Agent(settings=Settings(model="openai:gpt-5"))._settings()[0].api_key == "sk-x"
    assert Agent(settings=Settings(model="gemini:x"))._settings()[0].api_key is None
    assert Agent(settings=Settings(api_key_file="/k"))._settings()[0].api_key is None
    monkeypatch.setenv("SLUICE_MODEL", "other")  # a program does not depend on who runs it
    monkeypatch.setenv("SLUICE_ALLOW_MUTATING_TOOLS", "1")
    settings = Agent(tmp_path)._settings()[0]
    assert (settings.model, settings.allow_mutating_tools) == ("gpt-4o", False)


def test_limits_prompt_and_settings_beside_them(tmp_path: Path) -> None:
    replies = [asks("look", street="A")] * 3
    end = _agent(tmp_path, *replies, tools=[look], limits=Limits(max_turns=2)).run_sync("go")
    assert end.outcome == "limit:turns"
    base = Settings(workspace=str(tmp_path), allow_mutating_tools=True, limits=Limits(max_turns=7))
    settings, _news = Agent(settings=base, model="m")._settings()
    assert (settings.model, settings.allow_mutating_tools, settings.limits.max_turns) == ("m", True, 7)
    settings, _news = Agent(settings=base, policy=Policy(), limits=Limits(max_turns=3))._settings()
    assert (settings.allow_mutating_tools, settings.limits.max_turns) == (False, 3)


def test_own_words_and_images_go_to_the_model(tmp_path: Path) -> None:
    sent: list[bytes] = []

    class Listening:
        def __init__(self) -> None:
            self.inner = scripted_model("seen")

        async def send(self, request: Any) -> Any:
            sent.append(request.body)
            return await self.inner.send(request)

        async def close(self) -> None:
            raise AssertionError("it is not the agent's to close")

    (tmp_path / "a.gif").write_bytes(GIF + b"\0" * 300_000)
    agent = Agent(tmp_path, transport=Listening(), session_store=":memory:", system_prompt="Be brief.")
    assert agent.run_sync("look", images=[tmp_path / "a.gif"]).outcome == "completed"  # its weight is no context
    messages = json.loads(sent[0])["messages"]
    assert messages[0] == {"role": "system", "content": "Be brief."}
    assert [part["type"] for part in messages[1]["content"]] == ["image_url", "text"]
    (tmp_path / "b.gif").write_bytes(b"no")
    with pytest.raises(ConfigurationError, match="no PNG"):
        agent.run_sync("look", images=[tmp_path / "b.gif"])


@pytest.mark.parametrize("wanted", [False, True])
def test_files_of_instructions_are_given_only_if_wanted(tmp_path: Path, wanted: bool) -> None:
    (tmp_path / "AGENTS.md").write_text("Speak like a pirate.")
    sent: list[bytes] = []

    class Listening(ScriptedTransport):
        async def send(self, request: Request) -> ScriptedExchange:
            sent.append(request.body)
            return await super().send(request)

    Agent(tmp_path, transport=Listening([{"content": "Aye."}]), session_store=":memory:", agents_md=wanted).run_sync(
        "Hi"
    )
    assert (b"pirate" in sent[0]) is wanted


def test_an_image_is_stored_and_sent_again_after_a_resume(tmp_path: Path) -> None:
    sent: list[bytes] = []

    class Listening(ScriptedTransport):
        async def send(self, request: Request) -> ScriptedExchange:
            sent.append(request.body)
            return await super().send(request)

    (tmp_path / "a.png").write_bytes(PNG + b"\0" * 400_000)
    for prompt, resume, images in (("look", None, [tmp_path / "a.png"]), ("again", "last", [])):
        agent = Agent(
            tmp_path, transport=Listening([{"content": "seen"}]), session_store=tmp_path / "s.db", resume=resume
        )
        seen: list[n.Notice] = []
        agent.run_sync(prompt, images=images, watch=seen.append)
        assert not any(isinstance(notice, n.Summarised) for notice in seen)
    assert b"data:image/png;base64,iVBORw0KGgo" in sent[1]


def test_the_workspace_is_made(tmp_path: Path) -> None:
    _agent(tmp_path / "a" / "b", "x").run_sync("go")
    assert (tmp_path / "a" / "b").is_dir()


@pytest.mark.parametrize("plain", [True, False])
def test_an_agent_inside_a_tool_counts_for_the_run_around_it(plain: bool, tmp_path: Path) -> None:
    """Nothing is handed on, whether the tool waits in the event loop or in a thread of its own."""
    usage = {"prompt_tokens": 5000, "completion_tokens": 50}
    inner = _agent(tmp_path / "inner", {"content": "found", "usage": usage})

    @tool(category="read_only")
    def ask_in_a_thread(question: str) -> str:
        """Asks another agent."""
        return inner.run_sync(question).text

    @tool(category="read_only")
    async def ask_here(question: str) -> str:
        """Asks another agent."""
        async with inner:
            return [notice async for notice in inner.run(question)][-1].text  # type: ignore[union-attr]

    chosen = ask_in_a_thread if plain else ask_here
    call = asks(chosen.name, question="where?")
    for limit, outcome in ((100_000, "completed"), (5000, "limit:tokens_total")):
        limits = Limits(max_tokens_total=limit)
        end = _agent(tmp_path / "outer", call, "done", tools=[chosen], limits=limits).run_sync("go")
        assert end.outcome == outcome
        assert end.usage.input_tokens > 5000
        inner = _agent(tmp_path / "inner", {"content": "found", "usage": usage})
