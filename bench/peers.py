"""The same bytes, over loopback, through us and through what a user would take instead: CPU of one process, in one run.

    make bench-peers                       prints
    make bench-peers ARGS=--write          prints, and writes the figures into bench/README.md

Each is used as its documentation says: text deltas of a streamed reply are joined. Burst; the server is not counted. What
is not installed is left out, and said so. A second client of ours is measured like any other: what its rounds differ by is
the noise of the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version

import httpx

from figures import noise, write
from sluice.transport.http import HttpTransport
from sluice.values.messages import UserMessage
from sluice.values.requests import ModelOptions
from sluice.wire import DIALECTS, ReplyReader
from transport import served
from workloads import gemini_text, messages_text, ollama_text, responses_text, text_stream

os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else it asks the network when it is imported
ROUNDS = 7
EVENTS = 5000
PACKAGES = ("openai", "anthropic", "google-genai", "pydantic-ai-slim", "litellm", "ollama", "httpx-sse")
GO = [{"role": "user", "content": "go"}]
Read = Callable[[str], int]


def ours(dialect: str) -> Read:
    """How we read it."""

    async def read(url: str) -> int:
        request = DIALECTS[dialect].request((UserMessage("go"),), (), ModelOptions(model="m"))
        transport = HttpTransport(f"{url}/v1", "key")
        try:
            exchange = await transport.send(request)
            reader = ReplyReader(dialect)
            while not reader.ended and (chunk := await exchange.read()):
                reader.feed(chunk)
            await exchange.close()
            return len(reader.close().text)
        finally:
            await transport.close()

    return lambda url: asyncio.run(read(url))


def openai_chat() -> Read:
    import openai

    def read(url: str) -> int:
        with openai.OpenAI(base_url=f"{url}/v1", api_key="key") as client:
            stream = client.chat.completions.create(model="m", messages=GO, stream=True)
            return len("".join(c.choices[0].delta.content or "" for c in stream if c.choices))

    return read


def openai_responses() -> Read:
    import openai

    def read(url: str) -> int:
        with openai.OpenAI(base_url=f"{url}/v1", api_key="key") as client:
            stream = client.responses.create(model="m", input="go", stream=True)
            return len("".join(e.delta for e in stream if e.type == "response.output_text.delta"))

    return read


def anthropic_messages() -> Read:
    import anthropic

    def read(url: str) -> int:
        with anthropic.Anthropic(base_url=url, api_key="key") as client:
            made = client.messages.create(model="m", max_tokens=9, messages=GO, stream=True)
            deltas = (e.delta for e in made if e.type == "content_block_delta")
            return len("".join(delta.text for delta in deltas if delta.type == "text_delta"))

    return read


def google_genai() -> Read:
    from google import genai

    def read(url: str) -> int:
        client = genai.Client(api_key="key", http_options={"base_url": url})
        stream = client.models.generate_content_stream(model="m", contents="go")
        return len("".join(c.candidates[0].content.parts[0].text or "" for c in stream if _has_text(c)))

    return read


def _has_text(chunk: object) -> bool:
    candidates = getattr(chunk, "candidates", None)
    return bool(candidates and candidates[0].content and candidates[0].content.parts)


def pydantic_ai() -> Read:
    from pydantic_ai.direct import model_request_stream
    from pydantic_ai.messages import ModelRequest
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    async def read(url: str) -> int:
        async with httpx.AsyncClient() as client:
            provider = OpenAIProvider(base_url=f"{url}/v1", api_key="key", http_client=client)
            model = OpenAIChatModel("m", provider=provider)
            async with model_request_stream(model, [ModelRequest.user_text_prompt("go")]) as stream:
                async for _ in stream:
                    pass
                return len(stream.get().text or "")

    return lambda url: asyncio.run(read(url))


def litellm_chat() -> Read:
    import litellm

    litellm.telemetry = False

    def read(url: str) -> int:
        stream = litellm.completion(model="openai/m", api_base=f"{url}/v1", api_key="key", messages=GO, stream=True)
        return len("".join(c.choices[0].delta.content or "" for c in stream if c.choices))

    return read


def ollama_chat() -> Read:
    import ollama

    return lambda url: len(
        "".join(part.message.content or "" for part in ollama.Client(host=url).chat("m", messages=GO, stream=True))
    )


def httpx_sse_chat() -> Read:
    import httpx_sse

    def read(url: str) -> int:
        text = []
        with (
            httpx.Client() as client,
            httpx_sse.connect_sse(client, "POST", f"{url}/v1/chat/completions", json={}) as source,
        ):
            for event in source.iter_sse():
                if event.data == "[DONE]":
                    break
                choices = json.loads(event.data)["choices"]
                text.append(choices[0]["delta"].get("content") or "" if choices else "")
        return len("".join(text))

    return read


RACES: dict[str, tuple[Callable[[int], list[bytes]], str, dict[str, Callable[[], Read]]]] = {
    "Chat": (
        text_stream,
        "openai_chat",
        {
            "openai": openai_chat,
            "pydantic-ai": pydantic_ai,
            "litellm": litellm_chat,
            "httpx-sse and json": httpx_sse_chat,
        },
    ),
    "Messages": (messages_text, "anthropic_messages", {"anthropic": anthropic_messages}),
    "Responses": (responses_text, "openai_responses", {"openai": openai_responses}),
    "Gemini": (gemini_text, "gemini", {"google-genai": google_genai}),
    "Ollama": (ollama_text, "ollama", {"ollama": ollama_chat}),
}


def race(name: str) -> list[str]:
    """The rows of one stream; all of its readers must find the same text."""
    make, dialect, peers = RACES[name]
    readers: dict[str, Read] = {"sluice": ours(dialect), "sluice again": ours(dialect)}
    rows = []
    for peer, made in peers.items():
        try:
            readers[peer] = made()
        except Exception as error:
            rows.append(f"| {name} | {peer} | not measured: {type(error).__name__} | |")
    costs: dict[str, list[float]] = {reader: [] for reader in readers}
    with served(b"".join(make(EVENTS))) as url:
        found = {reader: read(url) for reader, read in readers.items()}
        if len(set(found.values())) != 1:
            raise SystemExit(f"the readers found different texts, so the figures would mean nothing: {found}")
        for _ in range(ROUNDS):
            for reader, read in readers.items():
                began = time.process_time()
                read(url)
                costs[reader].append((time.process_time() - began) / EVENTS * 1e6)
    base = statistics.median(costs["sluice"])
    made_rows = [
        f"| {name} | {reader} | {statistics.median(cost):.1f} | {statistics.median(cost) / base:.1f} |"
        for reader, cost in costs.items()
    ]
    return made_rows + rows


def main() -> None:
    """One table."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--write", action="store_true", help="write the figures into bench/README.md")
    given = options.parse_args()
    lines = [
        f"{', '.join(map(_version, PACKAGES))}; CPython {platform.python_version()}; {EVENTS:,} text events, burst over "
        f"loopback, medians of {ROUNDS} interleaved rounds; {noise()}.",
        "",
        "| stream | reader | µs an event | times ours |",
        "|---|---|---|---|",
    ]
    for name in RACES:
        lines += race(name)
    print("\n".join(lines))
    if given.write:
        write("peers", "\n".join(lines))


def _version(name: str) -> str:
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return f"{name} (not installed)"


if __name__ == "__main__":
    main()
