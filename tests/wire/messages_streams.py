"""Streams of Anthropic Messages for tests, and a second reader of them that is as plain as can be."""

from __future__ import annotations

import json
import re
from typing import Any

from chat_streams import DONE, Reading
from chat_streams import event as _event

from sluice.limits import DEFAULT_LIMITS, Limits

__all__ = ["DONE", "Reading"]

STOP = {
    "stop_sequence": "end_turn",
    "pause_turn": "pause",
    "model_context_window_exceeded": "max_tokens",
}


def event(kind: str, **members: Any) -> bytes:
    """One event with its name, as the API sends it."""
    return f"event: {kind}\n".encode() + _event({"type": kind, **members}, ascii_only=True)


def begin(**members: Any) -> bytes:
    """`message_start`."""
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m1", "content": [], "stop_reason": None}
    return event("message_start", message={**message, "usage": {"input_tokens": 5, "output_tokens": 1}, **members})


def start(index: int | None, kind: str, **members: Any) -> bytes:
    """`content_block_start`."""
    block = {"type": kind, **members}
    return event("content_block_start", **_place(index), content_block=block)


def delta(index: int | None, kind: str, **members: Any) -> bytes:
    """`content_block_delta`."""
    return event("content_block_delta", **_place(index), delta={"type": kind, **members})


def stop(index: int | None) -> bytes:
    """`content_block_stop`."""
    return event("content_block_stop", **_place(index))


def end(reason: Any = "end_turn", **usage: Any) -> bytes:
    """`message_delta` and `message_stop`."""
    return event("message_delta", delta={"stop_reason": reason}, usage={"output_tokens": 9, **usage}) + event(
        "message_stop"
    )


def text(index: int, *pieces: str) -> bytes:
    """A whole block of text."""
    middle = b"".join(delta(index, "text_delta", text=piece) for piece in pieces)
    return start(index, "text", text="") + middle + stop(index)


def thinking(index: int, thought: str, *signatures: str) -> bytes:
    """A whole block of reasoning."""
    signed = b"".join(delta(index, "signature_delta", signature=s) for s in signatures)
    return (
        start(index, "thinking", thinking="", signature="")
        + delta(index, "thinking_delta", thinking=thought)
        + (signed + stop(index))
    )


def call(index: int, id: str, name: str, *fragments: str) -> bytes:
    """A whole block with a call."""
    middle = b"".join(delta(index, "input_json_delta", partial_json=f) for f in fragments)
    return start(index, "tool_use", id=id, name=name, input={}) + middle + stop(index)


def read(*parts: bytes, limits: Limits = DEFAULT_LIMITS, keep: bool = True) -> Reading:
    """Reads the parts as one body, whole and byte by byte; both must agree."""
    body = b"".join(parts)
    reading = reading_of([body], limits=limits, keep=keep)
    single = reading_of([body[i : i + 1] for i in range(len(body))], limits=limits, keep=keep)
    assert single.result == reading.result
    return reading


def reading_of(pieces: list[bytes], *, limits: Limits = DEFAULT_LIMITS, keep: bool = True) -> Reading:
    """A reader's whole life over these pieces."""
    return Reading(pieces, limits=limits, keep=keep, dialect="anthropic_messages")


def _place(index: int | None) -> dict[str, int]:
    return {} if index is None else {"index": index}


def naive_read(body: bytes) -> dict[str, Any] | None:
    """Text, reasoning, signatures, calls and stop reason of a stream of the documented form, else `None`."""
    blocks: dict[int, dict[str, Any]] = {}
    reason = None
    ended = False
    for piece in re.split(rb"\n\n|\r\n\r\n", body):
        data = [line[5:].strip() for line in piece.splitlines() if line.startswith(b"data:")]
        if not data or data == [b"[DONE]"]:
            continue
        try:
            value = json.loads(b"\n".join(data))
            match value["type"]:
                case "message_start" if blocks or value["message"]["content"]:
                    return None
                case "content_block_start":
                    if value["index"] in blocks:
                        return None
                    blocks[value["index"]] = {"json": "", "text": "", "thinking": "", **value["content_block"]}
                case "content_block_delta":
                    block, change = blocks[value["index"]], value["delta"]
                    block["json"] += change.get("partial_json", "")
                    block["text"] += change.get("text", "")
                    block["thinking"] += change.get("thinking", "")
                    block["signature"] = change.get("signature") or block.get("signature")
                case "message_delta":
                    reason = value["delta"].get("stop_reason") or reason
                case "message_stop":
                    ended = True
                    break
                case "error":
                    return None
        except (ValueError, TypeError, KeyError):
            return None
    own = [block for _, block in sorted(blocks.items())]
    thoughts = [(b["thinking"], b.get("signature") or None) for b in own if b["type"] == "thinking"]
    return {
        "text": "".join(b["text"] for b in own if b["type"] == "text"),
        "reasoning": "".join(thought for thought, _ in thoughts),
        "signed": [pair for pair in thoughts if pair != ("", None)],
        "calls": [
            (b["id"], b["name"], b["json"] or json.dumps(b.get("input") or {})) for b in own if b["type"] == "tool_use"
        ],
        "stop": STOP.get(reason or "", reason) if ended else None,
    }
