"""Commands in the background: a few at a time, their output kept for reading, all ended with the run (P7)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from sluice.limits import DEFAULT_LIMITS, Limits
from sluice.tools.process import Reader
from sluice.tools.sandbox import Ran
from sluice.values.ports import Cancel

_MAX_ENDED = 32  # jobs that have ended and can still be read
_STOP_SECONDS = 5.0  # for ending a tree; it takes about one
_GIVE_UP_SECONDS = 2.0  # after which a job that is being stopped is cancelled

Begin = Callable[[Reader, Cancel], Awaitable[Ran]]
"""Runs the command of a job: its output goes to the reader, and it ends when the cancel is set."""


class TooManyJobsError(Exception):
    """As many jobs run as may run at one time. The message says how many."""


@dataclass(frozen=True)
class Piece:
    """A part of a job's output: bytes `start` to `end` of all it has printed; `lost` came before and is not kept."""

    data: bytes
    start: int
    end: int
    total: int
    lost: int


class Job:
    """One command in the background. `ran` is set once it has ended, `problem` if it could not be run."""

    def __init__(self, name: str, command: str, max_output_bytes: int) -> None:
        self.name = name
        self.command = command
        self.ran: Ran | None = None
        self.problem: str | None = None
        self.total = 0
        self.unread = 0
        self._kept = bytearray()
        self._max_output_bytes = max_output_bytes
        self._began = time.monotonic()
        self._ended: float | None = None
        self._cancel = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self._ended is None

    @property
    def seconds(self) -> float:
        """How long it has run."""
        return (time.monotonic() if self._ended is None else self._ended) - self._began

    def read(self, max_bytes: int, offset: int | None = None) -> Piece:
        """Output from `offset`, else what is new, at most `max_bytes`; the next read goes on at its end."""
        first_kept = self.total - len(self._kept)
        wanted = self.unread if offset is None else min(max(offset, 0), self.total)
        start = max(wanted, first_kept)
        data = bytes(self._kept[start - first_kept :][:max_bytes])
        if start + len(data) < self.total or self.running:
            data = _whole_characters(data)
        self.unread = start + len(data)
        return Piece(data, start, self.unread, self.total, start - wanted)

    def start(self, begin: Begin) -> asyncio.Task[None]:
        """Starts the command as a task of the running loop."""
        self._task = asyncio.get_running_loop().create_task(self._run(begin))
        return self._task

    async def stop(self) -> None:
        """Ends the command and waits for its end, as long as that takes in the worst case."""
        self._cancel.set()
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=_GIVE_UP_SECONDS)
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=_STOP_SECONDS)

    async def _run(self, begin: Begin) -> None:
        try:
            self.ran = await begin(self._take, self._cancel)
        except Exception as error:  # told by whoever reads the job; there is nobody else to hear it
            self.problem = str(error) or type(error).__name__
        finally:
            self._ended = time.monotonic()

    def _take(self, data: bytes) -> None:
        self.total += len(data)
        self._kept += data
        del self._kept[: -self._max_output_bytes]


class Jobs:
    """The jobs of one run. `end_all` must be awaited before the loop ends."""

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._jobs: dict[str, Job] = {}
        self._last = 0

    async def start(self, command: str, begin: Begin, wait_seconds: float) -> Job:
        """A new job, once it has ended or `wait_seconds` have passed. Raises `TooManyJobsError`."""
        running = sum(job.running for job in self._jobs.values())
        if running >= self._limits.max_jobs:
            raise TooManyJobsError(f"{running} jobs are running, as many as may run at one time")
        ended = [name for name, job in self._jobs.items() if not job.running]
        for name in ended[: max(len(ended) - _MAX_ENDED + 1, 0)]:
            del self._jobs[name]
        self._last += 1
        job = Job(f"job:{self._last}", command, self._limits.max_job_output_bytes)
        self._jobs[job.name] = job
        task = job.start(begin)
        await asyncio.wait({task}, timeout=wait_seconds)
        return job

    def get(self, name: str) -> Job | None:
        """The job of that name, running or ended."""
        return self._jobs.get(name)

    def all(self) -> tuple[Job, ...]:
        """All jobs that can be read, in the order of their start."""
        return tuple(self._jobs.values())

    async def end_all(self) -> None:
        """Ends every job and forgets them. Calling it twice is fine."""
        jobs = list(self._jobs.values())
        await asyncio.gather(*(job.stop() for job in jobs))
        for job in jobs:
            self._jobs.pop(job.name, None)


def _whole_characters(data: bytes) -> bytes:
    """`data` without a character of UTF-8 that is cut at its end."""
    for back in range(1, min(4, len(data) + 1)):
        byte = data[-back]
        if byte < 0x80:
            return data
        if byte >= 0xC0:
            needed = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data[:-back] if needed > back else data
    return data
