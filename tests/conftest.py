"""Rules that hold for every test (Q2): no home directory, and nothing of ours left behind.

After each test there may be no descriptor, child process, thread or temporary file more than before it. What a test
had to leave out is said loudly at the end of the run, never passed over.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("SLUICE_SHARED", ROOT.parent / "shared"))

settings.register_profile("sluice", deadline=None)  # a busy machine is slow, which is no fault
settings.load_profile("sluice")


def pytest_configure() -> None:
    """A signal that our starter had ignored (`&`, `nohup`) stays without effect on us, but not on what tests start.

    A program inherits that a signal is ignored, and rightly keeps to it; a handler it does not inherit.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
            signal.signal(number, lambda _number, _frame: None)


@pytest.fixture(scope="session")
def pseudo_terminals() -> None:
    """Skips, loudly, where the system gives no pseudo-terminal (a container without devpts)."""
    try:
        ours, its = os.openpty()
        os.ttyname(its)
    except OSError as error:
        pytest.skip(f"NOT CHECKED: this machine gives no pseudo-terminal ({error.strerror}); nothing was asked on one")
    os.close(ours)
    os.close(its)


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home, state, config and temp folder of the test's own, and none of the user's settings."""
    home = tmp_path_factory.mktemp("home")
    (home / "tmp").mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("TMPDIR", str(home / "tmp"))
    monkeypatch.setattr(tempfile, "tempdir", str(home / "tmp"))
    for name in ("STATE", "CONFIG", "DATA", "CACHE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(home / name.lower()))
    for name in list(os.environ):
        if name.startswith(("SLUICE_", "NCA_", "OPENAI_", "ANTHROPIC_", "GEMINI_")) and name != "SLUICE_SHARED":
            monkeypatch.delenv(name)
    return home


@pytest.fixture(autouse=True)
def nothing_left(own_home: Path) -> Iterator[None]:
    """Fails a test that leaves something of ours behind."""
    before = _held()
    gc.freeze()  # the collection below then looks only at what this test made
    yield
    gc.collect()
    for thread in threading.enumerate():
        if thread.daemon and f"{thread.name} ({thread.ident})" not in before["threads"]:
            thread.join(2.0)  # one that has done its work and is about to end is not left behind
    left = {kind: sorted(now - before[kind]) for kind, now in _held().items() if now - before[kind]}
    files = sorted(p.name for p in (own_home / "tmp").iterdir())
    if files:
        left["temporary files"] = files
    assert not left, f"left behind: {left}"


def _held() -> dict[str, set[str]]:
    held = {"threads": {f"{t.name} ({t.ident})" for t in threading.enumerate()}}
    if sys.platform == "linux":
        held["descriptors"] = set(_descriptors())
        held["children"] = set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())
    return held


def _descriptors() -> Iterator[str]:
    for fd in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{fd}")
        except FileNotFoundError:
            continue  # the descriptor of the listing itself
        if not target.endswith((f"/{os.getpid()}/fd", "/dev/null", "/dev/urandom")):
            yield f"{fd} -> {target}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says what was left out where nobody can miss it."""
    reports = [r for key in ("skipped",) for r in terminalreporter.stats.get(key, [])]
    reasons = sorted({str(r.longrepr[2]) for r in reports if isinstance(r.longrepr, tuple)})
    if reasons:
        terminalreporter.section("NOT CHECKED in this run", sep="!", red=True, bold=True)
        for reason in reasons:
            terminalreporter.line(reason)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of shared material; skips, loudly, where it is missing."""
    if not SHARED.is_dir():
        pytest.skip(f"the shared material is missing: {SHARED} (set SLUICE_SHARED)")
    return SHARED
