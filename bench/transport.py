"""What a reply costs from socket to message, through our own transport over loopback: CPU of this process alone.

    python bench/transport.py            prints
    python bench/transport.py --write    prints, and writes the figures into bench/README.md

Burst: the server sends the whole body at once. It is a process of its own and is not counted. The last column is the wall
time from the return of a read to its first deltas (99th of 100).
"""

from __future__ import annotations

import argparse
import asyncio
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from figures import noise, write
from sluice.run.model_call import FEED_BYTES
from sluice.transport.http import HttpTransport
from sluice.values.messages import UserMessage
from sluice.values.requests import ModelOptions
from sluice.wire import DIALECTS, ReplyReader
from workloads import messages_text, text_stream

ROUNDS = 9
EVENTS = 20_000
STREAMS = {"openai_chat": text_stream, "anthropic_messages": messages_text}
TARGETS = {"openai_chat": 5.2, "anthropic_messages": 5.0}  # µs an event


@contextmanager
def served(body: bytes) -> Iterator[str]:
    """The address of a replay server, in a process of its own, that answers with this body for ever."""
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        file = Path(folder) / "body.sse"
        file.write_bytes(body)
        command = [sys.executable, "-m", "sluice", "replay-server", str(file)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            try:
                yield server.stdout.readline().split()[-1]
            finally:
                server.terminate()


async def measured(url: str, dialect: str, *, at_least: int = EVENTS) -> tuple[float, list[tuple[float, float]]]:
    """CPU seconds of one reply; of each read that gave deltas the delay of the first, in seconds of the clock and of CPU."""
    made = DIALECTS[dialect].request((UserMessage("go"),), (), ModelOptions(model="m"))
    transport = HttpTransport(f"{url}/v1", "key")
    delays = []
    try:
        began = time.process_time()
        exchange = await transport.send(made)
        reader = ReplyReader(dialect)
        while not reader.ended and (chunk := await exchange.read()):
            came, spent_before = time.perf_counter(), time.thread_time()
            for start in range(0, len(chunk), FEED_BYTES):  # as a run does
                if reader.feed(chunk[start : start + FEED_BYTES]) and not start:
                    delays.append((time.perf_counter() - came, time.thread_time() - spent_before))
        reply = reader.close()
        spent = time.process_time() - began
        await exchange.close()
    finally:
        await transport.close()
    if len(reply.text) < at_least:
        raise SystemExit("the reply is not what was served")
    return spent, delays


def main() -> None:
    """One table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--write", action="store_true", help="write the figures into bench/README.md")
    given = options.parse_args()
    rows = [
        f"CPU of the reading process alone, medians of {ROUNDS} rounds; CPython {platform.python_version()}; {noise()}.",
        "",
        "| stream, burst over loopback | µs an event | target | first deltas, ms (p99) | of that CPU, ms (p99) | target |",
        "|---|---|---|---|---|---|",
    ]
    for dialect, make in STREAMS.items():
        with served(b"".join(make(EVENTS))) as url:
            runs = [asyncio.run(measured(url, dialect)) for _ in range(ROUNDS + 1)][1:]
        cost = statistics.median(spent for spent, _ in runs) / EVENTS * 1e6
        late, busy = (
            sorted(column)[int(len(column) * 0.99)] * 1e3
            for column in zip(*(delay for _, found in runs for delay in found), strict=True)
        )
        rows.append(
            f"| {dialect}, {EVENTS:,} text events | {cost:.2f} | {TARGETS[dialect]} | {late:.2f} | {busy:.2f} | 1.0 |"
        )
    print("\n".join(rows))
    if given.write:
        write("transport", "\n".join(rows))


if __name__ == "__main__":
    main()
