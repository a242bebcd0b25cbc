"""HTTP by libcurl's multi-socket interface on the running asyncio loop. No threads of ours, no sockets of ours.

One `CurlLoop` holds one multi handle for one event loop. Callbacks of curl only queue bytes and wake a reader. A body
that nobody reads is paused, and that is the back-pressure. Time limits are kept here, by one lazy timer a stream that
looks at the time of the last byte (libcurl's low-speed limit fires seconds late or not at all).

**Names that do not resolve.** libcurl resolves names in threads of its own (the wheels are built without c-ares), and
`curl_multi_cleanup` joins them: with a name server that never answers it was measured to block for 9.8 s, also at
interpreter exit. So a multi handle that resolved a name within the last `RESOLVE_SECONDS` is not closed but *parked*: one
reference to it is given away, so that not even the interpreter's end closes it, and it is closed when a later one is made
or closed and it is old enough. At most `MAX_PARKED` are kept.
"""

from __future__ import annotations

import asyncio
import collections
import ctypes
import math
import os
import time
from collections.abc import Mapping

import pycurl

from sluice.errors import InternalError, TransportError
from sluice.limits import DEFAULT_LIMITS, Limits
from sluice.transport.endpoint import Endpoint, ca_bundle, checked_proxy
from sluice.transport.faults import fault_of
from sluice.transport.patience import Patience
from sluice.values.requests import Request

QUEUED_BYTES = 256 * 1024  # bytes waiting for a reader before curl is told to pause; a few hundred typical events
MAX_CONNECTIONS = 8  # idle connections kept for reuse
RESOLVE_SECONDS = 60.0  # seconds after which a resolver thread has surely ended; glibc's default is 10 to 30
MAX_PARKED = 16  # multi handles left open for their resolver threads; each holds about 4 descriptors

# Not state of the product but of libcurl's threads, which outlive every object of ours.
_parked: collections.deque[tuple[float, pycurl.CurlMulti]] = collections.deque()


class CurlLoop:
    """One multi handle driven by one event loop. Make it inside the loop; `close` it there."""

    def __init__(self) -> None:
        _close_parked()
        self.loop = asyncio.get_running_loop()
        self._multi = pycurl.CurlMulti()
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._watch)
        self._multi.setopt(pycurl.M_TIMERFUNCTION, self._set_timer)
        self._multi.setopt(pycurl.M_MAXCONNECTS, MAX_CONNECTIONS)
        self._timer: asyncio.Handle | None = None
        self._watched: dict[int, int] = {}
        self._open: dict[pycurl.Curl, HttpExchange] = {}
        self._resolved_at = -math.inf
        self.closed = False

    def add(self, curl: pycurl.Curl, exchange: HttpExchange) -> None:
        """Starts a transfer; its end is told to `exchange`."""
        self._open[curl] = exchange
        self._multi.add_handle(curl)

    def drop(self, curl: pycurl.Curl) -> None:
        """Ends a transfer, whole or not; an unfinished one has its connection closed. Never blocks."""
        if self._open.pop(curl, None) is not None:
            self._multi.remove_handle(curl)
        curl.close()

    def resolving(self) -> None:
        """A name is being resolved, so that threads of libcurl may be at work for a while."""
        self._resolved_at = time.monotonic()

    def exchanges(self) -> list[HttpExchange]:
        """The exchanges that are still open."""
        return list(self._open.values())

    def close(self) -> None:
        """Ends everything and releases all descriptors; also when the loop is closed already. Never blocks."""
        if self.closed:
            return
        self.closed = True
        for exchange in self.exchanges():
            exchange.end(TransportError("broken", "the transport was closed"))
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self.loop.is_closed():
            for fd in self._watched:
                self.loop.remove_reader(fd)
                self.loop.remove_writer(fd)
        self._watched.clear()
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, _ignore_socket)
        self._multi.setopt(pycurl.M_TIMERFUNCTION, _ignore_timer)
        if time.monotonic() - self._resolved_at < RESOLVE_SECONDS:
            _park(self._multi, self._resolved_at)
        else:
            self._multi.close()

    def _watch(self, what: int, fd: int, _multi: object, _data: object) -> None:
        """Callback of curl: which readiness of `fd` it wants to hear of."""
        if self.closed:
            return
        wanted = 0 if what == pycurl.POLL_REMOVE else what
        had = self._watched.pop(fd, 0)
        if wanted:
            self._watched[fd] = wanted
        if wanted & pycurl.POLL_IN:
            if not had & pycurl.POLL_IN:
                self.loop.add_reader(fd, self._act, fd, pycurl.CSELECT_IN)
        elif had & pycurl.POLL_IN:
            self.loop.remove_reader(fd)
        if wanted & pycurl.POLL_OUT:
            if not had & pycurl.POLL_OUT:
                self.loop.add_writer(fd, self._act, fd, pycurl.CSELECT_OUT)
        elif had & pycurl.POLL_OUT:
            self.loop.remove_writer(fd)

    def _set_timer(self, milliseconds: int) -> None:
        """Callback of curl: when it wants to be called without any socket."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if milliseconds >= 0 and not self.closed:
            self._timer = self.loop.call_later(milliseconds / 1000, self._act, pycurl.SOCKET_TIMEOUT, 0)

    def _act(self, fd: int, events: int) -> None:
        if self.closed:
            return
        try:
            self._multi.socket_action(fd, events)
        except pycurl.error as error:  # libcurl's own bookkeeping failed: nothing that is open can be trusted
            for exchange in self.exchanges():
                exchange.end(exchange.fault(0, f"multi interface: {error.args[-1]}"))
            return
        left = 1
        while left:
            left, whole, failed = self._multi.info_read()
            for curl in whole:
                self._open[curl].end(None)
            for curl, code, detail in failed:
                exchange = self._open[curl]
                exchange.end(exchange.fault(code, detail))


class HttpExchange:
    """One exchange (values.ports.Exchange). Made by `HttpTransport.send`.

    Besides the protocol: `redact(text)` gives a text without the transport's secrets.
    """

    def __init__(self, driver: CurlLoop, endpoint: Endpoint, limits: Limits) -> None:
        self.status = 0
        self.headers: Mapping[str, str] = {}
        self._driver = driver
        self._endpoint = endpoint
        self._limits = limits
        self._curl: pycurl.Curl | None = None
        self._pending_headers: dict[str, str] = {}
        self._queue: list[bytes] = []
        self._queued = 0
        self._seen = 0
        self._failure: TransportError | None = None
        self._ended = False
        self._waiter: asyncio.Future[None] | None = None
        self._patience = Patience(limits, endpoint.where, driver.loop.time(), loopback=endpoint.loopback)
        self._timer: asyncio.TimerHandle | None = None
        self._armed_for = math.inf

    def __repr__(self) -> str:
        return f"HttpExchange({self._endpoint.where!r}, status={self.status})"

    def redact(self, text: str) -> str:
        """`text` without any secret of the transport."""
        return self._endpoint.redact(text)

    async def start(self, curl: pycurl.Curl) -> None:
        """Sends the request; returns when status and headers are there. Raises `TransportError`."""
        self._curl = curl
        curl.setopt(pycurl.HEADERFUNCTION, self._on_header)
        curl.setopt(pycurl.WRITEFUNCTION, self._on_body)
        curl.setopt(pycurl.PREREQFUNCTION, self._on_connected)
        if not self._endpoint.loopback:
            curl.setopt(pycurl.RESOLVER_START_FUNCTION, self._on_resolve)
        self._driver.add(curl, self)
        self._arm()
        while not self.status:
            if self._ended:
                raise self._failure or TransportError("broken", f"{self._endpoint.where} sent no answer")
            await self._wait()

    async def read(self) -> bytes:
        """See `values.ports.Exchange.read`. Bytes that came before a failure are given first."""
        while not self._queue:
            if self._ended:
                if self._failure is not None:
                    raise self._failure
                return b""
            await self._wait()
        data = self._queue[0] if len(self._queue) == 1 else b"".join(self._queue)
        self._queue.clear()
        self._queued = 0
        if self._patience.paused:
            self._resume()
        return data

    async def close(self) -> None:
        """See `values.ports.Exchange.close`. Does not wait and cannot be interrupted."""
        self._queue.clear()
        self.end(TransportError("broken", "the exchange was closed"))

    def end(self, failure: TransportError | None) -> None:
        """The transfer is over; the first end counts. Not to be called inside a callback of curl."""
        if self._ended:
            return
        self._ended = True
        self._failure = self._failure or failure
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._curl is not None:
            self._driver.drop(self._curl)
            self._curl = None
        self._wake()

    def fault(self, code: int, detail: str) -> TransportError:
        """The error for a libcurl code that ended this transfer."""
        os_errno = int(self._curl.getinfo(pycurl.OS_ERRNO)) if self._curl is not None else 0
        said = self._endpoint.redact(detail)
        return fault_of(
            code, said, self._endpoint.where, os_errno=os_errno, connected=self._patience.sent_at is not None
        )

    async def _wait(self) -> None:
        if self._waiter is not None:
            raise InternalError("two tasks read one exchange")
        self._waiter = self._driver.loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _resume(self) -> None:
        """Lets curl go on. The time spent paused was ours, not the server's."""
        self._patience.paused = False
        self._patience.byte_at = self._driver.loop.time()
        self._arm()
        if self._curl is not None:
            try:
                self._curl.pause(pycurl.PAUSE_CONT)
            except pycurl.error as error:  # what was held back could not be delivered
                self.end(self.fault(error.args[0] if len(error.args) > 1 else 0, str(error.args[-1])))

    # -- callbacks of curl: they only note and queue, for curl must not be called from inside them

    def _on_resolve(self, *_: object) -> int:
        self._driver.resolving()
        return 0

    def _on_connected(self, *_: object) -> int:
        self._patience.sent_at = self._driver.loop.time()
        self._arm()
        return pycurl.PREREQFUNC_OK

    def _on_header(self, line: bytes) -> None:
        if self.status or self._patience.sent_at is None:
            return  # trailers after the body; a proxy's answer to CONNECT
        text = line.decode("latin-1").rstrip("\r\n")
        if text.startswith("HTTP/"):
            self._pending_headers = {":status": text.split(" ", 2)[1] if " " in text else "0"}
        elif text:
            name, _, value = text.partition(":")
            name, value = name.strip().lower(), value.strip()
            old = self._pending_headers.get(name)
            self._pending_headers[name] = value if old is None else f"{old}, {value}"
        else:
            status = self._pending_headers.pop(":status", "0")
            if status.isdecimal() and int(status) >= 200:
                self.headers = self._pending_headers
                self.status = int(status)
                self._wake()

    def _on_body(self, data: bytes) -> int | None:
        if self._queued >= QUEUED_BYTES:
            self._patience.paused = True
            return pycurl.WRITEFUNC_PAUSE
        self._seen += len(data)
        if self._seen > self._limits.max_stream_bytes:
            bound = self._limits.max_stream_bytes
            self._failure = TransportError(
                "too_large", f"the body passed max_stream_bytes: {bound} bytes allowed, {self._seen} seen"
            )
            return 0  # curl ends the transfer; this failure stays the first
        first = self._patience.byte_at is None
        self._patience.byte_at = self._driver.loop.time()
        if first:
            self._arm()
        self._queue.append(data)
        self._queued += len(data)
        self._wake()
        return None

    # -- one lazy timer: it is set for the earliest limit and looks again when it fires

    def _arm(self) -> None:
        when = self._patience.deadline()
        if when < self._armed_for and not self._ended:
            if self._timer is not None:
                self._timer.cancel()
            self._armed_for = when
            self._timer = self._driver.loop.call_at(when, self._check_time)

    def _check_time(self) -> None:
        self._timer = None
        self._armed_for = math.inf
        if self._driver.loop.time() >= self._patience.deadline():
            self.end(self._patience.error())
        else:
            self._arm()


class HttpTransport:
    """Requests to one base URL (values.ports.Transport).

    `base_url` may or may not end in the endpoint's path. `api_key` is sent in the style the request asks for and to no
    other place: redirects are not followed. `headers` are added to every request. `proxy` replaces the environment's
    (HTTPS_PROXY, NO_PROXY, … as libcurl reads them); loopback never goes through one. `ca_file` replaces the CA bundle of
    `environ` (default: the process's) or the system. Raises `ConfigurationError` for what cannot be used.

    Belongs to the event loop of its first `send`; used in a later loop it starts afresh there.
    """

    def __init__(
        self,
        base_url: str,
        api_key: str | None = None,
        limits: Limits = DEFAULT_LIMITS,
        *,
        headers: Mapping[str, str] | None = None,
        proxy: str | None = None,
        ca_file: str | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._endpoint = Endpoint(base_url, api_key, headers)
        self._limits = limits
        self._proxy = checked_proxy(proxy)
        self._ca = ca_bundle(os.environ if environ is None else environ, ca_file)
        self._driver: CurlLoop | None = None
        self._closed = False

    def __repr__(self) -> str:
        return f"HttpTransport({self._endpoint.where!r})"

    @property
    def secrets(self) -> tuple[str, ...]:
        """The texts that must never be shown or recorded; longest first."""
        return self._endpoint.secrets

    def url_for(self, request: Request) -> str:
        """The address to which `request` would be sent."""
        return self._endpoint.url_for(request.path)

    async def send(self, request: Request) -> HttpExchange:
        """See `values.ports.Transport.send`."""
        if self._closed:
            raise InternalError("the transport was used after its close")
        if self._driver is None or self._driver.loop is not asyncio.get_running_loop():
            if self._driver is not None:
                self._driver.close()
            self._driver = CurlLoop()
        exchange = HttpExchange(self._driver, self._endpoint, self._limits)
        curl = self._prepared(request)
        try:
            await exchange.start(curl)
        except BaseException:
            await exchange.close()
            raise
        return exchange

    async def close(self) -> None:
        """See `values.ports.Transport.close`. Closing twice is fine."""
        self._closed = True
        if self._driver is not None:
            self._driver.close()
            self._driver = None

    def _prepared(self, request: Request) -> pycurl.Curl:
        header_lines = self._endpoint.headers_for(request)
        curl = pycurl.Curl()
        curl.setopt(pycurl.URL, self._endpoint.url_for(request.path))
        curl.setopt(pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS)
        curl.setopt(pycurl.FOLLOWLOCATION, 0)
        if request.method == "GET":
            curl.setopt(pycurl.HTTPGET, 1)
        else:
            curl.setopt(pycurl.POST, 1)
            curl.setopt(pycurl.POSTFIELDS, request.body)
        curl.setopt(pycurl.HTTPHEADER, [*header_lines, "Expect:"])  # no 100-continue: it costs a round trip or a second
        curl.setopt(pycurl.USERAGENT, "sluice")
        curl.setopt(pycurl.ACCEPT_ENCODING, "gzip, deflate")
        curl.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_2TLS)
        curl.setopt(pycurl.NOSIGNAL, 1)
        curl.setopt(pycurl.TCP_NODELAY, 1)
        curl.setopt(pycurl.TCP_KEEPALIVE, 1)
        curl.setopt(pycurl.UPLOAD_BUFFERSIZE, 16 * 1024)  # the default is four times that, for each stream
        curl.setopt(pycurl.SSLVERSION, pycurl.SSLVERSION_TLSv1_2)
        curl.setopt(pycurl.SSL_VERIFYPEER, 1)
        curl.setopt(pycurl.SSL_VERIFYHOST, 2)
        curl.setopt(pycurl.CAPATH if os.path.isdir(self._ca) else pycurl.CAINFO, self._ca)
        # Ours is the limit that counts; libcurl's own default of 300 s must not come before it.
        curl.setopt(pycurl.CONNECTTIMEOUT_MS, int(self._limits.connect_seconds * 1000) + 60_000)
        if self._endpoint.loopback:
            curl.setopt(pycurl.PROXY, "")
        elif self._proxy is not None:
            curl.setopt(pycurl.PROXY, self._proxy)
        return curl


def _park(multi: pycurl.CurlMulti, resolved_at: float) -> None:
    """Keeps `multi` open past every owner; see the module's docstring."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(multi))
    _parked.append((resolved_at, multi))
    _close_parked()


def _close_parked() -> None:
    """Closes the parked handles whose resolver threads have ended, and the oldest ones above `MAX_PARKED`."""
    while _parked and (time.monotonic() - _parked[0][0] >= RESOLVE_SECONDS or len(_parked) > MAX_PARKED):
        _, multi = _parked.popleft()
        multi.close()
        ctypes.pythonapi.Py_DecRef(ctypes.py_object(multi))


def _ignore_socket(_what: int, _fd: int, _multi: object, _data: object) -> None:
    return None


def _ignore_timer(_milliseconds: int) -> None:
    return None
