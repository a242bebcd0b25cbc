"""A command that prints without end, through the tool itself: time, and the memory it costs us. Ends with 1 over 64 MiB.

python bench/flood.py [GIGABYTES]
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from sluice.limits import DEFAULT_LIMITS, MIB
from sluice.tools import bash
from sluice.tools.registry import ToolContext
from sluice.tools.sandbox import Sandbox, available
from sluice.tools.seen import SeenFiles
from sluice.tools.spill import Spill
from sluice.tools.workspace import Workspace
from sluice.values.results import ToolResult

MOST = 64 * MIB
LINES = "yes 'a line of output, as long as such lines are' | head -c {}"
ONE_LINE = "head -c {} /dev/zero"


def peak_bytes() -> int:
    """The most memory that this process has held since `forget_peak`."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def forget_peak() -> None:
    """Lets `peak_bytes` begin anew."""
    Path("/proc/self/clear_refs").write_text("5")


def flood(work: str, command: str, size: int) -> tuple[ToolResult, float, int]:
    """The result of a command that prints `size` bytes, the seconds it took, and the memory that came on top meanwhile."""
    limits = msgspec.structs.replace(DEFAULT_LIMITS, max_command_output_bytes=2 * size)
    arguments = bash.BashArguments(command=command.format(size), timeout_ms=600_000)
    with Workspace(work) as workspace, Spill() as spill:
        box = Sandbox(work)

        async def main() -> ToolResult:
            context = ToolContext(workspace, limits, None, SeenFiles(), asyncio.Event(), spill, box)
            return await bash.run(arguments, context)

        forget_peak()
        before = peak_bytes()
        began = time.perf_counter()
        result = asyncio.run(main())
        seconds = time.perf_counter() - began
        box.close()
    return result, seconds, peak_bytes() - before


def main() -> int:
    """Prints one line for output in lines and one for a single line."""
    size = int(float(sys.argv[1] if sys.argv[1:] else "10") * 1e9)
    worst = 0
    for name, command in (("lines", LINES), ("one line", ONE_LINE)):
        with tempfile.TemporaryDirectory() as work:
            result, seconds, held = flood(work, command, size)
        worst = max(worst, held)
        printed = result.facts["output_bytes"]
        print(
            f"{name:<9} {printed / 1e9:.1f} GB in {seconds:.1f} s ({available()}), memory on top {held / MIB:.1f} MiB "
            f"(bound {MOST // MIB}); shown {len(result.content.encode())} bytes"
        )
        if printed != size:
            print(f"FAILED: {result.content[-300:]}")
            return 1
    return 1 if worst > MOST else 0


if __name__ == "__main__":
    sys.exit(main())
