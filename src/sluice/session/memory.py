"""A session that lives in memory, for one-shot runs and tests."""

from __future__ import annotations

from sluice.values.calls import AllowedCall
from sluice.values.messages import Conversation, Message, UserMessage
from sluice.values.results import ToolResult


class MemoryStore:
    """Implements `values.ports.Store`; nothing outlives the process.

    `rows` keeps, in order, what was stored, as (what, run, detail): tests and embedders may look at it.
    """

    def __init__(self) -> None:
        self.rows: list[tuple[str, str, object]] = []
        self._messages: list[Message] = []

    async def started(self, run: str, prompt: UserMessage) -> None:
        """See `Store.started`."""
        self.rows.append(("started", run, prompt))
        self._messages.append(prompt)

    async def append(self, run: str, message: Message) -> str:
        """See `Store.append`."""
        self.rows.append(("message", run, message))
        self._messages.append(message)
        return f"{run}/{len(self._messages)}"

    async def call_started(self, call: AllowedCall) -> None:
        """See `Store.call_started`."""
        self.rows.append(("call_started", call.key.run, call))

    async def call_ended(self, call: AllowedCall, result: ToolResult) -> None:
        """See `Store.call_ended`."""
        self.rows.append(("call_ended", call.key.run, result))

    async def finished(self, run: str, outcome: str) -> None:
        """See `Store.finished`."""
        self.rows.append(("finished", run, outcome))

    async def history(self) -> Conversation:
        """See `Store.history`."""
        return tuple(self._messages)
