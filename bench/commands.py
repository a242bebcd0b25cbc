"""What a command costs in each sandbox, beside the same command started plainly. Prints medians; asserts nothing.

Elapsed time is what a user waits, on a machine with nothing else to do; computing time (ours and the command's) says the
same on a busy one.
"""

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


async def measure(work: str) -> dict[str, tuple[float, float]]:
    """Median milliseconds of a run by kind, elapsed and of computing, in interleaved rounds."""
    folder = os.open(work, os.O_RDONLY | os.O_DIRECTORY)
    kinds: list[Kind] = ["off"] if available() == "none" else [available(), "landlock", "off"]
    boxes = {kind: Sandbox(work, kind=kind) for kind in dict.fromkeys(kinds)}

    async def plain() -> object:
        return await run_command(ARGV, cwd=folder, env=environment(), timeout=30, output=lambda data: None, sweep=False)

    def boxed(box: Sandbox) -> Callable[[], Awaitable[object]]:
        return lambda: box.run(ARGV, folder=folder, env=environment(), timeout=30, output=lambda data: None)

    ways: dict[str, Callable[[], Awaitable[object]]] = {"plain": plain}
    ways.update({kind: boxed(box) for kind, box in boxes.items()})
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            began, computed = time.perf_counter(), sum(os.times()[:4])
            await way()
            times[name].append(((time.perf_counter() - began) * 1000, (sum(os.times()[:4]) - computed) * 1000))
    for box in boxes.values():
        box.close()
    os.close(folder)
    # The clock of computing has steps of 10 ms: only its mean says something.
    return {
        name: (statistics.median(one for one, _ in values), statistics.mean(one for _, one in values))
        for name, values in times.items()
    }


def main() -> None:
    """Prints one line for each way of running a command."""
    with tempfile.TemporaryDirectory() as work:
        medians = asyncio.run(measure(work))
    for name, (median, computed) in medians.items():
        over, more = median - medians["plain"][0], computed - medians["plain"][1]
        print(
            f"{name:<12} {median:6.1f} ms   overhead {over:6.1f} ms (target of bubblewrap: {TARGET_MS:g})   "
            f"computing {computed:6.1f} ms   overhead {more:6.1f} ms"
        )
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    if load > 1:
        print(f"this machine is busy ({load:.1f} wait for each processor): elapsed times say little")


if __name__ == "__main__":
    main()
