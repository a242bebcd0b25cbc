"""Server-sent events: bytes in, events out.

The WHATWG rules (HTML standard, section 9.2.6) with one addition that real servers need: an event that the end of input
leaves without its blank line is still an event. Lines end at LF, CR LF or CR and at nothing else. Cost is linear in
bytes under any split: only the unfinished line is kept between two reads, in one buffer that grows in place.
"""

from __future__ import annotations

Event = tuple[str | None, bytes, str | None]
"""Event name (`None`: a plain message), data, and the last event id seen so far (`None`: never one)."""

MAX_IDLE_LINES = 16_384
"""Lines in a row, between two events, that are no part of one (comments too): hours of keep-alives, or 30 ms of rubbish."""

_BOM = b"\xef\xbb\xbf"
_FIELDS = (b"data", b"event", b"id", b"retry")


class EventTooLarge(Exception):
    """An unfinished event passed the bound; `seen` is its size in bytes so far.

    `events` are those that the same read had completed before it: they are as good as under any other split.
    """

    def __init__(self, seen: int, events: list[Event]) -> None:
        super().__init__(f"{seen} bytes of one event")
        self.seen = seen
        self.events = events


class NoEventsError(Exception):
    """Line after line gave nothing: what is sent is no event stream, or no longer one.

    `events` are those that the same read had completed before; `before` says whether there ever was one.
    """

    def __init__(self, events: list[Event], *, before: bool) -> None:
        super().__init__(f"{MAX_IDLE_LINES} lines without an event")
        self.events = events
        self.before = before


class EventDecoder:
    """Feeds on reads of any size. `max_bytes` bounds one event: its data so far plus the line being read.

    The bounds are exact: the same bytes pass or fail under every split. After `EventTooLarge` or `NoEventsError` the decoder
    must not be fed again. `retry` is the last reconnection time in ms that the server sent, `comments` and `strange` count
    lines.
    """

    __slots__ = (
        "_data",
        "_event",
        "_events",
        "_id",
        "_idle",
        "_idle_since",
        "_max",
        "_size",
        "_skip_lf",
        "_start",
        "_tail",
        "comments",
        "retry",
        "strange",
    )

    def __init__(self, max_bytes: int) -> None:
        self._max = max_bytes
        self._tail = bytearray()
        self._data: bytes | list[bytes] | None = None
        self._size = 0  # bytes of data lines of the unfinished event
        self._event: str | None = None
        self._id: str | None = None
        self._events = 0  # handed out before this read
        self._idle = 0  # lines that gave nothing, since event number `_idle_since`
        self._idle_since = 0
        self._skip_lf = False
        self._start: bytes | None = b""  # the first bytes, while they may still be a byte order mark
        self.retry: int | None = None
        self.comments = 0
        self.strange = 0

    def feed(self, chunk: bytes) -> list[Event]:
        """The events that are complete with this read. Raises `EventTooLarge` and `NoEventsError`."""
        if self._start is not None:
            chunk = self._begin(chunk)
        if self._skip_lf and chunk:
            self._skip_lf = False
            if chunk[0] == 10:
                chunk = chunk[1:]
        if b"\r" in chunk:
            self._skip_lf = chunk[-1] == 13
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        tail = self._tail
        if b"\n" not in chunk:
            tail += chunk
            if len(tail) + self._size > self._max:
                raise EventTooLarge(len(tail) + self._size, [])
            return []
        large = len(tail) + self._size + len(chunk) > self._max
        lines = chunk.split(b"\n")
        if tail:
            tail += lines[0]
            lines[0] = bytes(tail)
        self._tail = bytearray(lines.pop())
        events = self._lines(lines, large)
        if large and len(self._tail) + self._size > self._max:
            raise EventTooLarge(len(self._tail) + self._size, events)
        return events

    def close(self) -> list[Event]:
        """End of input: the event that had no blank line, if there is one. The last line may be cut in the middle.

        Raises `NoEventsError`.
        """
        self._start = None  # part of a byte order mark and nothing else: no line at all
        events = []
        if self._tail:
            line = bytes(self._tail)
            strange = self.strange
            events = self._lines([line], False)
            if any(field.startswith(line) for field in _FIELDS):
                self.strange = strange  # a field that was cut in its name
            self._tail = bytearray()
        return events + self._lines([b""], False)

    @property
    def unfinished(self) -> int:
        """Bytes held of an event that is not complete."""
        return len(self._tail) + self._size

    def _begin(self, chunk: bytes) -> bytes:
        """Drops one leading byte order mark, which reads may tear apart."""
        chunk = (self._start or b"") + chunk
        if len(chunk) < 3 and _BOM.startswith(chunk):
            self._start = chunk
            return b""
        self._start = None
        return chunk[3:] if chunk.startswith(_BOM) else chunk

    def _lines(self, lines: list[bytes], large: bool) -> list[Event]:
        events: list[Event] = []
        data = self._data
        event = self._event
        size = self._size
        for line in lines:
            if large and len(line) + size > self._max:
                raise EventTooLarge(len(line) + size, events)
            if line.startswith(b"data: "):
                value = line[6:]
            elif not line:
                if data is not None:
                    events.append((event, data if isinstance(data, bytes) else b"\n".join(data), self._id))
                    data = None
                    size = 0
                event = None
                continue
            elif line.startswith(b"event: "):
                event = line[7:].decode("utf-8", "replace") or None
                continue
            else:
                field = self._field(line)
                if field is None:
                    self._idled(events)
                    continue
                name, value = field
                if name == b"event":
                    event = value.decode("utf-8", "replace") or None
                    continue
            if data is None:
                data = value
            elif isinstance(data, list):
                data.append(value)
            else:
                data = [data, value]
            size += len(value) + 1
        self._size = size
        self._data = data
        self._event = event
        self._events += len(events)
        return events

    def _idled(self, events: list[Event]) -> None:
        """A line gave nothing."""
        count = self._events + len(events)
        if count != self._idle_since:
            self._idle_since = count
            self._idle = 0
        self._idle += 1
        if self._idle > MAX_IDLE_LINES:
            raise NoEventsError(events, before=count > 0)

    def _field(self, line: bytes) -> tuple[bytes, bytes] | None:
        """The less common lines; gives back only `data` and `event` fields."""
        if line[0] == 58:
            self.comments += 1
            return None
        name, _, value = line.partition(b":")
        if value[:1] == b" ":
            value = value[1:]
        if name in (b"data", b"event"):
            return name, value
        if name == b"id":
            if b"\0" not in value:
                self._id = value.decode("utf-8", "replace")
        elif name == b"retry":
            if value.isdigit() and len(value) < 16:
                self.retry = int(value)
        else:
            self.strange += 1
        return None
