from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.errors import ConfigurationError, TransportError
from sluice.limits import Limits
from sluice.transport.cassette import CassetteTransport, RecordingTransport, load_cassette
from sluice.transport.status import error_of
from sluice.values.ports import Exchange, Transport
from sluice.values.requests import Request

REQUEST = Request(dialect="openai_chat", path="/chat/completions", body=b'{"n": 1}', headers=(("X-Own", "1"),))
SECRET = "sk-very-secret-0123456789"
Step = bytes | TransportError


class Ticks:
    """A clock that goes on one second with each look."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


class FakeExchange:
    def __init__(self, steps: Sequence[Step], status: int = 200) -> None:
        self.status = status
        self.headers = {
            "content-type": "text/event-stream",
            "set-cookie": f"id={SECRET}",
            "x-api-key-used": SECRET,
            "retry-after": "3",
        }
        self._steps = iter(steps)

    def redact(self, text: str) -> str:
        return text.replace(SECRET, "[key]")

    async def read(self) -> bytes:
        step = next(self._steps, b"")
        if isinstance(step, TransportError):
            raise step
        return step

    async def close(self) -> None:
        pass


class FakeTransport:
    def __init__(self, *answers: Sequence[Step] | TransportError, status: int = 200) -> None:
        self._answers = iter(answers)
        self._status = status
        self.closed = False

    async def send(self, request: Request) -> Exchange:
        answer = next(self._answers)
        if isinstance(answer, TransportError):
            raise answer
        return FakeExchange(answer, self._status)

    async def close(self) -> None:
        self.closed = True


async def played(transport: Transport) -> list[bytes | str]:
    """The reads of one exchange; its error, if any, as the last item."""
    got: list[bytes | str] = []
    try:
        exchange = await transport.send(REQUEST)
        while data := await exchange.read():
            got.append(data)
        await exchange.close()
    except TransportError as error:
        got.append(f"{error.kind}: {error}")
    return got


async def record(
    path: Path, inner: FakeTransport, times: int = 1, secrets: Sequence[str] = (SECRET,)
) -> list[list[bytes | str]]:
    transport = RecordingTransport(inner, path, secrets=secrets, clock=Ticks())
    try:
        return [await played(transport) for _ in range(times)]
    finally:
        await transport.close()
        assert inner.closed


@given(st.lists(st.lists(st.binary(min_size=1, max_size=40), max_size=6), min_size=1, max_size=4))
def test_a_replay_gives_the_same_reads(tmp_path_factory: pytest.TempPathFactory, bodies: list[list[bytes]]) -> None:
    path = tmp_path_factory.mktemp("cassette") / "c.jsonl"

    async def run() -> None:
        live = await record(path, FakeTransport(*bodies), len(bodies))
        replay = CassetteTransport(path)
        assert [await played(replay) for _ in bodies] == live == bodies
        (last,) = await played(replay)
        assert str(last).startswith("no_recording: ")

    asyncio.run(run())


def test_request_status_headers_and_times_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    asyncio.run(record(path, FakeTransport([b"one", b"two"], status=207)))
    (exchange,) = load_cassette(path)
    assert exchange.request.data == REQUEST.body
    assert exchange.request.headers == REQUEST.headers
    assert (exchange.request.path, exchange.request.auth) == (REQUEST.path, "bearer")
    assert exchange.response is not None
    assert exchange.response.status == 207
    assert dict(exchange.response.headers)["retry-after"] == "3"
    times = [read.at for read in exchange.reads]
    assert times == sorted(times)
    assert times[0] > exchange.response.at > 0
    assert exchange.last is not None
    assert exchange.last.kind == "end"


def test_recorded_speed_waits_as_the_recording_did(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async def run() -> None:
        await record(path, FakeTransport([b"one", b"two"]), secrets=())
        assert await played(CassetteTransport(path, speed="recorded", sleep=sleep)) == [b"one", b"two"]
        (exchange,) = load_cassette(path)
        assert exchange.last is not None
        assert sum(waits) == pytest.approx(exchange.last.at)
        assert len(waits) == 4

    asyncio.run(run())


@pytest.mark.parametrize(
    "answer",
    [
        TransportError("refused", "nobody there"),
        [b"one", TransportError("broken", "the line went dead")],
        [TransportError("idle_timeout", "silence")],
    ],
)
def test_a_failure_is_replayed_as_itself(tmp_path: Path, answer: Sequence[Step] | TransportError) -> None:
    path = tmp_path / "c.jsonl"

    async def run() -> None:
        (live,) = await record(path, FakeTransport(answer))
        assert await played(CassetteTransport(path)) == live

    asyncio.run(run())


def test_a_reader_that_went_away_leaves_a_recording_that_ends_there(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"

    async def run() -> None:
        transport = RecordingTransport(FakeTransport([b"one", b"two"]), path)
        exchange = await transport.send(REQUEST)
        await exchange.read()
        await exchange.close()
        await exchange.close()
        await transport.close()
        got = await played(CassetteTransport(path))
        assert got[0] == b"one"
        assert str(got[1]).startswith("broken: ")

    asyncio.run(run())


@given(st.integers(0, 60), st.lists(st.integers(1, 9), max_size=12))
def test_no_secret_enters_however_the_reads_cut_it(
    tmp_path_factory: pytest.TempPathFactory, before: int, cuts: list[int]
) -> None:
    path = tmp_path_factory.mktemp("cassette") / "c.jsonl"
    body = b"." * before + SECRET.encode() + b"-tail" + SECRET.encode()
    reads = []
    for cut in cuts:
        if body:
            reads.append(body[:cut])
            body = body[cut:]
    reads += [body] if body else []
    asyncio.run(record(path, FakeTransport(reads)))
    (exchange,) = load_cassette(path)
    kept = [read.data for read in exchange.reads]
    assert [len(data) for data in kept] == [len(data) for data in reads]
    masked = b"*" * len(SECRET)
    assert b"".join(kept) == b"." * before + masked + b"-tail" + masked
    assert SECRET not in path.read_text()


def test_neither_headers_nor_bodies_nor_errors_bring_a_secret_in(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    request = Request(
        dialect="d", path="/p", body=SECRET.encode(), headers=(("Authorization", "Bearer other"), ("Cookie", "crumb"))
    )

    async def run() -> None:
        transport = RecordingTransport(FakeTransport([b"x"], TransportError("tls", SECRET)), path, secrets=[SECRET])
        await (await transport.send(request)).close()
        with pytest.raises(TransportError):
            await transport.send(request)
        await transport.close()

    asyncio.run(run())
    text = path.read_text()
    decoded = [
        entry for exchange in load_cassette(path) for entry in (exchange.request, exchange.response, exchange.last)
    ]
    for secret in (SECRET, "other", "crumb"):
        assert secret not in text
        assert secret not in str(decoded)


def test_the_file_is_private_and_appended_to(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    asyncio.run(record(path, FakeTransport([b"one"])))
    os.chmod(path, 0o644)
    with path.open("ab") as file:
        file.write(b'{"kind": "req')  # a recorder was killed inside a line
    asyncio.run(record(path, FakeTransport([b"two"])))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [[read.data for read in exchange.reads] for exchange in load_cassette(path)] == [[b"one"], [b"two"]]


def test_a_cassette_cut_anywhere_is_short_or_refused_but_never_wrong(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    asyncio.run(record(path, FakeTransport([b"one", b"two"])))
    raw = path.read_bytes()
    for length in range(len(raw)):
        path.write_bytes(raw[:length])
        try:
            transport = CassetteTransport(path)
        except ConfigurationError:
            assert raw[:length].count(b"\n") == 0
            continue
        got = asyncio.run(played(transport))
        assert str(got.pop()).startswith("broken: ")
        assert got == [b"one", b"two"][: len(got)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "is empty"),
        (b"hello\n", "line 1"),
        (b'{"kind": "request", "exchange": 1}\n{"kind": "dance", "exchange": 1}\n', "line 2"),
        (b'{"kind": "end", "exchange": 1}\n', "before its request"),
        (b'{"kind": "request", "exchange": 1}\n' * 2, "second request"),
        (b"\xff\n", "line 1"),
        (b'{"kind": "request", "exchange": 1, "data": "?"}\n', "line 1"),
    ],
)
def test_garbage_is_one_clear_line(tmp_path: Path, text: bytes, words: str) -> None:
    path = tmp_path / "c.jsonl"
    path.write_bytes(text)
    with pytest.raises(ConfigurationError, match=words) as caught:
        CassetteTransport(path)
    assert "\n" not in str(caught.value)
    with pytest.raises(ConfigurationError):
        load_cassette(tmp_path / "none")


def test_a_cassette_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot be written"):
        RecordingTransport(FakeTransport(), tmp_path / "no" / "folder")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async def run() -> None:
        transport = RecordingTransport(FakeTransport([b"one"]), tmp_path / "c")
        full = os.open("/dev/full", os.O_WRONLY)
        os.dup2(full, transport._fd)
        os.close(full)
        with pytest.raises(ConfigurationError, match="No space left"):
            await transport.send(REQUEST)
        await transport.close()

    asyncio.run(run())


def test_a_recorded_status_error_reads_as_one_and_keys_stay_hidden(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    body = msgspec.json.encode({"error": f"bad {SECRET}"})

    async def run() -> None:
        transport = RecordingTransport(FakeTransport([body], status=401), path, secrets=[SECRET])
        live = await error_of(await transport.send(REQUEST), Limits(), now=0)
        await transport.close()
        assert SECRET not in str(live) + live.body
        replayed = await error_of(await CassetteTransport(path).send(REQUEST), Limits(), now=0)
        assert (replayed.status, replayed.retry_after) == (401, 3)
        assert SECRET not in str(replayed)

    asyncio.run(run())
