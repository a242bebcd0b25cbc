"""Which dialect bytes look like: for a recording whose dialect nobody said, and for one that was read as the wrong one."""

from __future__ import annotations

import json
import re
from typing import Any

from sluice.wire.sse import EventDecoder, EventTooLarge

HEAD_BYTES = 1024  # of a stream, that a reader keeps to tell what it was
_MAX_EVENTS = 16  # events looked at: the first ones may be pings or keep-alives
_BOM = b"\xef\xbb\xbf"
_SPACE = b" \t\r\n"
_MESSAGES = frozenset(
    {"message_start", "message_delta", "message_stop", "content_block_start", "content_block_delta", "ping"}
)

# Members that tell, where an event is not whole and so no JSON; the first one counts.
_TELLING = re.compile(
    rb'"(?:(?P<openai_chat>choices)|(?P<gemini>candidates|promptFeedback|usageMetadata))"\s*:'
    rb'|"type"\s*:\s*"(?:(?P<openai_responses>response\.)|(?P<anthropic_messages>message_start|content_block_))'
)

# The first line alone, where nothing followed it yet.
_NAMED = re.compile(
    rb"event: ?(?:(?P<openai_responses>response\.)|(?P<anthropic_messages>message_start|content_block_start|ping))"
)


def recognise(head: bytes) -> str | None:
    """The name of the dialect that a stream with these first bytes looks like, or `None` if they do not tell.

    A body that is no stream of a dialect (a plain JSON reply, a web page) is none. Looks at no more than it is given.
    """
    head = head.removeprefix(_BOM).lstrip(_SPACE)
    if head.startswith(b"{"):
        line, ended, _rest = head.partition(b"\n")
        event = _object(line)
        if event is not None:
            return "ollama" if dialect_of(event) == "ollama" else None
        cut = not ended and line.startswith(b'{"model":') and b'"created_at":' in line
        return "ollama" if cut else None
    decoder = EventDecoder(max(len(head), 1))
    try:
        events = [*decoder.feed(head), *decoder.close()]
    except EventTooLarge as large:
        events = large.events
    for name, data, _id in events[:_MAX_EVENTS]:
        found = _of_event(name, data)
        if found is not None:
            return found
    named = _NAMED.match(head)
    return named.lastgroup if named else None


def dialect_of(event: dict[str, Any]) -> str | None:
    """The dialect that one decoded event looks like."""
    kind = event.get("type")
    if isinstance(kind, str):
        if kind.startswith("response."):
            return "openai_responses"
        if kind in _MESSAGES:
            return "anthropic_messages"
    if "choices" in event:
        return "openai_chat"
    if "candidates" in event or "promptFeedback" in event:
        return "gemini"
    return "ollama" if "done" in event and "model" in event else None


def _of_event(name: str | None, data: bytes) -> str | None:
    event = _object(data)
    if event is not None:
        found = dialect_of(event)
        return None if found == "ollama" else found  # lines, never events
    told = _TELLING.search(data)
    if told is not None:
        return told.lastgroup
    if name is not None and name.startswith("response."):
        return "openai_responses"
    return "anthropic_messages" if name in _MESSAGES else None


def _object(data: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
