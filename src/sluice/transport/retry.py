"""Whether and when to try again. Pure: time and randomness are inputs.

The caller tries again only where nothing of the reply was shown and nothing was run (T2).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from sluice.errors import StreamError, TransportError
from sluice.limits import Limits

_RETRIED_STATUS = frozenset({408, 409, 429})
_RETRIED_FAULTS = frozenset(
    {"resolve", "connect", "refused", "connect_timeout", "first_byte_timeout", "idle_timeout", "broken"}
)
_RETRIED_ONCE = frozenset({"refused", "first_byte_timeout"})
_RETRIED_STREAM_FAULTS = frozenset({"incomplete", "provider_error"})


def next_wait(failure: TransportError | StreamError, attempt: int, limits: Limits, *, random: float) -> float | None:
    """Seconds to wait before the next attempt, or `None` if there shall be none.

    `attempt` counts the attempts already made, from 1. `random` is in [0, 1). The wait is up to 1 s after the first
    attempt, up to 2 s after the second, and so on doubling; a server's `retry_after` counts if it is longer. One that
    is longer than `limits.max_retry_after_seconds` means: no retry.
    """
    if attempt >= limits.max_attempts or not _worth_it(failure, attempt):
        return None
    longest = 2.0 ** min(attempt - 1, 6)
    wait = longest * (0.5 + 0.5 * random)  # jitter keeps many clients from coming back at once
    asked = failure.retry_after if isinstance(failure, TransportError) else None
    if asked is None:
        return wait
    return None if asked > limits.max_retry_after_seconds else max(wait, asked)


def _worth_it(failure: TransportError | StreamError, attempt: int) -> bool:
    if isinstance(failure, StreamError):
        return failure.kind in _RETRIED_STREAM_FAULTS
    if failure.kind == "status":
        status = failure.status or 0
        return status in _RETRIED_STATUS or 500 <= status <= 599
    return failure.kind in _RETRIED_FAULTS and (attempt == 1 or failure.kind not in _RETRIED_ONCE)


def parse_retry_after(value: str, now: float) -> float | None:
    """Seconds from a `retry-after` value: a number of seconds or an HTTP date (RFC 9110, 10.2.3); `None` if unusable.

    `now` is in seconds since the epoch. A date that has passed gives 0.
    """
    text = value.strip()
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = max(0.0, parsedate_to_datetime(text).timestamp() - now)
        except (ValueError, OverflowError, OSError):
            return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def retry_after_of(headers: Mapping[str, str], now: float) -> float | None:
    """The server's wish in seconds from `retry-after-ms`, else `retry-after`. Header names are in lower case."""
    millis = headers.get("retry-after-ms")
    if millis is not None:
        try:
            seconds = float(millis) / 1000
        except ValueError:
            seconds = -1.0
        if math.isfinite(seconds) and seconds >= 0:
            return seconds
    value = headers.get("retry-after")
    return None if value is None else parse_retry_after(value, now)
