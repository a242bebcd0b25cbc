"""What a provider itself says that a reply cost, in each dialect of a router."""

from __future__ import annotations

from typing import Any

import pytest

from sluice.wire.dialects.reported_cost import reported_cost

OWN_KEY = {"cost": 0.05, "is_byok": True, "cost_details": {"upstream_inference_cost": 1.0}}


@pytest.mark.parametrize(
    ("usage", "cost"),
    [
        ({"cost": 0.95}, 0.95),
        ({"cost": 0}, 0.0),
        ({"cost": 0.95, "is_byok": False, "cost_details": {"upstream_inference_cost": 0.95}}, 0.95),
        (OWN_KEY, 1.05),
        ({**OWN_KEY, "cost": 0}, 1.0),
        ({**OWN_KEY, "cost": None}, 1.0),
        ({**OWN_KEY, "cost_details": {"upstream_inference_cost": None}}, None),
        ({**OWN_KEY, "cost_details": None}, None),
        ({**OWN_KEY, "is_byok": "yes"}, 0.05),
        ({}, None),
        ({"cost": -1}, None),
        ({"cost": True}, None),
        ({"cost": "0.5"}, None),
        ({"cost": 10**400}, None),
        ({"cost": float("nan")}, None),
        ({"cost": float("inf")}, None),
    ],
)
def test_what_counts_as_a_price(usage: dict[str, Any], cost: float | None) -> None:
    assert reported_cost(usage) == (cost if cost is None else pytest.approx(cost))
