"""Settings in, an agent out: with the parts that were asked for, and nothing left of it afterwards."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
from run_world import end_of

from sluice.errors import ConfigurationError
from sluice.policy.rules import Rule, Rules
from sluice.run import wiring
from sluice.run.config import Settings
from sluice.run.wiring import dry_run, make_policy, make_registry, make_transport, open_agent
from sluice.transport.cassette import CassetteTransport, RecordingTransport, load_cassette
from sluice.transport.scripted import ScriptedTransport
from sluice.values import notices as n


def _fixture(folder: Path, *messages: dict[str, Any]) -> str:
    path = folder / "fixture.json"
    path.write_text(json.dumps([{"role": "assistant", **m} for m in messages]))
    return str(path)


def _call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"function": {"name": name, "arguments": arguments}}]}


def _mock(folder: Path, *messages: dict[str, Any], **more: Any) -> Settings:
    workspace = folder / "work"
    workspace.mkdir(exist_ok=True)
    return Settings(workspace=str(workspace), mode="mock", mock_fixture=_fixture(folder, *messages), **more)


def _make_repository(folder: Path) -> None:
    """One empty commit; `a.txt` is not in it."""
    who = ["-c", "user.name=x", "-c", "user.email=x"]
    for words in (["init", "--quiet"], [*who, "commit", "--quiet", "--allow-empty", "--message=x"]):
        subprocess.run(["git", *words], cwd=folder, check=True, timeout=30)


async def _run(settings: Settings, prompt: str = "go") -> list[n.Notice]:
    async with open_agent(settings) as agent:
        return [x async for x in agent.run(prompt)]


def test_a_mock_run_from_settings_alone(tmp_path: Path) -> None:
    settings = _mock(tmp_path, _call("list_files_bounded"), {"content": "two files"})
    (tmp_path / "work" / "a.txt").write_text("x")
    notices = asyncio.run(_run(settings))
    assert (end_of(notices).outcome, end_of(notices).text) == ("completed", "two files")
    started = notices[0]
    assert isinstance(started, n.RunStarted)
    assert started.mode == "mock"
    assert set(started.blocked) == {"mutating", "execution"}


def test_every_offered_tool_called_with_nothing_allowed_changes_and_runs_nothing(tmp_path: Path) -> None:
    """P13: being offered is not being allowed."""
    arguments = {
        "write_file_safe": {"path": "new.txt", "content": "x"},
        "apply_patch": {"path": "a.txt", "old_text": "x", "new_text": "y"},
        "bash_execute_safe": {"command": "touch ran"},
        "read_file_safe": {"path": "a.txt"},
        "rg_search": {"query": "x"},
        "git_show": {"rev": "HEAD"},
        "git_add": {"pathspecs": ["."]},
        "git_commit": {"message": "x"},
        "job_read": {"job": "job:1"},
        "job_stop": {"job": "job:1"},
    }
    settings = _mock(tmp_path)
    (tmp_path / "work" / "a.txt").write_text("x")
    _make_repository(tmp_path / "work")
    for spec in make_registry(settings).specs():
        settings = _mock(tmp_path, _call(spec.name, **arguments.get(spec.name, {})), {"content": "ok"})
        notices = asyncio.run(_run(settings))
        result = next(x.result for x in notices if isinstance(x, n.CallFinished))
        readable = "failed" if spec.name == "job_read" else "ok"  # nothing ran, so there is no job to read
        assert result.status == (readable if spec.category == "read_only" else "blocked"), spec.name
        if result.blocked is not None:
            assert result.blocked.missing
    assert {p.name for p in (tmp_path / "work").iterdir()} == {"a.txt", ".git"}
    assert (tmp_path / "work" / "a.txt").read_text() == "x"


def test_leaving_the_agent_ends_a_run_that_is_still_at_work(tmp_path: Path) -> None:
    settings = _mock(tmp_path, _call("bash_execute_safe", command="sleep 1000"), allow_execution_tools=True)

    async def go() -> None:
        async with open_agent(settings) as agent:
            notices = agent.run("go")
            async for notice in notices:
                if isinstance(notice, n.CallStarted):
                    break
        assert asyncio.all_tasks() == {asyncio.current_task()}
        await notices.aclose()

    asyncio.run(go())


def test_the_transport_is_the_one_that_was_asked_for(tmp_path: Path) -> None:
    settings = _mock(tmp_path, {"content": "hi"})
    assert isinstance(make_transport(settings), ScriptedTransport)
    cassette = tmp_path / "tape"
    recording = make_transport(
        Settings(mode="mock", mock_fixture=settings.mock_fixture, record=str(cassette), workspace=settings.workspace)
    )
    assert isinstance(recording, RecordingTransport)
    asyncio.run(recording.close())
    first = asyncio.run(_run(_mock(tmp_path, {"content": "hi"}, record=str(cassette))))
    assert len(load_cassette(cassette)) == 1
    again = asyncio.run(_run(Settings(workspace=settings.workspace, replay=str(cassette))))
    assert end_of(again).text == end_of(first).text == "hi"
    assert isinstance(make_transport(Settings(replay=str(cassette))), CassetteTransport)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (Settings(dialect="klingon"), "openai_chat"),
        (Settings(tools=("read_file_safe", "nonsense")), "nonsense"),
        (Settings(exclude_tools=("nonsense",)), "nonsense"),
        (Settings(mode="mock"), "--mock-fixture"),
        (Settings(base_url="http://[::1"), "base"),
    ],
)
def test_settings_that_cannot_be_used_are_refused_before_anything_is_sent(
    settings: Settings, words: str, tmp_path: Path
) -> None:
    settings = msgspec.structs.replace(settings, workspace=str(tmp_path))
    with pytest.raises(ConfigurationError, match=words):
        asyncio.run(_run(settings))
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_builds_the_request_and_touches_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> Any:
        raise AssertionError("a dry run sends nothing")

    monkeypatch.setattr(wiring, "make_transport", never)
    secret = "sk-" + "q" * 40
    shown = dry_run(Settings(workspace=str(tmp_path / "absent"), api_key=secret, temperature=0.5), "hello")
    assert secret not in json.dumps(shown)
    body = shown["request"]["body"]
    assert body["messages"][-1] == {"role": "user", "content": "hello"}
    assert body["temperature"] == 0.5
    assert "max_tokens" not in body
    assert list(tmp_path.iterdir()) == []


def test_no_tools_means_no_tools_in_the_request(tmp_path: Path) -> None:
    body = dry_run(Settings(workspace=str(tmp_path), no_tools=True), "hello")["request"]["body"]
    assert "tools" not in body


def test_the_policy_holds_the_rules_of_the_config_and_why_they_are_broken(tmp_path: Path) -> None:
    rule = Rule("deny", "*", "rm *")
    assert make_policy(Settings(rules=Rules((rule,))), ask=True).rules == (rule,)
    assert make_policy(Settings(rules=Rules(broken="no table")), ask=True).broken == "no table"


def test_reading_commands_are_spared_only_in_a_sandbox_and_with_programs_from_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    here = Settings(workspace=str(tmp_path))
    assert make_policy(here, ask=True).spare_read_only
    for more in ({"sandbox": "off"}, {"allow_unsandboxed": True}):
        assert not make_policy(msgspec.structs.replace(here, **more), ask=True).spare_read_only
    monkeypatch.setenv("PATH", f"{tmp_path}/.venv/bin:/usr/bin")
    assert not make_policy(here, ask=True).spare_read_only


def test_an_approval_is_for_the_folder_and_the_names_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def place(workspace: Path) -> str:
        async with open_agent(_mock(workspace, {"content": "x"})) as agent:
            return agent._parts.place()

    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    monkeypatch.delenv("LC_MESSAGES", raising=False)
    first = asyncio.run(place(tmp_path / "a"))
    assert asyncio.run(place(tmp_path / "a")) == first
    assert asyncio.run(place(tmp_path / "b")) != first
    monkeypatch.setenv("LC_MESSAGES", "C")
    assert asyncio.run(place(tmp_path / "a")) != first


def test_a_list_of_hosts_that_cannot_be_held_to_is_told(tmp_path: Path) -> None:
    listed = {"allow_execution_tools": True, "allow_host": ("a.example",)}
    settings = _mock(tmp_path, {"content": "x"}, sandbox="off", **listed)
    told = [x.message for x in asyncio.run(_run(settings)) if isinstance(x, n.Warned)]
    assert any("allow_host has no effect here" in line and "reach every host" in line for line in told)
    for more in ({**listed, "allow_network": True, "sandbox": "off"}, {"allow_host": ("a.example",), "sandbox": "off"}):
        assert not [x for x in asyncio.run(_run(_mock(tmp_path, {"content": "x"}, **more))) if isinstance(x, n.Warned)]
