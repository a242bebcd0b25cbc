"""A look at what the commands of one session hold together, where the kernel bounds only each process (P7, P8).

Several times a second all trees are added up; what is over a bound is ended. This is a watch and no wall: between two looks
a command can take more, and memory that no process maps (files in a memory file system) is not seen.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from sluice.limits import Limits
from sluice.tools.process_tree import process_ids
from sluice.values.results import ErrorInfo

Excess = Literal["memory", "processes"]

_INTERVAL_SECONDS = 0.1
_SHARE = 20  # a look may take this part of the time,
_LONGEST_SECONDS = 0.25  # but on a machine that is busy with a fork bomb it must not wait for long
_EXACT_SECONDS = 0.5  # for reading which memory is shared; what is left out then counts whole
_OF_THE_MACHINE = (3, 4)  # of its memory, whatever the bound is: the rest is for everybody else
_CONTAINER = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


@dataclass
class _Tree:
    root: int
    end: Callable[[Excess], None]
    rss: dict[int, int] = field(default_factory=dict)
    tasks: int = 0


class TreeWatch:
    """Watches trees of processes, each with its root, from `enter` to `leave`. For one event loop at a time.

    `max_memory_bytes` bounds all of them together (at most three quarters of the machine's); the one that holds most is
    ended. `max_processes` bounds the processes and threads of each, and ends that one.
    """

    def __init__(self, max_memory_bytes: int, max_processes: int) -> None:
        part, whole = _OF_THE_MACHINE
        self.max_memory_bytes = min(max_memory_bytes, machine_memory_bytes() * part // whole)  # the bound in force
        self._max_processes = max_processes
        self._trees: dict[int, _Tree] = {}
        self._timer: asyncio.TimerHandle | None = None

    def enter(self, root: int, end: Callable[[Excess], None]) -> None:
        """Watches the tree below `root`; `end` is called once, from the event loop, when it must go."""
        self._trees[root] = _Tree(root, end)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_INTERVAL_SECONDS, self._look)

    def leave(self, root: int) -> None:
        """Watches it no more."""
        self._trees.pop(root, None)
        if not self._trees and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        began = time.monotonic()
        try:
            self._weigh(began)
        finally:  # a look that breaks must not be the last
            wait = min(max(_INTERVAL_SECONDS, _SHARE * (time.monotonic() - began)), _LONGEST_SECONDS)
            self._timer = asyncio.get_running_loop().call_later(wait, self._look) if self._trees else None

    def _weigh(self, began: float) -> None:
        measure(list(self._trees.values()))
        for tree in [tree for tree in self._trees.values() if tree.tasks > self._max_processes]:
            self._end(tree, "processes")
        if sum(sum(tree.rss.values()) for tree in self._trees.values()) > self.max_memory_bytes:
            held = {root: _exact(tree, began + _EXACT_SECONDS) for root, tree in self._trees.items()}
            if sum(held.values()) > self.max_memory_bytes:
                self._end(self._trees[max(held, key=held.__getitem__)], "memory")

    def _end(self, tree: _Tree, excess: Excess) -> None:
        del self._trees[tree.root]
        tree.end(excess)


def excess_error(excess: Excess, limits: Limits) -> ErrorInfo:
    """What the model is told of a command that was ended for what it held."""
    if excess == "memory":
        bound = f"{limits.max_run_memory_bytes} bytes of memory, or three quarters of the machine's"
        return ErrorInfo(
            "memory_limit", f"all commands together held more than {bound}; this one held most and was ended"
        )
    bound = f"{limits.max_command_processes} processes and threads"
    return ErrorInfo("process_limit", f"the command had more than {bound} at one time and was ended")


def measure(trees: list[_Tree]) -> None:
    """Fills in what each tree holds now, by one pass over the process table."""
    page = os.sysconf("SC_PAGE_SIZE")
    children: dict[int, list[int]] = {}
    held: dict[int, tuple[int, int]] = {}
    for pid in process_ids():
        with contextlib.suppress(OSError, ValueError, IndexError):
            with open(f"/proc/{pid}/stat", "rb", buffering=0) as file:
                fields = (file.read(4096) or b"").rpartition(b")")[2].split()
            held[pid] = int(fields[17]), int(fields[21]) * page
            children.setdefault(int(fields[1]), []).append(pid)
    for tree in trees:
        tree.rss, tree.tasks = {}, 0
        waiting = [tree.root]
        while waiting:
            pid = waiting.pop()
            tasks, tree.rss[pid] = held.get(pid, (0, 0))
            tree.tasks += tasks
            waiting += children.get(pid, ())


def machine_memory_bytes() -> int:
    """The memory of this machine, or of the container we are in, in bytes."""
    found = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for path in _CONTAINER:
        with contextlib.suppress(OSError, ValueError), open(path, "rb") as file:
            found = min(found, int(file.read()))
    return found


def _exact(tree: _Tree, until: float) -> int:
    """What a tree holds, with memory that its processes share counted once; whole where that cannot be read."""
    total = 0
    for pid, rss in tree.rss.items():
        held = rss
        if time.monotonic() < until:
            with (
                contextlib.suppress(OSError, ValueError, StopIteration),
                open(f"/proc/{pid}/smaps_rollup", "rb") as file,
            ):
                held = next(int(line.split()[1]) * 1024 for line in file if line.startswith(b"Pss:"))
        total += held
    return total
