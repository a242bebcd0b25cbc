"""One prompt, one run, one exit code: what every face without a keyboard shares."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from types import FrameType
from typing import Literal, Protocol, TextIO

from sluice.errors import InternalError
from sluice.run.config import Settings
from sluice.ui.interrupts import PATIENCE_SECONDS, Interrupts
from sluice.ui.visible import visible
from sluice.values.messages import UserMessage
from sluice.values.notices import Notice, RunFinished

Reason = Literal["cancelled", "terminated"]

STOPPED: dict[Reason, int] = {"cancelled": 130, "terminated": 143}  # exit codes of L12 for runs that a signal ended
_SIGNALS: dict[str, Reason] = {"SIGINT": "cancelled", "SIGTERM": "terminated", "SIGHUP": "terminated"}


class Face(Protocol):
    """Shows the notices of one run."""

    def show(self, notice: Notice) -> None:
        """Shows one notice, at once. May raise what the stream it writes to raises."""
        ...

    def close(self) -> None:
        """Ends open lines."""
        ...


class Agent(Protocol):
    """What a face needs of the agent."""

    def run(self, prompt: str | UserMessage) -> AsyncIterator[Notice]:
        """The notices of one run; `run_finished` is the last."""
        ...

    def cancel(self, reason: Reason) -> None:
        """Asks the run to end; it still ends with `run_finished`."""
        ...


OpenAgent = Callable[[Settings], AbstractAsyncContextManager[Agent]]


def run_prompt(
    open_agent: OpenAgent,
    settings: Settings,
    prompt: str | UserMessage,
    face: Face,
    *,
    patience: float = PATIENCE_SECONDS,
) -> int:
    """Runs one prompt to its end, shows it on `face`, and returns the exit code (L12).

    The first SIGINT, SIGTERM or SIGHUP asks the run to end and waits for its last notice. Those that follow within
    `patience` seconds say the same; one that comes later leaves at once (`SystemExit`), and one that comes another
    `patience` seconds later leaves without closing anything. When nobody reads standard output any more, the run is ended
    and the code is 0: that is no error. Any other error of the face ends the run too, and is raised after it. Errors of
    `open_agent` pass through. Signal handlers are as before when it returns.
    """
    return asyncio.run(_Run(face, patience).follow(open_agent, settings, prompt))


class _Run:
    def __init__(self, face: Face, patience: float) -> None:
        self._face = face
        self._patience = patience
        self._heard = 0.0  # when the signal came that counts
        self._leaving = False
        self._agent: Agent | None = None
        self._task: asyncio.Task[int] | None = None
        self._reason: Reason | None = None
        self._fault: Exception | None = None  # why nothing can be shown any more

    async def follow(self, open_agent: OpenAgent, settings: Settings, prompt: str | UserMessage) -> int:
        self._task = asyncio.current_task()
        finished: RunFinished | None = None
        with _signals(self._signalled, lambda: self._reason is not None):
            try:
                async with open_agent(settings) as agent:
                    self._agent = agent
                    async for notice in agent.run(prompt):
                        if isinstance(notice, RunFinished):
                            finished = notice
                        self._show(notice)
            except asyncio.CancelledError:
                if self._reason is None:
                    raise
            finally:
                self._agent = None
                self._close()
        if self._fault is not None:
            if isinstance(self._fault, BrokenPipeError):
                return 0
            raise self._fault
        if finished is not None:
            return finished.exit_code
        if self._reason is not None:
            return STOPPED[self._reason]
        raise InternalError("the run ended without saying how")

    def _show(self, notice: Notice) -> None:
        if self._fault is not None:
            return
        try:
            self._face.show(notice)
        except Exception as fault:
            # A run must not be left half-way because its output is full or unread: it is asked to end, and does.
            self._fault = fault
            if self._agent is not None and not isinstance(notice, RunFinished):
                self._agent.cancel("cancelled")

    def _close(self) -> None:
        try:
            if self._fault is None:
                self._face.close()
        except Exception as fault:
            self._fault = fault

    def _signalled(self, reason: Reason) -> None:
        """In the main thread, between two byte codes, perhaps inside a blocked write."""
        now = time.monotonic()
        if self._reason is not None:
            if now - self._heard < self._patience:  # the same wish once more: a key that is held, a storm
                return
            if self._leaving:
                os._exit(STOPPED[self._reason])
            self._heard, self._leaving = now, True
            raise SystemExit(STOPPED[self._reason])
        self._reason, self._heard = reason, now
        if self._task is not None:
            self._task.get_loop().call_soon_threadsafe(self._stop)

    def _stop(self) -> None:
        if self._agent is not None:
            self._agent.cancel(self._reason or "cancelled")
        elif self._task is not None:
            self._task.cancel()


@contextmanager
def _signals(handle: Callable[[Reason], None], heard: Callable[[], bool]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # only the main thread may have handlers
        yield
        return
    before = {}
    for name, reason in _SIGNALS.items():
        number = getattr(signal, name, None)
        # A signal that our starter had ignored (nohup) stays ignored.
        if number is None or signal.getsignal(number) is signal.SIG_IGN:
            continue

        def handler(_number: int, _frame: FrameType | None, reason: Reason = reason) -> None:
            handle(reason)

        before[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, old in before.items():
            if heard():
                Interrupts.followed(old)
            signal.signal(number, old)


class _OneLine(logging.Formatter):
    """Log records as one line with no control characters; the traceback only for those who asked."""

    def __init__(self, debug: bool) -> None:
        super().__init__("%(name)s: %(message)s")
        self._debug = debug

    def format(self, record: logging.LogRecord) -> str:
        if self._debug:
            return visible(super().format(record))
        text = f"{record.name}: {record.getMessage()}".split("\n", 1)[0]
        if record.exc_info and record.exc_info[0] is not None:
            text += f" ({record.exc_info[0].__name__}; --debug shows more)"
        return visible(text)


def start_logging(err: TextIO, debug: bool) -> Callable[[], None]:
    """Sends log records to `err`: warnings, or everything with `debug`. Returns the function that takes it back."""
    handler = logging.StreamHandler(err)
    handler.setFormatter(_OneLine(debug))
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG if debug else logging.WARNING)

    def stop() -> None:
        root.removeHandler(handler)
        root.setLevel(before)

    return stop
