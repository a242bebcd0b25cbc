"""Streams of Gemini for tests, and a second reader of them that is as plain as can be."""

from __future__ import annotations

import json
import re
from typing import Any

from chat_streams import DONE, Reading, event

from sluice.limits import DEFAULT_LIMITS, Limits

__all__ = ["DONE", "Reading", "event"]

STOP = {"STOP": "end_turn", "MAX_TOKENS": "max_tokens", "PROHIBITED_CONTENT": "content_filter"}


def chunk(*parts: dict[str, Any], finish: Any = None, **more: Any) -> bytes:
    """An event with one candidate; `more` are members of the response."""
    candidate: dict[str, Any] = {"content": {"parts": list(parts), "role": "model"}, "index": 0}
    if finish is not None:
        candidate["finishReason"] = finish
    return event({"candidates": [candidate], "modelVersion": "m1", "responseId": "r1", **more}, ascii_only=True)


def text(*pieces: str, **members: Any) -> bytes:
    """An event of text for each piece."""
    return b"".join(chunk({"text": piece, **members}) for piece in pieces)


def thought(*pieces: str, **members: Any) -> bytes:
    """An event of thoughts for each piece."""
    return text(*pieces, thought=True, **members)


def call(name: Any, args: Any = None, **members: Any) -> dict[str, Any]:
    """A part with a call; `members` stand beside `functionCall`, but for `id`."""
    made = {"name": name, "args": args, "id": members.pop("id", None)}
    return {"functionCall": {k: v for k, v in made.items() if v is not None}, **members}


def end(reason: Any = "STOP", **more: Any) -> bytes:
    """The last event, without content."""
    return chunk(finish=reason, **more)


def read(*parts: bytes, limits: Limits = DEFAULT_LIMITS, keep: bool = True) -> Reading:
    """Reads the parts as one body, whole and byte by byte; both must agree."""
    body = b"".join(parts)
    reading = reading_of([body], limits=limits, keep=keep)
    single = reading_of([body[i : i + 1] for i in range(len(body))], limits=limits, keep=keep)
    assert single.result == reading.result
    return reading


def reading_of(pieces: list[bytes], *, limits: Limits = DEFAULT_LIMITS, keep: bool = True) -> Reading:
    """A reader's whole life over these pieces."""
    return Reading(pieces, limits=limits, keep=keep, dialect="gemini")


def naive_read(body: bytes) -> dict[str, Any] | None:
    """Text, reasoning, signatures, calls and stop reason of a stream of the documented form, else `None`."""
    parts: list[dict[str, Any]] = []
    reason = None
    for piece in re.split(rb"\n\n|\r\n\r\n", body):
        data = [line[5:].strip() for line in piece.splitlines() if line.startswith(b"data:")]
        if not data or data == [b"[DONE]"]:
            continue
        try:
            value = json.loads(b"\n".join(data))
            (candidate,) = value["candidates"]
            parts += candidate.get("content", {}).get("parts", [])
            reason = candidate.get("finishReason")
        except (ValueError, TypeError, KeyError):
            return None
    return {
        "text": "".join(p.get("text", "") for p in parts if not p.get("thought")),
        "reasoning": "".join(p.get("text", "") for p in parts if p.get("thought")),
        "signatures": [p["thoughtSignature"] for p in parts if "thoughtSignature" in p],
        "calls": [(p["functionCall"]["name"], p["functionCall"]["args"]) for p in parts if "functionCall" in p],
        "stop": STOP.get(reason or "", reason),
    }
