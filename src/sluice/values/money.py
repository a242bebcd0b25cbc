"""Money in words."""

from __future__ import annotations


def dollars(cost: float, *, estimated: bool, digits: int = 4) -> str:
    """US dollars as they are told to people: `$0.0200`, and `about $0.0200` where what they pay for was estimated.

    Nothing is no estimate: what has no price costs nothing however much there is of it.
    """
    return f"{'about ' if estimated and cost else ''}${cost:.{digits}f}"
