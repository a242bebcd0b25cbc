"""The face on a real terminal: signals, log lines, and what is said when it is over."""

from __future__ import annotations

import asyncio
import gc
import signal
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from io import TextIOBase

import click

from sluice.run.interactive import open_interaction
from sluice.run.prompt_history import open_history
from sluice.run.settings import Settings
from sluice.run.workspace_files import workspace_files
from sluice.ui.tui.app import TerminalFace
from sluice.ui.visible import visible

_SIGNALS = {"SIGTERM": 143, "SIGHUP": 143, "SIGINT": 130}  # exit codes of L12
MAX_LATE_LINES = 20  # log lines shown after the face, of those that nobody was there to show


async def open_and_show(settings: Settings, lines: LogLines) -> int:
    """Opens the interaction, shows its face, closes both; returns the exit code."""
    async with open_interaction(settings, escaped=partial(visible, strict=True)) as interaction:
        face = TerminalFace(
            interaction,
            offer_sessions=settings.session.how == "new",
            history=open_history(settings),
            files=partial(workspace_files, settings),
        )
        lines.face = face
        try:
            code = await show_face(face)
        finally:
            lines.face = None
    situation = face.status.situation  # the last one; the interaction is closed
    if situation.turns:
        words = f"saved as session {situation.session}; go on with it: sluice --resume {situation.session}"
        with suppress(OSError):  # the terminal may be what has gone
            click.echo(words, err=True)
    return code


async def show_face(face: TerminalFace) -> int:
    """Runs the face until its end; raises what ended it, if that was an exception."""
    gc.collect()
    gc.freeze()  # what was imported is never looked through again, so that no key waits for that
    with _signals(face):
        code = await face.run_async()
    if face.fault is not None:
        raise face.fault
    return 0 if code is None else code


@contextmanager
def _signals(face: TerminalFace) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    added = []
    for name, code in _SIGNALS.items():
        number = getattr(signal, name, None)
        # A signal that our starter had ignored (nohup) stays ignored.
        if number is None or signal.getsignal(number) is signal.SIG_IGN:
            continue
        loop.add_signal_handler(number, face.leave, code)
        added.append(number)
    try:
        yield
    finally:
        for number in added:
            loop.remove_signal_handler(number)


class LogLines(TextIOBase):
    """Where log records go while the face has the screen: to the face, and before and after it to `late`."""

    def __init__(self) -> None:
        super().__init__()
        self.face: TerminalFace | None = None
        self.late: deque[str] = deque(maxlen=MAX_LATE_LINES)

    def write(self, text: str) -> int:
        """Takes text of whole lines; from any thread."""
        for line in text.splitlines():
            face = self.face
            if face is None:
                self.late.append(line)
            else:
                face.say_soon(line)
        return len(text)
