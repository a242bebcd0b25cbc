"""The only way out for commands that may reach a list of hosts: a proxy of ours, for HTTP and for tunnels (P8).

Each command has a network of its own without a way out, and in it one listening socket that is served here. A host's name
is looked up once, by us, and every connection goes to the addresses found then. A tunnel's content is not looked at: whoever
may reach a host may tell it anything.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from sluice.tools.allowed_hosts import Host, all_public, literal
from sluice.tools.proxy_request import MAX_HEAD_BYTES, ProxyRequest, RefusedError, parse_request

MAX_CONNECTIONS = 64  # of all commands at one time; a package manager opens some dozen
MAX_REFUSING = 64  # more that are told so; beyond them one is cut unheard, as each holds a descriptor of ours
_BACKLOG = 16  # connections that are taken in one go
HEAD_SECONDS = 10.0  # until a request's head is there
LOOK_UP_SECONDS = 10.0
CONNECT_SECONDS = 10.0  # for each address of a host
IDLE_SECONDS = 300.0  # in which nothing came from either side
_LINGER_SECONDS = 0.5
MAX_ADDRESSES = 8  # of a host that are tried
_MAX_TOLD = 8  # refused hosts that are told with a command's result
_PIECE_BYTES = 64 * 1024
_PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "listener_program.py")
_PHRASES = {400: "Bad Request", 403: "Forbidden", 408: "Request Timeout", 431: "Request Header Fields Too Large",
            501: "Not Implemented", 502: "Bad Gateway", 503: "Service Unavailable"}  # fmt: skip

LookUp = Callable[[str], Awaitable[Sequence[str]]]
"""Finds the addresses of a name, as text. Raises `OSError`."""


class HostProxy:
    """Serves the commands of one session that may reach `hosts` and nothing else. For one event loop."""

    def __init__(self, hosts: Sequence[Host], look_up: LookUp | None = None) -> None:
        self._hosts = tuple(hosts)
        self._look_up = look_up or _look_up
        self._pinned: dict[str, tuple[str, ...]] = {}
        self._looking: dict[str, asyncio.Lock] = {}
        self._open = 0
        self._held = 0

    @property
    def full(self) -> bool:
        """Whether a connection more could not even be told that it is too many."""
        return self._held >= MAX_CONNECTIONS + MAX_REFUSING

    def hold(self, count: int) -> None:
        """Counts connections that are there, whatever becomes of them."""
        self._held += count

    @contextlib.asynccontextmanager
    async def door(self) -> AsyncIterator[Door]:
        """A door for one command. On leaving it is shut, and every connection through it is cut."""
        door = Door(self)
        try:
            yield door
        finally:
            await door.close()

    def check(self, request: ProxyRequest) -> None:
        """Raises `RefusedError` for a host that is not listed."""
        if not any(host.covers(request.name, request.port) for host in self._hosts):
            asked = Host(request.name, request.port)
            raise RefusedError(403, f"{asked} is not among the hosts that the user allowed (--allow-host)")

    async def addresses(self, name: str) -> tuple[str, ...]:
        """The addresses of a listed name: the same ones each time. Raises `RefusedError`."""
        if literal(name) is not None:
            return (name,)  # the user has written this very address
        async with self._looking.setdefault(name, asyncio.Lock()):
            if name not in self._pinned:
                try:
                    async with asyncio.timeout(LOOK_UP_SECONDS):
                        found = tuple(dict.fromkeys(await self._look_up(name)))
                except OSError:  # a timeout is one, too
                    raise RefusedError(502, f"{name} has no address here") from None
                if not all_public(found):
                    raise RefusedError(403, f"{name} leads to an address that is not of the internet")
                self._pinned[name] = found[:MAX_ADDRESSES]
        return self._pinned[name]

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, refused: list[str]) -> None:
        """Answers one connection to its end. Refused hosts are added to `refused`."""
        if self._open >= MAX_CONNECTIONS:
            await _answer(
                reader, writer, RefusedError(503, f"{MAX_CONNECTIONS} connections are open, as many as may be")
            )
            return
        self._open += 1
        try:
            await self._serve(reader, writer, refused)
        except RefusedError as error:
            await _answer(reader, writer, error)
        except (OSError, EOFError, TimeoutError):
            return  # one of the two has gone
        finally:
            self._open -= 1

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, refused: list[str]) -> None:
        request = parse_request(await _head(reader))
        try:
            self.check(request)
            addresses = await self.addresses(request.name)
        except RefusedError as error:
            asked = str(Host(request.name, request.port))
            if error.status == 403 and asked not in refused and len(refused) < _MAX_TOLD:
                refused.append(asked)
            raise
        server_reader, server_writer = await _connected(addresses, request.port)
        try:
            idle = _Idle()
            if request.head is None:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                there = _copy(reader, server_writer, idle, None)
            else:
                server_writer.write(request.head)
                there = _copy(reader, server_writer, idle, request.body_bytes)
            back = asyncio.ensure_future(_copy(server_reader, writer, idle, None))
            sent = asyncio.ensure_future(there)
            try:
                await back if request.head is not None else await asyncio.gather(back, sent)
            finally:
                back.cancel()
                sent.cancel()
                await asyncio.gather(back, sent, return_exceptions=True)
        finally:
            await _closed(server_writer)


class Door:
    """The door of one command: `child` is the descriptor to give it, `refused` the hosts it was refused."""

    def __init__(self, proxy: HostProxy) -> None:
        self.refused: list[str] = []
        self._proxy = proxy
        self._loop = asyncio.get_running_loop()
        self._server: asyncio.Server | None = None
        self._closed = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)
        self.child = self._theirs.fileno()
        self._loop.add_reader(self._ours, self._receive)

    def words(self) -> list[str]:
        """The words that stand before the command, in the namespace that has no way out."""
        return [sys.executable, "-I", "-S", "-B", _PROGRAM, str(self.child)]

    async def close(self) -> None:
        """Shuts the door and cuts what goes through it."""
        self._loop.remove_reader(self._ours)
        self._ours.close()
        self._theirs.close()
        if self._server is not None:
            self._server.close()
        self._closed = True
        while self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _receive(self) -> None:
        """Takes the listening socket that comes from inside, once."""
        self._loop.remove_reader(self._ours)
        with contextlib.suppress(OSError):
            _, found, _, _ = socket.recv_fds(self._ours, 1, 1)
            if found:
                os.set_inheritable(found[0], False)  # it is for no other command
                listener = socket.socket(fileno=found[0])
                listener.setblocking(False)
                self._keep(self._loop.create_task(self._listen(listener)), lambda: self._unless_served(listener))

    def _unless_served(self, listener: socket.socket) -> None:
        if self._server is None:
            listener.close()

    async def _listen(self, listener: socket.socket) -> None:
        self._server = await asyncio.start_server(
            self._accepted, sock=listener, limit=MAX_HEAD_BYTES, backlog=_BACKLOG, start_serving=False
        )
        await self._server.start_serving()

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._closed or self._proxy.full:  # it was on its way in
            writer.transport.abort()
            return
        self._proxy.hold(1)
        self._keep(self._loop.create_task(self._serve(reader, writer)), lambda: self._let_go(writer))

    def _let_go(self, writer: asyncio.StreamWriter) -> None:
        self._proxy.hold(-1)
        writer.transport.abort()  # closed already, unless its task was cancelled before it began

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._proxy.serve(reader, writer, self.refused)
        finally:
            await _closed(writer)

    def _keep(self, task: asyncio.Task[None], after: Callable[[], None]) -> None:
        """Holds a task; `after` is called when it has ended, also if it was cancelled before it began."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _task: after())


class _Idle:
    """When something came last, from either side."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._last = self._loop.time()

    def seen(self) -> None:
        self._last = self._loop.time()

    def left(self) -> float:
        return self._last + IDLE_SECONDS - self._loop.time()


async def _look_up(name: str) -> Sequence[str]:
    """Asks the system, in a thread that nobody waits for: a name service that is stuck must not hold up our own end."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[Sequence[str]] = loop.create_future()

    def settle(found: Sequence[str] | OSError) -> None:
        if answer.done():
            return  # given up
        if isinstance(found, OSError):
            answer.set_exception(found)
        else:
            answer.set_result(found)

    def ask() -> None:
        found: Sequence[str] | OSError
        try:
            found = [str(entry[4][0]) for entry in socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)]
        except OSError as error:
            found = error
        except UnicodeError:
            found = OSError("no name for a name service")
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(settle, found)

    threading.Thread(target=ask, name="look-up", daemon=True).start()
    return await answer


async def _head(reader: asyncio.StreamReader) -> bytes:
    try:
        async with asyncio.timeout(HEAD_SECONDS):
            return await reader.readuntil(b"\r\n\r\n")
    except asyncio.LimitOverrunError:
        raise RefusedError(431, f"the head of a request may have {MAX_HEAD_BYTES} bytes") from None
    except TimeoutError:
        raise RefusedError(408, f"the head of the request did not come within {HEAD_SECONDS:g} s") from None


async def _connected(addresses: Sequence[str], port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection to the first of these addresses that takes one."""
    for address in addresses:
        with contextlib.suppress(OSError):  # a timeout is one, too
            async with asyncio.timeout(CONNECT_SECONDS):
                return await asyncio.open_connection(address, port, limit=_PIECE_BYTES)
    raise RefusedError(502, "the host does not take the connection")


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, idle: _Idle, count: int | None) -> None:
    """Passes on `count` bytes, or all until the end, which is passed on as well."""
    left = count
    while left is None or left > 0:
        size = _PIECE_BYTES if left is None else min(left, _PIECE_BYTES)
        data = await _piece(reader, size, idle)
        if not data:
            break
        writer.write(data)
        await writer.drain()
        idle.seen()
        left = None if left is None else left - len(data)
    if left is None and writer.can_write_eof():
        writer.write_eof()


async def _piece(reader: asyncio.StreamReader, size: int, idle: _Idle) -> bytes:
    while True:
        try:
            async with asyncio.timeout(max(idle.left(), 0.001)):
                data = await reader.read(size)
        except TimeoutError:
            if idle.left() > 0:  # the other side had something to say meanwhile
                continue
            raise
        idle.seen()
        return data


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, error: RefusedError) -> None:
    """Tells a refusal, and hears the asker out for a moment: what is left unread would take the answer away."""
    body = f"sluice: {error.why}\n".encode("ascii", "replace")
    head = f"HTTP/1.1 {error.status} {_PHRASES[error.status]}\r\ncontent-type: text/plain\r\n"
    head += f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
    with contextlib.suppress(OSError):
        writer.write(head.encode() + body)
        async with asyncio.timeout(_LINGER_SECONDS):
            await writer.drain()
            writer.write_eof()
            left = 4 * MAX_HEAD_BYTES
            while left > 0 and (data := await reader.read(left)):
                left -= len(data)


async def _closed(writer: asyncio.StreamWriter) -> None:
    """Closes a connection: at once if the other side takes nothing any more."""
    writer.close()
    try:
        async with asyncio.timeout(1.0):
            await writer.wait_closed()
    except (OSError, TimeoutError):
        writer.transport.abort()
    except asyncio.CancelledError:
        writer.transport.abort()
        raise
