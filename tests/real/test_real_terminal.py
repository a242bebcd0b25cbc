"""The terminal face as a person has it, over a real small model: the real program in tmux, llama.cpp's server behind it."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from model_server import Server

from tmux_window import NEEDS_TMUX, Terminal

pytestmark = [pytest.mark.realmodel, pytest.mark.timeout(120), *NEEDS_TMUX]


@pytest.fixture
def terminal(server: Server, tmp_path: Path) -> Iterator[Terminal]:
    """A terminal in which the face stands over the model, on its alternate screen."""
    (tmp_path / "work").mkdir()
    (tmp_path / "system.txt").write_text("You are a helpful assistant.")
    one = Terminal(tmp_path, (80, 24), "none")
    yield one
    one.end()


def sluice(folder: Path, *words: str) -> str:
    done = subprocess.run([sys.executable, "-m", "sluice", *words], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_it_answers_moves_cancels_keeps_and_leaves(server: Server, terminal: Terminal, tmp_path: Path) -> None:
    before = terminal.modes()
    model = f"--base-url {server.url}/v1 --model tiny --temperature 0 --max-output-tokens 1500 --no-tools"
    terminal.start("-w", "work", *model.split(), "--system-prompt-file", "system.txt")
    shown = terminal.until("tiny", "›")
    assert "context" not in shown

    terminal.types("Say hello to Bob.")
    terminal.until("Say hello to Bob.")
    terminal.keys("Enter")
    shown = terminal.until("completed", "context")
    answer = shown.split("Say hello to Bob.")[1].split("✓ completed")[0]
    assert len(re.findall(r"\w+", answer)) > 2, shown

    terminal.types("Write a very long story about a ship, its crew and every port they see.")
    terminal.until("every port they see.")
    terminal.keys("Enter")
    first = re.search(r". writing (\d+) s · ctrl\+c stops", terminal.until(" writing ", "ctrl+c stops"))
    assert first is not None
    later = terminal.until(f" writing {int(first[1]) + 1} s")
    assert first[0] not in later  # the mark moves, and the seconds
    terminal.keys("C-c")
    terminal.until("cancelled · 1 turn", without="ctrl+c stops")

    terminal.keys("C-c", "C-c")
    left = terminal.until("saved as session", "shell$", without="›")
    assert terminal.modes() == before
    session = re.search(r"saved as session (\S+);", left)
    assert session is not None
    assert sluice(tmp_path, "sessions", "check", "-w", "work")
    kept = sluice(tmp_path, "sessions", "export", "-w", "work", "--format", "md", session[1])
    story = kept.split("every port they see.")[1]
    assert len(re.findall(r"\w+", story)) > 5, kept
