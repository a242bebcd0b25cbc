"""The list of models: asked in each dialect's own way, each key to its own provider, bounded in time, nothing raised."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from sluice.errors import ConfigurationError
from sluice.run import model_list
from sluice.run.model_list import ProviderModels, list_models
from sluice.run.models import Provider
from sluice.run.settings import Settings

KEY = "sk-" + "k3y" * 10


class Server:
    """Answers every request with `body`, or not at all; keeps the heads of requests."""

    def __init__(self, body: bytes, status: str = "200 OK") -> None:
        self.answer = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body
        self.silent = False
        self.heads: list[str] = []
        self.url = ""

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Server]:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode().lower())
            if self.silent:
                await reader.read()
            writer.write(self.answer)
            await writer.drain()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            yield self


def _list(server: Server, dialect: str, path: str = "/v1", **settings: Any) -> tuple[ProviderModels, str]:
    async def run() -> ProviderModels:
        async with server.listening():
            own = Provider(name="mine", base_url=server.url + path, dialect=dialect, key_env=("MINE",))
            made = Settings(model="mine:m", providers=(own,), **settings)
            return (await list_models(made, {"MINE": KEY}, "mine"))[0]

    return asyncio.run(run()), server.heads[0]


@pytest.mark.parametrize(
    ("dialect", "path", "body", "line", "header"),
    [
        ("openai_chat", "/v1", {"data": [{"id": "b"}, {"id": "a"}]}, "get /v1/models ", f"authorization: bearer {KEY}"),
        ("openai_chat", "/v1/chat/completions", {"data": [{"id": "b"}, {"id": "a"}]}, "get /v1/models ", "bearer"),
        ("openai_responses", "/v1", {"data": [{"id": "b"}, {"id": "a"}]}, "get /v1/models ", "bearer"),
        ("anthropic_messages", "/v1", {"data": [{"id": "b"}, {"id": "a"}]}, "get /v1/models?limit=1000", "x-api-key: "),
        (
            "gemini",
            "/v1beta",
            {"models": [{"name": "models/b"}, {"name": "a"}]},
            "get /v1beta/models?",
            "x-goog-api-key",
        ),
        ("ollama", "", {"models": [{"name": "b"}, {"name": "a"}]}, "get /api/tags ", "user-agent: sluice"),
    ],
)
def test_each_dialect_is_asked_in_its_own_way(
    dialect: str, path: str, body: Mapping[str, Any], line: str, header: str
) -> None:
    found, head = _list(Server(json.dumps(body).encode()), dialect, path)
    assert (found.reachable, found.models, found.key, found.chosen) == (True, ("b", "a"), "MINE", True)
    assert head.startswith(line)
    assert header.lower() in head
    assert ("authorization" in head) == (dialect.startswith("openai"))


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b'{"error": {"message": "bad key %s"}}' % KEY.encode(), "401 Unauthorized", "check the API key"),
        (b"<html>hello</html>", "200 OK", "no JSON"),
        (b"[1, 2]", "200 OK", "no list of models"),
        (b'{"data": {}}', "200 OK", "no list of models"),
        (b"", "404 Not Found", "check the base URL"),
    ],
)
def test_what_goes_wrong_is_said_without_the_key(body: bytes, status: str, words: str) -> None:
    found, _head = _list(Server(body, status), "openai_chat")
    assert (found.reachable, found.models) == (False, ())
    assert words in found.problem
    assert KEY not in repr(found)


def test_odd_rows_are_passed_over() -> None:
    body = json.dumps({"data": [1, None, {"id": ""}, {"id": 7}, {"other": "x"}, {"id": "good"}]}).encode()
    assert _list(Server(body), "openai_chat")[0].models == ("good",)


def test_a_server_that_says_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_list, "LIST_SECONDS", 0.1)
    server = Server(b"")
    server.silent = True
    found, _head = _list(server, "openai_chat")
    assert found.reachable is False


def test_a_list_without_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_list, "_LIST_BYTES", 1000)
    found, _head = _list(Server(b" " * 100_000), "openai_chat")
    assert found.reachable is False
    assert "1000 bytes allowed" in found.problem


def test_a_key_goes_to_its_own_provider_only(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str | None]] = []

    async def note(provider: Provider, key: str | None, _settings: Settings) -> tuple[str, ...]:
        asked.append((provider.name, key))
        return ("m",)

    monkeypatch.setattr(model_list, "_asked", note)
    environ = {"ANTHROPIC_API_KEY": "sk-a", "SLUICE_API_KEY": KEY}
    found = asyncio.run(list_models(Settings(model="openai:gpt-5", api_key=KEY), environ))
    assert found[0].provider == "openai"
    assert asked == [("openai", KEY), ("anthropic", "sk-a"), ("ollama", None)]
    by_name = {one.provider: one for one in found}
    assert by_name["gemini"].problem == "not asked: no key (set GEMINI_API_KEY or GOOGLE_API_KEY)"
    assert by_name["gemini"].reachable is None
    asked.clear()
    elsewhere = Settings(model="anthropic:x", base_url="https://other.example/v1", api_key=KEY)
    asyncio.run(list_models(elsewhere, environ, "anthropic"))
    assert asked == [("anthropic", KEY)]  # at that other address, with the key of the settings
    asked.clear()
    asyncio.run(list_models(Settings(model="anthropic:x", base_url="https://other.example/v1"), environ, "anthropic"))
    assert asked == []  # the provider's own key does not go to another address


def test_a_providers_own_command_is_asked_for_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str | None] = []

    async def note(_provider: Provider, key: str | None, _settings: Settings) -> tuple[str, ...]:
        asked.append(key)
        return ("m",)

    monkeypatch.setattr(model_list, "_asked", note)
    mine = [Provider(name="mine", base_url="https://x.example", key_command=("echo", KEY))]
    mine += [Provider(name="broken", base_url="https://y.example", key_command=("false",))]
    found = asyncio.run(list_models(Settings(providers=tuple(mine)), {}))
    by_name = {one.provider: one for one in found}
    assert (by_name["mine"].key, by_name["mine"].models) == ("its own", ("m",))
    assert KEY in asked
    assert "key_command 'false' failed" in by_name["broken"].problem


def test_a_name_that_is_no_provider_is_said() -> None:
    with pytest.raises(ConfigurationError, match="no provider is named 'x'; there are: openai-chat, openai"):
        asyncio.run(list_models(Settings(), {}, "x"))
