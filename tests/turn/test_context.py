from __future__ import annotations

import pytest

from sluice.limits import Limits
from sluice.turn.context import byte_cap, bytes_per_token, told_window
from sluice.values.messages import Usage


@pytest.mark.parametrize(
    ("user", "window", "ratio", "expected"),
    [
        (None, None, None, 200 * 1024),
        (5000, None, None, 5000),
        (None, 100_000, 4.0, 320_000),
        (None, 200_000, 1.0, 160_000),
        (None, 200_001, 1.0, 180_001),
        (None, 1_000_000, 1.0, 980_000),
        (5000, 1_000_000, 1.0, 5000),
        (10**9, 1000, 1.0, 800),
    ],
)
def test_the_cap(user, window, ratio, expected) -> None:
    assert byte_cap(Limits(max_context_bytes=user), window, ratio) == expected


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (None, None),
        (Usage(input_tokens=0), None),
        (Usage(input_tokens=100, estimated=True), None),
        (Usage(input_tokens=250), 4.0),
        (Usage(input_tokens=1), 8.0),
        (Usage(input_tokens=10**6), 1.0),
    ],
)
def test_bytes_a_token(usage, expected) -> None:
    assert bytes_per_token(1000, usage) == expected


@pytest.mark.parametrize(
    ("message", "window"),
    [
        ("HTTP 400: This model's maximum context length is 8192 tokens. However, you requested 9000 tokens", 8192),
        ("prompt is too long: 205,011 tokens > 200,000 maximum", 200_000),
        ("The input token count (1048577) exceeds the maximum number of tokens allowed (1048576).", 1_048_576),
        ("the request exceeds the available context size (4096 tokens), try increasing it", 4096),
        ("the request exceeds the available context size, try increasing it", None),
        ("HTTP 400: input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000", None),
        ("maximum context length is 7 tokens", None),
        ("maximum context length is " + "9" * 5000, None),
        ("", None),
    ],
)
def test_the_window_that_a_provider_tells(message: str, window: int | None) -> None:
    assert told_window(message) == window
