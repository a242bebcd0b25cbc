"""The terminal face as a person has it: the real program in a real terminal (tmux), over a real server.

Where tmux is missing these tests are skipped, which the end of the run says loudly.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from program_world import KEY, asks, says

from sluice.testing.replay_server import ReplayServer

pytestmark = [
    pytest.mark.skipif(shutil.which("tmux") is None, reason="the terminal face in a real terminal (no tmux)"),
    pytest.mark.skipif(
        sys.platform != "linux", reason="the terminal face in a real terminal (processes are found in /proc)"
    ),
]
PATIENCE = 30.0  # seconds until something must have been shown


class Terminal:
    """One tmux server with one window, in which a shell stands."""

    def __init__(self, folder: Path, size: tuple[int, int]) -> None:
        self._socket = str(folder / "tmux")
        self._folder = folder
        shell = ["env", "PS1=shell$ ", f"SLUICE_API_KEY={KEY}", "bash", "--norc", "--noprofile", "--noediting", "-i"]
        width, height = map(str, size)
        self("-f", "/dev/null", "new-session", "-d", "-x", width, "-y", height, "-c", str(folder), *shell)
        self.until("shell$")

    def __call__(self, *words: str) -> str:
        environment = {**os.environ, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
        environment.pop("TMUX", None)
        done = subprocess.run(
            ["tmux", "-S", self._socket, *words], capture_output=True, text=True, env=environment, timeout=PATIENCE
        )
        return done.stdout

    def keys(self, *keys: str) -> None:
        """Presses keys by their names."""
        self("send-keys", *keys)

    def types(self, text: str) -> None:
        """Types this very text."""
        self("send-keys", "-l", text)

    def screen(self) -> str:
        """What is on the screen."""
        return self("capture-pane", "-p")

    def until(self, *wanted: str, without: str = "\0") -> str:
        """The screen as soon as all of this is on it; fails with the screen if that takes too long."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            screen = self.screen()
            if all(word in screen for word in wanted) and without not in screen:
                return screen
            time.sleep(0.05)  # a poll of another program
        pytest.fail(f"waited for {wanted} and saw:\n{self.screen()}")

    def start(self, *argv: str) -> None:
        """Starts the program."""
        self.types(" ".join([sys.executable, "-m", "sluice", *argv]))
        self.keys("Enter")

    def modes(self) -> str:
        """The alternate screen, the mouse, the cursor, and whether the terminal echoes and edits lines."""
        flags = self("display", "-p", "#{alternate_on} #{mouse_any_flag} #{cursor_flag}").strip()
        tty = self("display", "-p", "#{pane_tty}").strip()
        with open(tty) as terminal:
            words = subprocess.run(["stty", "-a"], stdin=terminal, capture_output=True, text=True).stdout.split()
        return (
            f"{flags} {' '.join(word for word in words if word.strip(';').lstrip('-') in ('icanon', 'echo', 'isig'))}"
        )

    def program(self) -> int:
        """The process of the program."""
        shell = self("display", "-p", "#{pane_pid}").strip()
        return int(Path(f"/proc/{shell}/task/{shell}/children").read_text().split()[0])

    def end(self) -> None:
        """Ends everything in it."""
        self("kill-server")


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Callable[..., Terminal]]:
    """Makes a terminal of a size."""
    made: list[Terminal] = []

    def make(width: int = 80, height: int = 24) -> Terminal:
        made.append(Terminal(tmp_path, (width, height)))
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
