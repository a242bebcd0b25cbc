"""Bytes of a reply in, deltas out, and at the end one whole `Reply` or a `StreamError`.

    reader = ReplyReader("openai_chat")
    for chunk in chunks:
        for delta in reader.feed(chunk):
            ...
        if reader.ended:
            break
    reply = reader.close()

End of input is an input, and it has an opinion: bytes that just stop are an error, never a short success (W6).
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Sequence

from sluice.errors import StreamError
from sluice.limits import DEFAULT_LIMITS, KIB, Limits
from sluice.values.calls import ToolSpec
from sluice.values.deltas import Delta
from sluice.values.messages import Reply
from sluice.wire.assembler import Bound
from sluice.wire.dialects import DIALECTS
from sluice.wire.dialects.base import Dialect, Fault, ReplyState
from sluice.wire.inline_calls import InlineCalls, InlineReader
from sluice.wire.ndjson import LineDecoder
from sluice.wire.recognise import HEAD_BYTES, recognise
from sluice.wire.sse import MAX_IDLE_LINES, EventDecoder, EventTooLarge, NoEventsError
from sluice.wire.surrogates import storable

_BODY_BYTES = 64 * KIB
_SNIFF_BYTES = KIB  # bytes of white space after which a body is taken for a stream
_HEAD = 64
_SLICE_BYTES = 64 * KIB  # bytes of a large read that are taken apart at a time
_FOLD_EVENTS = 1024  # events between two looks at how many short pieces are held
_SPACE = b" \t\r\n"
_BOM = b"\xef\xbb\xbf"
_GZIP = b"\x1f\x8b"
_OF_OTHERS = frozenset({"malformed_event", "not_a_stream", "incomplete"})  # how streams of another dialect end
_NO_FIELDS = "the body is no event stream: its lines are no fields of one"
_NO_STREAM = {"sse": (b"{", b"[", b"<", _GZIP[:1]), "ndjson": (b"[", b"<", _GZIP[:1])}


class ReplyReader:
    """Reads one reply of one dialect, in reads of any size, without I/O.

    `dialect` is a name of `sluice.wire.DIALECTS` or a dialect of your own. With `keep=False` text and reasoning are
    handed out but not kept (`Reply.kept` is false). `used_ids` are call ids already used in the conversation: ids that
    have to be made up avoid them. With `intent=True` there are also `CallArgument` and `CallProgress` deltas, for about
    2 µs a fragment. `inline` names a form of `sluice.wire.INLINE_FORMS` in which the model writes calls inside its text;
    `specs` are the tools that it was told of. Raises `KeyError` for an unknown name of a dialect or form.

    `ended` is true once nothing more needs to be read; `terminal` once the dialect's own terminal mark was seen;
    `events` counts events with data, so that a caller can tell keep-alives from progress. `closing` holds the deltas
    that only the end of input made known (a last event without its blank line, half a surrogate pair): it is filled by
    `close`, also when that raises. All deltas of `feed` and then `closing`, joined, are the reply's text.
    """

    def __init__(
        self,
        dialect: str | Dialect,
        *,
        limits: Limits = DEFAULT_LIMITS,
        keep: bool = True,
        used_ids: Container[str] = (),
        intent: bool = False,
        inline: str | None = None,
        specs: Sequence[ToolSpec] = (),
    ) -> None:
        self.dialect: Dialect = DIALECTS[dialect] if isinstance(dialect, str) else dialect
        self._limits = limits
        self._keep = keep
        self._state = ReplyState(limits, keep=keep, used_ids=used_ids, intent=intent, inline=inline is not None)
        self._events = self.dialect.reader(self._state)
        if inline is not None:
            self._events = InlineReader(self._events, InlineCalls(inline, self._state, limits, specs), self._state)
        size = limits.max_whole_event_bytes if self.dialect.whole_events else limits.max_event_bytes
        self._max_event = max(size, limits.max_arguments_bytes + 64 * KIB)
        made = LineDecoder if self.dialect.framing == "ndjson" else EventDecoder
        self._decoder: EventDecoder | LineDecoder = made(self._max_event)
        self._bytes = 0
        self._fold_at = _FOLD_EVENTS
        self._first = b""  # what came first, to tell at a fault whether it is of this dialect at all
        self._beginning = True
        self._head: bytes | None = b""  # the first bytes, until they show whether this is a stream
        self._body: bytearray | None = None  # a body that is no stream
        self._error: StreamError | None = None
        self._reply: Reply | None = None
        self.closing: tuple[Delta, ...] = ()

    @property
    def ended(self) -> bool:
        """True when the reply is over or has failed: feeding more changes nothing."""
        return self._state.ended or self._error is not None or self._reply is not None

    @property
    def terminal(self) -> bool:
        """True once the dialect's terminal mark was seen."""
        return self._state.stop_reason is not None

    @property
    def events(self) -> int:
        """How many events with data were read."""
        return self._state.events

    @property
    def sizes(self) -> dict[int, int]:
        """How many bytes of arguments each call has so far, by its position; of the calls whose name is known."""
        return {call.position: call.size for call in self._state.calls.calls if call.named}

    def feed(self, chunk: bytes) -> list[Delta]:
        """The deltas that became known by these bytes.

        Raises `StreamError` when the stream cannot go on. If deltas became known before the fault they are returned and
        the error is raised by the next call of `feed` or `close`; `ended` is true at once.
        """
        out: list[Delta] = []
        error = self._error
        if error is not None:
            raise error
        if self._state.ended or self._reply is not None or not chunk:
            return out
        over = self._bytes + len(chunk) - self._limits.max_stream_bytes
        if over > 0:
            chunk = chunk[: len(chunk) - over]
        self._bytes += len(chunk)
        if self._beginning:
            self._first += chunk[: HEAD_BYTES - len(self._first)]
            self._beginning = len(self._first) < HEAD_BYTES
        try:
            if self._head is not None:
                chunk = self._sniff(chunk)
            if self._body is not None:
                self._body += chunk
                if len(self._body) > _BODY_BYTES:
                    raise _not_a_stream(bytes(self._body))
            elif len(chunk) <= _SLICE_BYTES:
                events = self._decoder.feed(chunk)
                if events:
                    self._events.read(events, out)
            else:
                self._slices(chunk, out)
            if over > 0 and not self._state.ended:
                limit = self._limits.max_stream_bytes
                raise Bound("max_stream_bytes", limit, self._bytes + over, "bytes")
        except (EventTooLarge, NoEventsError) as stop:
            error = self._stopped(stop, out)
        except (Fault, Bound) as fault:
            error = self._fail(fault)
        if self._state.events >= self._fold_at:
            self._fold_at = self._state.events + _FOLD_EVENTS
            self._state.fold()
        if error is not None and not out:
            raise error
        return out

    def close(self) -> Reply:
        """End of input: the whole reply. Raises `StreamError` if it is not whole. May be called again."""
        if self._error is not None:
            raise self._error
        if self._reply is None:
            out: list[Delta] = []
            try:
                self._end(out)
            except (Fault, Bound) as fault:
                raise self._fail(fault) from None
            finally:
                self.closing = tuple(out)
            self._reply = self._state.reply(self.dialect.name, self._keep, whole=True)
        return self._reply

    def abort(self) -> Reply:
        """Stops reading and returns what had arrived; no open call in it is whole. The reader is in error from then on."""
        if self._error is None:
            self._fail(Fault("aborted", "the reply was stopped before its end"))
        assert self._error is not None
        return self._error.partial

    def _slices(self, chunk: bytes, out: list[Delta]) -> None:
        """A large read, a part at a time, so that its lines and events are not all held at once."""
        for start in range(0, len(chunk), _SLICE_BYTES):
            self._events.read(self._decoder.feed(chunk[start : start + _SLICE_BYTES]), out)
            if self._state.ended:
                return

    def _stopped(self, stop: EventTooLarge | NoEventsError, out: list[Delta]) -> StreamError | None:
        """The events that the read had completed before the fault come first, as under any other split."""
        try:
            self._events.read(stop.events, out)
        except (Fault, Bound) as fault:
            return self._fail(fault)
        if self._state.ended:
            return None
        if isinstance(stop, NoEventsError):
            return self._fail(_idle(stop))
        bound = "max_whole_event_bytes" if self.dialect.whole_events else "max_event_bytes"
        return self._fail(Bound(bound, self._max_event, stop.seen, "bytes"))

    def _sniff(self, chunk: bytes) -> bytes:
        """Tells a stream from other bodies by its first byte that is no white space and no byte order mark."""
        head = (self._head or b"") + chunk
        bare = head[:_SNIFF_BYTES].removeprefix(_BOM).lstrip(_SPACE)
        if (not bare or _BOM.startswith(head)) and len(head) < _SNIFF_BYTES:
            self._head = head
            return b""
        self._head = None
        if bare[:1] in _NO_STREAM[self.dialect.framing]:
            self._body = bytearray()
        return head

    def _end(self, out: list[Delta]) -> None:
        state = self._state
        if self._body is not None:
            raise _not_a_stream(bytes(self._body))
        if self._head:
            self._decoder.feed(self._head)
            self._head = None
        if not state.ended:
            cut = self._decoder.unfinished
            try:
                self._events.read(self._decoder.close(), out)
            except NoEventsError as stop:
                raise _idle(stop) from None
            except Fault as fault:
                # The last event had no blank line: if it cannot be read it was cut, unless it reports an error.
                if fault.kind == "provider_error":
                    raise
                if self.terminal:
                    state.tolerate("torn_last_event")  # the mark was seen: what was cut is only the farewell
                else:
                    raise Fault("incomplete", self._incomplete(cut)) from None
        self._events.finish(out)
        if not self.terminal:
            if not state.events and self._decoder.strange:
                raise Fault("not_a_stream", _NO_FIELDS)
            raise Fault("incomplete", self._incomplete(0))

    def _incomplete(self, cut: int) -> str:
        if not self._bytes:
            return "the reply was empty: not one byte came"
        where = f", in the middle of an event ({cut} bytes of it had come)" if cut else ""
        done = f"; the server said [DONE] without {self.dialect.terminal_mark}" if self._state.ended else ""
        return (
            f"the reply broke off after {self._state.events} events and {self._bytes} bytes{where}, "
            f"before its terminal mark{done}"
        )

    def _fail(self, fault: Fault | Bound) -> StreamError:
        if isinstance(fault, Bound):
            fault = Fault("limit", f"the reply passed a bound: {fault}", bound=fault.bound)
        if fault.kind in _OF_OTHERS and " like " not in str(fault):
            other = recognise(self._first)
            if other is not None and other != self.dialect.name:
                words = f"{fault}; the bytes look like {other}, and were read as {self.dialect.name}"
                fault = Fault(fault.kind, words, bound=fault.bound, code=fault.code)
        partial = self._state.reply(self.dialect.name, self._keep, whole=False)
        code = storable(fault.code) if fault.code is not None else None
        self._error = StreamError(fault.kind, storable(str(fault)), partial, bound=fault.bound, code=code)
        return self._error


def read_reply(chunks: Iterable[bytes], dialect: str | Dialect, limits: Limits = DEFAULT_LIMITS) -> Reply:
    """Reads a whole reply from chunks of bytes. Raises `StreamError` if it is not whole."""
    reader = ReplyReader(dialect, limits=limits)
    for chunk in chunks:
        reader.feed(chunk)
        if reader.ended:
            break
    return reader.close()


def _idle(stop: NoEventsError) -> Fault:
    if not stop.before:
        words = (
            f"the body is no stream of events: {MAX_IDLE_LINES:,} lines in a row are comments, or no fields of an event"
        )
        return Fault("not_a_stream", words)
    return Fault(
        "malformed_event", f"after an event there were {MAX_IDLE_LINES:,} lines in a row that are no part of one"
    )


def _not_a_stream(body: bytes) -> Fault:
    if body.startswith(_GZIP):
        return Fault("not_a_stream", "the body is compressed (gzip) although its headers do not say so")
    text = body[:_BODY_BYTES].decode("utf-8-sig", "replace").strip()
    if text.startswith("<"):
        return Fault("not_a_stream", f"the body is a web page, not a stream: {text[:_HEAD]!r}")
    if text.startswith("[") and '"candidates"' in text:
        words = "the body is Gemini's JSON array, not a stream of events: the address needs ?alt=sse"
        return Fault("not_a_stream", words)
    message = None
    code = None
    try:
        whole = json.loads(text)
        if isinstance(whole, list) and len(whole) == 1:
            whole = whole[0]  # Google puts its errors into an array too
        error = whole.get("error", whole) if isinstance(whole, dict) else whole
        if isinstance(error, dict):
            message = error.get("message") or error.get("detail")
            code = error.get("code") or error.get("type")
        elif isinstance(error, str):
            message = error
    except (ValueError, RecursionError):
        pass
    if isinstance(message, str):
        words = f"the server answered with plain JSON, not a stream: {message[:2000]}"
        return Fault("not_a_stream", words, code=str(code) if code else None)
    return Fault("not_a_stream", f"the body is plain JSON or text, not a stream: {text[:_HEAD]!r}")
