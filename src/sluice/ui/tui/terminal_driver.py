"""The terminal as Textual drives it, with our own way from its bytes to keys and pastes."""

from __future__ import annotations

import contextlib
import os
import selectors

from textual.drivers._writer_thread import WriterThread
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message

from sluice.ui.tui.key_stream import KeyStream
from sluice.ui.tui.messages import TerminalCaughtUp, TerminalGone
from sluice.ui.tui.terminal_writer import TerminalWriter

_STDOUT = 1
_READ_BYTES = 64 * 1024
_WAIT_SECONDS = 0.05  # also how often an escape that is no sequence is told; the parser waits for 0.1 s itself


class TerminalDriver(LinuxDriver):
    """Linux, macOS and the like. Reading and writing are ours; the terminal's modes are set and reset by Textual."""

    _writer: TerminalWriter | None = None

    @property
    def _writer_thread(self) -> WriterThread | None:
        return self._writer

    @_writer_thread.setter
    def _writer_thread(self, made: WriterThread | None) -> None:
        """Puts a writer of ours in the place of Textual's, which has not been started."""
        file = self._file
        self._writer = None if made is None or file is None else TerminalWriter(file, self._caught_up)

    def _get_terminal_size(self) -> tuple[int, int]:
        """The terminal's own size: what `COLUMNS` and `LINES` say was right when the shell set them, and never after."""
        for fd in (self.fileno, _STDOUT):
            with contextlib.suppress(OSError):
                columns, lines = os.get_terminal_size(fd)
                if columns and lines:
                    return columns, lines
        return super()._get_terminal_size()

    def stop_application_mode(self) -> None:
        """Gives the terminal back."""
        if self._writer is not None:
            self._writer.whole = True
        super().stop_application_mode()

    def _caught_up(self) -> None:
        self._tell(TerminalCaughtUp())

    def _tell(self, message: Message) -> None:
        """Gives the app a message, from any thread; nothing if it has ended."""
        with contextlib.suppress(RuntimeError):
            self.process_message(message)

    def run_input_thread(self) -> None:
        """Reads until the driver is closed; in a thread of its own."""
        keys = KeyStream(debug=self._debug)
        with selectors.SelectSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            while not self.exit_event.is_set():
                if selector.select(_WAIT_SECONDS):
                    data = b""
                    with contextlib.suppress(OSError):
                        data = os.read(self.fileno, _READ_BYTES)
                    if not data:
                        self._tell(TerminalGone())
                        break
                    for message in keys.feed(data):
                        self.process_message(message)
                for message in keys.tick():
                    self.process_message(message)
            for message in keys.end():
                self.process_message(message)
