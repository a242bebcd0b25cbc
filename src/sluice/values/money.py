"""Money in words."""

from __future__ import annotations


def dollars(cost: float, *, estimated: bool, digits: int = 4) -> str:
    """US dollars as they are told to people: `$0.0200`, and `about $0.0200` where what they pay for was estimated."""
    return f"{'about ' if estimated else ''}${cost:.{digits}f}"
