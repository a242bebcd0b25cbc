"""How many instructions an event costs, end to end: from the socket through our own transport to the message.

    python bench/instructions.py            prints
    python bench/instructions.py --write    prints, and writes the figure into bench/README.md
    python bench/instructions.py --check    prints, and ends with 1 if it is over its target

Counted by callgrind (valgrind), of the reading process alone; the server is another. Two runs that differ only in how many
events they read are subtracted, so that starting Python, connecting and closing are not in it. Unlike a time the figure is
nearly the same on a busy machine; what varies is how many reads the kernel makes of the same bytes.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from figures import write
from transport import served
from workloads import text_stream

TARGET = 31_000  # instructions an event
FEW, MANY = 300, 1300  # events
_COUNTED = re.compile(r"Collected : (\d+)")


def counted(url: str) -> int:
    """The instructions of one process that reads the reply at this address."""
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        command = [
            "valgrind",
            "--tool=callgrind",
            f"--callgrind-out-file={folder}/out",
            sys.executable,
            __file__,
            "--read",
            url,
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = _COUNTED.search(done.stderr)
    if found is None:
        raise SystemExit(f"callgrind said no count: {done.stderr[-300:]}")
    return int(found.group(1))


def measured() -> float:
    """Instructions an event."""
    with ExitStack() as stack:
        urls = [stack.enter_context(served(b"".join(text_stream(events)))) for events in (FEW, MANY)]
        with ThreadPoolExecutor(2) as pool:
            few, many = pool.map(counted, urls)
    return (many - few) / (MANY - FEW)


def main() -> int:
    """One line."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--write", action="store_true", help="write the figure into bench/README.md")
    options.add_argument("--check", action="store_true", help="end with 1 if it is over its target")
    options.add_argument("--read", help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.read:
        from transport import measured as read  # only the process that is counted

        asyncio.run(read(given.read, "openai_chat", at_least=FEW))
        return 0
    if shutil.which("valgrind") is None:
        print("valgrind is not here: nothing was counted")
        return 1 if given.check else 0
    figure = measured()
    said = f"{figure:,.0f} instructions an event end to end (Chat, burst over loopback, callgrind); target: {TARGET:,}."
    print(said)
    if given.write:
        write("instructions", said)
    return 1 if given.check and figure > TARGET else 0


if __name__ == "__main__":
    sys.exit(main())
