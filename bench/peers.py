"""The same bytes, over loopback, through us and through what a user would take instead: CPU of one process, in one run.

    make bench-peers

Each is used as its documentation says: text deltas of a streamed reply are joined. Burst; the server is not counted.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Callable
from importlib.metadata import version

import anthropic
import httpx
import httpx_sse
import openai

from sluice.transport.http import HttpTransport
from sluice.values.messages import UserMessage
from sluice.values.requests import ModelOptions
from sluice.wire import DIALECTS, ReplyReader
from transport import served
from workloads import messages_text, text_stream

ROUNDS = 5
EVENTS = 5000


def ours(dialect: str) -> Callable[[str], int]:
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


def with_openai(url: str) -> int:
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="key")
    stream = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "go"}], stream=True)
    return len("".join(c.choices[0].delta.content or "" for c in stream if c.choices))


def with_anthropic(url: str) -> int:
    client = anthropic.Anthropic(base_url=url, api_key="key")
    made = client.messages.create(model="m", max_tokens=9, messages=[{"role": "user", "content": "go"}], stream=True)
    return len("".join(e.delta.text for e in made if e.type == "content_block_delta" and e.delta.type == "text_delta"))


def with_httpx_sse(url: str) -> int:
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


RACES = {
    "Chat": (
        text_stream,
        {"sluice": ours("openai_chat"), "openai": with_openai, "httpx-sse and json": with_httpx_sse},
    ),
    "Messages": (messages_text, {"sluice": ours("anthropic_messages"), "anthropic": with_anthropic}),
}


def main() -> None:
    """Prints a table; all of a stream's readers must find the same text."""
    versions = ", ".join(f"{name} {version(name)}" for name in ("openai", "anthropic", "httpx-sse"))
    print(f"{versions}; {EVENTS:,} text events, burst over loopback, medians of {ROUNDS} interleaved rounds\n")
    print("| stream | reader | µs an event | times ours |\n|---|---|---|---|")
    for stream, (make, readers) in RACES.items():
        costs: dict[str, list[float]] = {name: [] for name in readers}
        with served(b"".join(make(EVENTS))) as url:
            if len({read(url) for read in readers.values()}) != 1:
                raise SystemExit("the readers found different texts: the figures would mean nothing")
            for _ in range(ROUNDS):
                for name, read in readers.items():
                    began = time.process_time()
                    read(url)
                    costs[name].append((time.process_time() - began) / EVENTS * 1e6)
        base = statistics.median(costs["sluice"])
        for name, found in costs.items():
            print(f"| {stream} | {name} | {statistics.median(found):.1f} | {statistics.median(found) / base:.1f} |")


if __name__ == "__main__":
    main()
