"""Signals and closed pipes: the run ends in order, says so, and leaves nothing running."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from program_world import PROGRAM, asks, descendants, environment, finish, says, start

from sluice.testing.replay_server import ReplayServer

ENDS = [(signal.SIGINT, 130, "cancelled"), (signal.SIGTERM, 143, "terminated"), (signal.SIGHUP, 143, "terminated")]


def _sleep(mark: str) -> tuple[str, dict[str, object]]:
    """A command that waits, twice; `mark` stands in the command line of every process of it."""
    return "bash_execute_safe", {"command": f"sleep 1000.{mark} & sleep 1000.{mark}"}


def _mark() -> str:
    return str(int.from_bytes(os.urandom(6)))


def _wait_for(process: subprocess.Popen[bytes], kind: str) -> list[dict[str, object]]:
    assert process.stdout is not None
    seen = []
    for line in process.stdout:
        seen.append(json.loads(line))
        if seen[-1]["type"] == kind:
            return seen
    raise AssertionError(f"no {kind} in {[x['type'] for x in seen]}")


def _sleepers(mark: str) -> list[int]:
    """The living sleeps of a command, seen from outside: inside its sandbox it has other process ids."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                words = Path(f"/proc/{entry}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if words[:2] == [b"sleep", f"1000.{mark}".encode()]:
                found.append(int(entry))
    return found


def _wait_for_sleepers(mark: str, process: subprocess.Popen[bytes]) -> None:
    """Looks until both sleeps are there: the control without which finding none later would say nothing."""
    while len(_sleepers(mark)) < 2:
        assert process.poll() is None, finish(process)


@pytest.mark.parametrize(("number", "code", "outcome"), ENDS)
def test_a_signal_in_mid_text_ends_the_run_with_its_last_notice(
    number: signal.Signals, code: int, outcome: str, tmp_path: Path
) -> None:
    body = says("so far", finish=None, done=False)
    with ReplayServer([body + says(" and on")], fault=f"stall@{len(body)}") as server:
        process = start("-e", "go", "--base-url", server.url, "--output", "stream-json", cwd=tmp_path)
        _wait_for(process, "text")
        process.send_signal(number)
        shown = finish(process)
    last = shown.notices()[-1]
    assert (shown.code, last["type"], last["outcome"], last["text"]) == (code, "run_finished", outcome, "so far")
    assert shown.err == ""


@pytest.mark.parametrize(("number", "code", "outcome"), ENDS)
def test_a_signal_before_the_first_byte(number: signal.Signals, code: int, outcome: str, tmp_path: Path) -> None:
    with ReplayServer([says("never")], fault="stall@0") as server:
        process = start("-e", "go", "--base-url", server.url, "--output", "stream-json", cwd=tmp_path)
        _wait_for(process, "turn_started")
        process.send_signal(number)
        shown = finish(process)
    assert (shown.code, shown.notices()[-1]["outcome"]) == (code, outcome)


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc: living processes are checked on Linux only")
@pytest.mark.parametrize(("number", "code", "outcome"), ENDS)
def test_a_signal_while_a_command_runs_ends_all_that_it_started(
    number: signal.Signals, code: int, outcome: str, tmp_path: Path
) -> None:
    mark = _mark()
    with ReplayServer([asks(_sleep(mark)), says("never")]) as server:
        argv = ["-e", "go", "--base-url", server.url, "--allow-execution-tools", "--output", "stream-json"]
        process = start(*argv, cwd=tmp_path)
        _wait_for(process, "call_started")
        _wait_for_sleepers(mark, process)
        process.send_signal(number)
        shown = finish(process)
    notices = shown.notices()
    assert (shown.code, notices[-1]["outcome"]) == (code, outcome)
    assert notices[-2]["type"] == "call_finished"
    assert notices[-2]["result"]["status"] == "cancelled"
    assert _sleepers(mark) == []
    assert descendants(process.pid) == []


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc: living processes are checked on Linux only")
@pytest.mark.parametrize(("number", "code"), [(n, c) for n, c, _ in ENDS])
def test_a_signal_ends_a_single_tool_and_all_that_it_started(number: signal.Signals, code: int, tmp_path: Path) -> None:
    mark = _mark()
    name, arguments = _sleep(mark)
    process = start("tool", name, "--args", json.dumps(arguments), "--allow-execution-tools", cwd=tmp_path)
    _wait_for_sleepers(mark, process)
    process.send_signal(number)
    shown = finish(process)
    assert (shown.code, json.loads(shown.out)["status"], shown.err) == (code, "cancelled", "")
    assert _sleepers(mark) == []


@pytest.mark.parametrize("at", ["text", "call_started"])
def test_a_storm_of_interrupts_ends_as_one_does_and_its_end_is_stored(at: str, tmp_path: Path) -> None:
    """A key that is held: until the process is gone."""
    body = says("so far", finish=None, done=False)
    fault = f"stall@{len(body)}" if at == "text" else None
    answers = [body + says(" and on")] if at == "text" else [asks(_sleep(_mark())), says("never")]
    store = tmp_path / "s.db"
    with ReplayServer(answers, fault=fault) as server:
        argv = ["-e", "go", "--base-url", server.url, "--allow-execution-tools", "--output", "stream-json"]
        process = start(*argv, "--session-store", str(store), cwd=tmp_path)
        _wait_for(process, at)
        sent = 0
        while process.poll() is None:
            process.send_signal(signal.SIGINT)
            sent += 1
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.003)
        shown = finish(process)
    assert sent > 1
    assert (shown.code, shown.notices()[-1]["outcome"], shown.err.strip()) == (130, "cancelled", "")
    with contextlib.closing(sqlite3.connect(store)) as connection:
        assert connection.execute("SELECT outcome FROM run").fetchall() == [("cancelled",)]


@pytest.mark.parametrize("form", ["text", "json", "stream-json"])
def test_a_reader_that_goes_away_is_no_error_and_the_run_ends(form: str, tmp_path: Path) -> None:
    with ReplayServer([says(*["word "] * 3000), says("never")]) as server:
        reader, writer = os.pipe()
        process = subprocess.Popen(
            [*PROGRAM, "-e", "go", "--base-url", server.url, "--output", form],
            cwd=tmp_path,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=writer,
            stderr=subprocess.PIPE,
        )
        os.close(writer)
        if form != "json":
            os.read(reader, 4)
        os.close(reader)
        _, err = process.communicate(timeout=40)
    assert process.returncode == 0
    assert b"Traceback" not in err
    assert b"error" not in err.lower()


def test_a_command_started_without_standard_streams_works(tmp_path: Path) -> None:
    with ReplayServer([says("hello")]) as server:
        line = f'"$@" -e go --base-url {server.url} <&- >&- 2>&-'
        done = subprocess.run(
            ["/bin/sh", "-c", line, "sh", *PROGRAM], cwd=tmp_path, env=environment(), check=False, timeout=40
        )
    assert done.returncode == 0


_INTERRUPTED_AT = """
import os, sys
class Hit:
    def find_spec(self, name, path=None, target=None):
        try:
            if name == sys.argv[1]:
                os.kill(os.getpid(), 2)
            for _ in range(100):
                pass
        except KeyboardInterrupt:  # as code that is imported may lose one
            if name == "signal":
                raise
sys.meta_path.insert(0, Hit())
from sluice.__main__ import main
sys.exit(main())
"""


@pytest.mark.parametrize("module", ["signal", "sluice.ui.cli", "click", "sluice.errors", "sluice.ui.interrupts"])
def test_an_interrupt_while_the_program_is_imported_is_no_traceback(module: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", _INTERRUPTED_AT, module]
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, check=False, timeout=40)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


def test_a_starter_that_ignores_interrupts_is_followed_while_the_program_is_imported(tmp_path: Path) -> None:
    code = f"import signal; signal.signal(2, signal.SIG_IGN)\n{_INTERRUPTED_AT}"
    command = [sys.executable, "-c", code, "click"]
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, check=False, timeout=40)
    assert done.returncode == 2, "it went on, to say that there is no command of this name"
