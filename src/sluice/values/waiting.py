"""Calls of a stored reply that a broken-off run left open, because a person was being asked about one of them."""

from __future__ import annotations

import msgspec

from sluice.values.messages import ToolCall
from sluice.values.results import ToolResult


class WaitingCalls(msgspec.Struct, frozen=True, kw_only=True):
    """The calls of the last reply of a session that have no result yet; the first of them waits for a person.

    `run` and `turn` asked for them, and `calls` are the reply's from position `first` (from 0) on. `results` holds for each
    what became of it; `None` for one that never started. `stop_reason` is the reply's.
    """

    run: str
    turn: int
    first: int
    calls: tuple[ToolCall, ...]
    results: tuple[ToolResult | None, ...]
    stop_reason: str | None = None

    @property
    def tools(self) -> tuple[str, ...]:
        """The names of those that never started, in order."""
        return tuple(call.name for call, result in zip(self.calls, self.results, strict=True) if result is None)
