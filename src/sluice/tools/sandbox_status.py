"""What the processes that hold a sandbox tell us on pipes of their own, and waiting for the end of what they hold (P8)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Mapping

_GONE_SECONDS = 1.0  # the kernel's time to end what lived beside a killed first process


def status_pipe(stack: contextlib.AsyncExitStack) -> tuple[int, int]:
    """The two ends of a pipe that does not block a reader; closed with `stack`."""
    read_end, write_end = os.pipe()
    stack.callback(os.close, read_end)
    stack.callback(os.close, write_end)
    os.set_blocking(read_end, False)
    return read_end, write_end


def read_status(read_end: int) -> dict[str, object]:
    """All that was said on a status pipe so far, as one mapping."""
    said = b""
    with contextlib.suppress(BlockingIOError):
        while piece := os.read(read_end, 4096):
            said += piece
    found: dict[str, object] = {}
    for line in said.splitlines():
        with contextlib.suppress(ValueError):
            found.update(json.loads(line))
    return found


async def all_gone(status: Mapping[str, object]) -> None:
    """Returns once the first process of a namespace has ended, and with it everything in that namespace."""
    pid, namespace = status.get("child-pid"), status.get("pid-namespace")
    if not isinstance(pid, int):
        return  # it never began
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return
    try:
        with contextlib.suppress(OSError):  # it is ending already
            if os.readlink(f"/proc/{pid}/ns/pid") != f"pid:[{namespace}]":
                return  # the number has gone to another process
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        loop = asyncio.get_running_loop()
        gone = asyncio.Event()
        loop.add_reader(pidfd, gone.set)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_GONE_SECONDS):
                    await gone.wait()
        finally:
            loop.remove_reader(pidfd)
    finally:
        os.close(pidfd)
