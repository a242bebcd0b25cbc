from __future__ import annotations

import pytest

from sluice.errors import InternalError
from sluice.limits import Limits
from sluice.turn.outcomes import exit_code, limit


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        ("completed", 0),
        ("failed", 1),
        ("incomplete", 1),
        ("provider_error", 1),
        ("limit:turns", 3),
        ("loop", 3),
        ("blocked", 4),
        ("cancelled", 130),
        ("terminated", 143),
    ],
)
def test_exit_codes(outcome, code) -> None:
    assert exit_code(outcome) == code


def test_a_word_that_is_no_outcome_is_our_own_fault() -> None:
    with pytest.raises(InternalError):
        exit_code("done")


def test_a_limit_is_named_for_its_field() -> None:
    assert "max_total_tool_calls" in Limits.__struct_fields__
    assert limit("max_total_tool_calls") == "limit:total_tool_calls"
    assert limit("idle_seconds") == "limit:idle_seconds"
