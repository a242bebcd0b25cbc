"""When the conversation is too large for the next request (L5, L1)."""

from __future__ import annotations

import re

from sluice.limits import KIB, Limits
from sluice.values.messages import Usage

LARGE_WINDOW = 200_000  # tokens; above it a fixed rest is kept free
LARGE_WINDOW_REST = 20_000  # tokens kept free of a large window
SMALL_WINDOW_REST = 0.2  # part kept free of any other
UNKNOWN_WINDOW_BYTES = 200 * KIB  # bytes, where neither the user nor the model's entry says anything
BYTES_PER_TOKEN = 3.0  # until a provider has counted: code and English have more, so this shrinks early
CONTEXT_OVERFLOW = "context_overflow"  # the code of an error by which a provider says that the request is too long
OVERFLOW_SHARE = 0.75  # of a request that was too long, what may be left of it
_SMALLEST_WINDOW = 512  # tokens; a smaller number in an error is no window
# Where providers say, in an error about a request that is too long, how long one may be.
_TOLD_WINDOW = (
    re.compile(r"maximum context length (?:is|of) (\d[\d,]*)", re.IGNORECASE),
    re.compile(r"> (\d[\d,]*) maximum", re.IGNORECASE),
    re.compile(r"maximum number of tokens allowed \((\d[\d,]*)\)", re.IGNORECASE),
    re.compile(r"context (?:size|window|limit) (?:of |is )?\(?(\d[\d,]*)", re.IGNORECASE),
)
_RATIO_BOUNDS = (1.0, 8.0)  # a provider that counts oddly must not switch the rule off


def bytes_per_token(context_bytes: int, usage: Usage | None) -> float | None:
    """How many bytes a token was worth in the request that `usage` counts; `None` if nobody counted it."""
    if usage is None or usage.estimated or usage.input_tokens <= 0 or context_bytes <= 0:
        return None
    low, high = _RATIO_BOUNDS
    return min(max(context_bytes / usage.input_tokens, low), high)


def told_window(message: str) -> int | None:
    """The tokens that a model can read, as an error about a request that was too long says; `None` if it does not."""
    for pattern in _TOLD_WINDOW:
        found = pattern.search(message)
        if found is not None and len(found[1]) < 16 and (tokens := int(found[1].replace(",", ""))) >= _SMALLEST_WINDOW:
            return tokens
    return None


def byte_cap(limits: Limits, window_tokens: int | None, ratio: float | None = None) -> int:
    """The size in bytes that a request may have.

    With a known window: 20k tokens of it are kept free if it is larger than 200k, else a fifth of it. `ratio` is bytes
    per token as last counted. A number set by the user caps in any case; with neither it is 200 KiB.
    """
    caps = []
    if limits.max_context_bytes is not None:
        caps.append(limits.max_context_bytes)
    if window_tokens is not None:
        rest = LARGE_WINDOW_REST if window_tokens > LARGE_WINDOW else window_tokens * SMALL_WINDOW_REST
        caps.append(int((window_tokens - rest) * (BYTES_PER_TOKEN if ratio is None else ratio)))
    return min(caps) if caps else UNKNOWN_WINDOW_BYTES
