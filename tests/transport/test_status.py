from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

import pytest

from sluice.errors import TransportError
from sluice.limits import Limits
from sluice.transport.status import error_of, is_success


class FakeExchange:
    def __init__(self, status: int, reads: Iterable[bytes | TransportError], headers: Mapping[str, str] = {}) -> None:
        self.status = status
        self.headers = headers
        self.taken = 0
        self.closed = False
        self._reads = iter(reads)

    def redact(self, text: str) -> str:
        return text.replace("the-own-key", "[key]")

    async def read(self) -> bytes:
        item = next(self._reads, b"")
        if isinstance(item, TransportError):
            raise item
        self.taken += len(item)
        return item

    async def close(self) -> None:
        self.closed = True


class SilentExchange(FakeExchange):
    async def read(self) -> bytes:
        if data := await super().read():
            return data
        await asyncio.Event().wait()
        raise AssertionError


def error(status: int, body: bytes, headers: Mapping[str, str] | None = None) -> TransportError:
    exchange = FakeExchange(status, [body], headers or {})
    found = asyncio.run(error_of(exchange, Limits(), now=0.0))
    assert exchange.closed
    assert "\n" not in str(found)
    return found


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"error": {"message": "no such model", "type": "x"}}', "no such model"),
        (b'{"error": "no such model"}', "no such model"),
        (b'{"message": "no such model"}', "no such model"),
        (b'[{"error": {"message": "no such model"}}]', "no such model"),
        (b'{"detail": [{"msg": 1, "message": "no such model"}]}', "no such model"),
        (b"<html><head><title>502 Bad &amp; Gateway</title></head></html>", "an HTML page titled “502 Bad & Gateway”"),
        (b"plain words", "plain words"),
        (b'{"error": {"code": 5}}', '{"error": {"code": 5}}'),
        (b"\xff\xfe", "\ufffd"),
        (b"[" * 5000, "[[["),
    ],
)
def test_the_providers_own_words_are_shown(body: bytes, words: str) -> None:
    assert words in str(error(500, body))


@pytest.mark.parametrize(
    ("status", "hint"),
    [
        (401, "check the API key"),
        (404, "check the base URL and the model name"),
        (429, "too many requests"),
        (503, "try again later"),
        (418, "refused"),
    ],
)
def test_a_status_says_what_to_do(status: int, hint: str) -> None:
    found = error(status, b"")
    assert found.kind == "status"
    assert found.status == status
    assert str(found).startswith(f"HTTP {status} (")
    assert hint in str(found)


def test_a_redirect_says_that_it_was_not_followed_and_shows_only_where_to() -> None:
    found = error(307, b"", {"location": "https://other.example/p?key=the-own-key"})
    assert "https://other.example" in str(found)
    assert "not followed" in str(found)
    assert "the-own-key" not in str(found)


def test_no_key_is_shown_even_if_the_server_echoes_one() -> None:
    found = error(
        401, b'{"error": "bad key the-own-key, sk-proj-abcdef0123456789, sk-ab***********cdef, Bearer abc.def"}'
    )
    for text in (str(found), found.body):
        assert "the-own-key" not in text
        assert "sk-" not in text
        assert "abc.def" not in text


def test_control_characters_are_visible() -> None:
    assert "\\x1b[2J" in str(error(500, b"\x1b[2Jgone"))


def test_retry_after_is_kept() -> None:
    assert error(429, b"", {"retry-after": "12"}).retry_after == 12


def test_only_so_much_of_the_body_is_read() -> None:
    exchange = FakeExchange(500, (b"x" * 1000 for _ in range(10**9)))
    found = asyncio.run(error_of(exchange, Limits(max_error_body_bytes=64 * 1024)))
    assert len(found.body) == 64 * 1024
    assert exchange.taken <= 65 * 1024
    assert exchange.closed


def test_a_silent_or_broken_body_still_gives_the_status() -> None:
    silent = SilentExchange(500, [b'{"error": "half'])
    assert "half" in str(asyncio.run(error_of(silent, Limits(idle_seconds=0.01))))
    assert silent.closed
    broken = FakeExchange(503, [b"words", TransportError("broken", "")])
    assert "words" in str(asyncio.run(error_of(broken, Limits())))


def test_success_is_two_hundred_and_something() -> None:
    assert [s for s in (199, 200, 204, 299, 300, 404) if is_success(s)] == [200, 204, 299]
