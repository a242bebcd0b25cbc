"""Why a stream must stop, in words: events that cannot be meant, and errors that providers report inside a stream."""

from __future__ import annotations

import json
from typing import Any

from sluice.wire.dialects.base import Fault

_HEAD = 64  # characters of an event that are shown
_MAX_WORDS = 2000  # characters of a provider's own words that are shown
_MAX_CODE = 64


def malformed(number: int, data: bytes, what: str) -> Fault:
    """An event that stops the stream: its number (from 1) and its first 64 characters."""
    head = data[: _HEAD * 4].decode("utf-8", "replace")[:_HEAD]
    return Fault("malformed_event", f"event {number} {what}: {head!r}")


def provider_error(error: Any) -> Fault:
    """The provider's own words, from any of the shapes in which errors are sent."""
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
    return Fault("provider_error", f"the provider reported an error: {message[:_MAX_WORDS]}", code=code)


def any_json(data: bytes) -> Any:
    """The value that `data` is, or its first characters if it is no JSON."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return data[:_MAX_WORDS].decode("utf-8", "replace")
