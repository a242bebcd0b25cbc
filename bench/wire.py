"""What the reader costs beside the floor: ratios of CPU in one run, growth with size, peak memory.

    python bench/wire.py            prints
    python bench/wire.py --write    prints, and writes the figures into bench/README.md
    python bench/wire.py --check    prints, and ends with 1 if a ratio is over its target

Floor and reader take turns on the same reads, so that what else the machine does meets both alike; a ratio is the median
of the ratios of neighbours. This is burst work: all bytes are there already. A live stream costs an event-loop wake-up of
some 30 µs for each read, beside which all of this is small; these figures say nothing about it.
"""

from __future__ import annotations

import argparse
import gc
import math
import platform
import random
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable

import msgspec

from figures import noise, write
from floor import Floor, GeminiFloor, MessagesFloor, OllamaFloor, ResponsesFloor
from sluice.limits import DEFAULT_LIMITS
from sluice.values.deltas import CallClosed, Delta, TextDelta
from sluice.values.messages import Reply
from sluice.wire import ReplyReader
from sluice.wire.intent import WatchedCalls
from workloads import (
    arguments,
    calls_stream,
    file_stream,
    gemini_call,
    gemini_text,
    messages_calls,
    messages_text,
    ollama_call,
    ollama_text,
    pieces,
    responses_calls,
    responses_text,
    text_stream,
)

ROUNDS = 11
KB, MB = 1024, 1024 * 1024
READS = ((0, "whole", 1.6), (1460, "1,460 bytes", 1.6), (None, "one event", 2.0), (64, "64 bytes", 2.5))
FLOORS = {
    "openai_chat": Floor,
    "anthropic_messages": MessagesFloor,
    "openai_responses": ResponsesFloor,
    "gemini": GeminiFloor,
    "ollama": OllamaFloor,
}
RAISED = msgspec.structs.replace(
    DEFAULT_LIMITS, max_arguments_bytes=64 * MB, max_stream_bytes=1024 * MB, max_event_bytes=64 * MB
)


def read_floor(reads: list[bytes], dialect: str = "openai_chat") -> tuple[str, list[str]]:
    """The floor's answer."""
    floor = FLOORS[dialect]()
    for read in reads:
        floor.feed(read)
    return floor.close()


def read_ours(reads: list[bytes], dialect: str = "openai_chat", *, intent: bool = False) -> Reply:
    """The reader's answer, with the limits raised."""
    reader = ReplyReader(dialect, limits=RAISED, intent=intent)
    for read in reads:
        reader.feed(read)
    return reader.close()


def cpu(work: Callable[[list[bytes], str], object], reads: list[bytes], dialect: str = "openai_chat") -> float:
    """CPU seconds of one pass."""
    gc.collect()
    began = time.process_time()
    work(reads, dialect)
    return time.process_time() - began


def same_answer(reads: list[bytes], dialect: str) -> None:
    """Both must have done the same work."""
    text, calls = read_floor(reads, dialect)
    reply = read_ours(reads, dialect)
    if (reply.text, [c.arguments for c in reply.tool_calls]) != (text, calls):
        raise SystemExit("floor and reader give different answers: the figures would mean nothing")
    if any(c.status != "whole" for c in reply.tool_calls):
        raise SystemExit("a call of the workload is not whole")


def as_bytes_go_in(stream: list[bytes]) -> None:
    """Ends the run unless every text event gives its delta with its very last byte, and a call its end likewise."""
    reader = ReplyReader("openai_chat", limits=RAISED)
    shown = 0
    for event in stream:
        if reader.feed(event[:-1]):
            raise SystemExit("a delta came out before its event was complete")
        got = reader.feed(event[-1:])
        wanted = b'"delta":{"content":" ' in event
        if wanted != (len(got) == 1 and isinstance(got[0], TextDelta)):
            raise SystemExit("a delta did not come out with the last byte of its event")
        if b'"finish_reason":"tool_calls"' in event and not any(isinstance(d, CallClosed) for d in got):
            raise SystemExit("the end of a call did not come out with the terminal mark")
        shown += len(got)
    print(f"deltas come out as their bytes go in: {shown} deltas of {len(stream)} events, each with its last byte")


def ratios() -> tuple[list[str], bool]:
    """The table of ratios, and whether all are within their targets."""
    rows = [
        "| stream | reads | floor, µs an event | reader, µs an event | ratio | target |",
        "|---|---|---|---|---|---|",
    ]
    fine = True
    for name, dialect, stream in (
        ("text, 2,000 events", "openai_chat", text_stream()),
        ("3 calls × 64 KB, interleaved", "openai_chat", calls_stream()),
        ("Messages: text, 2,000 events", "anthropic_messages", messages_text()),
        ("Messages: 3 calls × 64 KB", "anthropic_messages", messages_calls()),
        ("Responses: text, 2,000 events", "openai_responses", responses_text()),
        ("Responses: 3 calls × 64 KB", "openai_responses", responses_calls()),
        ("Gemini: text, 2,000 events", "gemini", gemini_text()),
        ("Ollama: text, 2,000 lines", "ollama", ollama_text()),
    ):
        for size, words, target in READS:
            reads = pieces(stream, size)
            same_answer(reads, dialect)
            pairs = [(cpu(read_floor, reads, dialect), cpu(read_ours, reads, dialect)) for _ in range(ROUNDS)]
            floor, ours = (statistics.median(column) / len(stream) * 1e6 for column in zip(*pairs, strict=True))
            ratio = statistics.median(b / a for a, b in pairs)
            fine &= ratio <= target
            mark = "" if ratio <= target else " **over**"
            rows.append(f"| {name} | {words} | {floor:.2f} | {ours:.2f} | {ratio:.2f}{mark} | {target} |")
    return rows, fine


def read_watched(reads: list[bytes], dialect: str = "openai_chat") -> Reply:
    """The reader's answer, with the deltas of early intent."""
    return read_ours(reads, dialect, intent=True)


def growth(
    make: Callable[[int], list[bytes]], sizes: tuple[int, ...], read: Callable[[list[bytes], str], object] = read_ours
) -> tuple[list[float], float]:
    """Nanoseconds a byte for each size, and the exponent of growth from the first size to the last."""
    costs = []
    for size in sizes:
        reads = make(size)
        costs.append(statistics.median(cpu(read, reads) for _ in range(3)))
    exponent = math.log(costs[-1] / costs[0]) / math.log(sizes[-1] / sizes[0])
    return [cost / size * 1e9 for cost, size in zip(costs, sizes, strict=True)], exponent


def linear() -> list[str]:
    """The table of growth."""
    rows = ["| arguments | reads | ns a byte of arguments | growth exponent |", "|---|---|---|---|"]
    sizes = (64 * KB, MB, 16 * MB)

    def fragments(size: int) -> list[bytes]:
        return pieces(calls_stream(1, size, 400, 800), 1460)

    def one_event(size: int) -> list[bytes]:
        return pieces(calls_stream(1, size, 2 * size, 2 * size), 64)

    def small(size: int) -> list[bytes]:
        return pieces(calls_stream(1, size, 4, 16), 1460)

    for words, reads, make, of, read in (
        ("64 KB, 1 MB, 16 MB in fragments", "1,460 bytes", fragments, sizes, read_ours),
        ("64 KB, 1 MB, 4 MB in one event", "64 bytes", one_event, (64 * KB, MB, 4 * MB), read_ours),
        ("64 KB, 1 MB, 16 MB in fragments, `intent=True`", "1,460 bytes", fragments, sizes, read_watched),
        (
            "64 KB, 1 MB, 4 MB in 4 to 16 characters, `intent=True`",
            "1,460 bytes",
            small,
            (64 * KB, MB, 4 * MB),
            read_watched,
        ),
    ):
        costs, exponent = growth(make, of, read)
        rows.append(f"| {words} | {reads} | {', '.join(f'{c:.1f}' for c in costs)} | {exponent:.2f} |")
    return rows


def watch(size: int, low: int, high: int) -> float:
    """CPU seconds of early intent over edits in fragments of so many characters, given to the assembler itself."""
    text = arguments(size, 1)
    calls = WatchedCalls(1, 2 * len(text.encode()), lambda rule: None)
    out: list[Delta] = []
    call = calls.open_call(0, "1", "apply_patch", out)
    dice = random.Random(3)
    at = 0
    gc.collect()
    began = time.process_time()
    while at < len(text):
        step = low if low == high else dice.randint(low, high)
        calls.extend(call, text[at : at + step], out)
        at += step
        if len(out) > 512:
            out.clear()
            calls.fold()
    calls.close_call(call, out)
    return time.process_time() - began


def watched_growth() -> list[str]:
    """The table of growth of early intent alone: 16 MB in single characters would be gigabytes of events."""
    rows = [
        "| early intent alone, edits | ns a byte of arguments: 64 KB, 1 MB, 16 MB | growth exponent |",
        "|---|---|---|",
    ]
    sizes = (64 * KB, MB, 16 * MB)
    for words, low, high in (("4 to 16 characters", 4, 16), ("single characters", 1, 1)):
        costs = [min(watch(size, low, high) for _ in range(1 if size > MB else 3)) for size in sizes]
        exponent = math.log(costs[-1] / costs[0]) / math.log(sizes[-1] / sizes[0])
        each = ", ".join(f"{cost / size * 1e9:.0f}" for cost, size in zip(costs, sizes, strict=True))
        rows.append(f"| {words} | {each} | {exponent:.2f} |")
    return rows


def intent_cost() -> list[str]:
    """The table of what early intent costs for each fragment."""
    rows = [
        "| early intent | floor, µs a fragment | reader | with intent | more | target |",
        "|---|---|---|---|---|---|",
    ]
    for words, stream in (("a file of 1 MB", file_stream(MB)), ("1 MB of small edits", calls_stream(1, MB, 4, 16))):
        reads = pieces(stream, 1460)
        rounds = [[cpu(read, reads) for read in (read_floor, read_ours, read_watched)] for _ in range(5)]
        floor, plain, watched = (statistics.median(column) / len(stream) * 1e6 for column in zip(*rounds, strict=True))
        mark = "" if watched - plain <= 2 else " **over**"
        more = f"{watched - plain:.2f}{mark}"
        rows.append(f"| {words}, 4 to 16 characters each | {floor:.2f} | {plain:.2f} | {watched:.2f} | {more} | 2.0 |")
    return rows


def whole_calls() -> list[str]:
    """The table of calls that come whole in one event; see the README for why they are dearer than the floor."""
    rows = [
        "| a call in one event | floor, ns a byte | reader, ns a byte: 64 KB, 900 KB | ratio at 900 KB | growth exponent |",
        "|---|---|---|---|---|",
    ]
    sizes = (64 * KB, 900 * KB)
    for name, dialect, make in (("Gemini", "gemini", gemini_call), ("Ollama", "ollama", ollama_call)):
        costs = []
        for size in sizes:
            reads = pieces(make(size), 1460)
            same_answer(reads, dialect)
            pairs = [(cpu(read_floor, reads, dialect), cpu(read_ours, reads, dialect)) for _ in range(ROUNDS)]
            costs.append([statistics.median(column) for column in zip(*pairs, strict=True)])
        (_, small), (floor, large) = costs
        exponent = math.log(large / small) / math.log(sizes[1] / sizes[0])
        each = f"{small / sizes[0] * 1e9:.1f}, {large / sizes[1] * 1e9:.1f}"
        rows.append(f"| {name} | {floor / sizes[1] * 1e9:.1f} | {each} | {large / floor:.1f} | {exponent:.2f} |")
    return rows


def peak(reads: list[bytes], *, keep: bool = True) -> tuple[float, float]:
    """The peak of memory beside the reads themselves, and what the reply's own strings take, in MB."""
    reader = ReplyReader("openai_chat", limits=RAISED, keep=keep)
    gc.collect()
    tracemalloc.start()
    for read in reads:
        reader.feed(read)
    reply = reader.close()
    highest = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    own = sum(map(sys.getsizeof, [reply.text, *(c.arguments for c in reply.tool_calls)]))
    return highest / MB, own / MB


def memory() -> list[str]:
    """The table of peak memory."""
    rows = ["| stream | reads | the reply's strings, MB | peak beside the read, MB | ratio |", "|---|---|---|---|---|"]
    big = calls_stream(1, 16 * MB, 400, 800)
    text = text_stream(200_000)
    for name, stream, size, words in (
        ("16 MB of arguments", big, 1460, "1,460 bytes"),
        ("16 MB of arguments", big, 64 * KB, "64 KB"),
        ("16 MB of arguments", big, 0, "whole"),
        ("200,000 text events", text, 1460, "1,460 bytes"),
    ):
        top, own = peak(pieces(stream, size))
        rows.append(f"| {name} | {words} | {own:.1f} | {top:.1f} | {top / own:.1f} |")
    top, _ = peak(pieces(text, 1460), keep=False)
    rows.append(f"| the same text, `keep=False` | 1,460 bytes | none | {top:.2f} | |")
    return rows


def main() -> int:
    """Everything, in the order of the tables."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--write", action="store_true", help="write the figures into bench/README.md")
    options.add_argument("--check", action="store_true", help="end with 1 if a ratio is over its target")
    given = options.parse_args()
    as_bytes_go_in(text_stream())
    as_bytes_go_in(calls_stream())
    table, fine = ratios()
    machine = f"CPython {platform.python_version()}, msgspec {msgspec.__version__}, {platform.system()}"
    parts = [f"{machine}; medians of {ROUNDS} interleaved rounds, CPU time; {noise()}.", "\n".join(table)]
    print("\n".join(table), flush=True)
    for rows in (linear(), watched_growth(), intent_cost(), whole_calls(), memory()):
        print("\n" + "\n".join(rows), flush=True)
        parts.append("\n".join(rows))
    if given.write:
        write("wire", "\n\n".join(parts))
    return 1 if given.check and not fine else 0


if __name__ == "__main__":
    sys.exit(main())
