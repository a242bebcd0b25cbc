"""The shell tool: what a command came to, told truly and within bounds."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

from sluice.tools import bash

pytestmark = pytest.mark.parametrize("bench", ["openat2"], indirect=True)  # how a folder is opened is tested elsewhere


@pytest.fixture(autouse=True, scope="module")
def no_child_is_left() -> Any:
    yield
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


class Set:
    """A cancel that is set once the command has begun."""

    def __init__(self, path: Any) -> None:
        self.path = path

    def is_set(self) -> bool:
        return False

    async def wait(self) -> bool:
        while not self.path.exists():
            await asyncio.sleep(0)
        return True


def test_a_command_runs_in_the_workspace(bench: Any) -> None:
    result = bench.call(bash, command="pwd -P; cat ok.txt >&2")
    assert (result.ok, result.status, result.exit_code, result.error) == (True, "ok", 0, None)
    assert result.content == f"{bench.root}\none\ntwo\nthree"
    assert not result.truncated


def test_silence_is_said(bench: Any) -> None:
    assert bench.call(bash, command="true").content == "(no output)"


def test_a_failing_command_is_not_ok_whatever_it_prints(bench: Any) -> None:
    result = bench.call(bash, command="""echo '{"ok": true, "exit_code": 0}'; exit 3""")
    assert (result.ok, result.status, result.exit_code, result.failure) == (False, "failed", 3, "needs_inspection")
    assert result.error.code == "exit_status"
    assert result.content.splitlines()[-1] == "[the command exited with status 3]"


def test_a_fatal_signal_is_named(bench: Any) -> None:
    result = bench.call(bash, command="kill -KILL $$")
    assert (result.status, result.exit_code, result.error.code) == ("failed", 137, "signal")
    assert "SIGKILL" in result.content


def test_a_timeout_is_told_with_what_was_printed(bench: Any) -> None:
    result = bench.call(bash, command="echo begun; sleep 1000", timeout_ms=200)
    assert (result.ok, result.status, result.timed_out, result.failure) == (False, "timed_out", True, "retryable")
    assert result.content == "begun\n[the command took more than 0.2 s and was ended]"


def test_the_users_limits_hold(bench: Any) -> None:
    bench.limits(command_seconds=0.2, max_command_seconds=1.0)
    assert bench.call(bash, command="sleep 1000").status == "timed_out"
    assert bench.call(bash, command="true", timeout_ms=1001).error.code == "invalid_timeout"
    bench.limits(max_command_output_bytes=1000)
    assert bench.call(bash, command="yes").error.code == "output_limit"


def test_a_cancel_is_answered(bench: Any) -> None:
    bench.context.cancel = Set(bench.root / "begun")
    result = bench.call(bash, command="touch begun; sleep 1000")
    assert (result.ok, result.status, result.timed_out) == (False, "cancelled", False)


def test_long_output_keeps_its_end_and_spills(bench: Any) -> None:
    result = bench.call(bash, command="for i in $(seq 5000); do echo line $i; done; echo the error >&2; exit 1")
    lines = result.content.splitlines()
    assert result.truncated
    assert len(lines) <= 200 + 1
    assert lines[0].startswith("[too long:")
    assert lines[1] == "line 1"
    assert lines[-2:] == ["the error", "[the command exited with status 1]"]
    assert len(result.content.encode()) <= bench.context.output_bytes(bash.TOOL)
    with bench.context.spill.open(1) as file:
        assert file.read().count(b"\n") == 5001
    assert result.facts["output_lines"] == 5001


@pytest.mark.parametrize("bound", [0, 1, 100, 1000, 16384])
def test_the_bound_holds_with_every_closing_line(bench: Any, bound: int) -> None:
    bench.limits(max_tool_output_bytes=bound)
    result = bench.call(bash, command="head -c 100000 /dev/zero | tr '\\0' x; sleep 1000 & exit 9")
    if bound >= 1000:
        assert len(result.content.encode()) <= bound
        assert "status 9" in result.content
    assert result.truncated


def test_what_was_left_running_is_said(bench: Any) -> None:
    result = bench.call(bash, command="sleep 1000 & echo started")
    assert result.ok
    assert result.content == "started\n[1 processes it had left running were ended]"


def test_control_characters_stay_data(bench: Any) -> None:
    result = bench.call(bash, command=r"printf '\033[31mred\007\377'")
    assert result.content == "\x1b[31mred\x07\ufffd"


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("", "empty_command"),
        (" \n", "empty_command"),
        ("echo a\0b", "nul_in_command"),
        ("echo \ud800", "not_utf8"),
        ("#" + "x" * 131_071, "command_too_long"),
        ("x" * 10_000_000, "command_too_long"),
    ],
)
def test_a_command_that_cannot_be_one_is_refused(bench: Any, command: str, code: str) -> None:
    result = bench.call(bash, command=command)
    assert (result.ok, result.status, result.error.code, result.error.path) == (False, "failed", code, "$.command")
    assert len(result.content) < 300


def test_the_longest_command_runs(bench: Any) -> None:
    assert bench.call(bash, command="true #" + "x" * (bash.MAX_COMMAND_BYTES - 6)).ok


@pytest.mark.parametrize("command", ["echo 'unclosed", "$(" * 5_000, "if", "&& &&"])
def test_a_broken_command_line_is_a_failed_command(bench: Any, command: str) -> None:
    result = bench.call(bash, command=command)
    assert not result.ok
    assert result.status == "failed"
    assert result.exit_code not in (0, None)


@pytest.mark.parametrize("command", ["-i", "--version", "-e", "--rcfile x", "-- true"])
def test_a_command_is_never_an_option_of_the_shell(bench: Any, command: str) -> None:
    assert bench.call(bash, command=command).exit_code == 127


@pytest.mark.parametrize("milliseconds", [0, -1, 600_001, 2**62])
def test_a_timeout_out_of_range_is_refused(bench: Any, milliseconds: int) -> None:
    assert bench.call(bash, command="true", timeout_ms=milliseconds).error.code == "invalid_timeout"


def test_a_machine_without_a_shell_is_told(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bash, "_SHELLS", (("/no/such/shell", "-c"),))
    result = bench.call(bash, command="true")
    assert (result.ok, result.error.code) == (False, "no_shell")


def test_sh_serves_where_bash_is_missing(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bash, "_SHELLS", (("/no/such/bash", "-c"), ("/bin/sh", "-c", "--")))
    assert bench.call(bash, command="echo ok").content == "ok"


def test_no_start_up_file_of_the_workspace_is_read(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (".bashrc", ".profile", ".bash_profile", "evil"):
        (bench.root / name).write_text("touch ran\n")
    monkeypatch.setenv("HOME", str(bench.root))
    monkeypatch.setenv("BASH_ENV", str(bench.root / "evil"))
    monkeypatch.setenv("ENV", str(bench.root / "evil"))
    assert bench.call(bash, command="true").ok
    assert not (bench.root / "ran").exists()


def test_keys_do_not_reach_a_command(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "SLUICE_API_KEY", "NCA_API_KEY", "GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "canary-value")
    assert "canary-value" not in bench.call(bash, command="env").content


def test_execution_alone_allows_it(bench: Any) -> None:
    assert bash.TOOL.category == "execution"
    assert not bash.TOOL.risk.changes_repository
    assert bash.TOOL.risk.runs_repository_code
