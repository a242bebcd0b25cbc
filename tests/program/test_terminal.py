"""The terminal face as a person has it: the real program in a real terminal (tmux), over a real server.

Where tmux is missing these tests are skipped, which the end of the run says loudly.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from program_world import KEY, asks, says

from sluice.testing.replay_server import ReplayServer
from tmux_window import NEEDS_TMUX, Terminal

pytestmark = NEEDS_TMUX


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Callable[..., Terminal]]:
    """Makes a terminal of a size."""
    made: list[Terminal] = []

    def make(width: int = 80, height: int = 24) -> Terminal:
        made.append(Terminal(tmp_path, (width, height), KEY))
        return made[-1]

    yield make
    for one in made:
        one.end()


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "a.txt").write_text("one\ntwo\n")
    return folder


def _edit() -> list[bytes]:
    read = asks(("read_file_safe", {"path": "a.txt"}), say="Let me look.")
    patch = asks(("apply_patch", {"path": "a.txt", "old_text": "two", "new_text": "three"}))
    return [read, patch, says("All **done**.")]


def test_a_prompt_is_answered_and_leaving_gives_the_terminal_back(
    terminal: Callable[..., Terminal], work: Path
) -> None:
    screen = terminal()
    before = screen.modes()
    with ReplayServer(_edit(), split=5) as server:
        screen.start("-w", "work", "--base-url", server.url, "--model", "m-1", "--allow-mutating-tools")
        screen.until("m-1", "›")
        assert screen.modes() != before
        screen.types("Please edit it")
        screen.until("Please edit it")
        screen.keys("Enter")
        shown = screen.until("All done.", "completed")
        assert "-two" in shown
        assert "+three" in shown
        screen.keys("C-c", "C-c")
        left = screen.until("saved as session", "shell$", without="›")
    assert "--resume" in left
    assert (work / "a.txt").read_text() == "one\nthree\n"
    assert screen.modes() == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_gives_the_terminal_back(
    terminal: Callable[..., Terminal], work: Path, number: signal.Signals
) -> None:
    screen = terminal(60, 12)
    before = screen.modes()
    screen.start("-w", "work", "--base-url", "http://127.0.0.1:9", "--model", "m-1")
    screen.until("m-1", "›")
    os.kill(screen.program(), number)
    screen.until("shell$", without="›")
    screen.types("echo code=$?")
    screen.keys("Enter")
    screen.until(f"code={130 if number == signal.SIGINT else 143}")
    assert screen.modes() == before


def test_suspending_gives_the_terminal_back_and_going_on_takes_it_again(
    terminal: Callable[..., Terminal], work: Path
) -> None:
    screen = terminal()
    before = screen.modes()
    screen.start("-w", "work", "--base-url", "http://127.0.0.1:9", "--model", "m-1")
    screen.until("m-1", "›")
    screen.types("half a pro")
    screen.until("half a pro")
    screen.keys("C-z")
    screen.until("Stopped", "shell$")
    assert screen.modes().split()[0] == before.split()[0]
    screen.types("fg")
    screen.keys("Enter")
    screen.until("half a pro", "m-1", without="Stopped")
    screen.types("mpt")
    screen.until("half a prompt")
    os.kill(screen.program(), signal.SIGTERM)
    screen.until("shell$")
    assert screen.modes() == before


def test_killed_at_a_question_it_asks_again_when_the_session_is_taken_up(
    terminal: Callable[..., Terminal], work: Path
) -> None:
    patch = asks(("write_file_safe", {"path": "b.txt", "content": "new"}))
    with ReplayServer([patch, says("It is **there**.")], split=5) as server:
        more = ("-w", "work", "--base-url", server.url, "--model", "m-1")
        screen = terminal()
        screen.start(*more)
        screen.until("m-1", "›")
        screen.types("Please write it")
        screen.keys("Enter")
        screen.until("y once", "b.txt")
        os.kill(screen.program(), signal.SIGKILL)
        again = terminal()
        again.start(*more, "--continue")
        again.until("y once", "b.txt", "going on with session", "waiting for your approval")
        again.keys("y")
        again.until("It is there.", "completed")
        os.kill(again.program(), signal.SIGTERM)
        again.until("shell$")
    assert (work / "b.txt").read_text() == "new"


BROKEN = """
import asyncio
from sluice.testing.scripted_interaction import ScriptedInteraction
from sluice.ui.tui.app import TerminalFace
from sluice.ui.tui.showing import show_face

class Broken(ScriptedInteraction):
    async def events(self):
        secret = "what no traceback may show"
        yield self.situation()
        await asyncio.sleep(0.3)
        raise RuntimeError("a fault deep inside")

async def main():
    await show_face(TerminalFace(Broken()))

asyncio.run(main())
"""


def test_an_exception_gives_the_terminal_back_and_shows_no_values(
    terminal: Callable[..., Terminal], tmp_path: Path
) -> None:
    (tmp_path / "broken.py").write_text(BROKEN)
    screen = terminal(160, 40)
    before = screen.modes()
    screen.types(f"{sys.executable} broken.py; echo over")
    screen.keys("Enter")
    shown = screen.until("RuntimeError: a fault deep inside", "over\n")
    assert "secret = " not in shown
    assert "what no traceback" not in shown
    assert screen.modes() == before


def test_a_small_terminal_and_a_storm_of_resizes(terminal: Callable[..., Terminal], work: Path) -> None:
    screen = terminal(20, 5)
    screen.types("export COLUMNS=20 LINES=5")  # as some shells do; what they say is stale after a resize
    screen.keys("Enter")
    with ReplayServer([says("word " * 400 + "the end")], split=20, pace_ms=2) as server:
        screen.start("-w", "work", "--base-url", server.url, "--model", "m-1")
        screen.until("›")
        screen.types("go")
        screen.keys("Enter")
        for step in range(40):
            screen("resize-window", "-x", str(10 + step * 31 % 150), "-y", str(3 + step * 17 % 60))
        screen("resize-window", "-x", "80", "-y", "24")
        screen.until("the end", "completed", "m-1")
        screen("resize-window", "-x", "20", "-y", "5")
        screen.until("›")
        os.kill(screen.program(), signal.SIGTERM)
        screen.until("shell$", without="›")


def test_a_terminal_that_cannot_show_it_is_told_in_one_line(terminal: Callable[..., Terminal], work: Path) -> None:
    screen = terminal()
    screen.types(f"TERM=dumb {sys.executable} -m sluice -w work; echo code=$?")
    screen.keys("Enter")
    shown = screen.until("code=2")
    assert "error: no prompt" in shown
    assert "needs a terminal" in " ".join(shown.split())
