"""The terminal as Textual drives it, with our own way from its bytes to keys and pastes."""

from __future__ import annotations

import os
import selectors

from textual.drivers.linux_driver import LinuxDriver

from sluice.ui.tui.key_stream import KeyStream

_READ_BYTES = 64 * 1024
_WAIT_SECONDS = 0.05  # also how often an escape that is no sequence is told; the parser waits for 0.1 s itself


class TerminalDriver(LinuxDriver):
    """Linux, macOS and the like. Only the reading is ours; the terminal's modes are set and reset by Textual."""

    def run_input_thread(self) -> None:
        """Reads until the driver is closed; in a thread of its own."""
        keys = KeyStream(debug=self._debug)
        with selectors.SelectSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            while not self.exit_event.is_set():
                if selector.select(_WAIT_SECONDS):
                    data = os.read(self.fileno, _READ_BYTES)
                    if not data:
                        break  # the terminal is gone
                    for message in keys.feed(data):
                        self.process_message(message)
                for message in keys.tick():
                    self.process_message(message)
            for message in keys.end():
                self.process_message(message)
