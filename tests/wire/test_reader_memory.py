"""What a reader holds: little when nothing comes, and no more than the unfinished event where no text is kept."""

from __future__ import annotations

import gc
import tracemalloc

import msgspec
import pytest
from chat_streams import DONE, chunk, text

from sluice.limits import DEFAULT_LIMITS, KIB, MIB
from sluice.wire import ReplyReader

BEGUN = {
    "openai_chat": chunk({"role": "assistant", "content": ""}),
    "openai_responses": b'data: {"type":"response.created","response":{"id":"r","model":"m","status":"in_progress"}}\n\n',
    "anthropic_messages": b'data: {"type":"message_start","message":{"id":"m","model":"m","usage":{}}}\n\n',
    "gemini": b'data: {"candidates":[{"content":{"parts":[{"text":"a"}],"role":"model"}}],"modelVersion":"m"}\n\n',
    "ollama": b'{"model":"m","message":{"role":"assistant","content":"a"},"done":false}\n',
}


@pytest.mark.parametrize("dialect", BEGUN)
def test_an_idle_open_reader_takes_less_than_4_kib(dialect: str) -> None:
    ReplyReader(dialect).feed(BEGUN[dialect])  # what is made once
    gc.collect()
    tracemalloc.start()
    try:
        readers = [ReplyReader(dialect) for _ in range(100)]
        for reader in readers:
            reader.feed(BEGUN[dialect])
        gc.collect()
        held = tracemalloc.get_traced_memory()[0] / len(readers)
    finally:
        tracemalloc.stop()
    assert held < 4 * KIB, f"{held:.0f} bytes"


def test_a_hundred_megabytes_of_text_that_is_not_kept_take_less_than_8() -> None:
    events = text(*["12345678 é🍸\n" * 1200] * 4) * 5  # about 20 KB each
    rounds = 100 * MIB // len(events) + 1
    limits = msgspec.structs.replace(DEFAULT_LIMITS, max_stream_bytes=200 * MIB)
    reader = ReplyReader("openai_chat", limits=limits, keep=False)
    size = 0
    tracemalloc.start()
    try:
        for _ in range(rounds):
            for start in range(0, len(events), 64 * KIB):
                size += sum(len(delta.text) for delta in reader.feed(events[start : start + 64 * KIB]))  # type: ignore[union-attr]
        reader.feed(chunk({}, "stop") + DONE)
        reply = reader.close()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert size == 4 * 5 * rounds * 1200 * len("12345678 é🍸\n")
    assert (reply.text, reply.kept) == ("", False)
    assert peak < 8 * MIB, f"{peak / MIB:.2f} MiB"
