"""What goes to the terminal, in a thread of its own. A terminal that takes nothing holds up no run, and no end of one.

Textual's own thread makes its writer wait when the terminal is slow, and for ever when the terminal has gone.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable
from queue import SimpleQueue
from typing import TextIO

from textual.drivers._writer_thread import WriterThread

MOST_WAITING = 256  # writes; a picture of the screen takes a few
STOP_SECONDS = 2.0  # for the last writes; a terminal that takes nothing is left as it is
END_SYNC = "\x1b[?2026l"


class TerminalWriter(WriterThread):
    """Writes to `file`'s descriptor. What comes while too much waits is left out until all of that is written.

    `caught_up` is called then, from this thread: the screen must be drawn anew. With `whole` nothing is left out, for what
    gives the terminal back.
    """

    def __init__(self, file: TextIO, caught_up: Callable[[], None]) -> None:
        super().__init__(file)
        self._encoding = file.encoding or "utf-8"
        self.whole = False
        self._waiting: SimpleQueue[str | None] = SimpleQueue()
        self._caught_up = caught_up
        self._missed = False
        self._gone = False

    def write(self, text: str) -> None:
        """Writes soon. Never waits and never raises."""
        if self._gone:
            return
        if not self.whole and (self._missed or self._waiting.qsize() >= MOST_WAITING):
            if not self._missed:
                self._missed = True
                self._waiting.put("")  # the thread may have written everything meanwhile, and must look once more
            return
        self._waiting.put(text)

    def run(self) -> None:
        """Until `stop`."""
        while (text := self._waiting.get()) is not None:
            try:
                if not self._gone:
                    self._write(text)
                if self._missed and self._waiting.empty():
                    self._write(END_SYNC)  # its end may have been left out
                    self._missed = False
                    self._caught_up()
            except OSError:
                self._gone = True  # nobody sees it any more

    def _write(self, text: str) -> None:
        fd, left = self.fileno(), text.encode(self._encoding, "backslashreplace")
        while left:
            try:
                left = left[os.write(fd, left) :]
            except BlockingIOError:
                select.select([], [fd], [])

    def stop(self) -> None:
        """Ends the thread when all is written, or is not taken for two seconds."""
        self._waiting.put(None)
        self.join(STOP_SECONDS)
