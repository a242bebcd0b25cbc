"""A terminal that is real: a window of a tmux server of our own, with a shell in it, as a person has it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

NEEDS_TMUX = [
    pytest.mark.skipif(shutil.which("tmux") is None, reason="the terminal face in a real terminal (no tmux)"),
    pytest.mark.skipif(
        sys.platform != "linux", reason="the terminal face in a real terminal (processes are found in /proc)"
    ),
]
PATIENCE = 30.0  # seconds until something must have been shown


class Terminal:
    """One tmux server with one window, in which a shell stands."""

    def __init__(self, folder: Path, size: tuple[int, int], key: str) -> None:
        self._socket = str(folder / "tmux")
        self._folder = folder
        shell = ["env", "PS1=shell$ ", f"SLUICE_API_KEY={key}", "bash", "--norc", "--noprofile", "--noediting", "-i"]
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
