"""Looks at the process table of Linux: which processes belong to a command, and ending them (P7).

A number may go to another process at any time, so each process is pinned by a descriptor and looked at once more before
it gets a signal.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time

_ENVIRON_BYTES = 4 * 1024 * 1024  # read of one process's environment while looking for survivors
_PATIENCE = 10  # times the time in which nothing changes
_KEEPER = "bwrap"  # the processes that hold a sandbox: a TERM to them would be a KILL to what they hold


class Marked:
    """The processes whose environment carries `mark` (`NAME=value`): those that kept what they inherited."""

    def __init__(self, mark: str) -> None:
        self._needle = mark.encode()

    def find(self) -> list[int]:
        """Those that live now."""
        return [pid for pid in process_ids() if self.holds(pid)]

    def holds(self, pid: int) -> bool:
        """Whether the process that has this number now is one of them."""
        try:
            with open(f"/proc/{pid}/environ", "rb", buffering=0) as file:
                return self._needle in (file.read(_ENVIRON_BYTES) or b"").split(b"\0")
        except OSError:
            return False


class Descended:
    """The processes below `ancestor`, whatever they did to their session and environment; not `ancestor` itself."""

    def __init__(self, ancestor: int) -> None:
        self._ancestor = ancestor
        self._parents: dict[int, int] = {}

    def find(self) -> list[int]:
        """Those that live now, by one pass over the process table."""
        children: dict[int, list[int]] = {}
        for pid in process_ids():
            parent = _living_parent(pid)
            if parent is not None:
                children.setdefault(parent, []).append(pid)
        self._parents.clear()
        waiting = [self._ancestor]
        while waiting:
            parent = waiting.pop()
            below = children.pop(parent, [])
            self._parents.update((pid, parent) for pid in below)
            waiting += below
        return list(self._parents)

    def holds(self, pid: int) -> bool:
        """Whether the process that has this number now still has the parent that `find` saw."""
        return pid in self._parents and _living_parent(pid) == self._parents[pid]


Look = Marked | Descended


def process_ids() -> list[int]:
    """Every process that this process can see."""
    with contextlib.suppress(OSError):
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return []


async def kill_all(look: Look, seconds: float) -> set[int]:
    """Kills what `look` finds until it finds nothing; returns every process it killed.

    All are stopped before the first is killed, so that none can replace another in the meantime: what multiplies is looked
    for again until nothing new is found. Gives up once nothing has changed for `seconds`, or after ten times that.
    """
    killed: set[int] = set()
    stopped: set[int] = set()
    latest = time.monotonic() + _PATIENCE * seconds
    deadline = min(latest, time.monotonic() + seconds)
    while True:
        found = look.find()
        new = set(found) - stopped
        if len(found) > 1 and new and time.monotonic() < latest:
            stopped.update(pid for pid in new if _send(pid, signal.SIGSTOP, look))
            stopped |= new
            deadline = min(latest, time.monotonic() + seconds)
            await asyncio.sleep(0)
            continue
        killed.update(pid for pid in found if _send(pid, signal.SIGKILL, look))
        if not found or time.monotonic() > deadline:
            return killed
        await asyncio.sleep(0.001)  # a killed process needs a moment to be gone


def ask_to_end(ancestor: int) -> None:
    """Sends TERM to everything below `ancestor`, save the processes that hold a sandbox together."""
    look = Descended(ancestor)
    for pid in look.find():
        if _name(pid) != _KEEPER:
            _send(pid, signal.SIGTERM, look)


def _send(pid: int, number: int, look: Look) -> bool:
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        if not look.holds(pid):  # the number may have gone to another process before it was pinned
            return False
        signal.pidfd_send_signal(pidfd, number)
    except OSError:
        return False
    finally:
        os.close(pidfd)
    return True


def _living_parent(pid: int) -> int | None:
    try:
        with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
            fields = (file.read(4096) or b"").rpartition(b")")[2].split()
    except OSError:
        return None
    return int(fields[1]) if len(fields) > 1 and fields[0] not in (b"Z", b"X") else None


def _name(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/comm", "rb", buffering=0) as file:
            return (file.read(64) or b"").decode("utf-8", "replace").strip()
    except OSError:
        return ""
