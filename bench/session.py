"""What the session store costs: a delta's CPU time, its share of a streamed run, and opening a very long session.

Prints figures; asserts nothing. Sessions are opened by a process of its own, whose peak memory is the system's figure.

python bench/session.py [MESSAGES] [DELTAS] [SECONDS]
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import live_store
from sluice.session import rows
from sluice.session.opening import Opening, open_session
from sluice.session.wish import Wish
from sluice.values.messages import AssistantMessage, UserMessage

BURST = 40  # deltas that come together: 2,000 a second in groups of 20 ms
REPEATS = 3


async def opened(path: Path, wish: Wish) -> Opening:
    """A session of the store at `path`."""
    return await open_session(path, "/bench", wish, new_id=lambda: "ses", words=lambda result: result.content)


async def one_delta(path: Path, count: int) -> float:
    """CPU seconds of one delta at 2,000 a second, the writing thread included, an idle loop of that length taken off."""
    opening = await opened(path, Wish())
    store = opening.store
    await store.started("deltas", UserMessage("go"))
    await store.reply_began("deltas", 1)
    spent = []
    for stored in (False, True):
        began = time.process_time()
        for _ in range(count // BURST):
            for _ in range(BURST):
                if stored:
                    await store.delta("deltas", "text", "word ")
            await asyncio.sleep(0.02)
        spent.append(time.process_time() - began)
    await store.append("deltas", AssistantMessage(content="word " * (count // BURST * BURST)))
    await store.finished("deltas", "completed")
    await store.close()
    return (spent[1] - spent[0]) / (count // BURST * BURST)


async def fill(path: Path, messages: int, deltas: int) -> tuple[float, int]:
    """Writes a long session whose last reply is still arriving; returns seconds, and bytes of the log at its largest."""
    began, log, largest = time.perf_counter(), Path(f"{path}-wal"), 0
    opening = await opened(path, Wish(how="resume", id="ses"))
    store = opening.store

    def rows_of(first: int, count: int):  # type: ignore[no-untyped-def]
        def work(connection: object) -> None:
            for seq in range(first, first + count):
                message = UserMessage(f"prompt {seq}") if seq % 2 else AssistantMessage(content=f"answer {seq} " * 5)
                rows.put(connection, "ses", seq, message, run=None)  # type: ignore[arg-type]

        return work

    for first in range(0, messages, 1000):
        await store.database.write(rows_of(3 + first, min(1000, messages - first)))
        largest = max(largest, log.stat().st_size)
    replies = 10
    await store.started("long", UserMessage("go"))
    for turn in range(1, replies + 1):
        await store.reply_began("long", turn)
        for at in range(deltas // replies):
            await store.delta("long", "text", "word ")
            if at % 500 == 0:
                await asyncio.sleep(0)
                largest = max(largest, log.stat().st_size)
        if turn < replies:  # the process dies before the last one is whole
            await store.append("long", AssistantMessage(content="word " * (deltas // replies)))
    await store.close()
    return time.perf_counter() - began, largest


def open_again(path: str) -> None:
    """What a new process does with it: recovery, if it is needed, and the whole history. Prints JSON."""

    async def body() -> tuple[float, float, float, int]:
        wall, cpu = time.perf_counter(), time.process_time()
        opening = await opened(Path(path), Wish(how="continue"))
        ready = time.perf_counter() - wall
        history = await opening.store.history()
        spent = time.perf_counter() - wall, time.process_time() - cpu
        await opening.store.close()
        return ready, *spent, len(history)

    print(json.dumps(asyncio.run(body())))


def opened_by_another(path: Path) -> str:
    """What a process that opens the session took, and its peak memory."""
    process = subprocess.Popen([sys.executable, __file__, "--open", str(path)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    ready, wall, cpu, messages = json.loads(process.stdout.read())
    process.stdout.close()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return (
        f"{ready:.3f} s; with all its {messages} messages {wall:.2f} s, of that CPU {cpu:.2f} s (bound: 1); "
        f"peak {usage.ru_maxrss / 1024:.0f} MiB (bound: 300)"
    )


def main() -> None:
    """Measures and prints."""
    if sys.argv[1:2] == ["--open"]:
        open_again(sys.argv[2])
        return
    messages = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    deltas = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000
    seconds = float(sys.argv[3]) if len(sys.argv) > 3 else 5.0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sessions.db"
        cost = asyncio.run(one_delta(path, 20_000))
        print(f"a delta at 2,000 a second: {cost * 1e6:.1f} µs of CPU (bound: 15)")
        wrote, log = asyncio.run(fill(path, messages, deltas))
        print(
            f"{messages} messages and {deltas} deltas: written in {wrote:.1f} s, {path.stat().st_size / 2**20:.1f} MiB"
        )
        print(f"peak write-ahead log: {log / 2**20:.1f} MiB (bound: 64)")
        for what in ("after a death in its last reply", "after a clean end"):
            print(f"opened {what}: {opened_by_another(path)}")
        live_store.report(Path(folder), seconds, REPEATS)


if __name__ == "__main__":
    main()
