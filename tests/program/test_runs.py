"""The real command over a real server: the river end to end, its faces, its exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from program_world import KEY, asks, finish, says, sluice, start, validator

from sluice.testing.replay_server import ReplayServer

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b55"
    "0000000a49444154789c636800000082008177cd72b60000000049454e44ae426082"
)
FORMS = ["text", "json"]  # what stream-json holds is looked at on its own


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.txt").write_text("one\ntwo\n")
    return folder


def _run(server: ReplayServer, work: Path, *argv: str, **more: Any) -> Any:
    return sluice("-e", "go", "--base-url", server.url, "-w", str(work), *argv, cwd=work.parent, **more)


def _edit() -> list[bytes]:
    read = asks(("read_file_safe", {"path": "a.txt"}), say="Let me look.")
    patch = asks(("apply_patch", {"path": "a.txt", "old_text": "two", "new_text": "three"}))
    return [read, patch, says("\nDone.")]


def test_an_edit_is_blocked_by_default_and_says_how_to_allow_it(work: Path) -> None:
    with ReplayServer(_edit(), split=7) as server:
        shown = _run(server, work)
    assert shown.code == 0
    assert shown.out == "Let me look.\nDone.\n"
    assert "--allow-mutating-tools" in shown.err
    assert (work / "a.txt").read_text() == "one\ntwo\n"


def test_an_allowed_edit_is_made_and_its_diff_shown(work: Path) -> None:
    with ReplayServer(_edit(), split=1) as server:
        shown = _run(server, work, "--allow-mutating-tools")
        roles = [[m["role"] for m in json.loads(r.body)["messages"]] for r in server.requests]
    assert shown.code == 0
    assert "-two" in shown.err
    assert "+three" in shown.err
    assert (work / "a.txt").read_text() == "one\nthree\n"
    assert roles[-1] == ["system", "user", "assistant", "tool", "assistant", "tool"]


def test_stream_json_is_the_notices_in_order_one_a_line(work: Path) -> None:
    with ReplayServer(_edit()) as server:
        shown = _run(server, work, "--output", "stream-json", "--allow-mutating-tools")
    notices = shown.notices()
    assert {x["v"] for x in notices} == {1}
    assert notices[0]["type"] == "run_started"
    assert [x["type"] for x in notices].count("run_finished") == 1
    last = notices[-1]
    assert (last["type"], last["outcome"], last["exit_code"], last["text"]) == (
        "run_finished",
        "completed",
        0,
        "\nDone.",
    )
    assert "".join(x["text"] for x in notices if x["type"] == "text") == "Let me look.\nDone."
    finished = [x["result"] for x in notices if x["type"] == "call_finished"]
    assert [r["status"] for r in finished] == ["ok", "ok"]


def test_json_is_one_object_at_the_end(work: Path) -> None:
    with ReplayServer(_edit()) as server:
        shown = _run(server, work, "--output", "json")
    found = json.loads(shown.out)
    validator("json").validate(found)
    assert (found["outcome"], [c["result"]["status"] for c in found["calls"]]) == ("completed", ["ok", "blocked"])


def test_a_picture_and_more_words_reach_the_model_and_the_picture_is_no_context(work: Path) -> None:
    (work / "a.png").write_bytes(PNG + b"\0" * 500_000)
    with ReplayServer([says("a cat")]) as server:
        flags = ["--image", str(work / "a.png"), "--append-system-prompt", "Be brief.", "--reasoning-effort", "low"]
        shown = _run(server, work, *flags)
        body = json.loads(server.requests[0].body)
    assert (shown.code, shown.out) == (0, "a cat\n")
    assert body["messages"][0]["content"].endswith("\n\nBe brief.\n")
    assert body["messages"][1]["content"][0]["image_url"]["url"].startswith("data:image/png;base64,iVBOR")
    assert body["reasoning_effort"] == "low"
    exported = sluice("sessions", "show", "-w", str(work), cwd=work)
    assert "[image/png]" in exported.out


@pytest.mark.parametrize("form", FORMS)
def test_a_model_that_returns_nothing_is_said(form: str, work: Path) -> None:
    with ReplayServer([says()]) as server:
        shown = _run(server, work, "--output", form)
    assert shown.code == 0
    assert "returned nothing" in shown.out + shown.err


@pytest.mark.parametrize(
    ("bodies", "argv", "code", "outcome"),
    [
        ([says("cut here", finish="length")], [], 3, "limit:output_tokens"),
        ([asks(("list_files_bounded", {}))], ["--max-turns", "1"], 3, "limit:turns"),
        ([asks(*[("list_files_bounded", {})] * 3)], ["--max-tool-calls-per-turn", "2"], 3, "limit:tool_calls_per_turn"),
        ([asks(*[("list_files_bounded", {})] * 2)], ["--max-total-tool-calls", "1"], 3, "limit:total_tool_calls"),
        ([asks(("list_files_bounded", {}))], [], 3, "loop"),
        ([says("x")], ["--max-context-bytes", "100"], 3, "limit:context"),
        ([says("x", finish="content_filter")], [], 1, "failed"),
        ([asks(("write_file_safe", {"path": "b", "content": ""}))], [], 4, "blocked"),
    ],
)
def test_each_end_has_its_outcome_and_exit_code_for_people_and_programs(
    bodies: list[bytes], argv: list[str], code: int, outcome: str, work: Path
) -> None:
    for form in FORMS:
        with ReplayServer(bodies) as server:
            shown = _run(server, work, "--output", form, *argv)
        assert shown.code == code, shown.err
        if form == "text":
            assert f"✗ {outcome}" in shown.err
        else:
            last = json.loads(shown.out.splitlines()[-1])
            assert (last["outcome"], last["exit_code"]) == (outcome, code)
            assert last["message"]


def test_read_only_output_is_bounded_by_the_flag(work: Path) -> None:
    (work / "big.txt").write_text("".join(f"line {i}\n" for i in range(5000)))
    with ReplayServer([asks(("read_file_safe", {"path": "big.txt"})), says("ok")]) as server:
        _run(server, work, "--max-tool-output-bytes", "2000")
        told = json.loads(server.requests[1].body)["messages"][-1]["content"]
    assert len(told.encode()) <= 2000
    assert "spill:" in told or "offset" in told


def test_a_dry_run_sends_nothing_makes_nothing_and_shows_no_key(tmp_path: Path) -> None:
    with ReplayServer([says("never")]) as server:
        shown = sluice(
            "-e",
            "go",
            "--base-url",
            server.url,
            "-w",
            "absent",
            "--dry-run",
            cwd=tmp_path,
            env={"SLUICE_API_KEY": KEY},
        )
        assert server.connections == 0
    found = json.loads(shown.out)
    assert shown.code == 0
    assert found["request"]["body"]["messages"][-1]["content"] == "go"
    assert KEY not in shown.out + shown.err
    assert list(tmp_path.iterdir()) == []


def test_the_key_goes_to_the_server_and_nowhere_else(work: Path, tmp_path: Path) -> None:
    tape = tmp_path / "tape"
    with ReplayServer([says(f"your key is {KEY}")], split=5) as server:
        shown = _run(server, work, "--debug", "--record", str(tape), env={"SLUICE_API_KEY": KEY})
        assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
        echoed = shown.out
    assert KEY in echoed, "what the model says is its own affair"
    assert KEY not in tape.read_text()
    log = "\n".join(line for line in shown.err.splitlines() if "your key is" not in line and '"text"' not in line)
    assert "Bearer" not in log
    for form in ([], ["--output", "json"]):
        listed = sluice("config", "show", *form, cwd=tmp_path, env={"SLUICE_API_KEY": KEY})
        assert listed.code == 0
        assert KEY not in listed.out + listed.err
        assert "api_key" in listed.out


@pytest.mark.parametrize("fault", ["401", "500"])
def test_an_error_that_echoes_the_key_is_shown_without_it(fault: str, work: Path) -> None:
    from sluice.testing.replay_server import Body

    body = Body((json.dumps({"error": {"message": f"bad key {KEY}"}}).encode(),), "application/json", int(fault))
    with ReplayServer([body]) as server:
        shown = _run(server, work, "--debug", "--set", "max_attempts=1", env={"SLUICE_API_KEY": KEY})
    assert shown.code == 1
    assert "bad key" in shown.err
    assert KEY not in shown.out + shown.err


def test_a_recorded_run_replays_to_the_same_output_without_any_network(work: Path, tmp_path: Path) -> None:
    tape = tmp_path / "tape"
    with ReplayServer(_edit(), split=11) as server:
        first = _run(server, work, "--set", f"record={tape}")
    again = sluice("-e", "go", "-w", str(work), "--replay", str(tape), cwd=tmp_path)
    assert (again.code, again.out) == (first.code, first.out) == (0, "Let me look.\nDone.\n")
    assert tape.stat().st_mode & 0o077 == 0
    once_more = sluice("-e", "go", "-w", str(work), "--replay", str(tape), "--output", "json", cwd=tmp_path)
    assert json.loads(once_more.out)["turns"] == 3


def test_a_tape_with_too_few_answers_is_said(work: Path, tmp_path: Path) -> None:
    tape = tmp_path / "tape"
    with ReplayServer([says("one")]) as server:
        _run(server, work, "--record", str(tape))
    lines = tape.read_text().splitlines(keepends=True)
    tape.write_text("".join(lines[:-1]))
    shown = sluice("-e", "go", "-w", str(work), "--replay", str(tape), cwd=tmp_path)
    assert (shown.code, shown.out) == (0, "one\n"), "the mark was seen: what is missing is only the farewell"
    tape.write_text("".join(lines[:2]))
    shown = sluice("-e", "go", "-w", str(work), "--replay", str(tape), "--set", "max_attempts=1", cwd=tmp_path)
    assert shown.code == 1
    assert len(shown.lines) == 1


def test_a_mock_run_needs_no_key_and_no_network(work: Path, tmp_path: Path) -> None:
    call = {"function": {"name": "read_file_safe", "arguments": {"path": "a.txt"}}}
    messages = [{"role": "assistant", "tool_calls": [call]}, {"role": "assistant", "content": "It says one, two."}]
    (tmp_path / "f.json").write_text(json.dumps(messages))
    shown = sluice("-e", "go", "-w", str(work), "--mode", "mock", "--mock-fixture", "f.json", cwd=tmp_path)
    assert (shown.code, shown.out) == (0, "It says one, two.\n")
    (tmp_path / "f.json").write_text(json.dumps(messages[:1]))
    shown = sluice("-e", "go", "-w", str(work), "--mode", "mock", "--mock-fixture", "f.json", cwd=tmp_path)
    assert shown.code == 1
    assert "no answer more" in shown.err


def test_standard_input_is_the_prompt(work: Path) -> None:
    with ReplayServer([says("ok")]) as server:
        shown = sluice("--base-url", server.url, "-w", str(work), cwd=work, stdin="wie geht’s?".encode())
        assert json.loads(server.requests[0].body)["messages"][-1]["content"] == "wie geht’s?"
    assert shown.code == 0


def test_text_comes_out_as_it_arrives(work: Path) -> None:
    """The server holds back the rest of the reply until the first piece was read from the program."""
    first = says("early", finish=None, done=False)
    with ReplayServer([first + b": wait\n\n" * 5 + says(" late")], fault=f"stall@{len(first)}") as server:
        process = start("-e", "go", "--base-url", server.url, "-w", str(work), cwd=work)
        assert process.stdout is not None
        assert process.stdout.read(5) == b"early"
        process.terminate()
        shown = finish(process)
    assert shown.code == 143


def test_the_audit_log_tells_what_was_decided_and_done(work: Path, own_home: Path) -> None:
    with ReplayServer(_edit()) as server:
        _run(server, work)
    logs = list(own_home.rglob("audit.jsonl"))
    assert len(logs) == 1
    assert logs[0].stat().st_mode & 0o077 == 0
    events = [json.loads(line) for line in logs[0].read_text().splitlines()]
    assert [(e["event"], e["fields"]["tool"]) for e in events] == [
        ("verdict", "read_file_safe"),
        ("call_started", "read_file_safe"),
        ("call_ended", "read_file_safe"),
        ("verdict", "apply_patch"),
        ("call_refused", "apply_patch"),
    ]


def test_without_a_place_for_the_audit_log_reading_goes_on_and_changing_does_not(work: Path, own_home: Path) -> None:
    (own_home / "state").write_text("a file where the folder should be")
    with ReplayServer(_edit()) as server:
        shown = _run(server, work, "--allow-mutating-tools", "--output", "stream-json")
    results = [x["result"] for x in shown.notices() if x["type"] == "call_finished"]
    assert [r["ok"] for r in results] == [True, False]
    assert results[1]["error"]["code"] == "audit_unavailable"
    assert (work / "a.txt").read_text() == "one\ntwo\n"
    assert any(x["type"] == "warning" and "audit log" in x["message"] for x in shown.notices())


def test_our_own_config_and_state_are_no_place_for_file_tools(work: Path, own_home: Path) -> None:
    """The workspace holds the home folder: what keeps the host in control is not writable all the same."""
    bodies = [
        asks(("write_file_safe", {"path": "state/sluice/audit.jsonl", "content": "x", "mode": "append"})),
        says("ok"),
    ]
    (own_home / "state" / "sluice").mkdir(parents=True)
    with ReplayServer(bodies) as server:
        shown = _run(server, own_home, "--allow-mutating-tools", "--output", "json")
    assert json.loads(shown.out)["calls"][0]["result"]["ok"] is False
