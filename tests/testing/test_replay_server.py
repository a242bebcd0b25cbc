"""The replay server, asked by clients that share no code with it."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluice.errors import ConfigurationError
from sluice.testing.replay_server import Body, ReplayServer, load_bodies, main, parse_fault

STREAM = b"data: 1\n\ndata: 2\n\ndata: [DONE]\n\n"


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    before = len(os.listdir("/dev/fd")), threading.active_count()
    yield
    assert (len(os.listdir("/dev/fd")), threading.active_count()) == before


def ask(
    port: int, method: str = "POST", path: str = "/v1/chat/completions", body: bytes = b"{}"
) -> tuple[int, dict[str, str], bytes]:
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        client.request(method, path, body if method == "POST" else None)
        answer = client.getresponse()
        headers = {name.lower(): value for name, value in answer.getheaders()}
        return answer.status, headers, answer.read()
    finally:
        client.close()


def raw(port: int, request: bytes = b"POST / HTTP/1.1\r\ncontent-length: 0\r\n\r\n") -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall(request)
        got = b""
        while data := client.recv(65536):
            got += data
        return got


def test_file_k_answers_request_k_and_the_last_one_for_ever() -> None:
    with ReplayServer([b"one", b"two"]) as server:
        assert [ask(server.port)[2] for _ in range(4)] == [b"one", b"two", b"two", b"two"]
        assert server.url == f"http://127.0.0.1:{server.port}"


def test_requests_are_kept_whatever_their_path() -> None:
    with ReplayServer([STREAM]) as server:
        status, headers, body = ask(server.port, path="/any/thing?x=1", body=b'{"a": 1}')
        assert (status, headers["content-type"], body) == (200, "text/event-stream", STREAM)
        (request,) = server.requests
        assert (request.path, request.body) == ("/any/thing?x=1", b'{"a": 1}')
        assert request.headers["content-length"] == "8"


def test_a_get_says_what_this_is_and_is_no_request() -> None:
    with ReplayServer([STREAM]) as server:
        status, headers, body = ask(server.port, "GET", "/")
        assert (status, headers["content-type"]) == (200, "text/plain")
        assert b"replay server" in body
        assert not server.requests


def test_a_chunked_request_is_read() -> None:
    with ReplayServer([STREAM]) as server:
        request = b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n"
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as client:
            client.sendall(request)
            assert client.recv(10).startswith(b"HTTP/1.1")
        assert server.requests[0].body == b"abcde"


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"hello\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: x\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: 99999999999\r\n\r\n",
        b"POST / HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nx: " + b"y" * 100_000 + b"\r\n\r\n",
        b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nfffffffff\r\n",
    ],
)
def test_what_is_no_request_or_too_large_is_refused(request_bytes: bytes) -> None:
    with ReplayServer([STREAM]) as server:
        with contextlib.suppress(ConnectionError):  # refused while we were still sending
            assert raw(server.port, request_bytes).startswith(b"HTTP/1.1 400 ")
        assert not server.requests
        assert ask(server.port)[2] == STREAM


def test_split_gives_writes_of_that_many_bytes() -> None:
    with ReplayServer([STREAM], split=7, fault="cut@1000") as server:
        got = raw(server.port).partition(b"\r\n\r\n")[2]
    sizes = []
    while got:
        size, _, rest = got.partition(b"\r\n")
        sizes.append(int(size, 16))
        got = rest[sizes[-1] + 2 :]
    assert sizes[:-1] == [7] * (len(STREAM) // 7)
    assert sum(sizes) == len(STREAM)


def test_pace_puts_time_between_events_and_changes_no_byte() -> None:
    with ReplayServer([STREAM], pace_ms=1) as server:
        assert ask(server.port)[2] == STREAM


@pytest.mark.parametrize(
    ("fault", "status", "kind", "body"),
    [
        ("401", 401, "application/json", b"replayed fault 401"),
        ("429", 429, "application/json", b"replayed fault 429"),
        ("503", 503, "application/json", b"replayed fault 503"),
        ("html", 200, "text/html; charset=utf-8", b"<title>"),
        ("json", 200, "application/json", b'"error"'),
        ("garbage", 200, "text/event-stream", b"\x00\x01\x02"),
    ],
)
def test_faults_of_the_answer(fault: str, status: int, kind: str, body: bytes) -> None:
    with ReplayServer([STREAM], fault=fault) as server:
        found = ask(server.port)
        assert (found[0], found[1]["content-type"]) == (status, kind)
        assert body in found[2]
        assert ("retry-after" in found[1]) is (fault == "429")


def test_gzip_and_empty() -> None:
    with ReplayServer([STREAM], fault="gzip") as server:
        _, headers, body = ask(server.port)
        assert headers["content-encoding"] == "gzip"
        assert gzip.decompress(body) == STREAM
    with ReplayServer([STREAM], fault="empty") as server:
        assert ask(server.port)[2] == b""


@pytest.mark.parametrize(
    ("fault", "statuses"), [("500@2", [200, 500, 200]), ("500#1", [500, 200, 200]), ("500", [500] * 3)]
)
def test_a_fault_may_be_limited_to_one_request(fault: str, statuses: list[int]) -> None:
    with ReplayServer([STREAM], fault=fault) as server:
        assert [ask(server.port)[0] for _ in range(3)] == statuses


def test_cut_ends_an_unfinished_body() -> None:
    with ReplayServer([STREAM], fault="cut@10#1") as server:
        with pytest.raises(http.client.IncompleteRead) as caught:
            ask(server.port)
        assert caught.value.partial == STREAM[:10]
        assert ask(server.port)[2] == STREAM


def test_reset_is_a_reset() -> None:
    with ReplayServer([STREAM], fault="reset@10") as server, pytest.raises(ConnectionResetError):
        raw(server.port)


def test_stall_keeps_the_connection_and_sees_the_client_go() -> None:
    with ReplayServer([STREAM], fault="stall@10") as server:
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as client:
            client.sendall(b"POST / HTTP/1.1\r\ncontent-length: 0\r\n\r\n")
            got = b""
            while STREAM[:10] not in got:
                got += client.recv(100)
            assert server.disconnects == 0
        while not server.disconnects:
            pass
    assert not got.endswith(b"0\r\n\r\n")


def test_stopping_does_not_wait_for_a_stalled_client() -> None:
    with ReplayServer([STREAM], fault="stall@0") as server:
        client = socket.create_connection(("127.0.0.1", server.port), timeout=20)
        client.sendall(b"POST / HTTP/1.1\r\ncontent-length: 0\r\n\r\n")
        assert client.recv(8) == b"HTTP/1.1"
    while client.recv(100):
        pass
    client.close()


@pytest.mark.parametrize("text", ["", "frobnicate", "cut@x", "200", "999", "cut@-1", "cut@1@2"])
def test_an_unknown_fault_is_a_configuration_error(text: str) -> None:
    with pytest.raises(ConfigurationError, match="unknown fault"):
        parse_fault(text)


def test_wrong_options_are_configuration_errors() -> None:
    with pytest.raises(ConfigurationError):
        ReplayServer([])
    with pytest.raises(ConfigurationError):
        ReplayServer([STREAM], split=-1)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        server = ReplayServer([STREAM], port=taken.getsockname()[1])
        with pytest.raises(ConfigurationError, match="cannot listen"), server:
            pass


def test_files_get_their_type_and_cassettes_their_reads(tmp_path: Path) -> None:
    (tmp_path / "a.sse").write_bytes(STREAM)
    (tmp_path / "b.json").write_bytes(b"{}")
    (tmp_path / "c.ndjson").write_bytes(b"{}\n{}\n")
    lines = [
        {"kind": "request", "exchange": 1},
        {"kind": "response", "exchange": 1, "status": 201, "headers": [["content-type", "text/x"]]},
        {"kind": "read", "exchange": 1, "data": "YWI="},
        {"kind": "read", "exchange": 1, "data": "Y2Q="},
        {"kind": "end", "exchange": 1},
    ]
    (tmp_path / "d.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    bodies = load_bodies(sorted(tmp_path.iterdir()))
    assert bodies[:3] == [
        Body((STREAM,), "text/event-stream"),
        Body((b"{}",), "application/json"),
        Body((b"{}\n{}\n",), "application/x-ndjson"),
    ]
    assert bodies[3] == Body((b"ab", b"cd"), "text/x", 201)
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load_bodies([tmp_path / "none"])


def start(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-X", "dev", "-m", "sluice.testing.replay_server", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_command_says_where_it_listens_and_ends_on_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    file = tmp_path / "a.sse"
    file.write_bytes(STREAM)
    with start(str(file), "--split", "3") as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        address = first.removeprefix("listening on http://127.0.0.1:")
        assert address != first
        assert ask(int(address))[2] == STREAM
        process.send_signal(number)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (0, "", "")


def test_once_ends_when_each_file_was_served(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(STREAM)
    with start(str(tmp_path / "a"), str(tmp_path / "b"), "--once") as process:
        assert process.stdout is not None
        port = int(process.stdout.readline().rpartition(":")[2])
        assert [ask(port)[2] for _ in range(2)] == [STREAM, STREAM]
        assert process.wait(timeout=30) == 0


def test_a_mistake_on_the_command_line_is_one_line_and_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a").write_bytes(STREAM)
    assert main([str(tmp_path / "none")]) == 2
    assert main([str(tmp_path / "a"), "--fault", "nonsense"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 2
