"""Harm at a chosen system call, by strace: the process dies just before it, or the call fails with an error.

Calls are counted by kind and by thread, and only those that touch the files named. Linux with strace only; where it cannot
be had, `missing` says why.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

KILLED: tuple[str, ...] = tuple(
    name
    for names in (
        "write pwrite64 writev fsync fdatasync ftruncate",
        "rename renameat renameat2 unlink unlinkat mkdir mkdirat",
    )
    for name in names.split()
)
ERRORS = {
    "EIO": ("write", "pwrite64", "pread64", "fsync", "fdatasync", "ftruncate", "unlink", "renameat"),
    "EROFS": ("openat", "ftruncate", "unlink", "renameat", "mkdir"),
    "EMFILE": ("openat",),
    "EDQUOT": ("write", "pwrite64", "ftruncate", "fsync", "mkdir"),
    "EINTR": ("write", "pwrite64", "openat", "fsync"),
}
_LINE = re.compile(r"(\d+) +(\w+)\(")
_ATTACH_SECONDS = 10.0


def missing() -> str:
    """Why no harm can be done at system calls here; empty if it can."""
    strace = shutil.which("strace")
    if not sys.platform.startswith("linux") or strace is None:
        return "strace is not installed (on Linux: the package strace)"
    tried = subprocess.run([strace, "-qq", "-o", "/dev/null", "true"], capture_output=True, check=False)  # noqa: S603 - a tracer that the driver looks for
    return "" if tried.returncode == 0 else f"strace may not trace here: {tried.stderr.decode(errors='replace')[:200]}"


def killing(watch: Sequence[str], call: str, number: int) -> tuple[str, ...]:
    """The words for strace that kill at the `number`th call of this kind on one of the files `watch`."""
    return (*_only(watch), "-e", f"trace={call}", "-e", f"inject={call}:signal=KILL:when={number}")


def failing(watch: Sequence[str], call: str, error: str, number: int, *, for_good: bool) -> tuple[str, ...]:
    """The same for an error: of one call, or of that one and all that follow."""
    when = f"{number}+" if for_good else str(number)
    return (*_only(watch), "-e", f"trace={call}", "-e", f"inject={call}:error={error}:when={when}")


def counting(watch: Sequence[str], log: Path, calls: Sequence[str]) -> tuple[str, ...]:
    """The words that only write the calls down in `log`."""
    return (*_only(watch), "-e", f"trace=?{',?'.join(calls)}", "-o", str(log))


def _only(watch: Sequence[str]) -> list[str]:
    return [word for path in watch for word in ("-P", path)]


def counted(log: Path) -> Counter[str]:
    """How often each kind of call was made, by the thread that made it most often."""
    found = Counter[tuple[str, str]]()
    for line in log.read_text("utf-8", "replace").splitlines():
        if match := _LINE.match(line):
            found[match[1], match[2]] += 1
    most = Counter[str]()
    for (_thread, call), count in found.items():
        most[call] = max(most[call], count)
    return most


def attach(pid: int, words: Sequence[str]) -> subprocess.Popen[bytes]:
    """Begins to trace a process that waits; returns when it is traced. Raises `RuntimeError` where it cannot be."""
    out = () if "-o" in words else ("-o", "/dev/null")
    tracer = subprocess.Popen(["strace", "-f", "-qq", *out, *words, "-p", str(pid)], stderr=subprocess.PIPE)  # noqa: S603, S607 - a tracer that the driver looks for
    until = time.monotonic() + _ATTACH_SECONDS
    while time.monotonic() < until and tracer.poll() is None:
        with contextlib.suppress(OSError):
            if not re.search(r"^TracerPid:\t0$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE):
                return tracer
        time.sleep(0.001)
    tracer.kill()
    _out, said = tracer.communicate()
    raise RuntimeError(f"strace did not attach to {pid} of {os.getpid()}: {said.decode(errors='replace')[:300]}")
