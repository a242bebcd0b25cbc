"""Why a stream must stop, in words: events that cannot be meant, and errors that providers report inside a stream."""

from __future__ import annotations

import json
import re
from typing import Any

from sluice.wire.dialects.base import Fault

_HEAD = 64  # characters of an event that are shown
_MAX_WORDS = 2000  # characters of a provider's own words that are shown
_MAX_CODE = 64

CONTEXT_OVERFLOW = "context_overflow"
"""The code of an error that says: the conversation is longer than the model can read."""

_OVERFLOW_CODES = frozenset({"context_length_exceeded", "exceed_context_size_error", "model_context_window_exceeded"})

# The providers' own words, where they have no code of their own for it.
_OVERFLOW_WORDS = re.compile(
    r"prompt is too long|context (length|window|size|limit)|maximum context|exceeds? the context"
    r"|input (token count|length)[^.]*exceed|too many (input )?tokens for",
    re.IGNORECASE,
)
_TOO_LONG = re.compile(
    r"too long|too many|exceed|larger|longer|greater|maximum|overflow|reduce|limit|fit", re.IGNORECASE
)


def malformed(number: int, data: bytes, what: str) -> Fault:
    """An event that stops the stream: its number (from 1) and its first 64 characters."""
    head = data[: _HEAD * 4].decode("utf-8", "replace")[:_HEAD]
    return Fault("malformed_event", f"event {number} {what}: {head!r}")


def provider_error(error: Any) -> Fault:
    """The provider's own words, from any of the shapes in which errors are sent.

    The code is the provider's own too, but for `context_overflow`, which no two providers call the same.
    """
    for _ in range(4):  # an error in an error: gateways wrap what they were told
        inner = error.get("error") if isinstance(error, dict) and "message" not in error else None
        if not isinstance(inner, (dict, str)):
            break
        error = inner
    code = None
    message = error
    if isinstance(error, dict):
        message = error.get("message") or error.get("detail") or error
        word = error.get("code") or error.get("type")
        code = str(word)[:_MAX_CODE] if isinstance(word, (str, int)) else None
    if not isinstance(message, str):
        try:
            message = json.dumps(message, ensure_ascii=False)
        except (RecursionError, ValueError):
            message = "it cannot be shown"
    if code in _OVERFLOW_CODES or _is_overflow(message):
        code = CONTEXT_OVERFLOW
    return Fault("provider_error", f"the provider reported an error: {message[:_MAX_WORDS]}", code=code)


def _is_overflow(words: str) -> bool:
    """Whether a provider's words say that the conversation is too long for the model, and not only name its size."""
    words = words[:_MAX_WORDS]
    return _OVERFLOW_WORDS.search(words) is not None and _TOO_LONG.search(words) is not None


def any_json(data: bytes) -> Any:
    """The value that `data` is, or its first characters if it is no JSON."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return data[:_MAX_WORDS].decode("utf-8", "replace")
