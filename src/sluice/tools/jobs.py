"""Commands in the background: a few at a time, their output kept for reading, all ended with the run (P7).

A command that a call waits for is a job as well, one that nobody knows yet: so a person can move it to the background.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from sluice.limits import DEFAULT_LIMITS, Limits
from sluice.tools.process import Ended, Reader
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
    """One command, in the background once it has a `name`. `ran` is set once it has ended, `error` if it could not run."""

    def __init__(self, name: str, command: str, max_output_bytes: int) -> None:
        self.name = name
        self.command = command
        self.ran: Ran | None = None
        self.error: Exception | None = None
        self.total = 0
        self.unread = 0
        self.moved = asyncio.Event()
        self._also: Reader | None = None
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
    def problem(self) -> str | None:
        """Why it could not be run, in words."""
        return None if self.error is None else str(self.error) or type(self.error).__name__

    @property
    def seconds(self) -> float:
        """How long it has run."""
        return (time.monotonic() if self._ended is None else self._ended) - self._began

    def read(self, max_bytes: int, offset: int | None = None) -> Piece:
        """Output from `offset`, else what is new, at most `max_bytes`; the next read goes on at its end."""
        first_kept = self.total - len(self._kept)  # it may be up to twice the bound
        wanted = self.unread if offset is None else min(max(offset, 0), self.total)
        start = max(wanted, first_kept)
        data = bytes(self._kept[start - first_kept :][:max_bytes])
        if start + len(data) < self.total or self.running:
            data = _whole_characters(data)
        self.unread = start + len(data)
        return Piece(data, start, self.unread, self.total, start - wanted)

    def start(self, begin: Begin, also: Reader | None = None) -> asyncio.Task[None]:
        """Starts the command as a task of the running loop. `also` is given its output too, until it is moved."""
        self._also = also
        self._task = asyncio.get_running_loop().create_task(self._run(begin))
        return self._task

    def move(self, name: str) -> None:
        """Puts it into the background under this name: its output so far counts as read."""
        self.name = name
        self.unread = self.total
        self._also = None
        self.moved.set()

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
            self.error = error
        finally:
            self._ended = time.monotonic()

    def _take(self, data: bytes) -> bool | None:
        self.total += len(data)
        self._kept += data
        if len(self._kept) > 2 * self._max_output_bytes:  # not at each read: cutting moves all that is kept
            del self._kept[: -self._max_output_bytes]
        return self._also(data) if self._also is not None else None


class Jobs:
    """The jobs of one run. `end_all` must be awaited before the loop ends. `changed` is called when `in_front` may have."""

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._jobs: dict[str, Job] = {}
        self._in_front: list[Job] = []
        self._last = 0
        self.changed: Callable[[], None] = _nobody

    async def start(self, command: str, begin: Begin, wait_seconds: float) -> Job:
        """A new job, once it has ended or `wait_seconds` have passed. Raises `TooManyJobsError`."""
        if self._full():
            raise TooManyJobsError(f"{self._limits.max_jobs} jobs are running, as many as may run at one time")
        job = Job(self._new_name(), command, self._limits.max_job_output_bytes)
        self._jobs[job.name] = job
        task = job.start(begin)
        await asyncio.wait({task}, timeout=wait_seconds)
        return job

    async def wait_for(self, command: str, begin: Begin, output: Reader, seconds: float, cancel: Cancel) -> Ran | Job:
        """Runs a command that a call waits for: how it ended, or the job that it became when a person moved it.

        It is ended after `seconds`, when `cancel` is set, and with this coroutine, unless it was moved before. Its output
        goes to `output` until then. Raises what `begin` raises.
        """
        job = Job("", command, self._limits.max_job_output_bytes)
        if cancel.is_set():
            return Ran(Ended(None, None, cancelled=True))
        self._in_front.append(job)
        task = job.start(begin, output)
        self.changed()
        waits = [asyncio.ensure_future(one.wait()) for one in (cancel, job.moved)]
        timed_out = False
        try:
            await asyncio.wait({task, *waits}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            timed_out = not (task.done() or any(wait.done() for wait in waits))
        finally:
            self._in_front.remove(job)
            self.changed()
            if not job.moved.is_set():
                await job.stop()
            for wait in waits:
                wait.cancel()
            await asyncio.wait(waits)
        if job.moved.is_set():
            return job
        if job.error is not None:
            raise job.error
        ran = job.ran or Ran(Ended(None, None, cancelled=True))
        if timed_out and ran.ended.cancelled:
            return replace(ran, ended=replace(ran.ended, cancelled=False, timed_out=True))
        return ran

    @property
    def in_front(self) -> str | None:
        """The command line that a call waits for now and that `to_background` would move; `None` if there is none."""
        running = [job for job in self._in_front if job.running and not job.moved.is_set()]
        return running[-1].command if running and not self._full() else None

    def to_background(self) -> str | None:
        """Moves the command that a call waits for to the background; the call answers with the name returned here.

        The command has no timeout any more and ends with its run. `None`, and nothing changes, if no call waits for one or
        as many jobs run as may.
        """
        if self.in_front is None:
            return None
        job = [job for job in self._in_front if job.running and not job.moved.is_set()][-1]
        job.move(self._new_name())
        self._jobs[job.name] = job
        return job.name

    def _full(self) -> bool:
        return sum(job.running for job in self._jobs.values()) >= self._limits.max_jobs

    def _new_name(self) -> str:
        ended = [name for name, job in self._jobs.items() if not job.running]
        for name in ended[: max(len(ended) - _MAX_ENDED + 1, 0)]:
            del self._jobs[name]
        self._last += 1
        return f"job:{self._last}"

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


def _nobody() -> None:
    """Nobody wants to know."""


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
