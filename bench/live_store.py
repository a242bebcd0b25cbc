"""What the session store adds to a run whose reply arrives live, beside the least that SQLite itself would take.

Whole runs of `sluice` over HTTP against the replay server. The CPU time of the writing thread and of the store's calls
in the event loop is read from those threads' own clocks, so a busy machine disturbs it little: the difference between
runs with a store and without one is smaller than what they differ among themselves. Between the repeats the same row is
written by `sqlite3` alone, in one thread and with no queue: what that takes is the floor.

Prints medians, and in brackets the least and the most of the repeats; asserts nothing.

python bench/live_store.py [SECONDS] [REPEATS]
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from sluice.session import disk, rows
from sluice.session.database import GROUP_SECONDS, Database
from sluice.session.store import SqliteStore
from sluice.ui.cli import main as sluice
from sluice.values.messages import AssistantMessage

EVENT = b'data: {"id":"r","model":"m","choices":[{"index":0,"delta":{"content":"word "},"finish_reason":null}]}\n\n'
END = b'data: {"id":"r","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
SHAPES = ((1, 20.0), (1, 10.0), (1, 5.0), (40, 20.0))  # deltas that come together, and milliseconds between
BOUND = 5  # percent
GROUP = 25  # rows between two looks at the clock
Figures = dict[str, float]


class Bare:
    """The same row by `sqlite3` alone every 20 ms, with the store's own schema and settings; and a line in a plain file."""

    def __init__(self, path: Path) -> None:
        self._connection = disk.open_writing(path, check=False, network=None)
        self._connection.execute("PRAGMA synchronous = NORMAL")
        self._connection.execute("INSERT INTO session (id, project, created_at) VALUES ('s', '', 0)")
        self._connection.execute(
            "INSERT INTO run (id, session, number, started_at, began_ns) VALUES ('live', 's', 1, 0, 0)"
        )
        self._at = 0
        self._lines = path.with_suffix(".lines").open("ab", buffering=0)
        self.commits: list[float] = []  # CPU seconds of one, a group each; what waking up takes is taken off
        self.lines: list[float] = []  # the same of a line that is added to a plain file
        self.seconds: list[float] = []  # CPU seconds a second of stream, waking up and all

    def measure(self, groups: int = 4) -> None:
        """Writes some rows and keeps what they took."""
        for _ in range(groups):
            asleep = self._timed(lambda: None)
            awake = self._timed(self._row)
            self.commits.append(awake - asleep)
            self.lines.append(self._timed(lambda: self._lines.write(b"live 12 text word 01234567\n")) - asleep)
            self.seconds.append(awake / GROUP_SECONDS)

    def _timed(self, work: Callable[[], object]) -> float:
        began = time.thread_time()
        for _ in range(GROUP):
            time.sleep(GROUP_SECONDS)
            work()
        return (time.thread_time() - began) / GROUP

    def _row(self) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.execute(
            "INSERT INTO chunk VALUES ('live', ?, 'text', 'word ', ?)", (self._at, rows.crc("word "))
        )
        self._connection.execute("COMMIT")
        self._at += 1

    def close(self) -> None:
        """Closes the files."""
        self._connection.close()
        self._lines.close()


# -- one run, in a process of its own


def run_once(out: str, argv: Sequence[str]) -> int:
    """Runs the command line of `sluice` and writes to `out` what its store took of the reply, and of the whole run."""
    took: Figures = dict.fromkeys(("writer", "loop", "commits", "reply", "reply_writer", "reply_commits", "wall"), 0.0)
    began: list[tuple[float, float, float, float]] = []

    def now(store: SqliteStore) -> tuple[float, float, float, float]:
        ident = store.database._thread.ident
        assert ident is not None
        writer = time.clock_gettime(time.pthread_getcpuclockid(ident))
        return time.process_time(), writer, took["commits"], time.perf_counter()

    def around(owner: type, name: str, make: Callable[[Any], Any]) -> None:
        setattr(owner, name, make(getattr(owner, name)))

    def serve(plain: Any) -> Any:
        def timed(self: Database, *given: Any) -> None:
            try:
                plain(self, *given)
            finally:
                took["writer"] += time.thread_time()

        return timed

    def commit(plain: Any) -> Any:
        def counted(self: Database, batch: Any) -> None:
            took["commits"] += 1
            plain(self, batch)

        return counted

    def delta(plain: Any) -> Any:
        async def timed(self: SqliteStore, *given: Any) -> None:
            if not began:
                began.append(now(self))
            at = time.thread_time()
            await plain(self, *given)
            took["loop"] += time.thread_time() - at

        return timed

    def append(plain: Any) -> Any:
        async def timed(self: SqliteStore, run: str, message: Any) -> Any:
            if isinstance(message, AssistantMessage) and began:
                names = ("reply", "reply_writer", "reply_commits", "wall")
                took.update({n: b - a for n, a, b in zip(names, began[0], now(self), strict=True)})
            return await plain(self, run, message)

        return timed

    around(Database, "_serve", serve)
    around(Database, "_commit", commit)
    around(SqliteStore, "delta", delta)
    around(SqliteStore, "append", append)
    code = sluice(argv)
    assert threading.active_count() == 1, "the writing thread has ended, and told what it took"
    Path(out).write_text(json.dumps({**took, "whole": time.process_time()}), "utf-8")
    return code


# -- many runs


def streamed(folder: Path, together: int, pace: float, seconds: float, repeats: int, bare: Bare) -> list[Figures]:
    """Figures of runs over one stream."""
    count = int(seconds * 1000 / pace) * together
    body = folder / f"stream{together}-{pace:g}.sse"
    body.write_bytes(EVENT * count + END)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLUICE_", "NCA_", "XDG_"))}
    env = {**kept, "HOME": str(folder), "SLUICE_API_KEY": "none"}
    server_is = [str(Path(sys.executable).with_name("sluice")), "replay-server", str(body)]
    with subprocess.Popen(
        [*server_is, "--pace", f"{pace:g}", "--split", str(len(EVENT) * together)],
        stdout=subprocess.PIPE,
        text=True,
        env=env,
    ) as server:
        assert server.stdout is not None
        url = server.stdout.readline().split()[-1]

        out = folder / "took.json"
        argv = ["-w", str(folder), "--base-url", f"{url}/v1", "--model", "m", "-e", "go"]
        argv += ["--session-store", str(folder / "run.db")]
        found: list[Figures] = []
        for _ in range(repeats):
            with (folder / "err").open("wb") as err:
                run = [sys.executable, __file__, "--run", str(out), *argv]
                subprocess.run(run, stdout=subprocess.DEVNULL, stderr=err, env=env, check=True)
            found.append(json.loads(out.read_text("utf-8")))
            bare.measure(1)
        server.terminate()
    return found


def spread(values: Sequence[float], form: str = ".1f") -> str:
    """Median, and the least and the most."""
    return f"{statistics.median(values):{form}} [{min(values):{form}}..{max(values):{form}}]"


def told(rate: float, found: list[Figures], bare: Bare) -> str:
    """Lines about the runs at one rate."""
    store = [(f["reply_writer"] + f["loop"]) / f["wall"] * 1000 for f in found]  # ms of CPU a second of stream
    rest = [f["reply"] / f["wall"] * 1000 - s for f, s in zip(found, store, strict=True)]
    commits = [f["reply_commits"] / f["wall"] for f in found]
    each = [f["reply_writer"] / f["reply_commits"] * 1e6 for f in found]
    whole = [(f["writer"] + f["loop"]) / f["whole"] * 100 for f in found]
    in_stream = [s / (s + r) * 100 for s, r in zip(store, rest, strict=True)]
    least = statistics.median(bare.commits) * statistics.median(commits) * 1000
    return (
        f"{rate:.0f} deltas a second: {spread(in_stream)} % of the CPU of the stream is the store; of the whole run "
        f"{spread(whole)} % (bound: {BOUND})\n"
        f"    the store: {spread(store)} ms of CPU a second; {spread(commits, '.0f')} commits a second, "
        f"{spread(each, '.0f')} µs each with the thread that makes them\n"
        f"    the rest of the run: {spread(rest)} ms a second; as many commits by sqlite3 alone would take {least:.1f} ms, "
        f"{least / (least + statistics.median(rest)) * 100:.0f} %"
    )


def report(folder: Path, seconds: float, repeats: int) -> None:
    """Measures all shapes and prints what was found."""
    bare = Bare(folder / "bare.db")
    lines, slowest = [], 0.0
    for together, pace in SHAPES:
        found = streamed(folder, together, pace, seconds, repeats, bare)
        lines.append((together * 1000 / pace, found))
        if not slowest:
            slowest = statistics.median((f["reply"] - f["reply_writer"] - f["loop"]) / f["wall"] for f in found) * 1000
    bare.close()
    floor = statistics.median(bare.seconds) * 1000
    print(
        f"bare sqlite3, one row every 20 ms, one thread, no queue: {spread([s * 1000 for s in bare.seconds])} ms of CPU a "
        f"second of stream, a commit {spread([c * 1e6 for c in bare.commits], '.0f')} µs (waking up taken off); "
        f"the rest of a run at 50 a second: {slowest:.1f} ms; so at least {floor / (floor + slowest) * 100:.0f} %"
    )
    line = statistics.median(bare.lines) / GROUP_SECONDS * 1000
    print(
        f"a line added to a plain file, in the same way: {spread([s * 1e6 for s in bare.lines], '.0f')} µs; "
        f"{line / (line + slowest) * 100:.0f} % of such a stream"
    )
    for rate, found in lines:
        print(told(rate, found, bare))


def main() -> int:
    """Measures and prints."""
    if sys.argv[1:2] == ["--run"]:
        return run_once(sys.argv[2], sys.argv[3:])
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 5.0
    repeats = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    with tempfile.TemporaryDirectory() as folder, suppress(KeyboardInterrupt):
        report(Path(folder), seconds, repeats)
    return 0


if __name__ == "__main__":
    sys.exit(main())
