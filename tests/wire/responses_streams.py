"""Streams of the Responses API for tests, and a second reader of them that is as plain as can be."""

from __future__ import annotations

import json
import re
from typing import Any

from chat_streams import DONE, Reading
from chat_streams import event as _event

from sluice.limits import DEFAULT_LIMITS, Limits

__all__ = ["DONE", "Reading"]


def event(kind: str, **members: Any) -> bytes:
    """One event with its name, as the API sends it; members that are `...` are left out."""
    kept = {key: value for key, value in members.items() if value is not ...}
    return f"event: {kind}\n".encode() + _event({"type": kind, **kept}, ascii_only=True)


def begin(**members: Any) -> bytes:
    """`response.created`."""
    return event("response.created", response={"id": "resp_1", "model": "m1", "status": "in_progress", **members})


def added(index: Any, kind: str, **members: Any) -> bytes:
    """`response.output_item.added`."""
    return event("response.output_item.added", output_index=index, item={"type": kind, "id": f"i{index}", **members})


def done(index: Any, kind: str, **members: Any) -> bytes:
    """`response.output_item.done`."""
    return event("response.output_item.done", output_index=index, item={"type": kind, "id": f"i{index}", **members})


def delta(index: Any, what: str, piece: Any, **members: Any) -> bytes:
    """A delta event: `what` is `output_text`, `function_call_arguments` and the like."""
    return event(f"response.{what}.delta", output_index=index, item_id=f"i{index}", delta=piece, **members)


def text(index: Any, *pieces: str) -> bytes:
    """Text deltas."""
    return b"".join(delta(index, "output_text", piece) for piece in pieces)


def said(words: str, *annotations: Any) -> list[dict[str, Any]]:
    """The content of a message that says this."""
    return [{"type": "output_text", "text": words, "annotations": list(annotations)}]


def message(index: int, *pieces: str) -> bytes:
    """A whole message item."""
    whole = "".join(pieces)
    return (
        added(index, "message", role="assistant", content=[])
        + text(index, *pieces)
        + event("response.output_text.done", output_index=index, content_index=0, text=whole)
        + done(index, "message", role="assistant", status="completed", content=said(whole))
    )


def call(index: int, id: str, name: str, *fragments: str, status: str = "completed") -> bytes:
    """A whole call item."""
    whole = "".join(fragments)
    return (
        added(index, "function_call", call_id=id, name=name, arguments="")
        + b"".join(delta(index, "function_call_arguments", piece) for piece in fragments)
        + event("response.function_call_arguments.done", output_index=index, arguments=whole)
        + done(index, "function_call", call_id=id, name=name, arguments=whole, status=status)
    )


def end(kind: str = "completed", **members: Any) -> bytes:
    """A terminal mark. Without `output`, as one server sends it; members that are `...` are left out."""
    kept = {key: value for key, value in members.items() if value is not ...}
    return event(f"response.{kind}", response={"id": "resp_1", "status": kind, **kept})


def reading_of(pieces: list[bytes], limits: Limits = DEFAULT_LIMITS, keep: bool = True) -> Reading:
    """A reader's whole life over these pieces."""
    return Reading(pieces, limits=limits, keep=keep, dialect="openai_responses")


def read(*parts: bytes, limits: Limits = DEFAULT_LIMITS, keep: bool = True) -> Reading:
    """Reads the parts as one body, whole and byte by byte; both must agree, and deltas make the reply."""
    body = b"".join(parts)
    reading = reading_of([body], limits, keep)
    assert reading_of([body[i : i + 1] for i in range(len(body))], limits, keep).result == reading.result
    if keep:
        assert (reading.shown_text, reading.shown_reasoning) == (reading.reply.text, reading.reply.reasoning)
    return reading


def naive_read(body: bytes) -> dict[str, Any] | None:
    """Text, reasoning, calls and stop reason of a stream of the documented form; `None` for any other.

    Everything at once: all events as objects, all text deltas joined, calls as their ends say.
    """
    events: list[dict[str, Any]] = []
    for block in re.split(rb"\r?\n\r?\n", body):
        data = b"\n".join(line[5:].strip() for line in block.splitlines() if line.startswith(b"data:"))
        if data and data != b"[DONE]":
            try:
                events.append(json.loads(data))
            except ValueError:
                return None
    kinds = [value.get("type") for value in events]
    ends = [place for place, kind in enumerate(kinds) if kind in ("response.completed", "response.incomplete")]
    if not ends or "error" in kinds or "response.failed" in kinds or kinds[0] != "response.created":
        return None
    events = events[: ends[0] + 1]
    words = "".join(e["delta"] for e in events if e["type"] == "response.output_text.delta")
    thoughts = ""
    calls = []
    final = ""
    for e in events:
        if e["type"] == "response.reasoning_summary_part.added" and thoughts:
            thoughts += "\n\n"
        elif e["type"] in ("response.reasoning_summary_text.delta", "response.reasoning_text.delta"):
            thoughts += e["delta"]
        elif e["type"] == "response.output_item.done" and e["item"]["type"] == "function_call":
            calls.append((e["item"]["call_id"], e["item"]["name"], e["item"]["arguments"]))
        elif e["type"] == "response.output_item.done" and e["item"]["type"] == "custom_tool_call":
            calls.append((e["item"]["call_id"], e["item"]["name"], e["item"]["input"]))
        elif e["type"] == "response.output_item.done" and e["item"]["type"] == "message":
            final += "".join(p.get("text", "") for p in e["item"].get("content") or ())
    if final and final != words:
        return None  # what was streamed is not what was said in the end
    last = events[-1]
    stop = "tool_use" if calls else "end_turn"
    if "response.refusal.delta" in kinds and not calls:
        stop = "refusal"
    if last["type"] == "response.incomplete":
        reason = last["response"]["incomplete_details"]["reason"]
        stop = {"max_output_tokens": "max_tokens"}.get(reason, reason)
    return {"text": words, "reasoning": thoughts, "calls": calls, "stop": stop}
