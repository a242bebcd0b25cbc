"""Coverage-guided fuzzing of the dry core: `python fuzz/fuzz.py TARGET [libFuzzer's options]`, or `make fuzz`.

Each target holds what must be true of any bytes: a reply or one of our errors, the same under another split, a call whole
only if a strict parser takes its arguments, deltas that join to the text. The first byte of an input says how the rest is
torn. Seeds are made by `seeds.py`, so that no corpus has to be kept.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import atheris

with atheris.instrument_imports(include=["sluice.wire", "sluice.values"]):
    from sluice.errors import ArgumentsError, StreamError
    from sluice.limits import Limits
    from sluice.values.deltas import ReasoningDelta, TextDelta
    from sluice.wire import DIALECTS, INLINE_FORMS, ReplyReader, parse_arguments
    from sluice.wire.json_scan import JsonScanner
    from sluice.wire.recognise import recognise
    from sluice.wire.sse import EventDecoder, EventTooLarge

    for name in DIALECTS:
        DIALECTS[name]

# Small, so that the bounds are met too.
LIMITS = Limits(max_event_bytes=4096, max_whole_event_bytes=4096, max_arguments_bytes=1024, max_stream_bytes=16384)
FORMS = (None, *INLINE_FORMS)


def torn(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def reading(pieces: list[bytes], dialect: str, inline: str | None, intent: bool) -> tuple[object, ...]:
    reader = ReplyReader(dialect, limits=LIMITS, inline=inline, intent=intent)
    deltas = []
    kind = None
    try:
        for piece in pieces:
            deltas += reader.feed(piece)
            if reader.ended:
                break
        reply = reader.close()
    except StreamError as error:
        kind, reply = error.kind, error.partial
    deltas += reader.closing
    text = "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))
    thought = "".join(delta.text for delta in deltas if isinstance(delta, ReasoningDelta))
    assert text == reply.text, "deltas do not join to the text"
    assert thought == reply.reasoning, "deltas do not join to the reasoning"
    for call in reply.tool_calls:
        if call.status == "whole":
            parse_arguments(call.arguments)  # raises if it is not
    return kind, reply, text, thought


def dialect(name: str) -> Callable[[bytes], None]:
    def target(data: bytes) -> None:
        if len(data) < 2:
            return
        how, body = data[0], data[1:]
        inline = FORMS[(how >> 4) % len(FORMS)]
        whole = reading([body], name, inline, False)
        assert reading(torn(body, 1 + how % 16), name, inline, bool(how & 128)) == whole, "another split, another reply"

    return target


def sse(data: bytes) -> None:
    if len(data) < 2:
        return

    def decoded(pieces: list[bytes]) -> tuple[list[object], bool]:
        decoder, events = EventDecoder(512), []
        try:
            for piece in pieces:
                events += decoder.feed(piece)
            events += decoder.close()
        except EventTooLarge as large:
            return [*events, *large.events], True
        return events, False

    assert decoded([data[1:]]) == decoded(torn(data[1:], 1 + data[0] % 16)), "another split, other events"
    recognise(data[1:])


def scanner(data: bytes) -> None:
    if len(data) < 2:
        return
    text = data[1:].decode("utf-8", "replace")

    def scanned(pieces: list[str]) -> tuple[object, ...]:
        made, members = JsonScanner(), []
        for piece in pieces:
            made.feed(piece, members)
        return [(m.name, repr(m.value)) for m in members], made.healed()

    step = 1 + data[0] % 16
    whole = scanned([text])
    assert scanned([text[at : at + step] for at in range(0, len(text), step)]) == whole, "another split, other members"
    try:
        value = parse_arguments(text)
    except ArgumentsError:
        return
    assert [name for name, _ in whole[0]] == list(value), "a strict parser sees other members"
    assert json.loads(text) == value, "the strict parser reads another value"


TARGETS: dict[str, Callable[[bytes], None]] = {"sse": sse, "scanner": scanner, **{n: dialect(n) for n in DIALECTS}}


def main() -> None:
    name = sys.argv.pop(1) if len(sys.argv) > 1 else ""
    if name not in TARGETS:
        sys.exit(f"give a target: {', '.join(TARGETS)}")
    atheris.Setup(sys.argv, TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
