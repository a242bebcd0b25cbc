"""What the rules of the loop still count of a session that is taken up again."""

from __future__ import annotations

from sluice.turn.past import Past, past
from sluice.turn.repeats import LOOP_WINDOW
from sluice.values.ports import Store, ToolExecutor


async def recalled(store: Store, executor: ToolExecutor) -> Past:
    """The counts with which the next run of this session begins. Raises `StoreError`."""
    read_only = {spec.name for spec in executor.specs() if spec.category == "read_only"}
    return past(
        await store.last_exchanges(LOOP_WINDOW),
        broken_off=await store.broken_off(),
        changes=lambda tool: tool not in read_only,
    )
