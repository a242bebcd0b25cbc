"""The one rule for output that is too long (P11): head and tail stay, the middle goes to a private file.

Errors stand at the end, so at least two thirds of what is shown is tail. A first line says what is shown, of how much, and
the handle under which `read_file_safe` reads the whole in parts.
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import BinaryIO

from sluice.limits import DEFAULT_LIMITS
from sluice.tools.spill import Spill


@dataclass(frozen=True)
class Bounded:
    """Text that keeps its bound. `total_bytes` and `total_lines` count all there was; `handle` names the spill file."""

    text: str
    truncated: bool
    handle: str | None
    total_bytes: int
    total_lines: int


class HeadTail:
    """Collects an endless stream of bytes in memory of about four times `max_bytes`.

    What is fed is decoded as UTF-8; bytes that are none become U+FFFD, and bounds count the text as shown. As soon as
    a bound is passed, all that came goes to a new file of `spill`, up to `max_spill_bytes` bytes. A disk that fails
    stops the spilling, never the collecting; the first line then says so. Call `finish()` or `close()` in every case.
    """

    def __init__(
        self,
        *,
        max_bytes: int,
        max_lines: int | None = None,
        spill: Spill | None = None,
        max_spill_bytes: int = DEFAULT_LIMITS.max_spill_bytes,
    ) -> None:
        self._max_bytes = max(max_bytes, 0)
        self._max_lines = max_lines
        self._spill = spill
        self._max_spill_bytes = max_spill_bytes
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._head = bytearray()  # the first max_bytes of clean text: all of it while nothing is over a bound
        self._tail = bytearray()  # at least the last max_bytes of clean text
        self._unspilled = bytearray()  # raw bytes until it is known whether a file is needed
        self._clean_bytes = 0
        self._newlines = 0
        self._ends_open = False
        self._file: BinaryIO | None = None
        self._spilled = 0
        self._problem: str | None = None
        self._over = False
        self.handle: str | None = None
        self.total_bytes = 0

    @property
    def total_lines(self) -> int:
        """Lines so far; a last one without a newline counts."""
        return self._newlines + self._ends_open

    def feed(self, data: bytes) -> None:
        """Takes the next bytes. Never raises for a full disk."""
        if not data:
            return
        self.total_bytes += len(data)
        self._newlines += data.count(b"\n")
        self._ends_open = not data.endswith(b"\n")
        self._take(self._decoder.decode(data))
        self._keep_raw(data)

    def finish(self) -> Bounded:
        """What is shown in the end; closes the spill file. Nothing can be fed after it."""
        self._take(self._decoder.decode(b"", final=True))
        self._keep_raw(b"")
        self.close()
        text = self._cut_text() if self._over else self._head.decode("utf-8")
        return Bounded(text, self._over, self.handle, self.total_bytes, self.total_lines)

    def close(self) -> None:
        """Lets go of the file descriptor; the spill file itself stays until the session ends."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _take(self, text: str) -> None:
        clean = text.encode("utf-8")
        self._clean_bytes += len(clean)
        room = self._max_bytes - len(self._head)
        if room > 0:
            self._head += clean[:room]
        self._tail += clean[-self._max_bytes :] if self._max_bytes else b""
        if len(self._tail) > 2 * self._max_bytes:
            del self._tail[: -self._max_bytes or None]
        if self._clean_bytes > self._max_bytes or (self._max_lines is not None and self.total_lines > self._max_lines):
            self._over = True

    def _keep_raw(self, data: bytes) -> None:
        if self._spill is None or self._problem is not None:
            return
        if not self._over:
            self._unspilled += data
            return
        try:
            if self.handle is None:
                self.handle, self._file = self._spill.new()
                self._write(bytes(self._unspilled))
                self._unspilled.clear()
            self._write(data)
        except (OSError, ValueError) as error:
            self._problem = getattr(error, "strerror", None) or str(error)
            self.close()
            if self.handle is not None:
                self._spill.discard(self.handle)
                self.handle = None
            self._unspilled.clear()

    def _write(self, data: bytes) -> None:
        view = memoryview(data)[: self._max_spill_bytes - self._spilled]
        self._spilled += len(view)
        while view and self._file is not None:
            view = view[self._file.write(view) :]

    def _cut_text(self) -> str:
        worst = max(self.total_lines, self._clean_bytes, self.total_bytes)
        overhead = len(self._header(worst, worst, worst).encode()) + len(self._gap(worst).encode()) + 2
        budget = self._max_bytes - overhead
        if budget <= 0:
            return self._header(0, 0, 0).encode()[: self._max_bytes].decode("utf-8", "ignore")
        head_lines = tail_lines = None
        if self._max_lines is not None:
            content_lines = max(self._max_lines - 2, 0)  # the first line and the gap are lines too
            head_lines = content_lines // 3
            tail_lines = content_lines - head_lines
        tail = _last(bytes(self._tail), budget - budget // 3, tail_lines)
        head = _first(bytes(self._head), min(budget // 3, len(tail) // 2), head_lines)
        shown = len(head) + len(tail)
        if head and not head.endswith(b"\n"):
            head += b"\n"
        header = self._header(_lines(head), _lines(tail), shown)
        return header + head.decode("utf-8") + self._gap(self._clean_bytes - shown) + tail.decode("utf-8")

    def _header(self, head_lines: int, tail_lines: int, shown: int) -> str:
        if self.handle is None:
            rest = "the rest is not kept" + (f": {self._problem}" if self._problem else "")
        elif self._spilled < self.total_bytes:
            rest = f'the first {self._spilled} bytes: read_file_safe with path "{self.handle}"'
        else:
            rest = f'all of it: read_file_safe with path "{self.handle}"'
        return (
            f"[too long: first {head_lines} and last {tail_lines} of {self.total_lines} lines, "
            f"{shown} of {self.total_bytes} bytes are shown; {rest}]\n"
        )

    @staticmethod
    def _gap(missing: int) -> str:
        return f"[… {missing} bytes are not shown here …]\n"


def bounded(
    data: bytes | str,
    *,
    max_bytes: int,
    max_lines: int | None = None,
    spill: Spill | None = None,
    max_spill_bytes: int = DEFAULT_LIMITS.max_spill_bytes,
) -> Bounded:
    """`data` by the rule of P11: unchanged if it keeps both bounds, else head and tail within them.

    The text never exceeds `max_bytes` bytes of UTF-8 nor `max_lines` lines, the first line and the gap included. Cuts fall
    between lines, or between characters where a line is longer than its share.
    """
    collector = HeadTail(max_bytes=max_bytes, max_lines=max_lines, spill=spill, max_spill_bytes=max_spill_bytes)
    try:
        collector.feed(data.encode("utf-8", "replace") if isinstance(data, str) else data)
        return collector.finish()
    finally:
        collector.close()


def clipped(text: str, max_bytes: int, mark: str = "…") -> str:
    """`text` if it has at most `max_bytes` bytes of UTF-8, else its beginning and `mark`, within the same bound."""
    raw = text.encode("utf-8", "replace")
    if len(raw) <= max_bytes:
        return raw.decode("utf-8")
    room = max_bytes - len(mark.encode())
    if room < 0:
        return ""
    return raw[:room].decode("utf-8", "ignore") + mark


def _lines(data: bytes) -> int:
    return data.count(b"\n") + (1 if data and not data.endswith(b"\n") else 0)


def _first(data: bytes, budget: int, max_lines: int | None) -> bytes:
    piece = data[:budget]
    if max_lines is not None:
        end = 0
        for _ in range(max_lines):
            newline = piece.find(b"\n", end)
            if newline < 0:
                end = len(piece)
                break
            end = newline + 1
        piece = piece[:end]
    whole_lines = piece.rfind(b"\n") + 1
    if whole_lines > len(piece) // 2:
        return piece[:whole_lines]
    return piece.decode("utf-8", "ignore").encode()  # drops only a character that was cut at the end


def _last(data: bytes, budget: int, max_lines: int | None) -> bytes:
    start = max(len(data) - budget, 0)
    if max_lines is not None:
        newline = len(data) - data.endswith(b"\n")
        for _ in range(max_lines):
            newline = data.rfind(b"\n", start, newline)
            if newline < 0:
                break
        else:
            start = newline + 1 if max_lines else len(data)
    if start == 0 or data[start - 1 : start] == b"\n":
        return data[start:]
    next_line = data.find(b"\n", start) + 1
    if 0 < next_line - start <= (len(data) - start) // 2:
        return data[next_line:]
    return data[start:].decode("utf-8", "ignore").encode()  # drops only a character that was cut at the start
