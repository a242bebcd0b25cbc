"""`sluice --ask` on a terminal of its own: a person sees the call, and what they say is what happens."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
from pathlib import Path

import pytest
from program_world import PROGRAM, environment, sluice

pytestmark = pytest.mark.timeout(120)


def _fixture(folder: Path, name: str = "write_file_safe", **arguments: object) -> Path:
    call = {"role": "assistant", "tool_calls": [{"function": {"name": name, "arguments": arguments}}]}
    path = folder / "fixture.json"
    path.write_text(json.dumps([call, {"role": "assistant", "content": "All done."}]))
    return path


def _on_a_terminal(folder: Path, fixture: Path, typed: bytes, *more: str) -> tuple[int, str]:
    """Exit code and everything shown. `typed` is typed when the question is there."""
    argv = [*PROGRAM, "-e", "go", "--mode", "mock", "--mock-fixture", str(fixture), "--ask", *more]
    pid, master = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execvpe(argv[0], argv, environment())
    seen, answered = b"", False
    try:
        while True:
            if not select.select([master], [], [], 60)[0]:
                os.kill(pid, signal.SIGKILL)
                break
            try:
                piece = os.read(master, 65536)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            seen += piece
            if not answered and b"to the model: " in seen:
                answered = True
                os.write(master, typed)
    finally:
        os.close(master)
        status = os.waitpid(pid, 0)[1]
    return os.waitstatus_to_exitcode(status), seen.decode("utf-8", "replace")


@pytest.mark.usefixtures("pseudo_terminals")
def test_yes_lets_it_run(tmp_path: Path) -> None:
    code, seen = _on_a_terminal(tmp_path, _fixture(tmp_path, path="new.txt", content="he\x1b[2Jllo\n"), b"y\n")
    assert code == 0, seen
    assert (tmp_path / "new.txt").read_text() == "he\x1b[2Jllo\n"
    assert "write_file_safe (mutating)" in seen
    assert "\x1b[2J" not in seen
    assert "All done." in seen


@pytest.mark.usefixtures("pseudo_terminals")
@pytest.mark.parametrize("typed", [b"n\n", b"\x04", b"not this one\n", b"\xff\n"])
def test_anything_else_does_not(tmp_path: Path, typed: bytes) -> None:
    _code, seen = _on_a_terminal(tmp_path, _fixture(tmp_path, path="new.txt", content="x"), typed)
    assert "write_file_safe" in seen
    assert not (tmp_path / "new.txt").exists()


@pytest.mark.usefixtures("pseudo_terminals")
def test_ctrl_c_at_the_question_ends_the_run(tmp_path: Path) -> None:
    code, seen = _on_a_terminal(tmp_path, _fixture(tmp_path, path="new.txt", content="x"), b"\x03")
    assert code == 130, seen
    assert not (tmp_path / "new.txt").exists()


@pytest.mark.usefixtures("pseudo_terminals")
def test_a_command_that_only_reads_is_not_asked_about_and_others_are(tmp_path: Path) -> None:
    code, seen = _on_a_terminal(tmp_path, _fixture(tmp_path, "bash_execute_safe", command="ls"), b"n\n")
    assert code == 0, seen
    assert "to the model" not in seen
    code, seen = _on_a_terminal(tmp_path, _fixture(tmp_path, "bash_execute_safe", command="ls > f"), b"n\n")
    assert "to the model" in seen
    assert not (tmp_path / "f").exists()


def test_where_nobody_is_there_it_is_denied(tmp_path: Path) -> None:
    fixture = _fixture(tmp_path, path="new.txt", content="x")
    shown = sluice("-e", "go", "--mode", "mock", "--mock-fixture", str(fixture), "--ask", cwd=tmp_path)
    assert "nobody to ask" in shown.err
    assert not (tmp_path / "new.txt").exists()


def test_a_rule_of_the_users_config_denies_and_the_audit_log_says_which(tmp_path: Path) -> None:
    config = tmp_path / "c.toml"
    config.write_text('[[rules]]\neffect = "deny"\ncommand = "touch *"\n')
    fixture = _fixture(tmp_path, "bash_execute_safe", command="true; sh -c 'touch f'")
    more = ["--mode", "mock", "--mock-fixture", str(fixture), "--config", str(config), "--allow-execution-tools"]
    sluice("-e", "go", *more, cwd=tmp_path)
    assert not (tmp_path / "f").exists()
    assert "deny:*[touch *]" in sluice("audit", "show", cwd=tmp_path).out
    assert sluice("audit", "verify", cwd=tmp_path).code == 0
