"""A folder is seen for the first time: which of its files would be read, and whether they may be."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from textual import events
from textual.timer import Timer

from sluice.run.interaction import UntrustedFile
from sluice.run.question import counted
from sluice.ui.tui.folded_text import Line
from sluice.ui.tui.info_screen import LinesScreen
from sluice.ui.tui.styles import BOLD, DIM

QUIET_SECONDS = 0.3  # on the screen, and without a key, before a key answers
ALONE_SECONDS = 0.2  # without a key after an answer before it counts: the first letter of a prompt is none


class TrustScreen(LinesScreen[bool]):
    """Returns whether the files may be read. Keys that were typed before it was seen do not count, nor one in a word."""

    def __init__(
        self, folder: str, files: Sequence[UntrustedFile], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._shown_at: float | None = None  # or when a key was pressed last
        self._answer: Timer | None = None
        lines = [
            Line(f"{folder} is new here, or what it says has changed.", BOLD),
            Line("These files would be given to the model as text that is not trusted:", prose=True),
            Line(""),
        ]
        for file in files:
            lines.append(Line(f"{file.path}  ({counted(file.bytes, 'byte')})", BOLD, "  "))
            lines.append(Line(file.purpose, DIM, "    "))
        lines += [
            Line(""),
            Line(
                "Whatever they say, they can run nothing, allow nothing and approve nothing: that is only for your own "
                "configuration, your flags and your answers.",
                prose=True,
            ),
            Line("Without them the session works as well.", prose=True),
        ]
        super().__init__(
            "Read this folder's instructions?",
            lines,
            "r reads them · n does not · Ctrl-C twice leaves",
            "r read · n no",
        )

    def on_mount(self) -> None:
        """From the first picture on it counts the time."""
        self.call_after_refresh(self._seen)

    def _seen(self) -> None:
        self._shown_at = self._clock()

    def on_key(self, event: events.Key) -> None:
        """Answers, when the question was seen and nothing else is typed."""
        now, before = self._clock(), self._shown_at
        if self._answer is not None:
            self._answer.stop()
            self._answer = None
        if before is not None:
            self._shown_at = now
        if event.key not in ("r", "n", "escape"):
            return
        event.stop()
        event.prevent_default()
        if before is not None and now - before >= QUIET_SECONDS:
            read = event.key == "r"
            self._answer = self.set_timer(ALONE_SECONDS, lambda: self.end(read))
