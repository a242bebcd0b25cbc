"""What the session store costs: a delta's CPU time, its share of a streamed run, and opening a very long session.

Prints figures; asserts nothing. Sessions are opened by a process of its own, whose peak memory is the system's figure.

python bench/session.py [MESSAGES] [DELTAS] [STREAMED]
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from sluice.session import disk, rows
from sluice.session.opening import Opening, open_session
from sluice.session.wish import Wish
from sluice.values.messages import AssistantMessage, UserMessage

BURST = 40  # deltas that come together: 2,000 a second in groups of 20 ms
SLUICE = str(Path(sys.executable).with_name("sluice"))
RUNS = 5


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


async def live_commits(folder: Path, count: int = 200) -> str:
    """CPU time of a commit when one delta arrives every 20 ms: ours, and the same row by `sqlite3` alone in one thread.

    Between two of them the processor does something else, so each begins with cold caches: in a tight loop the same row
    costs a tenth. The time that waking up costs is taken off.
    """
    opening = await opened(folder / "live.db", Wish())
    store = opening.store
    await store.started("live", UserMessage("go"))
    await store.reply_began("live", 1)
    bare = disk.open_writing(folder / "bare.db", check=False, network=None)
    bare.execute("PRAGMA synchronous = NORMAL")
    bare.execute("INSERT INTO session (id, project, created_at) VALUES ('s', '', 0)")
    bare.execute("INSERT INTO run (id, session, number, started_at, began_ns) VALUES ('live', 's', 1, 0, 0)")
    spent = {"ours": 0.0, "idle": 0.0, "bare": 0.0, "asleep": 0.0}
    for at in range(count):
        began = time.process_time()
        await asyncio.sleep(0.02)
        spent["idle"] += time.process_time() - began
        began = time.process_time()
        await store.delta("live", "text", "word ")
        await asyncio.sleep(0.04)  # the commit comes after 20 ms
        spent["ours"] += time.process_time() - began
        began = time.process_time()
        time.sleep(0.02)
        spent["asleep"] += time.process_time() - began
        began = time.process_time()
        time.sleep(0.02)
        bare.execute("BEGIN IMMEDIATE")
        bare.execute("INSERT INTO chunk VALUES ('live', ?, 'text', 'word ', ?)", (at, rows.crc("word ")))
        bare.execute("COMMIT")
        spent["bare"] += time.process_time() - began
    bare.close()
    await store.append("live", AssistantMessage(content="word " * count))
    await store.finished("live", "completed")
    await store.close()
    ours, floor = (spent["ours"] - spent["idle"]) / count, (spent["bare"] - spent["asleep"]) / count
    return f"a commit of one live delta: {ours * 1e6:.0f} µs of CPU; the same row by sqlite3 alone {floor * 1e6:.0f} µs"


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


def streamed(folder: Path, count: int, together: int, pace: float, runs: int) -> str:
    """The store's share of the CPU time of whole runs of `sluice` over a stream of `count` deltas.

    `together` of them arrive every `pace` milliseconds. Runs with a store and without one take turns.
    """
    event = b'data: {"id":"r","model":"m","choices":[{"index":0,"delta":{"content":"word "},"finish_reason":null}]}\n\n'
    end = b'data: {"id":"r","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    body = folder / f"stream{together}.sse"
    body.write_bytes(event * count + end)
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "SLUICE_API_KEY": "none"}
    spent: dict[str, list[float]] = {":memory:": [], str(folder / "run.db"): []}
    command = [SLUICE, "replay-server", str(body), "--pace", f"{pace:g}", "--split", str(len(event) * together)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as server:
        assert server.stdout is not None
        url = server.stdout.readline().split()[-1]
        for _ in range(runs):
            for store, found in spent.items():
                run = [SLUICE, "-w", str(folder), "--base-url", f"{url}/v1", "--model", "m", "-e", "go"]
                process = subprocess.Popen(
                    [*run, "--session-store", store], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env
                )
                _, status, usage = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(status)
                if process.returncode:
                    raise SystemExit(f"the run ended with {process.returncode}")
                found.append(usage.ru_utime + usage.ru_stime)
        server.terminate()
    without, stored = (statistics.median(found) for found in spent.values())
    return (
        f"{count} deltas at {together * 1000 / pace:.0f} a second: {without:.3f} s of CPU without a store, {stored:.3f} s "
        f"with one: {(stored - without) / stored * 100:.1f} % of it is the store"
    )


def main() -> None:
    """Measures and prints."""
    if sys.argv[1:2] == ["--open"]:
        open_again(sys.argv[2])
        return
    messages = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    deltas = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000
    in_run = int(sys.argv[3]) if len(sys.argv) > 3 else 20_000
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
        print(asyncio.run(live_commits(Path(folder))))
        if in_run:
            for together, pace in ((1, 20.0), (1, 10.0), (1, 5.0)):
                print(f"live: {streamed(Path(folder), in_run // 40, together, pace, 3)} (bound: 5)")
            print(f"in bursts: {streamed(Path(folder), in_run, BURST, 20.0, RUNS)}")


if __name__ == "__main__":
    main()
