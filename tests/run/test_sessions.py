"""Runs whose session is kept: continued, resumed with another dialect, recovered."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from run_world import end_of

from sluice.errors import ConfigurationError, StoreError
from sluice.run import sessions
from sluice.run.config import Settings, Wish
from sluice.run.session_check import checked
from sluice.run.store_places import store_path, stores
from sluice.run.wiring import open_agent, state_folder
from sluice.session.disk import reading
from sluice.testing.store_kit import allowed, asks
from sluice.tools.sandbox import available
from sluice.values import notices as n
from sluice.values.messages import AssistantMessage, Conversation, Reasoning, ToolCall, ToolMessage, UserMessage
from sluice.values.requests import ModelOptions
from sluice.wire.dialects import DIALECTS


def _settings(folder: Path, *messages: dict[str, Any], **more: Any) -> Settings:
    workspace = folder / "work"
    workspace.mkdir(exist_ok=True)
    fixture = folder / "fixture.json"
    fixture.write_text(json.dumps([{"role": "assistant", **m} for m in messages]))
    return Settings(workspace=str(workspace), mode="mock", mock_fixture=str(fixture), **more)


def _call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"function": {"name": name, "arguments": arguments}}]}


def _run(settings: Settings, *prompts: str) -> list[list[n.Notice]]:
    async def body() -> list[list[n.Notice]]:
        async with open_agent(settings) as agent:
            return [[x async for x in agent.run(prompt)] for prompt in prompts]

    return asyncio.run(body())


def _wish(settings: Settings, how: Any, id: str = "", **more: Any) -> Settings:
    return msgspec.structs.replace(settings, session=Wish(how=how, id=id, **more))


def _session(notices: list[n.Notice]) -> str:
    return str(end_of(notices).extra["session"])


def _sound(settings: Settings) -> None:
    found = checked(settings, False, state=state_folder(), environ={})
    assert found.broken == ()
    assert found.sessions > 0


def test_a_session_is_kept_and_continued(tmp_path: Path) -> None:
    settings = _settings(tmp_path, _call("list_files_bounded"), {"content": "first answer"})
    first = _run(settings, "first prompt")[0]
    again = _settings(tmp_path, {"content": "another answer"})
    for wish in (Wish(how="continue"), Wish(how="resume", id=_session(first)[:8])):
        notices = _run(msgspec.structs.replace(again, session=wish), "more")[0]
        assert _session(notices) == _session(first)
        assert end_of(notices).saved
        assert end_of(notices).text == "another answer"
    _sound(settings)
    shown = b"".join(sessions.exported(settings, "", "md")).decode()
    assert shown.index("first prompt") < shown.index("first answer") < shown.index("another answer")


def _signed() -> AssistantMessage:
    block = Reasoning(text="secret thought", signature="sig")
    call = ToolCall(id="toolu_1", name="look", arguments="{}")
    native = '[{"type":"thinking","thinking":"secret thought","signature":"sig"}]'
    return AssistantMessage(
        content="from there", reasoning=(block,), tool_calls=(call,), dialect="anthropic_messages", native=native
    )


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_session_of_one_dialect_goes_on_in_another(dialect: str, tmp_path: Path) -> None:
    settings = _settings(tmp_path, {"content": "hi"})

    async def body() -> Conversation:
        opening = await sessions.open_store(settings)
        assert opening is not None
        await opening.store.started("r", UserMessage("go"))
        await opening.store.append("r", _signed())
        await opening.store.append("r", ToolMessage("toolu_1", "look", "seen"))
        await opening.store.finished("r", "completed")
        await opening.store.close()
        again = await sessions.open_store(_wish(settings, "continue"))
        assert again is not None
        try:
            return await again.store.history()
        finally:
            await again.store.close()

    history = asyncio.run(body())
    sent = DIALECTS[dialect].request((*history, UserMessage("more")), (), ModelOptions(model="m")).body
    call = b'"tool_name"' if dialect == "ollama" else b"toolu_1"  # Ollama's calls have no ids
    for words in (b"from there", b"seen", call, b"more"):
        assert words in sent
    assert (b'"sig"' in sent) == (dialect == "anthropic_messages")


def test_what_is_told_while_it_arrives_is_what_is_stored(tmp_path: Path) -> None:
    """D3, through the whole of the program."""
    settings = _settings(tmp_path, {"content": "word " * 500})
    notices = _run(settings, "go")[0]
    told = "".join(x.text for x in notices if isinstance(x, n.TextNotice))
    path = store_path(settings)
    assert path is not None
    with reading(path) as connection:
        stored = connection.execute("SELECT body FROM part WHERE kind = 'text' ORDER BY seq DESC").fetchone()[0]
        assert connection.execute("SELECT next_chunk FROM message WHERE role = 'assistant'").fetchone()[0] > 0
        assert connection.execute("SELECT count(*) FROM usage").fetchone() == (1,)
    assert told == stored
    _sound(settings)


def test_continue_with_no_session_yet_begins_one_and_says_so(tmp_path: Path) -> None:
    notices = _run(_wish(_settings(tmp_path, {"content": "hi"}), "continue"), "go")[0]
    assert any(isinstance(x, n.Warned) and "no session yet" in x.message for x in notices)
    assert end_of(notices).exit_code == 0


def test_a_session_that_is_not_there_and_one_in_memory_are_refused_in_one_line(tmp_path: Path) -> None:
    settings = _settings(tmp_path, {"content": "hi"})
    _run(settings, "go")
    for wish, more, word in (
        (Wish(how="resume", id="nope"), {}, "no session is named"),
        (Wish(how="fork", id="ses", upto=99), {}, "no message 99"),
        (Wish(how="continue"), {"session_store": ":memory:"}, ":memory:"),
    ):
        with pytest.raises(ConfigurationError, match=word):
            _run(msgspec.structs.replace(settings, session=wish, **more), "go")


def test_nothing_is_kept_in_memory(tmp_path: Path) -> None:
    settings = _settings(tmp_path, {"content": "hi"}, session_store=":memory:")
    assert end_of(_run(settings, "go")[0]).extra == {}
    assert stores(settings, True) == []


def test_the_store_that_was_chosen_is_used(tmp_path: Path) -> None:
    for place in (tmp_path / "deep" / "x.db", tmp_path):
        settings = _settings(tmp_path, {"content": "hi"}, session_store=str(place))
        _run(settings, "go")
        assert (place / "sessions.db" if place.is_dir() else place).is_file()
        _sound(settings)


def test_an_interrupted_run_is_told_once_and_its_call_is_not_run_again(tmp_path: Path) -> None:
    settings = _settings(tmp_path, {"content": "I see"})

    async def die() -> None:
        opening = await sessions.open_store(settings)
        assert opening is not None
        await opening.store.started("dead", UserMessage("go"))
        await opening.store.append("dead", asks("a", tool="list_files_bounded"))
        await opening.store.call_started(allowed("dead", tool="list_files_bounded"))
        await opening.store.close()

    asyncio.run(die())
    first, second = (_run(_wish(settings, "continue"), "and?")[0] for _ in range(2))
    warned = [x.message for x in first if isinstance(x, n.Warned)]
    assert len(warned) == 1
    assert "interrupted" in warned[0]
    assert "list_files_bounded" in warned[0]
    assert not [x for x in first if isinstance(x, n.CallStarted)]
    assert not [x for x in second if isinstance(x, n.Warned)]
    assert b"unknown_outcome" in b"".join(sessions.exported(settings, "", "json"))
    _sound(settings)


def test_files_seen_in_a_session_may_be_changed_when_it_goes_on(tmp_path: Path) -> None:
    settings = _settings(tmp_path, _call("read_file_safe", path="a.txt"), {"content": "read"})
    (tmp_path / "work" / "a.txt").write_text("old\n")
    _run(settings, "read it")
    write = _call("write_file_safe", path="a.txt", content="new\n", mode="replace")
    again = _settings(tmp_path, write, {"content": "done"}, allow_mutating_tools=True)
    _run(_wish(again, "continue"), "change it")
    assert (tmp_path / "work" / "a.txt").read_text() == "new\n"
    _sound(settings)


def test_sessions_of_every_project_are_found(tmp_path: Path) -> None:
    made = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        settings = _settings(tmp_path / name, {"content": name})
        made.append(_session(_run(settings, f"prompt {name}")[0]))
    assert [s.id for s in sessions.listed(settings, False)] == made[1:]
    assert {s.id for s in sessions.listed(settings, True)} == set(made)
    assert checked(settings, True, state=state_folder(), environ={}).stores == 2
    with pytest.raises(StoreError, match="belongs to the project"):
        sessions.removed(settings, [made[0]])
    assert sessions.removed(settings, [made[0]], everywhere=True) == [made[0]]
    assert sessions.removed(settings, [], everywhere=True, older_than=0) == [made[1]]
    assert sessions.listed(settings, True) == []


def test_with_all_the_session_used_last_is_that_of_any_project(tmp_path: Path) -> None:
    made = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        settings = _settings(tmp_path / name, {"content": name})
        made.append(_session(_run(settings, name)[0]))
    nobody = _settings(tmp_path, {"content": ""})
    assert sessions.named(nobody, True, "") == sessions.named(settings, True, "") == made[1]
    with pytest.raises(StoreError, match=f"no sessions of {nobody.workspace}"):
        sessions.named(nobody, False, "")
    path = store_path(settings)
    assert path is not None
    path.write_bytes(b"\0no database " * 1000)
    assert sessions.named(nobody, True, "") == sessions.named(nobody, True, made[0][:12]) == made[0]
    with pytest.raises(StoreError, match="damaged"):
        sessions.named(nobody, True, made[1])


def test_a_journal_whose_session_cannot_keep_it_lets_nothing_change(tmp_path: Path) -> None:
    class Keeps:
        def keep(self, path: str, content: bytes | None, mode: int | None) -> str | None:
            return "handle"

    class Refuses:
        def keep_preimage(self, *_: object) -> None:
            raise StoreError("full", "the disk is full")

    with pytest.raises(OSError, match="full"):
        sessions.SessionJournal(Keeps(), Refuses()).keep("a", b"x", None)  # type: ignore[arg-type]


def test_a_link_to_a_store_is_that_store(tmp_path: Path) -> None:
    """Its locks stand beside the file: by two names two processes would work in one session."""
    (tmp_path / "link.db").symlink_to("real.db")
    settings = _settings(tmp_path, {"content": "a"}, session_store=str(tmp_path / "real.db"))
    by_link = _settings(tmp_path, {"content": "a"}, session_store=str(tmp_path / "link.db"))

    async def body() -> None:
        async with open_agent(settings) as agent:
            assert [x async for x in agent.run("go")]
            with pytest.raises(ConfigurationError, match="in use by process"):
                async with open_agent(_wish(by_link, "continue")):
                    pass

    asyncio.run(body())
    assert len(sessions.listed(by_link, False)) == 1
    assert not list(tmp_path.glob("link.db?*"))


def test_no_tool_opens_the_store_in_a_workspace(tmp_path: Path) -> None:
    delete = "*** Begin Patch\n*** Delete File: s.db\n*** End Patch\n"
    settings = _settings(
        tmp_path,
        _call("read_file_safe", path="s.db"),
        _call("apply_patch", patch=delete),
        _call("write_file_safe", path="s.db-journal", content="x"),
        {"content": "done"},
        session_store=str(tmp_path / "work" / "s.db"),
        allow_mutating_tools=True,
    )
    results = [x for x in _run(settings, "go")[0] if isinstance(x, n.CallFinished)]
    assert [x.result.status for x in results] == ["failed"] * 3
    _sound(settings)


def test_a_command_sees_nothing_of_the_store_in_a_workspace(tmp_path: Path) -> None:
    if available() != "bubblewrap":
        pytest.skip("NOT CHECKED: bubblewrap gives no sandbox on this machine; commands may read and write the store")
    settings = _settings(
        tmp_path,
        _call("bash_execute_safe", command="cat s.db s.db-wal s.db-shm; rm -rf s.db*; echo x > s.db"),
        {"content": "done"},
        session_store=str(tmp_path / "work" / "s.db"),
        allow_execution_tools=True,
    )
    (result,) = [x for x in _run(settings, "go")[0] if isinstance(x, n.CallFinished)]
    assert result.result.status == "failed"
    _sound(settings)


def test_a_beginning_of_an_id_is_one_session_among_all_stores(tmp_path: Path) -> None:
    found = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        settings = _settings(tmp_path / name, {"content": name})
        found.append(_session(_run(settings, name)[0]))
    with pytest.raises(StoreError, match="begins more than one session"):
        sessions.removed(settings, ["ses_"], True)
    assert sessions.removed(settings, found[:1], True) == found[:1]
    assert sessions.removed(settings, ["ses_"], True) == found[1:]


def test_what_is_in_use_stays_and_the_rest_is_removed(tmp_path: Path) -> None:
    settings = _settings(tmp_path, {"content": "a"})
    free = [_session(_run(settings, "x")[0]) for _ in range(2)]

    async def body() -> None:
        async with open_agent(settings) as agent:
            assert [x async for x in agent.run("go")]
            with pytest.raises(StoreError, match=f"in use by process.*removed: {free[0]}"):
                sessions.removed(settings, [agent.session, free[0]])
            assert sessions.removed(settings, [], older_than=0) == [free[1]]
            assert [one.id for one in sessions.listed(settings, False)] == [agent.session]

    asyncio.run(body())
