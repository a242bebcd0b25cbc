"""Ctrl-C for the whole program: the first one counts, and a storm of them does not cut its end short."""

from __future__ import annotations

import atexit
import os
import signal
import threading
import time
from types import FrameType

INTERRUPTED = 130
PATIENCE_SECONDS = 3.0  # an end in good order takes less; who asks again after that wants to be out at once


class Interrupts:
    """SIGINT as `KeyboardInterrupt`, once. Those that come after it, or once `end` was called, change nothing for
    `PATIENCE_SECONDS`; after that one more leaves without any end.

    For the main thread of a process that does nothing after it; elsewhere, and where SIGINT is ignored or handled by
    somebody else already, nothing is changed.
    """

    def __init__(self) -> None:
        self._since: float | None = None

    def begin(self) -> None:
        """From here on."""
        if threading.current_thread() is not threading.main_thread():
            return
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._heard)
            # Python gives SIGINT its deadly default back when it is nearly gone, unless it is ignored.
            atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)

    def end(self) -> None:
        """The exit code is known: what is left is the end of the process."""
        self._since = time.monotonic() if self._since is None else self._since

    @staticmethod
    def followed(handler: object) -> None:
        """Tells the one whose handler this is, if it is of our making, that a wish to stop was followed: it is the end."""
        owner = getattr(handler, "__self__", None)
        if isinstance(owner, Interrupts):
            owner.end()

    def _heard(self, _number: int, _frame: FrameType | None) -> None:
        now = time.monotonic()
        if self._since is None:
            self._since = now
            raise KeyboardInterrupt
        if now - self._since >= PATIENCE_SECONDS:
            os._exit(INTERRUPTED)
