"""An HTTP status that is no success, read as an error for people (T5)."""

from __future__ import annotations

import asyncio
import html
import re
import time
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import msgspec

from sluice.errors import TransportError
from sluice.limits import Limits
from sluice.transport.faults import one_line
from sluice.transport.retry import retry_after_of
from sluice.values.ports import Exchange

# What keys of the big providers look like, also when the provider has masked their middle.
_KEY_LIKE = re.compile(
    r"\b(?:sk|pk|rk|gsk|xai|nvapi|hf|AIza|ghp|github_pat)[-_]?[A-Za-z0-9_\-.*•…]{8,}|\bBearer\s+[^\s\"',;]+"
)

_HINTS = {
    400: "the server does not accept the request; check the model name and options",
    401: "check the API key",
    402: "the account has no credit left",
    403: "the key may not use this model or address",
    404: "check the base URL and the model name",
    405: "check the base URL",
    408: "the server gave up waiting; try again",
    413: "the request is too large for this server",
    422: "the server does not accept the request; check the model name and options",
    429: "too many requests, or a used-up quota; wait or choose another model",
}


@runtime_checkable
class Redacting(Protocol):
    """An exchange that knows which texts must not be shown."""

    def redact(self, text: str) -> str:
        """`text` without secrets."""
        ...


def is_success(status: int) -> bool:
    """Whether a body of this status is the reply that was asked for."""
    return 200 <= status < 300


async def error_of(exchange: Exchange, limits: Limits, *, now: float | None = None) -> TransportError:
    """Reads an error response, closes the exchange, and returns (never raises) the error for it.

    At most `limits.max_error_body_bytes` of body are read, within `limits.idle_seconds` in all; what cannot be had is
    left out. `now` is in seconds since the epoch, for a `retry-after` that is a date. Cancellation closes the exchange.
    """
    try:
        raw = await _read_some(exchange, limits)
    finally:
        await exchange.close()
    text = raw.decode("utf-8", "replace")
    if isinstance(exchange, Redacting):
        text = exchange.redact(text)
    text = _KEY_LIKE.sub("[key]", text)
    status = exchange.status
    said = one_line(_provider_words(text))
    hint = _hint(status, exchange.headers)
    if isinstance(exchange, Redacting):
        hint = exchange.redact(hint)
    message = f"HTTP {status}" + (f": {said}" if said else "") + f" ({hint})"
    when = time.time() if now is None else now
    return TransportError(
        "status", message, status=status, body=text, retry_after=retry_after_of(exchange.headers, when)
    )


async def _read_some(exchange: Exchange, limits: Limits) -> bytes:
    parts: list[bytes] = []
    left = limits.max_error_body_bytes
    try:
        async with asyncio.timeout(limits.idle_seconds):
            while left > 0 and (data := await exchange.read()):
                parts.append(data[:left])
                left -= len(data)
    except (TransportError, TimeoutError):
        pass  # the status is what matters; half a body still helps
    return b"".join(parts)


def _hint(status: int, headers: Mapping[str, str]) -> str:
    if 300 <= status < 400:
        target = re.match(r"https?://[^/?#@]+", headers.get("location", ""))
        place = f" to {one_line(target[0], 80)}" if target else ""
        return f"a redirect{place}, which is not followed so that the key goes nowhere else; check the base URL"
    if status >= 500:
        return "the server has a fault; try again later"
    return _HINTS.get(status, "the server refused the request")


def _provider_words(text: str) -> str:
    """The provider's own message: of its JSON, else the title of an HTML page, else the beginning of the text."""
    try:
        found = _message_in(msgspec.json.decode(text))
    except (msgspec.DecodeError, RecursionError):
        found = None
    if found is not None:
        return found
    if re.match(r"\s*(<!doctype|<html|<head|<body)", text, re.IGNORECASE):
        title = re.search(r"<(title|h1)[^>]*>([^<]{1,300})", text, re.IGNORECASE)
        return "an HTML page" + (f" titled “{html.unescape(title[2]).strip()}”" if title else "")
    return text[:400]


def _message_in(value: Any) -> str | None:
    if isinstance(value, list) and value:
        value = value[0]
    if not isinstance(value, dict):
        return None
    for key in ("error", "message", "detail", "error_description"):
        inner = value.get(key)
        if isinstance(inner, str) and inner.strip():
            return inner
        if isinstance(inner, dict | list):
            deeper = _message_in(inner)
            if deeper is not None:
                return deeper
    return None
