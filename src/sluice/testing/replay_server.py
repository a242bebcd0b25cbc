"""A real HTTP server on loopback that plays recorded bodies, whole or with a chosen fault.

It answers every POST, whatever its path: file k for request k, and the last one for ever. `*.json` bodies are sent as
`application/json`, `*.ndjson` as `application/x-ndjson`, cassettes as they were recorded, all others as
`text/event-stream`. Bodies go out in HTTP/1.1 chunks. `GET` says what this is.

A fault is `NAME[@N][#K]`. `#K` limits any fault to request K (from 1).

    a status: 400 … 599     that status with a JSON error (429 adds `retry-after: 0`); @N: only for request N
    html, json              200 with an HTML page, or with a plain JSON error; @N: only for request N
    gzip                    the body, gzip-encoded; @N: only for request N
    garbage, empty          200 with bytes that are no stream, or with none; @N: only for request N
    cut@N                   the connection ends after N bytes of the body, the chunked body unfinished (default: half)
    reset@N                 the same with a TCP reset
    stall@N                 after N bytes of the body nothing more is sent, the connection stays open (default: half)
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import re
import signal
import socket
import ssl
import struct
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import msgspec

from sluice.errors import ConfigurationError
from sluice.transport.cassette import load_cassette

MAX_HEAD_BYTES = 64 * 1024  # bytes of request line and headers
MAX_BODY_BYTES = 64 * 1024 * 1024  # bytes of a request body that are taken in
_REQUEST_FAULTS = frozenset({"html", "json", "gzip", "garbage", "empty"})
_BODY_FAULTS = frozenset({"cut", "stall", "reset"})
_SIGN = b"This is Sluice's replay server. It answers POST requests with recorded replies; nothing here is a model.\n"


class Body(msgspec.Struct, frozen=True):
    """One answer: `pieces` are written one after the other, `pace` apart."""

    pieces: tuple[bytes, ...]
    content_type: str = "text/event-stream"
    status: int = 200


class Received(msgspec.Struct, frozen=True):
    """One request as it came; header names are in lower case."""

    path: str
    headers: dict[str, str]
    body: bytes


class Fault(msgspec.Struct, frozen=True):
    """A fault with its number and the request it is limited to; see the module's docstring."""

    name: str
    at: int | None = None
    request: int | None = None

    def holds_for(self, number: int) -> bool:
        """Whether request `number` (from 1) meets it."""
        by_at = self.at if self.name not in _BODY_FAULTS else None
        return all(wanted is None or wanted == number for wanted in (by_at, self.request))


def parse_fault(text: str) -> Fault:
    """The fault that `text` names; raises `ConfigurationError`."""
    match = re.fullmatch(r"(\w+)(?:@(\d+))?(?:#(\d+))?", text)
    name = match[1] if match else text
    known = name in _REQUEST_FAULTS | _BODY_FAULTS or re.fullmatch(r"[345]\d\d", name)
    if not match or not known:
        names = ", ".join(sorted(_REQUEST_FAULTS | _BODY_FAULTS))
        raise ConfigurationError(f"unknown fault {text!r}; use a status such as 429, or one of {names}, with @N or #K")
    at, request = (int(n) if n else None for n in match.group(2, 3))
    return Fault(name, at, request)


def load_bodies(paths: Sequence[Path | str]) -> list[Body]:
    """The answers in `paths`, a cassette giving one for each exchange. Raises `ConfigurationError`."""
    bodies: list[Body] = []
    for path in map(Path, paths):
        try:
            data = path.read_bytes()
        except OSError as error:
            raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from None
        if re.match(rb'\{"kind":\s?"request"', data):
            for exchange in load_cassette(path):
                answer = exchange.response
                kind = dict(answer.headers).get("content-type", "text/event-stream") if answer else "text/plain"
                pieces = tuple(read.data for read in exchange.reads)
                bodies.append(Body(pieces, kind, answer.status if answer else 502))
        else:
            kinds = {".json": "application/json", ".ndjson": "application/x-ndjson"}
            bodies.append(Body((data,), kinds.get(path.suffix, "text/event-stream")))
    if not bodies:
        raise ConfigurationError("no file to replay; name at least one")
    return bodies


class ReplayServer:
    """The server. Use it as an async context manager, or as a plain one: then it runs in a thread of its own.

    `files` are answers in order; bytes stand for an event stream. `pace_ms` is the time between events (between pieces
    if `split` is set); `split` the bytes of one write. `once`: `done` is set when each file was served once. `port` 0
    takes a free one. `tls` makes it https. What was asked is in `requests`; `disconnects` counts clients that went away
    inside an answer, and `disconnected` is set by the first. Leaves no task, thread or socket behind.
    """

    def __init__(
        self,
        files: Sequence[bytes | Body],
        *,
        port: int = 0,
        pace_ms: float = 0,
        split: int = 0,
        fault: str | None = None,
        once: bool = False,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        if not files:
            raise ConfigurationError("no file to replay; give at least one")
        if split < 0 or not 0 <= pace_ms < float("inf"):
            raise ConfigurationError("split and pace must not be negative")
        self._bodies = [file if isinstance(file, Body) else Body((file,)) for file in files]
        self._wanted_port = port
        self._pace = pace_ms / 1000
        self._split = split
        self._fault = parse_fault(fault) if fault else None
        self._once = once
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._served = 0
        self._thread: threading.Thread | None = None
        self._stop: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
        self.port = 0
        self.requests: list[Received] = []
        self.connections = 0
        self.disconnects = 0
        self.bytes_sent = 0
        self.done = asyncio.Event()
        self.disconnected = asyncio.Event()

    @property
    def url(self) -> str:
        """`http://127.0.0.1:PORT` (`https` with `tls`)."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        try:
            self._server = await asyncio.start_server(
                self._accept, "127.0.0.1", self._wanted_port, limit=MAX_HEAD_BYTES, ssl=self._tls
            )
        except (OSError, OverflowError) as error:
            words = getattr(error, "strerror", None) or error
            raise ConfigurationError(f"cannot listen on port {self._wanted_port}: {words}") from None
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self._server.wait_closed()
            await asyncio.sleep(0)  # the transports close their sockets in the next round of the loop

    def __enter__(self) -> Self:
        ready = threading.Event()
        failure: list[BaseException] = []

        async def live() -> None:
            self._stop = (asyncio.get_running_loop(), asyncio.Event())
            async with self:
                ready.set()
                await self._stop[1].wait()

        def run() -> None:
            try:
                asyncio.run(live())
            except BaseException as error:  # handed to the thread that waits for us
                failure.append(error)
            finally:
                ready.set()

        self._thread = threading.Thread(target=run, name="replay-server")
        self._thread.start()
        ready.wait()
        if failure:
            self._thread.join()
            raise failure[0]
        return self

    def __exit__(self, *_: object) -> None:
        if self._thread is not None and self._stop is not None:
            loop, stop = self._stop
            loop.call_soon_threadsafe(stop.set)
            self._thread.join()
            self._thread = None

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
        self.connections += 1
        try:
            while await self._one_exchange(reader, writer):
                pass
        except (ConnectionError, TimeoutError, ssl.SSLError):
            self._went_away()
        except asyncio.CancelledError:
            writer.transport.abort()  # the server is being closed; nothing more is owed to the client
        finally:
            if task is not None:
                self._tasks.discard(task)
            writer.close()

    def _went_away(self) -> None:
        self.disconnects += 1
        self.disconnected.set()

    async def _one_exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Serves one request; whether the connection may serve another."""
        try:
            method, request = await _read_request(reader)
        except asyncio.IncompleteReadError:
            return False  # the client closed between requests
        except (ValueError, asyncio.LimitOverrunError):
            await _write_plain(writer, 400, b"not a request this server reads\n", "text/plain", close=True)
            return False
        if method != "POST":
            await _write_plain(writer, 200, b"" if method == "HEAD" else _SIGN, "text/plain")
            return method != "HEAD"
        self.requests.append(request)
        number = len(self.requests)
        body = self.body_for(request, number)
        fault = self._fault if self._fault and self._fault.holds_for(number) else None
        keep = await self._answer(reader, writer, body, fault)
        self._served += 1
        if self._once and self._served >= len(self._bodies):
            self.done.set()
        return keep

    def body_for(self, request: Received, number: int) -> Body:
        """The answer to request `number` (from 1). Override it to answer by what was asked."""
        return self._bodies[min(number, len(self._bodies)) - 1]

    async def _answer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: Body, fault: Fault | None
    ) -> bool:
        name = fault.name if fault else ""
        if name.isdigit():
            error = {"error": {"message": f"replayed fault {name}", "type": "replayed_fault", "code": name}}
            extra = "retry-after: 0\r\n" if name == "429" else ""
            extra += "location: http://127.0.0.1:9/elsewhere\r\n" if name.startswith("3") else ""
            await _write_plain(writer, int(name), msgspec.json.encode(error), "application/json", extra)
            return True
        if name == "html":
            page = b"<!DOCTYPE html><html><head><title>Bad gateway</title></head><body>no stream here</body></html>"
            await _write_plain(writer, 200, page, "text/html; charset=utf-8")
            return True
        if name == "json":
            error = {"error": {"message": "replayed fault json", "type": "replayed_fault"}}
            await _write_plain(writer, 200, msgspec.json.encode(error), "application/json")
            return True
        if name == "garbage":
            body = Body((bytes(range(256)) * 4,))
        elif name == "empty":
            body = Body(())
        elif name == "gzip":
            body = Body((gzip.compress(b"".join(body.pieces)),), body.content_type, body.status)
        return await self._stream(reader, writer, body, fault)

    async def _stream(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: Body, fault: Fault | None
    ) -> bool:
        encoding = "content-encoding: gzip\r\n" if fault and fault.name == "gzip" else ""
        head = f"HTTP/1.1 {body.status} Replayed\r\ncontent-type: {body.content_type}\r\n{encoding}"
        writer.write(f"{head}transfer-encoding: chunked\r\n\r\n".encode("latin-1"))
        pieces = self._pieces(body)
        stop_at: int | None = None
        if fault and fault.name in _BODY_FAULTS:
            length = sum(map(len, pieces))
            stop_at = length // 2 if fault.at is None else min(fault.at, length)
        gone = asyncio.ensure_future(reader.read(1)) if stop_at is None and self._pace else None
        try:
            sent = 0
            for piece in pieces:
                part = piece if stop_at is None else piece[: stop_at - sent]
                if part:
                    writer.write(b"%x\r\n%b\r\n" % (len(part), part))
                    await writer.drain()
                    sent += len(part)
                    self.bytes_sent += len(part)
                if stop_at is not None and sent >= stop_at:
                    break
                if gone is not None:
                    await asyncio.wait({gone}, timeout=self._pace)
                    if gone.done():
                        raise ConnectionResetError  # nothing but its end can come from a client that waits
                elif self._pace:
                    await asyncio.sleep(self._pace)
        finally:
            if gone is not None:
                gone.cancel()
                await asyncio.gather(gone, return_exceptions=True)
        if fault and stop_at is not None:
            return await self._break_off(reader, writer, fault.name)
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True

    async def _break_off(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, name: str) -> bool:
        if name == "stall":
            await reader.read(1)  # returns when the client goes away
            self._went_away()
        elif name == "reset":
            connection = writer.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        return False

    def _pieces(self, body: Body) -> list[bytes]:
        """What is written at a time: `split` bytes; or events, where they are to be paced; or the body's own pieces."""
        if self._split:
            whole = b"".join(body.pieces)
            return [whole[at : at + self._split] for at in range(0, len(whole), self._split)]
        if self._pace and len(body.pieces) == 1:
            return [piece for piece in re.split(rb"(?<=\n\n)|(?<=\r\n\r\n)", body.pieces[0]) if piece]
        return list(body.pieces)


async def _read_request(reader: asyncio.StreamReader) -> tuple[str, Received]:
    """Method and request; raises `ValueError` for what is none, `IncompleteReadError` at the end of the connection."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.split("\r\n")
    method, path, _ = first.split(" ", 2)
    headers = {
        name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)
    }
    if "chunked" in headers.get("transfer-encoding", "").lower():
        return method, Received(path, headers, await _read_chunks(reader))
    length = int(headers.get("content-length", "0"))
    if not 0 <= length <= MAX_BODY_BYTES:
        raise ValueError("body too large")
    return method, Received(path, headers, await reader.readexactly(length))


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    parts: list[bytes] = []
    total = 0
    while True:
        size = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
        total += size
        if size < 0 or total > MAX_BODY_BYTES:
            raise ValueError("body too large")
        data = await reader.readexactly(size + 2)
        if not size:
            return b"".join(parts)
        parts.append(data[:-2])


async def _write_plain(
    writer: asyncio.StreamWriter, status: int, body: bytes, content_type: str, extra: str = "", *, close: bool = False
) -> None:
    head = f"HTTP/1.1 {status} Replayed\r\ncontent-type: {content_type}\r\ncontent-length: {len(body)}\r\n{extra}"
    head += "connection: close\r\n" if close else ""
    writer.write(head.encode("latin-1") + b"\r\n" + body)
    await writer.drain()


def serve(
    files: Sequence[Path | str],
    *,
    port: int = 0,
    pace_ms: float = 0,
    split: int = 0,
    fault: str | None = None,
    once: bool = False,
) -> int:
    """Serves until SIGTERM or SIGINT (with `once`: until each file was served) and returns exit code 0.

    The first line on standard output is `listening on http://127.0.0.1:PORT`. Raises `ConfigurationError`.
    """
    bodies = load_bodies(files)

    async def live() -> None:
        server = ReplayServer(bodies, port=port, pace_ms=pace_ms, split=split, fault=fault, once=once)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, server.done.set)
        async with server:
            sys.stdout.write(f"listening on {server.url}\n")
            sys.stdout.flush()
            await server.done.wait()

    asyncio.run(live())
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """The command line of the server; returns an exit code (2 for a mistake of the user's)."""
    parser = argparse.ArgumentParser(
        prog="sluice replay-server", description="Play recorded replies over loopback HTTP."
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="an event stream, a JSON body or a cassette")
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; 0 takes a free one")
    parser.add_argument("--pace", type=float, default=0, metavar="MS", help="milliseconds between events or pieces")
    parser.add_argument("--split", type=int, default=0, metavar="N", help="bytes of one write")
    parser.add_argument(
        "--fault", metavar="NAME[@N]", help="a status, html, json, gzip, garbage, empty, cut, stall, reset"
    )
    parser.add_argument("--once", action="store_true", help="end when each file was served once")
    given = parser.parse_args(argv)
    try:
        return serve(
            given.files, port=given.port, pace_ms=given.pace, split=given.split, fault=given.fault, once=given.once
        )
    except ConfigurationError as error:
        sys.stderr.write(f"replay-server: {error}\n")
        return 2


if __name__ == "__main__":
    sys.exit(main())
