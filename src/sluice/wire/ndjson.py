"""Newline-delimited JSON: bytes in, one event per line out.

A line ends at LF, with or without CR before it, and at nothing else; blank lines are no events. Cost is linear in bytes
under any split. A last line without its end is handed out by `close`: it may be cut in the middle.
"""

from __future__ import annotations

from sluice.wire.sse import Event, EventTooLarge

_BOM = b"\xef\xbb\xbf"


class LineDecoder:
    """Feeds on reads of any size. `max_bytes` bounds one line, without its LF.

    The bound is exact: the same bytes pass or fail under every split. After `EventTooLarge` the decoder must not be fed
    again. Events have no name and no id; a CR before the line's end stays, for it is white space in JSON.
    """

    __slots__ = ("_max", "_start", "_tail", "strange")

    def __init__(self, max_bytes: int) -> None:
        self._max = max_bytes
        self._tail = bytearray()
        self._start: bytes | None = b""  # the first bytes, while they may still be a byte order mark
        self.strange = 0  # as in `EventDecoder`; every line is one that counts here

    def feed(self, chunk: bytes) -> list[Event]:
        """The lines that are complete with this read. Raises `EventTooLarge`."""
        if self._start is not None:
            chunk = self._begin(chunk)
        tail = self._tail
        limit = self._max
        if b"\n" not in chunk:
            tail += chunk
            if len(tail) > limit:
                raise EventTooLarge(len(tail), [])
            return []
        large = len(tail) + len(chunk) > limit
        lines = chunk.split(b"\n")
        if tail:
            tail += lines[0]
            lines[0] = bytes(tail)
        self._tail = bytearray(lines.pop())
        if not large:
            return [(None, line, None) for line in lines if line and not line.isspace()]
        events: list[Event] = []
        for line in lines:
            if len(line) > limit:
                raise EventTooLarge(len(line), events)
            if line and not line.isspace():
                events.append((None, line, None))
        if len(self._tail) > limit:
            raise EventTooLarge(len(self._tail), events)
        return events

    def close(self) -> list[Event]:
        """End of input: the last line, if it had no end."""
        self._start = None  # part of a byte order mark and nothing else: no line at all
        line = bytes(self._tail)
        self._tail = bytearray()
        return [(None, line, None)] if line and not line.isspace() else []

    @property
    def unfinished(self) -> int:
        """Bytes held of a line that is not complete."""
        return len(self._tail)

    def _begin(self, chunk: bytes) -> bytes:
        """Drops one leading byte order mark, which reads may tear apart."""
        chunk = (self._start or b"") + chunk
        if len(chunk) < 3 and _BOM.startswith(chunk):
            self._start = chunk
            return b""
        self._start = None
        return chunk[3:] if chunk.startswith(_BOM) else chunk
