"""What a provider itself says that a reply cost: routers tell it beside the counts of tokens.

`cost` is what the router takes from its own account. Where a request went out with the user's own key of the provider
behind it (`is_byok`), that is only the router's fee, and `cost_details.upstream_inference_cost` is what that provider takes.
Source: OpenRouter, Usage Accounting.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_TOO_MANY = 2**63  # US dollars; no price


def reported_cost(usage: Mapping[str, Any]) -> float | None:
    """US dollars, or `None` where the provider says nothing that is a price, or only a part of it."""
    cost = _dollars(usage.get("cost"))
    if usage.get("is_byok") is not True:
        return cost
    details = usage.get("cost_details")
    upstream = _dollars(details.get("upstream_inference_cost")) if isinstance(details, dict) else None
    return None if upstream is None else upstream + (cost or 0.0)


def _dollars(value: Any) -> float | None:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < _TOO_MANY:
        return float(value)
    return None
