"""What we tell the keeper of a command's tree, and what this machine lets it do (`tools/keeper_program.py`, P7, P8)."""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from sluice.limits import Limits

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "keeper_program.py")
LEAST_LANDLOCK = 3  # the version since which emptying a file by name needs a right
_CREATE_RULESET = 444  # the same on every architecture


@dataclass(frozen=True)
class Order:
    """What the keeper is told. Without `writable` the command is only held, not confined.

    `readable` and `writable` are absolute; `limits` are pairs of a name in `resource` and a bound.
    """

    parent: int
    status_fd: int
    folder_fd: int
    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    network: bool = True
    limits: tuple[tuple[str, int], ...] = ()

    def encoded(self) -> bytes:
        """The order as JSON in ASCII."""
        return json.dumps(asdict(self)).encode()


def landlock_version() -> int:
    """The version of Landlock that this kernel gives; 0 if none."""
    if not sys.platform.startswith("linux"):
        return 0
    return max(int(ctypes.CDLL(None).syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), 1)), 0)


def readable(hidden: Sequence[str], shown: Sequence[str]) -> tuple[str, ...]:
    """The least list of places that covers everything but `hidden`, and `shown` also where it lies below them."""
    found = list(shown)
    waiting = ["/"]
    while waiting:
        folder = waiting.pop()
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        for name in names:
            path = folder.rstrip("/") + "/" + name
            if path in hidden or os.path.islink(path):
                continue
            if any(place.startswith(path + "/") for place in hidden):
                waiting.append(path)
            else:
                found.append(path)
    return tuple(found)


def kernel_limits(limits: Limits) -> tuple[tuple[str, int], ...]:
    """The limits of one command as pairs for `Order.limits`."""
    return (
        ("RLIMIT_CORE", 0),
        ("RLIMIT_CPU", int(limits.max_command_cpu_seconds)),
        ("RLIMIT_DATA", limits.max_command_memory_bytes),
        ("RLIMIT_FSIZE", limits.max_command_file_bytes),
    )
