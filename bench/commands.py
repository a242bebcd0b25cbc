"""What a command costs in each sandbox, beside the same command started plainly. Prints medians; asserts nothing."""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable

from sluice.tools.process import environment, run_command
from sluice.tools.sandbox import Kind, Sandbox, available

ROUNDS = 25
TARGET_MS = 25.0
ARGV = ("/bin/bash", "--noprofile", "--norc", "-c", ":")


async def measure(work: str) -> dict[str, float]:
    """Median milliseconds of a run, by kind, in interleaved rounds."""
    folder = os.open(work, os.O_RDONLY | os.O_DIRECTORY)
    kinds: list[Kind] = ["off"] if available() == "none" else [available(), "landlock", "off"]
    boxes = {kind: Sandbox(work, kind=kind) for kind in dict.fromkeys(kinds)}

    async def plain() -> object:
        return await run_command(ARGV, cwd=folder, env=environment(), timeout=30, output=lambda data: None, sweep=False)

    def boxed(box: Sandbox) -> Callable[[], Awaitable[object]]:
        return lambda: box.run(ARGV, folder=folder, env=environment(), timeout=30, output=lambda data: None)

    ways: dict[str, Callable[[], Awaitable[object]]] = {"plain": plain}
    ways.update({kind: boxed(box) for kind, box in boxes.items()})
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            began = time.perf_counter()
            await way()
            times[name].append((time.perf_counter() - began) * 1000)
    for box in boxes.values():
        box.close()
    os.close(folder)
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> None:
    """Prints one line for each way of running a command."""
    with tempfile.TemporaryDirectory() as work:
        medians = asyncio.run(measure(work))
    for name, median in medians.items():
        over = median - medians["plain"]
        print(f"{name:<12} {median:6.1f} ms   overhead {over:6.1f} ms (target of bubblewrap: {TARGET_MS:g})")


if __name__ == "__main__":
    main()
