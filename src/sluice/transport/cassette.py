"""Record an exchange with its read boundaries and times, and replay it through the same code (T3).

A cassette is a file of JSON lines, one `Entry` each, in the order in which things happened. Entries of one exchange share
`exchange`, a number from 1. Bytes are base64. `at` is in seconds since the request was sent.

    request   dialect, path, auth, headers, data = the body
    response  status, headers
    read      data = what one read returned
    end       the body ended properly
    error     fault and message of the `TransportError` that ended it (or came in place of a response)
    closed    the reader went away before the end

No secret is ever written: a request holds none, headers that could are left out, and the secrets that the recorder was
told of are overwritten with `*` wherever a server echoes them, also across read boundaries.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Literal, get_args

import msgspec

from sluice.errors import ConfigurationError, TransportError, TransportFault
from sluice.transport.faults import one_line
from sluice.transport.status import Redacting
from sluice.values.ports import Exchange, Transport
from sluice.values.requests import Request

_SECRET_HEADERS = re.compile(r"auth|cookie|api-?key|token|secret|session|password", re.IGNORECASE)

Kind = Literal["request", "response", "read", "end", "error", "closed"]


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of a cassette."""

    kind: Kind
    exchange: int
    at: float = 0.0
    data: bytes = b""
    status: int = 0
    headers: tuple[tuple[str, str], ...] = ()
    dialect: str = ""
    path: str = ""
    auth: str = ""
    fault: str = ""
    message: str = ""


class RecordedExchange(msgspec.Struct, kw_only=True):
    """One exchange of a cassette: the request, then what came of it."""

    request: Entry
    response: Entry | None = None
    reads: list[Entry] = msgspec.field(default_factory=list)
    last: Entry | None = None


def load_cassette(path: Path | str) -> list[RecordedExchange]:
    """The exchanges of a cassette, in the order of their requests; all of it is kept in memory.

    A file that ends inside a line (a recorder was killed) gives what stands before that line. Raises
    `ConfigurationError` for a file that cannot be read, is empty, or is no cassette.
    """
    try:
        raw = Path(path).read_bytes()
    except OSError as error:
        raise ConfigurationError(f"cassette {path} cannot be read: {error.strerror}") from None
    lines = raw.split(b"\n")
    whole, rest = lines[:-1], lines[-1]
    exchanges: dict[int, RecordedExchange] = {}
    for number, line in enumerate(whole, 1):
        try:
            entry = msgspec.json.decode(line, type=Entry)
        except (msgspec.DecodeError, ValueError) as error:
            raise ConfigurationError(f"{path} is no cassette: line {number}: {one_line(str(error), 120)}") from None
        _place(exchanges, entry, f"{path} is no cassette: line {number}")
    if not exchanges:
        reason = "it holds no whole line" if rest else "it is empty"
        raise ConfigurationError(f"{path} is no cassette: {reason}")
    return list(exchanges.values())


def _place(exchanges: dict[int, RecordedExchange], entry: Entry, where: str) -> None:
    if entry.kind == "request":
        if entry.exchange in exchanges:
            raise ConfigurationError(f"{where}: a second request of exchange {entry.exchange}")
        exchanges[entry.exchange] = RecordedExchange(request=entry)
        return
    found = exchanges.get(entry.exchange)
    if found is None:
        raise ConfigurationError(f"{where}: {entry.kind} of exchange {entry.exchange} before its request")
    if entry.kind == "response":
        found.response = entry
    elif entry.kind == "read":
        found.reads.append(entry)
    else:
        found.last = entry


class RecordingTransport:
    """A transport that writes all exchanges of `inner` to the cassette at `path` (mode 0600), appending to an older one.

    `secrets` are texts that must not enter it. Each entry is one write. Raises `ConfigurationError` when the file cannot
    be made or written: a recording that was asked for is not dropped silently. `close` closes `inner` too.
    """

    def __init__(
        self,
        inner: Transport,
        path: Path | str,
        *,
        secrets: Iterable[str] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._inner = inner
        self._path = Path(path)
        self._secrets = tuple(s.encode() for s in secrets if s)
        self._clock = clock
        old = self._path.exists() and self._path.stat().st_size > 0
        self._count = max((e.request.exchange for e in load_cassette(path)), default=0) if old else 0
        try:
            self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            os.fchmod(self._fd, 0o600)
            if old and not self._path.read_bytes().endswith(b"\n"):
                os.ftruncate(self._fd, self._path.read_bytes().rfind(b"\n") + 1)  # the torn line of a killed recorder
        except OSError as error:
            raise ConfigurationError(f"cassette {path} cannot be written: {error.strerror}") from None

    async def send(self, request: Request) -> RecordingExchange:
        """See `values.ports.Transport.send`."""
        self._count += 1
        tape = _Tape(self._write, self._count, self._secrets, self._clock)
        tape.note(
            "request",
            dialect=request.dialect,
            path=request.path,
            auth=request.auth,
            headers=_harmless(request.headers),
            data=tape.masked(request.body),
        )
        try:
            exchange = await self._inner.send(request)
        except TransportError as error:
            tape.failed(error)
            raise
        except BaseException:
            tape.note("closed")
            raise
        tape.note("response", status=exchange.status, headers=_harmless(exchange.headers.items()))
        return RecordingExchange(exchange, tape)

    async def close(self) -> None:
        """See `values.ports.Transport.close`."""
        try:
            await self._inner.close()
        finally:
            if self._fd >= 0:
                os.close(self._fd)
                self._fd = -1

    def _write(self, entry: Entry) -> None:
        line = msgspec.json.encode(entry) + b"\n"
        if self._fd < 0:
            return  # the transport was closed under an open exchange
        try:
            done = 0
            while done < len(line):
                done += os.write(self._fd, line[done:])
        except OSError as error:
            raise ConfigurationError(f"cassette {self._path} cannot be written: {error.strerror}") from None


class _Tape:
    """Writes the entries of one exchange; holds reads back while a secret could still begin in them."""

    def __init__(
        self, write: Callable[[Entry], None], exchange: int, secrets: tuple[bytes, ...], clock: Callable[[], float]
    ) -> None:
        self._write = write
        self._exchange = exchange
        self._secrets = secrets
        self._clock = clock
        self._begun_at = clock()
        self._longest = max((len(s) for s in secrets), default=0)
        self._held: list[tuple[float, bytes]] = []
        self.over = False

    def note(self, kind: Kind, **fields: object) -> None:
        """Writes one entry of this exchange."""
        at = round(self._clock() - self._begun_at, 6)
        entry = Entry(kind=kind, exchange=self._exchange, at=at)
        self._write(msgspec.structs.replace(entry, **fields))

    def read(self, data: bytes) -> None:
        """Keeps one read, in its own boundaries."""
        self._held.append((round(self._clock() - self._begun_at, 6), data))
        self._release(self._longest - 1)

    def finish(self, kind: Kind, **fields: object) -> None:
        """Writes what is held and the last entry; the first finish counts."""
        if not self.over:
            self.over = True
            self._release(0)
            self.note(kind, **fields)

    def failed(self, error: TransportError) -> None:
        """The exchange ended with `error`."""
        message = self.masked(str(error).encode()).decode("utf-8", "replace")
        self.finish("error", fault=error.kind, message=message, status=error.status or 0)

    def masked(self, data: bytes) -> bytes:
        """`data` with every secret overwritten, its length kept."""
        for secret in self._secrets:
            data = data.replace(secret, b"*" * len(secret))
        return data

    def _release(self, keep: int) -> None:
        """Writes the held reads but for those that reach into the last `keep` bytes."""
        if self._secrets:
            rest = memoryview(self.masked(b"".join(data for _, data in self._held)))
            for place, (at, data) in enumerate(self._held):
                self._held[place] = (at, bytes(rest[: len(data)]))
                rest = rest[len(data) :]
        behind = sum(len(data) for _, data in self._held)
        while self._held and behind - len(self._held[0][1]) >= keep:
            at, data = self._held.pop(0)
            behind -= len(data)
            self._write(Entry(kind="read", exchange=self._exchange, at=at, data=data))


class RecordingExchange:
    """An exchange that is recorded while it is read."""

    def __init__(self, inner: Exchange, tape: _Tape) -> None:
        self._inner = inner
        self._tape = tape
        self.status = inner.status
        self.headers = inner.headers

    def redact(self, text: str) -> str:
        """`text` without the secrets that the inner exchange knows of."""
        return self._inner.redact(text) if isinstance(self._inner, Redacting) else text

    async def read(self) -> bytes:
        """See `values.ports.Exchange.read`."""
        try:
            data = await self._inner.read()
        except TransportError as error:
            self._tape.failed(error)
            raise
        if data:
            self._tape.read(data)
        else:
            self._tape.finish("end")
        return data

    async def close(self) -> None:
        """See `values.ports.Exchange.close`."""
        await self._inner.close()
        self._tape.finish("closed")


class CassetteTransport:
    """Answers request k with exchange k of a cassette, without any network.

    `speed` is `full`, or `recorded` to wait as the recording did. Requests are not compared: a replay may run on another
    day, with another date in its prompt. Raises `ConfigurationError` as `load_cassette` does.
    """

    def __init__(
        self,
        path: Path | str,
        *,
        speed: Literal["full", "recorded"] = "full",
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._path = path
        self._exchanges = load_cassette(path)
        self._next = 0
        self._sleep = sleep if speed == "recorded" else None

    async def send(self, request: Request) -> ReplayedExchange:
        """See `values.ports.Transport.send`; raises `TransportError` (`no_recording`) after the last exchange."""
        if self._next >= len(self._exchanges):
            count = len(self._exchanges)
            raise TransportError("no_recording", f"cassette {self._path} holds {count} exchange(s) and no answer more")
        recorded = self._exchanges[self._next]
        self._next += 1
        if recorded.response is None:
            raise _recorded_error(recorded.last)
        if self._sleep is not None:
            await self._sleep(recorded.response.at)
        return ReplayedExchange(recorded, recorded.response, self._sleep)

    async def close(self) -> None:
        """See `values.ports.Transport.close`."""
        self._exchanges = []


class ReplayedExchange:
    """One exchange of a cassette, read by read."""

    def __init__(
        self, recorded: RecordedExchange, response: Entry, sleep: Callable[[float], Awaitable[None]] | None
    ) -> None:
        self.status = response.status
        self.headers: Mapping[str, str] = dict(response.headers)
        self._reads = iter(recorded.reads)
        self._last = recorded.last
        self._sleep = sleep
        self._at = response.at
        self._closed = False

    async def read(self) -> bytes:
        """See `values.ports.Exchange.read`."""
        if self._closed:
            raise TransportError("broken", "the exchange was closed")
        entry = next(self._reads, None)
        last = entry or self._last
        if self._sleep is not None and last is not None:
            await self._sleep(max(0.0, last.at - self._at))
            self._at = last.at
        if entry is not None:
            return entry.data
        if self._last is not None and self._last.kind == "end":
            return b""
        raise _recorded_error(self._last)

    async def close(self) -> None:
        """See `values.ports.Exchange.close`."""
        self._closed = True


def _recorded_error(last: Entry | None) -> TransportError:
    if last is None or last.kind != "error":
        return TransportError("broken", "the recording ends in the middle of this exchange")
    kinds: dict[str, TransportFault] = {kind: kind for kind in get_args(TransportFault)}
    return TransportError(kinds.get(last.fault, "broken"), last.message, status=last.status or None)


def _harmless(headers: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """The headers that cannot hold a secret."""
    return tuple((name, value) for name, value in headers if not _SECRET_HEADERS.search(name))
