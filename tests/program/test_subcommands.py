"""`sluice decode`, `sluice tool` and `sluice replay-server` as a person runs them."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from program_world import asks, finish, says, sluice, start


@pytest.mark.parametrize(
    ("body", "code", "kind"),
    [
        (asks(("look", {"a": 1}), say="hm"), 0, None),
        (says("half", finish=None), 1, "incomplete"),
        (b"", 1, "incomplete"),
        (b"<!DOCTYPE html><p>no", 1, "not_a_stream"),
        (bytes(range(256)), 1, "not_a_stream"),
        (says("a", finish=None, done=False) + b"data: [1]\n\n", 1, "malformed_event"),
    ],
)
def test_decode(body: bytes, code: int, kind: str | None, tmp_path: Path) -> None:
    (tmp_path / "s").write_bytes(body)
    for argv, stdin in (["s"], None), (["-"], body), (["s", "--chunk-bytes", "1"], None):
        shown = sluice("decode", *argv, cwd=tmp_path, stdin=stdin)
        found = json.loads(shown.out)
        assert (shown.code, found["ok"], shown.err) == (code, code == 0, "")
        if kind is not None:
            assert found["error"]["kind"] == kind
    if code == 0:
        assert found["tool_calls"][0]["arguments"] == '{"a": 1}'


@pytest.mark.parametrize(
    ("argv", "code", "status"),
    [
        (["read_file_safe", "--args", '{"path": "a.txt"}'], 0, "ok"),
        (["read_file_safe", "--args", '{"path": "absent"}'], 1, "failed"),
        (["read_file_safe", "--args", '{"path": "../a"}'], 1, "failed"),
        (["read_file_safe", "--args", "{oops"], 2, "invalid"),
        (["read_file_safe", "--args", '{"path": 1}'], 2, "invalid"),
        (["hammer"], 2, "invalid"),
        (["write_file_safe", "--args", '{"path": "b", "content": "x"}'], 4, "blocked"),
        (["bash_execute_safe", "--args", '{"command": "touch c"}'], 4, "blocked"),
        (["bash_execute_safe", "--args", '{"command": "exit 3"}', "--allow-execution-tools"], 1, "failed"),
        (
            [
                "bash_execute_safe",
                "--args",
                '{"command": "sleep 9", "timeout_ms": 100}',
                "--allow-execution-tools",
            ],
            1,
            "timed_out",
        ),
    ],
)
def test_tool_prints_one_result_and_its_exit_code_is_its_status(
    argv: list[str], code: int, status: str, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("hi\n")
    shown = sluice("tool", *argv, cwd=tmp_path)
    result = json.loads(shown.out)
    assert (shown.code, result["status"], result["ok"]) == (code, status, code == 0)
    assert result["tool"] == argv[0]
    if code == 4:
        assert result["blocked"]["missing"]
        assert "--allow-" in result["blocked"]["how_to_allow"]
    elif code != 0:
        assert result["error"]["message"] or result["exit_code"] == 3
    assert [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_tool_replaces_a_file_only_if_it_was_seen(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hi\n")
    replace = ["write_file_safe", "--args", '{"path": "a.txt", "content": "ho\\n", "mode": "replace"}']
    shown = sluice("tool", *replace, "--allow-mutating-tools", cwd=tmp_path)
    assert (shown.code, json.loads(shown.out)["error"]["code"]) == (1, "unread")
    shown = sluice("tool", *replace, "--allow-mutating-tools", "--seen", "a.txt", cwd=tmp_path)
    assert shown.code == 0
    assert (tmp_path / "a.txt").read_text() == "ho\n"


def test_tool_takes_arguments_from_standard_input(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hi\n")
    shown = sluice("tool", "read_file_safe", "--args", "-", cwd=tmp_path, stdin=b'{"path": "a.txt"}')
    assert shown.code == 0
    shown = sluice("tool", "read_file_safe", "--args", "-", cwd=tmp_path, stdin=b'{"path": "\xff"}')
    assert shown.code in (1, 2)
    json.loads(shown.out)


def test_the_replay_server_says_where_it_listens_serves_a_run_and_ends_on_sigterm(tmp_path: Path) -> None:
    (tmp_path / "one.sse").write_bytes(says("hello"))
    server = start("replay-server", "one.sse", "--split", "3", cwd=tmp_path)
    try:
        assert server.stdout is not None
        line = server.stdout.readline().decode().strip()
        assert line.startswith("listening on http://127.0.0.1:")
        shown = sluice("-e", "go", "--base-url", line.rpartition(" ")[2], cwd=tmp_path)
        assert (shown.code, shown.out) == (0, "hello\n")
        server.send_signal(signal.SIGTERM)
    finally:
        done = finish(server)
    assert (done.code, done.out, done.err) == (0, "", "")


def test_the_replay_server_ends_by_itself_when_told_to_serve_once(tmp_path: Path) -> None:
    (tmp_path / "one.sse").write_bytes(says("hello"))
    server = start("replay-server", "one.sse", "--once", cwd=tmp_path)
    assert server.stdout is not None
    url = server.stdout.readline().decode().strip().rpartition(" ")[2]
    assert sluice("-e", "go", "--base-url", url, cwd=tmp_path).code == 0
    assert finish(server).code == 0
