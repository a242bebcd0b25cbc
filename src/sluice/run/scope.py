"""What every step of one run works with: its parts, its facts, its notices, and the tasks that must not outlive it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from sluice.errors import SluiceError
from sluice.run.conversation import Talk
from sluice.run.metering import Charge, Meter
from sluice.run.parts import Parts
from sluice.run.steering import Steering
from sluice.turn import facts as f
from sluice.values import notices as n
from sluice.values.messages import Message, ToolMessage

HOOK_SECONDS = 2.0  # what a hook may still take once the run is to stop
_SETTLE_SECONDS = 5.0  # what tasks may take to store and end; a tool that is stopped answers within two

T = TypeVar("T")
Emit = Callable[[n.Notice], Coroutine[Any, Any, None]]


class StoppedError(Exception):
    """The run is to stop, and what was awaited was given up."""


class StrayCancelError(Exception):
    """What was awaited had itself cancelled, and nobody had asked for that: a failure, and no wish to stop."""


class RunScope:
    """The scope of one run. `emit` takes notices in order and may wait for a slow watcher.

    `stopping` is set once the run is to stop: hooks, people and the model are then no longer waited for; what is being
    stored is. `unsaved` says what a store refused to keep, and why. `steering` holds what a person says to the run
    meanwhile. `meter` counts what the run uses.
    """

    def __init__(self, run: str, parts: Parts, talk: Talk, emit: Emit) -> None:
        self.run = run
        self.parts = parts
        self.talk = talk
        self.emit = emit
        self.facts: asyncio.Queue[f.Fact] = asyncio.Queue()
        self.stopping = asyncio.Event()
        self.unsaved: list[tuple[str, str]] = []
        self.steering = Steering()
        began = self.now()
        self.meter = Meter(parts.model.cost, parts.limits, lambda: (self.now() - began) / 1e9)
        self._tasks: set[asyncio.Task[None]] = set()

    def now(self) -> int:
        """Monotonic nanoseconds, for a fact's `at`."""
        return self.parts.clock.monotonic_ns()

    def tell(self, fact: f.Fact) -> None:
        """Gives the machine a fact."""
        self.facts.put_nowait(fact)

    def host_failed(self, error: Exception) -> None:
        """Tells the machine that a hook, the store or our own code failed; the run then ends in good order."""
        self.tell(f.HostStopped(at=self.now(), outcome="failed", message=words_of(error)))

    async def used_inside(self, turn: int) -> Charge:
        """What agents inside calls and hooks have used since this was last asked; tells of it."""
        inside = self.meter.from_inside()
        if inside.tokens:
            await self.emit(n.AlsoUsed(turn=turn, by="agent", usage=inside.usage, cost=inside.cost))
        return inside

    async def keep(self, message: Message) -> str:
        """Stores a message and makes it part of the conversation; returns its id. Raises what the store raises."""
        try:
            return await self.talk.add(self.run, message)
        except Exception as error:
            what = "a result" if isinstance(message, ToolMessage) else "a message"
            self.unsaved.append((what, words_of(error)))
            raise

    def lost(self) -> str | None:
        """What could not be stored, in words; a reason that is that of several is said once."""
        by_reason: dict[str, list[str]] = {}
        for what, reason in dict.fromkeys(self.unsaved):
            by_reason.setdefault(reason, []).append(what)
        lines = []
        for reason, things in by_reason.items():
            *more, last = things
            lines.append(f"{', '.join(more)} and {last} were" if more else f"{last} was")
            lines[-1] += f" not stored: {reason}"
        return "; ".join(lines) or None

    def spawn(self, work: Coroutine[Any, Any, None], failed: Callable[[Exception], None]) -> None:
        """Runs `work` as a task of this run; `failed` is told what it raises. One that is given up has no answer."""

        async def guarded() -> None:
            try:
                await work
            except StoppedError:
                pass
            except asyncio.CancelledError:
                if self.stopping.is_set():
                    raise
                failed(StrayCancelError("it was cancelled, and nobody had asked for that"))
            except Exception as error:
                failed(error)

        task = asyncio.get_running_loop().create_task(guarded())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def until_stopped(self, work: Coroutine[Any, Any, T], *, grace: float = 0.0) -> T:
        """The result of `work`, or of its cancellation once the run is to stop and `grace` seconds have passed.

        Raises what `work` raises; `StoppedError` if it was given up, `StrayCancelError` if it was cancelled in a run that
        is not to stop. With no grace, work is not begun in a run that stops.
        """
        if self.stopping.is_set() and not grace:
            work.close()
            raise StoppedError
        task = asyncio.ensure_future(work)
        wish = asyncio.ensure_future(self.stopping.wait())
        try:
            await asyncio.wait({task, wish}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done() and grace:
                await asyncio.wait({task}, timeout=grace)
        finally:
            wish.cancel()
            task.cancel()
            await asyncio.wait({task, wish}, timeout=_SETTLE_SECONDS)
        if task.cancelled() and not self.stopping.is_set():
            raise StrayCancelError("it was cancelled, and nobody had asked for that")
        if not task.done() or task.cancelled():
            raise StoppedError
        return task.result()

    async def settle(self) -> None:
        """Stops and awaits every task that is still there; one that does not end in time is cancelled."""
        self.stopping.set()
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=_SETTLE_SECONDS)
        if self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(set(self._tasks), timeout=_SETTLE_SECONDS)


def words_of(error: Exception) -> str:
    """One line about an error: our own speak for themselves, others are named."""
    return str(error) if isinstance(error, SluiceError) else f"{type(error).__name__}: {error}"
