"""What a reply costs from socket to message, through our own transport over loopback: CPU of this process alone.

    python bench/transport.py            prints
    python bench/transport.py --write    prints, and writes the figures into bench/README.md

Burst: the server sends the whole body at once. It is a process of its own and is not counted.

First deltas: from the return of a read, whose bytes are all there then, to its first deltas (99th of 100 reads). By the
clock that is our own work and also whatever the kernel ran in between, so on a busy machine it measures the scheduler:
milliseconds, each time the core was taken away. Therefore three figures: by the clock, of the round in which it was
least, as a disturbance only adds; by the clock, of all rounds, without the reads in which the kernel says that it took the
core away (an involuntary switch of context), with how many those were; by the CPU time of this thread, of the least round.
"""

from __future__ import annotations

import argparse
import asyncio
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from figures import noise, write
from floor import Floor
from sluice.run.model_call import FEED_BYTES
from sluice.transport.http import HttpTransport
from sluice.values.messages import UserMessage
from sluice.values.requests import ModelOptions
from sluice.wire import DIALECTS, ReplyReader
from workloads import messages_text, text_stream

ROUNDS = 9
EVENTS = 20_000
LIVE_EVENTS = 1000
STREAMS = {"openai_chat": text_stream, "anthropic_messages": messages_text}
TARGETS = {"openai_chat": 5.2, "anthropic_messages": 5.0}  # µs an event


class Delay(NamedTuple):
    """From the return of a read to its first deltas, in seconds; `disturbed` if the kernel took the core away meanwhile."""

    clock: float
    cpu: float
    disturbed: bool


def _switches() -> int:
    # Of this thread, where the system tells them apart (Linux).
    return resource.getrusage(getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)).ru_nivcsw


def late(seconds: Iterable[float]) -> float:
    """The 99th of 100, in milliseconds; not a number if there are none."""
    found = sorted(seconds)
    return found[int(len(found) * 0.99)] * 1e3 if found else float("nan")


@contextmanager
def served(body: bytes, *options: str) -> Iterator[str]:
    """The address of a replay server, in a process of its own, that answers with this body for ever."""
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as folder:
        file = Path(folder) / "body.sse"
        file.write_bytes(body)
        command = [sys.executable, "-m", "sluice", "replay-server", *options, str(file)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            try:
                yield server.stdout.readline().split()[-1]
            finally:
                server.terminate()


async def measured(url: str, dialect: str, *, at_least: int = EVENTS) -> tuple[float, list[Delay]]:
    """CPU seconds of one reply; of each read that gave deltas the delay of the first."""
    made = DIALECTS[dialect].request((UserMessage("go"),), (), ModelOptions(model="m"))
    transport = HttpTransport(f"{url}/v1", "key")
    delays: list[Delay] = []
    try:
        began = time.process_time()
        exchange = await transport.send(made)
        reader = ReplyReader(dialect)
        while not reader.ended and (chunk := await exchange.read()):
            switched, came, worked = _switches(), time.perf_counter(), time.thread_time()
            for start in range(0, len(chunk), FEED_BYTES):  # as a run does
                if reader.feed(chunk[start : start + FEED_BYTES]) and not start:
                    clock, cpu = time.perf_counter() - came, time.thread_time() - worked
                    delays.append(Delay(clock, cpu, _switches() != switched))
        reply = reader.close()
        spent = time.process_time() - began
        await exchange.close()
    finally:
        await transport.close()
    if len(reply.text) < at_least:
        raise SystemExit("the reply is not what was served")
    return spent, delays


async def bare(url: str) -> float:
    """CPU seconds of the least client: asyncio's own streams, the chunks of HTTP by hand, and the floor of `floor.py`."""
    host, port = url.removeprefix("http://").split(":")
    began = time.process_time()
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"POST /v1/chat/completions HTTP/1.1\r\nHost: {host}\r\nContent-Length: 2\r\n\r\n{{}}".encode())
    head = await reader.readuntil(b"\r\n\r\n")
    floor = Floor()
    if b"chunked" in head.lower():
        while size := int(await reader.readline(), 16):
            floor.feed((await reader.readexactly(size + 2))[:-2])
    else:
        while chunk := await reader.read(65536):
            floor.feed(chunk)
    text, _ = floor.close()
    writer.close()
    spent = time.process_time() - began
    if len(text) < LIVE_EVENTS:
        raise SystemExit("the bare client did not read what was served")
    return spent


def live() -> list[str]:
    """The table of a live stream: events of one size, one a read, 2 ms apart. An event loop's wake-up is most of it."""
    event = text_stream(1)[1]
    body = event * LIVE_EVENTS + b"".join(text_stream(0)[1:])
    costs: dict[str, list[float]] = {"a bare asyncio client": [], "sluice": []}
    with served(body, "--pace", "2", "--split", str(len(event))) as url:
        for _ in range(3):
            costs["a bare asyncio client"].append(asyncio.run(bare(url)))
            costs["sluice"].append(asyncio.run(measured(url, "openai_chat", at_least=LIVE_EVENTS))[0])
    least = {name: statistics.median(found) / LIVE_EVENTS * 1e6 for name, found in costs.items()}
    base = least["a bare asyncio client"]
    rows = ["| live, one event a read | µs an event | times a bare client | target |", "|---|---|---|---|"]
    return rows + [f"| {name} | {cost:.0f} | {cost / base:.2f} | 1.3 |" for name, cost in least.items()]


def main() -> None:
    """One table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--write", action="store_true", help="write the figures into bench/README.md")
    given = options.parse_args()
    rows = [
        f"CPU of the reading process alone, medians of {ROUNDS} rounds; CPython {platform.python_version()}; {noise()}.",
        "",
        "| stream, burst over loopback | µs an event | target |",
        "|---|---|---|",
    ]
    first = [
        "| first deltas, 99th of 100 reads | by the clock, ms | undisturbed, ms | disturbed reads | CPU, ms | target |",
        "|---|---|---|---|---|---|",
    ]
    for dialect, make in STREAMS.items():
        with served(b"".join(make(EVENTS))) as url:
            runs = [asyncio.run(measured(url, dialect)) for _ in range(ROUNDS + 1)][1:]
        cost = statistics.median(spent for spent, _ in runs) / EVENTS * 1e6
        rows.append(f"| {dialect}, {EVENTS:,} text events | {cost:.2f} | {TARGETS[dialect]} |")
        rounds = [found for _, found in runs if found]
        clock = min(late(one.clock for one in found) for found in rounds)
        quiet = late(one.clock for found in rounds for one in found if not one.disturbed)
        busy = min(late(one.cpu for one in found) for found in rounds)
        reads, taken = sum(map(len, rounds)), sum(one.disturbed for found in rounds for one in found)
        first.append(f"| {dialect} | {clock:.2f} | {quiet:.2f} | {taken} of {reads} | {busy:.2f} | 1.0 |")
    rows += ["", *first]
    rows += ["", *live()]
    print("\n".join(rows))
    if given.write:
        write("transport", "\n".join(rows))


if __name__ == "__main__":
    main()
