"""Streams of Ollama for tests, and a second reader of them that is as plain as can be."""

from __future__ import annotations

import json
from typing import Any

from chat_streams import Reading

from sluice.limits import DEFAULT_LIMITS, Limits

__all__ = ["Reading"]


def line(value: Any) -> bytes:
    """One line."""
    return json.dumps(value).encode() + b"\n"


def said(content: str = "", **members: Any) -> bytes:
    """A line with a message; `members` are the message's."""
    message = {"role": "assistant", "content": content, **members}
    return line({"model": "m1", "created_at": "2026-01-01T00:00:00Z", "message": message, "done": False})


def text(*pieces: str) -> bytes:
    """A line of text for each piece."""
    return b"".join(said(piece) for piece in pieces)


def call(name: Any, arguments: Any = None, index: Any = None, id: Any = None) -> dict[str, Any]:
    """An entry of `tool_calls`; parts that are `None` are absent."""
    function = {k: v for k, v in (("index", index), ("name", name), ("arguments", arguments)) if v is not None}
    return {"function": function} if id is None else {"id": id, "function": function}


def calls(*entries: dict[str, Any]) -> bytes:
    """A line with calls."""
    return said(tool_calls=list(entries))


def end(reason: Any = "stop", **more: Any) -> bytes:
    """The last line."""
    value = {"model": "m1", "message": {"role": "assistant", "content": ""}, "done": True, "done_reason": reason}
    return line({k: v for k, v in {**value, **more}.items() if v is not None})


def read(*parts: bytes, limits: Limits = DEFAULT_LIMITS, keep: bool = True) -> Reading:
    """Reads the parts as one body, whole and byte by byte; both must agree."""
    body = b"".join(parts)
    reading = reading_of([body], limits=limits, keep=keep)
    single = reading_of([body[i : i + 1] for i in range(len(body))], limits=limits, keep=keep)
    assert single.result == reading.result
    return reading


def reading_of(pieces: list[bytes], *, limits: Limits = DEFAULT_LIMITS, keep: bool = True) -> Reading:
    """A reader's whole life over these pieces."""
    return Reading(pieces, limits=limits, keep=keep, dialect="ollama")


def naive_read(body: bytes) -> dict[str, Any] | None:
    """Text, reasoning, calls, stop reason and tokens of a stream of the documented form, else `None`."""
    made: dict[str, Any] = {"text": "", "reasoning": "", "calls": [], "stop": None, "tokens": None}
    for piece in body.split(b"\n"):
        if not piece.strip():
            continue
        try:
            value = json.loads(piece)
            message = value["message"]
        except (ValueError, TypeError, KeyError):
            return None
        made["text"] += message.get("content") or ""
        made["reasoning"] += message.get("thinking") or ""
        made["calls"] += [(c["function"]["name"], c["function"]["arguments"]) for c in message.get("tool_calls") or []]
        if value["done"]:
            made["stop"] = {"stop": "end_turn", "length": "max_tokens"}[value["done_reason"]]
            made["tokens"] = (value["prompt_eval_count"], value["eval_count"])
            break
    return made
