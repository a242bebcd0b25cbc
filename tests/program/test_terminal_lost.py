"""The terminal goes away, or takes nothing any more, while the real program shows its face on it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import subprocess
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from program_world import KEY, PROGRAM, asks, environment, says

from sluice.testing.replay_server import ReplayServer

PATIENCE = 30.0


class Lost:
    """The program on a terminal of its own, which it controls."""

    def __init__(self, work: Path, url: str, *, outlives: bool = False) -> None:
        self.ours, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, b"\x18\x00\x50\x00\x00\x00\x00\x00")

        def begin() -> None:
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
            if outlives:
                signal.signal(signal.SIGHUP, signal.SIG_IGN)

        self.process = subprocess.Popen(
            [*PROGRAM, "-w", str(work), "--base-url", url, "--model", "m-1"],
            stdin=theirs, stdout=theirs, stderr=theirs, preexec_fn=begin,
            env=environment({"TERM": "xterm-256color", "SLUICE_API_KEY": KEY}),
        )  # fmt: skip
        os.close(theirs)

    def until(self, wanted: bytes) -> None:
        """Reads until this has been shown."""
        seen, end = b"", time.monotonic() + PATIENCE
        while wanted not in seen:
            assert time.monotonic() < end, seen[-2000:]
            if select.select([self.ours], [], [], 0.1)[0]:
                seen = seen[-20_000:] + os.read(self.ours, 65536)

    def types(self, text: str) -> None:
        """Types this."""
        os.write(self.ours, text.encode())

    def ended(self) -> int:
        """Waits for its end; the exit code."""
        return self.process.wait(PATIENCE)

    def stop(self) -> None:
        """Ends what is left."""
        self.process.kill()
        self.process.wait()
        with contextlib.suppress(OSError):
            os.close(self.ours)


@pytest.fixture
def server() -> Iterator[ReplayServer]:
    with ReplayServer(
        [asks(("list_files_bounded", {})), says(*["word " * 12 + "\n\n"] * 300, "the end")], split=300, pace_ms=8
    ) as made:
        yield made


@pytest.mark.parametrize("outlives", [False, True])
def test_a_terminal_that_has_gone_ends_it_and_what_was_said_is_stored(
    tmp_path: Path, server: ReplayServer, outlives: bool
) -> None:
    lost = Lost(tmp_path, server.url, outlives=outlives)
    try:
        lost.until(b"m-1")
        lost.types("go\r")
        lost.until(b"word")
        os.close(lost.ours)
        assert lost.ended() == 143
    finally:
        lost.stop()
    listed = subprocess.run(
        [*PROGRAM, "sessions", "list", "-w", str(tmp_path)], capture_output=True, text=True, env=environment()
    )
    assert "go [cancelled]" in listed.stdout, listed


def test_a_terminal_that_takes_nothing_holds_up_neither_the_run_nor_its_end(
    tmp_path: Path, server: ReplayServer
) -> None:
    lost = Lost(tmp_path, server.url)
    try:
        lost.until(b"m-1")
        lost.types("go\r")
        lost.until(b"word")
        end = time.monotonic() + PATIENCE  # nothing is read from here on
        shown = ""
        while "the end" not in shown:
            assert time.monotonic() < end, shown[-500:]
            argv = [*PROGRAM, "sessions", "show", "-w", str(tmp_path)]
            shown = subprocess.run(argv, capture_output=True, text=True, env=environment()).stdout
        lost.process.send_signal(signal.SIGTERM)
        os.set_blocking(lost.ours, False)
        lost.until(b"saved as session")
        assert lost.ended() == 143
    finally:
        lost.stop()
