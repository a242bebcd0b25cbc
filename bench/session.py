"""What the session store costs: a delta's CPU time, and opening a long session. Prints figures; asserts nothing.

python bench/session.py [MESSAGES] [DELTAS]
"""

from __future__ import annotations

import asyncio
import resource
import sys
import tempfile
import time
from pathlib import Path

from sluice.session import rows
from sluice.session.opening import Opening, open_session
from sluice.session.wish import Wish
from sluice.values.messages import AssistantMessage, UserMessage

BURST = 40  # deltas that come together: 2,000 a second in groups of 20 ms


async def opened(path: Path, wish: Wish) -> Opening:
    """A session of the store at `path`."""
    return await open_session(path, "/bench", wish, new_id=lambda: "ses", words=lambda result: result.content)


async def deltas(path: Path, count: int) -> float:
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


async def long_session(path: Path, count: int) -> tuple[float, float]:
    """Seconds to write a session of so many messages, and to open it with all of its history."""
    opening = await opened(path, Wish(how="resume", id="ses"))
    began = time.perf_counter()

    def fill(connection: object) -> None:
        for seq in range(10, count + 10):
            message = UserMessage(f"prompt {seq}") if seq % 2 else AssistantMessage(content=f"answer {seq} " * 5)
            rows.put(connection, "ses", seq, message, run=None)  # type: ignore[arg-type]

    await opening.store.database.write(fill)
    await opening.store.close()
    filled = time.perf_counter()
    opening = await opened(path, Wish(how="continue"))
    history = await opening.store.history()
    read = time.perf_counter()
    await opening.store.close()
    print(f"{len(history)} messages read")
    return filled - began, read - filled


def main() -> None:
    """Measures and prints."""
    messages = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 10_000
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sessions.db"
        print(f"a delta at 2,000 a second: {asyncio.run(deltas(path, count)) * 1e6:.1f} µs of CPU (bound: 15)")
        wrote, read = asyncio.run(long_session(path, messages))
        print(f"{messages} messages: written in {wrote:.2f} s, opened with all of them in {read:.2f} s (bound: 1)")
        print(f"the store takes {path.stat().st_size / 2**20:.1f} MiB")
    print(f"peak memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB (bound: 300)")


if __name__ == "__main__":
    main()
