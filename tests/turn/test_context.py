from __future__ import annotations

import pytest

from sluice.limits import Limits
from sluice.turn.context import byte_cap, bytes_per_token
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
