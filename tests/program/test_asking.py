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


def _on_a_terminal(
    folder: Path, fixture: Path, typed: bytes | None, *more: str, flags: tuple[str, ...] = ("--ask",)
) -> tuple[int, str]:
    """Exit code and everything shown. `typed` is typed when the question is there; `None`: the program is killed then."""
    argv = [*PROGRAM, "-e", "go", "--mode", "mock", "--mock-fixture", str(fixture), *flags, *more]
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
                if typed is None:
                    os.kill(pid, signal.SIGKILL)
                else:
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


# -- killed at the question

_AGAIN = ("--continue",)


def _killed_at_the_question(folder: Path) -> Path:
    """A session whose process died while the person was asked; and what the model says in the next one."""
    code, seen = _on_a_terminal(folder, _fixture(folder, path="new.txt", content="x"), None)
    assert code == -signal.SIGKILL, seen
    assert not (folder / "new.txt").exists()
    answer = folder / "answer.json"
    answer.write_text(json.dumps([{"role": "assistant", "content": "And that is that."}]))
    return answer


@pytest.mark.usefixtures("pseudo_terminals")
@pytest.mark.parametrize("typed", [b"y\n", b"n\n"])
def test_on_a_terminal_the_next_run_asks_again_before_its_prompt(tmp_path: Path, typed: bytes) -> None:
    """Without --ask: what waited is asked about, and nothing else."""
    answer = _killed_at_the_question(tmp_path)
    assert "[waiting for your approval: write_file_safe]" in sluice("sessions", "list", cwd=tmp_path).out
    assert "waiting for your approval" in sluice("sessions", "show", cwd=tmp_path).out
    checked = sluice("sessions", "check", cwd=tmp_path)
    assert checked.code == 0, checked.out
    assert "its last run was interrupted; it gets its end when the session is opened" in checked.out
    code, seen = _on_a_terminal(tmp_path, answer, typed, flags=_AGAIN)
    assert code == 0, seen
    assert "waiting for your approval: write_file_safe" in seen
    assert "the process ended while you were asked about it" in seen
    assert seen.index("to the model: ") < seen.index("And that is that.")
    assert (tmp_path / "new.txt").exists() is (typed == b"y\n")
    assert sluice("sessions", "check", cwd=tmp_path).code == 0
    assert "waiting" not in sluice("sessions", "list", cwd=tmp_path).out


def test_a_copy_of_it_has_all_that_was_said_and_done(tmp_path: Path, pseudo_terminals: object) -> None:
    answer = _killed_at_the_question(tmp_path)
    id = sluice("sessions", "list", cwd=tmp_path).out.split()[0]
    copied = sluice("-e", "go on", "--mode", "mock", "--mock-fixture", str(answer), "--fork", id, cwd=tmp_path)
    assert f"begins with 3 messages of {id}" in copied.err
    assert f"of {id}: the last run of this session (" in copied.err
    assert "and is not started here" in sluice("sessions", "show", cwd=tmp_path).out
    assert "[waiting for your approval: write_file_safe]" in sluice("sessions", "list", cwd=tmp_path).out
    assert sluice("sessions", "check", cwd=tmp_path).code == 0


def test_without_a_terminal_the_next_run_leaves_it_undone(tmp_path: Path, pseudo_terminals: object) -> None:
    answer = _killed_at_the_question(tmp_path)
    more = ["--mode", "mock", "--mock-fixture", str(answer), "--allow-mutating-tools", *_AGAIN]
    shown = sluice("-e", "go", *more, cwd=tmp_path)
    assert (shown.code, "And that is that." in shown.out) == (0, True), shown
    assert "waiting for your approval: write_file_safe" in shown.err
    assert "nobody can be asked now" in sluice("sessions", "show", cwd=tmp_path).out
    assert not (tmp_path / "new.txt").exists()
    assert sluice("sessions", "check", cwd=tmp_path).code == 0
