"""The HTTP transport against a real server on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pycurl
import pytest

from sluice.errors import ConfigurationError, InternalError, TransportError
from sluice.limits import Limits
from sluice.testing.replay_server import Body, ReplayServer
from sluice.transport import http
from sluice.transport.http import QUEUED_BYTES, HttpExchange, HttpTransport
from sluice.transport.status import error_of
from sluice.values.requests import Request

KEY = "sk-very-secret-0123456789"
REQUEST = Request(dialect="openai_chat", path="/chat/completions", body=b'{"model": "m"}')
STREAM = b"".join(b'data: {"n": %d}\n\n' % n for n in range(200)) + b"data: [DONE]\n\n"
CERTIFICATE = Path(__file__).with_name("selfsigned.pem")
STREAMS = int(os.environ.get("SLUICE_TEST_STREAMS", "300"))


@contextlib.asynccontextmanager
async def transport_to(url: str, limits: Limits | None = None, **options: object) -> AsyncIterator[HttpTransport]:
    transport = HttpTransport(url, KEY, limits or Limits(), **options)  # type: ignore[arg-type]
    try:
        yield transport
    finally:
        await transport.close()


async def whole_body(exchange: HttpExchange, into: list[bytes] | None = None) -> bytes:
    parts = [] if into is None else into
    while data := await exchange.read():
        parts.append(data)
    return b"".join(parts)


async def failure_of(url: str, limits: Limits | None = None, **options: object) -> TransportError:
    async with transport_to(url, limits, **options) as transport, asyncio.timeout(20):
        with pytest.raises(TransportError) as caught:
            await whole_body(await transport.send(REQUEST))
    assert KEY not in str(caught.value)
    assert "\n" not in str(caught.value)
    return caught.value


@contextlib.asynccontextmanager
async def raw_server(
    answer: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[int]:
    """A server that does exactly what `answer` does; gives its port."""
    tasks: set[asyncio.Task[None]] = set()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        with contextlib.suppress(ConnectionError, asyncio.CancelledError, asyncio.IncompleteReadError):
            await answer(reader, writer)
        writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()
        await asyncio.sleep(0)


async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    while await reader.read(65536):
        pass


async def until(holds: Callable[[], bool]) -> None:
    """Turns the loop until something holds; the limit is only there so that a fault ends the test."""
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0)


def tls_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    return context


# -- what goes out and comes in


@pytest.mark.parametrize("suffix", ["/v1", "/v1/", "/v1/chat/completions"])
def test_a_stream_arrives_byte_for_byte(suffix: str) -> None:
    async def run() -> None:
        async with ReplayServer([STREAM], split=7) as server, transport_to(server.url + suffix) as transport:
            exchange = await transport.send(REQUEST)
            assert exchange.status == 200
            assert exchange.headers["content-type"] == "text/event-stream"
            assert await whole_body(exchange) == STREAM
            assert await exchange.read() == b""
            await exchange.close()
            await exchange.close()
            (request,) = server.requests
            assert request.path == "/v1/chat/completions"
            assert request.body == REQUEST.body
            assert request.headers["authorization"] == f"Bearer {KEY}"
            assert request.headers["content-type"] == "application/json"

    asyncio.run(run())


def test_a_large_request_goes_out_whole_without_waiting_for_a_continue() -> None:
    body = b'"' + b"x" * 3_000_000 + b'"'

    async def run() -> None:
        async with ReplayServer([STREAM]) as server, transport_to(server.url) as transport:
            big = Request(dialect="d", path="/p", body=body, headers=(("X-Own", "1"),), auth="x-api-key")
            assert await whole_body(await transport.send(big)) == STREAM
            assert server.requests[0].body == body
            assert server.requests[0].headers["x-own"] == "1"
            assert "expect" not in server.requests[0].headers
            assert server.requests[0].headers["x-api-key"] == KEY

    asyncio.run(run())


def test_connections_are_used_again_and_streams_run_side_by_side() -> None:
    async def run() -> None:
        async with ReplayServer([STREAM], split=100) as server, transport_to(server.url) as transport:
            for _ in range(3):
                assert await whole_body(await transport.send(REQUEST)) == STREAM
            assert server.connections == 1
            exchanges = await asyncio.gather(*(transport.send(REQUEST) for _ in range(20)))
            bodies = await asyncio.gather(*(whole_body(exchange) for exchange in exchanges))
            assert bodies == [STREAM] * 20

    asyncio.run(run())


def test_one_transport_may_be_used_in_one_loop_after_another() -> None:
    transport = HttpTransport("http://127.0.0.1:1", None)

    async def run() -> None:
        async with ReplayServer([STREAM]) as server:
            transport._endpoint = HttpTransport(server.url, KEY)._endpoint
            assert await whole_body(await transport.send(REQUEST)) == STREAM

    asyncio.run(run())
    asyncio.run(run())
    asyncio.run(transport.close())


def test_gzip_is_undone() -> None:
    async def run() -> None:
        async with ReplayServer([STREAM], fault="gzip") as server, transport_to(server.url) as transport:
            assert await whole_body(await transport.send(REQUEST)) == STREAM

    asyncio.run(run())


@pytest.mark.parametrize("status", [400, 401, 404, 408, 409, 429, 500, 503, 301])
def test_a_status_is_an_answer_and_its_error_is_read_from_the_body(status: int) -> None:
    async def run() -> None:
        async with ReplayServer([STREAM], fault=str(status)) as server, transport_to(server.url) as transport:
            exchange = await transport.send(REQUEST)
            assert exchange.status == status
            error = await error_of(exchange, Limits())
            assert f"replayed fault {status}" in str(error)
            assert error.retry_after == (0 if status == 429 else None)
            assert len(server.requests) == 1

    asyncio.run(run())


def test_a_key_that_the_server_echoes_is_not_shown() -> None:
    echo = Body((b'{"error": {"message": "wrong key very-own-key-of-mine"}}',), "application/json", 401)

    async def run() -> None:
        async with ReplayServer([echo]) as server:
            transport = HttpTransport(server.url, "very-own-key-of-mine")
            error = await error_of(await transport.send(REQUEST), Limits())
            await transport.close()
            assert "wrong key [key]" in str(error)
            assert "very-own" not in str(error) + error.body + repr(transport)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("fault", "body"), [("html", b"<!DOCTYPE"), ("json", b'{"error"'), ("garbage", b"\0\1\2"), ("empty", b"")]
)
def test_what_is_no_stream_is_passed_on_as_it_is(fault: str, body: bytes) -> None:
    async def run() -> None:
        async with ReplayServer([STREAM], fault=fault) as server, transport_to(server.url) as transport:
            assert (await whole_body(await transport.send(REQUEST))).startswith(body)

    asyncio.run(run())


# -- what goes wrong


@pytest.mark.parametrize("fault", ["cut@100", "reset@100", "cut@0"])
def test_a_body_that_ends_early_is_broken_after_its_bytes(fault: str) -> None:
    async def run() -> None:
        async with ReplayServer([STREAM], fault=fault, split=50) as server, transport_to(server.url) as transport:
            got: list[bytes] = []
            exchange = await transport.send(REQUEST)
            with pytest.raises(TransportError) as caught:
                await whole_body(exchange, got)
            assert caught.value.kind == "broken"
            assert STREAM.startswith(b"".join(got))
            if fault == "cut@100":
                assert len(b"".join(got)) == 100
            with pytest.raises(TransportError):
                await exchange.read()

    asyncio.run(run())


def test_a_refused_connection() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        error = asyncio.run(failure_of(f"http://127.0.0.1:{port}/v1"))
    assert error.kind == "refused"
    assert str(error) == f"could not connect to 127.0.0.1:{port}: connection refused; is the server running?"


def test_a_name_that_cannot_be_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "RESOLVE_SECONDS", 0)  # close at once: this name fails without asking anyone
    error = asyncio.run(failure_of(f"http://{'a' * 70}.invalid/v1"))
    assert error.kind == "resolve"


def test_a_certificate_that_nobody_signed() -> None:
    async def run() -> None:
        async with ReplayServer([STREAM], tls=tls_context()) as server:
            error = await failure_of(server.url)
            assert error.kind == "tls"
            assert "SSL_CERT_FILE" in str(error)
            assert not server.requests

    asyncio.run(run())


def test_a_certificate_of_a_named_ca_is_verified() -> None:
    async def run() -> None:
        async with ReplayServer([STREAM], tls=tls_context()) as server:
            environ = {"SSL_CERT_FILE": str(CERTIFICATE)}
            async with transport_to(server.url, environ=environ) as transport:
                assert await whole_body(await transport.send(REQUEST)) == STREAM

    asyncio.run(run())


def test_https_to_a_server_that_speaks_http() -> None:
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")

    async def run() -> None:
        async with raw_server(speak) as port:
            assert (await failure_of(f"https://127.0.0.1:{port}")).kind == "tls"

    asyncio.run(run())


@pytest.mark.parametrize(
    ("answer", "kind"), [(b"SSH-2.0-OpenSSH\r\n", "protocol"), (b"", "broken"), (b"HTTP/1.1 200", "broken")]
)
def test_an_answer_that_is_not_http(answer: bytes, kind: str) -> None:
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)

    async def run() -> None:
        async with raw_server(speak) as port:
            assert (await failure_of(f"http://127.0.0.1:{port}")).kind in {kind, "protocol"}

    asyncio.run(run())


def test_a_body_beyond_the_bound_names_it() -> None:
    async def run() -> None:
        async with ReplayServer([STREAM * 50], split=1000) as server:
            error = await failure_of(server.url, Limits(max_stream_bytes=5000))
            assert error.kind == "too_large"
            assert "max_stream_bytes: 5000" in str(error)

    asyncio.run(run())


def test_a_gzip_bomb_is_stopped_by_the_same_bound() -> None:
    async def run() -> None:
        async with ReplayServer([b"\0" * 20_000_000], fault="gzip") as server:
            assert (await failure_of(server.url, Limits(max_stream_bytes=100_000))).kind == "too_large"

    asyncio.run(run())


def test_bad_input_is_a_configuration_error_before_anything_is_made() -> None:
    for url, key in (("nonsense", None), ("https://x", "a\nb")):
        with pytest.raises(ConfigurationError):
            HttpTransport(url, key)


# -- time limits


def test_no_connection_in_time() -> None:
    async def run() -> None:
        async with raw_server(silent) as port:  # accepts, but no handshake comes
            error = await failure_of(f"https://127.0.0.1:{port}", Limits(connect_seconds=0.05))
            assert error.kind == "connect_timeout"

    asyncio.run(run())


def test_no_first_byte_in_time() -> None:
    async def run() -> None:
        async with raw_server(silent) as port:
            error = await failure_of(
                f"http://127.0.0.1:{port}", Limits(connect_seconds=1000, first_byte_loopback_seconds=0.05)
            )
            assert error.kind == "first_byte_timeout"

    asyncio.run(run())


def test_headers_alone_are_no_first_byte() -> None:
    async def run() -> None:
        async with ReplayServer([STREAM], fault="stall@0") as server:
            error = await failure_of(server.url, Limits(connect_seconds=1000, first_byte_loopback_seconds=0.05))
            assert error.kind == "first_byte_timeout"
            await asyncio.wait_for(server.disconnected.wait(), 20)

    asyncio.run(run())


def test_silence_in_the_middle_of_a_body() -> None:
    async def run() -> None:
        async with ReplayServer([STREAM], fault="stall@100") as server:
            error = await failure_of(server.url, Limits(connect_seconds=1000, idle_seconds=0.05))
            assert error.kind == "idle_timeout"
            await asyncio.wait_for(server.disconnected.wait(), 20)

    asyncio.run(run())


def test_a_total_limit_cuts_a_stream_that_is_alive() -> None:
    async def run() -> None:
        async with ReplayServer([STREAM * 1000], split=10, pace_ms=1) as server:
            assert (
                await failure_of(server.url, Limits(connect_seconds=1000, total_seconds=0.1))
            ).kind == "total_timeout"

    asyncio.run(run())


def test_a_slow_reader_is_not_a_silent_server() -> None:
    async def run() -> None:
        body = b"x" * 4_000_000
        async with ReplayServer([body], split=65536) as server, transport_to(server.url) as transport:
            exchange = await transport.send(REQUEST)
            await until(lambda: exchange._patience.paused)
            exchange._patience.byte_at = -1e9  # as if it had been paused for years
            exchange._check_time()
            assert await whole_body(exchange) == body

    asyncio.run(run())


# -- back-pressure, cancellation, release


def test_a_slow_reader_holds_the_server_back() -> None:
    async def run() -> None:
        total = 50_000_000
        async with ReplayServer([b"x" * total], split=65536) as server, transport_to(server.url) as transport:
            exchange = await transport.send(REQUEST)
            await until(lambda: exchange._patience.paused)
            for _ in range(100):  # more turns of the loop bring nothing more
                await asyncio.sleep(0)
            assert server.bytes_sent < total / 2
            largest = seen = 0
            while data := await exchange.read():
                largest = max(largest, len(data))
                seen += len(data)
            assert seen == total
            assert largest < QUEUED_BYTES + 64 * 1024

    asyncio.run(run())


@pytest.mark.parametrize("how", ["cancel", "close", "transport"])
def test_a_stream_that_is_given_up_is_seen_by_the_server(how: str) -> None:
    async def run() -> None:
        async with ReplayServer([STREAM], fault="stall@100") as server, transport_to(server.url) as transport:
            exchange = await transport.send(REQUEST)
            await exchange.read()
            task = asyncio.ensure_future(exchange.read())
            await asyncio.sleep(0)
            if how == "transport":
                await transport.close()
                with pytest.raises(TransportError):
                    await task
            else:
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                await exchange.close()
                with pytest.raises(TransportError):
                    await exchange.read()
            await asyncio.wait_for(server.disconnected.wait(), 10)  # a stalled server sees nothing but our close

    asyncio.run(run())


def test_a_send_that_is_cancelled_closes_its_connection() -> None:
    gone = asyncio.Event()
    came = asyncio.Event()

    async def wait(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        while await reader.read(65536):
            came.set()
        gone.set()

    async def run() -> None:
        async with raw_server(wait) as port, transport_to(f"http://127.0.0.1:{port}") as transport:
            task = asyncio.ensure_future(transport.send(REQUEST))
            await came.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await asyncio.wait_for(gone.wait(), 10)

    asyncio.run(run())


def test_a_closed_transport_and_two_readers_are_faults_of_ours() -> None:
    async def run() -> None:
        async with ReplayServer([STREAM], fault="stall@0") as server:
            transport = HttpTransport(server.url)
            exchange = await transport.send(REQUEST)
            first = asyncio.ensure_future(exchange.read())
            await asyncio.sleep(0)
            with pytest.raises(InternalError):
                await exchange.read()
            await transport.close()
            with pytest.raises(TransportError):
                await first
            with pytest.raises(InternalError):
                await transport.send(REQUEST)

    asyncio.run(run())


def test_many_streams_leave_nothing_behind() -> None:
    """Finished, cut, failed and aborted ones in turn; `SLUICE_TEST_STREAMS` sets how many."""

    async def run() -> None:
        loop = asyncio.get_running_loop()
        async with (
            ReplayServer([STREAM]) as good,
            ReplayServer([STREAM], fault="cut@100") as cut,
            ReplayServer([STREAM], fault="reset@100") as reset,
            ReplayServer([STREAM], fault="stall@100") as stall,
        ):
            transports = [HttpTransport(server.url, KEY) for server in (good, cut, reset, stall)]

            async def one(number: int) -> None:
                kind = number % 4
                exchange = await transports[kind].send(REQUEST)
                if kind == 3:
                    await exchange.read()
                else:
                    with contextlib.suppress(TransportError):
                        await whole_body(exchange)
                await exchange.close()

            async def settled() -> tuple[int, int]:
                await until(lambda: not sum(len(server._tasks) for server in (cut, reset, stall)))
                await asyncio.sleep(0)
                return len(os.listdir("/dev/fd")), len(asyncio.all_tasks())

            for number in range(8):
                await one(number)
            before = await settled()
            for number in range(STREAMS):
                await one(number)
            assert await settled() == before
            assert all(not t._driver._open for t in transports if t._driver)
            for transport in transports:
                await transport.close()
            assert not [h for h in getattr(loop, "_scheduled", ()) if not h.cancelled()]

    asyncio.run(run())


def test_a_fault_of_libcurls_multi_interface_ends_every_exchange() -> None:
    async def run() -> None:
        async with ReplayServer([STREAM], fault="stall@100") as server, transport_to(server.url) as transport:
            exchange = await transport.send(REQUEST)
            assert transport._driver is not None
            transport._driver._act(2**30, 1 << 20)  # a descriptor that libcurl has never heard of, an unknown event
            transport._driver._multi, kept = BrokenMulti(), transport._driver._multi  # type: ignore[assignment]
            transport._driver._act(0, 0)
            transport._driver._multi = kept
            with pytest.raises(TransportError, match="multi interface: out of order"):
                await whole_body(exchange)

    asyncio.run(run())


class BrokenMulti:
    def socket_action(self, _fd: int, _events: int) -> None:
        raise pycurl.error(5, "out of order")

    def remove_handle(self, _curl: pycurl.Curl) -> None:
        pass


# -- proxies


def test_a_proxy_of_the_environment_is_used_but_never_for_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "RESOLVE_SECONDS", 0)

    async def run() -> None:
        async with ReplayServer([STREAM]) as proxy, ReplayServer([STREAM]) as local:
            monkeypatch.setenv("http_proxy", proxy.url)
            async with transport_to("http://models.invalid/v1") as transport:
                assert await whole_body(await transport.send(REQUEST)) == STREAM
            assert proxy.requests[0].path == "http://models.invalid/v1/chat/completions"
            async with transport_to(local.url) as transport:
                assert await whole_body(await transport.send(REQUEST)) == STREAM
            assert (len(proxy.requests), len(local.requests)) == (1, 1)

    asyncio.run(run())


def test_no_proxy_and_an_explicit_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "RESOLVE_SECONDS", 0)
    unresolvable = f"{'a' * 70}.invalid"

    async def run() -> None:
        async with ReplayServer([STREAM]) as proxy:
            monkeypatch.setenv("http_proxy", proxy.url)
            monkeypatch.setenv("no_proxy", unresolvable)
            assert (await failure_of(f"http://{unresolvable}/")).kind == "resolve"
            monkeypatch.delenv("http_proxy")
            async with transport_to("http://models.invalid/", proxy=proxy.url) as transport:
                assert await whole_body(await transport.send(REQUEST)) == STREAM
            assert len(proxy.requests) == 1

    asyncio.run(run())


@pytest.mark.parametrize(
    ("answer", "kinds"),
    [
        (b"HTTP/1.1 407 Who are you\r\ncontent-length: 0\r\n\r\n", {"connect"}),
        (b"HTTP/1.1 200 Connection established\r\n\r\n", {"tls", "broken", "connect"}),
    ],
)
def test_a_proxys_own_answer_is_never_taken_for_the_servers(
    monkeypatch: pytest.MonkeyPatch, answer: bytes, kinds: set[str]
) -> None:
    monkeypatch.setattr(http, "RESOLVE_SECONDS", 0)

    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await reader.readuntil(b"\r\n\r\n")
        assert asked.startswith(b"CONNECT models.invalid:443 ")
        assert KEY.encode() not in asked
        writer.write(answer)
        await writer.drain()

    async def run() -> None:
        async with raw_server(speak) as port:
            proxy = f"http://user:pass-word@127.0.0.1:{port}"
            async with transport_to("https://models.invalid/v1", proxy=proxy) as transport:
                with pytest.raises(TransportError) as caught:
                    await transport.send(REQUEST)
            assert caught.value.kind in kinds
            assert "pass-word" not in str(caught.value)

    asyncio.run(run())


def test_a_connection_reset_before_the_handshake_is_a_connection_error() -> None:
    async def slam(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        raw = writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    async def run() -> None:
        async with raw_server(slam) as port:
            assert (await failure_of(f"https://127.0.0.1:{port}")).kind == "connect"

    asyncio.run(run())
