"""Ctrl-C for the whole program: it counts once, and cuts no end short."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from sluice.ui import interrupts
from sluice.ui.interrupts import Interrupts


@pytest.fixture(autouse=True)
def handler() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def _press() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_it_counts_once() -> None:
    Interrupts().begin()
    with pytest.raises(KeyboardInterrupt):
        _press()
    for _ in range(20):
        _press()


def test_at_the_end_it_counts_no_more() -> None:
    made = Interrupts()
    made.begin()
    made.end()
    _press()


@pytest.mark.parametrize("other", [signal.SIG_IGN, lambda *_: None])
def test_what_somebody_else_does_with_it_stays(other: signal.Handlers) -> None:
    signal.signal(signal.SIGINT, other)
    Interrupts().begin()
    assert signal.getsignal(signal.SIGINT) is other


def test_who_has_no_patience_is_let_out() -> None:
    code = (
        "import os, signal; from sluice.ui import interrupts; interrupts.PATIENCE_SECONDS = 0.0\n"
        "made = interrupts.Interrupts(); made.begin(); made.end()\n"
        "os.kill(os.getpid(), signal.SIGINT); print('still there', flush=True)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=30, check=False)
    assert (done.returncode, done.stdout) == (interrupts.INTERRUPTED, b"")
