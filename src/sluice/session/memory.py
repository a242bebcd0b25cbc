"""A session that lives in memory, for one-shot runs and tests."""

from __future__ import annotations

from sluice.errors import StoreError
from sluice.values.calls import CallKey
from sluice.values.healed import StartedCall
from sluice.values.messages import AssistantMessage, Conversation, Message, ToolMessage, UserMessage
from sluice.values.notices import Notice
from sluice.values.ports import ChunkKind
from sluice.values.results import ToolResult
from sluice.values.waiting import WaitingCalls


class MemoryStore:
    """Implements `values.ports.Store`; nothing outlives the process.

    `rows` keeps, in order, what was stored, as (what, run, detail): tests and embedders may look at it. Deltas and
    notices are not kept: nobody could come back for them. `session` is empty: there is nothing to continue. What breaks
    the order of a run raises `StoreError`. Nothing waits, so being cancelled takes nothing back.
    """

    session = ""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str, object]] = []
        self._messages: list[Message] = []
        self._shrunk: tuple[int, Conversation] = (0, ())
        self._started: set[CallKey] = set()
        self._ended: set[CallKey] = set()
        self._runs: dict[str, str | None] = {}
        self._open: str | None = None  # the run whose reply is arriving

    async def started(self, run: str, prompt: UserMessage | None) -> None:
        """See `Store.started`."""
        if run in self._runs:
            raise StoreError("refused", f"run {run} has been started before")
        self._runs[run] = None
        self.rows.append(("started", run, prompt))
        if prompt is not None:
            self._messages.append(prompt)

    async def reply_began(self, run: str, turn: int, sent: int = 0) -> None:
        """See `Store.reply_began`."""
        self._alive(run)
        self._open = run

    async def delta(self, run: str, kind: ChunkKind, text: str) -> None:
        """See `Store.delta`."""
        if self._open != run:
            raise StoreError("refused", f"run {run} has no reply that is arriving")

    async def call_grew(self, run: str, call: int, size: int) -> None:
        """See `Store.call_grew`."""
        await self.delta(run, "call", "")

    async def append(self, run: str, message: Message) -> str:
        """See `Store.append`."""
        self._alive(run)
        if isinstance(message, ToolMessage) and not self._awaits(message):
            raise StoreError("refused", f"no call {message.call_id!r} waits for a result")
        self._open = None
        self.rows.append(("message", run, message))
        self._messages.append(message)
        return f"{run}/{len(self._messages)}"

    async def asked(self, key: CallKey, tool: str, digest: str) -> None:
        """See `Store.asked`."""
        self.rows.append(("asked", key.run, key))

    async def answered(self, key: CallKey, granted: bool) -> None:
        """See `Store.answered`."""
        self.rows.append(("answered", key.run, granted))

    async def call_started(self, call: StartedCall) -> None:
        """See `Store.call_started`."""
        if call.key in self._started:
            raise StoreError("refused", f"call {call.key} has been started before")
        self._started.add(call.key)
        self.rows.append(("call_started", call.key.run, call))

    async def call_ended(self, call: StartedCall, result: ToolResult) -> None:
        """See `Store.call_ended`."""
        if call.key in self._ended or call.key not in self._started:
            raise StoreError("refused", f"call {call.key} is not running")
        self._ended.add(call.key)
        self.rows.append(("call_ended", call.key.run, result))

    async def noted(self, run: str, notice: Notice) -> None:
        """See `Store.noted`."""

    async def finished(self, run: str, outcome: str) -> None:
        """See `Store.finished`."""
        self._alive(run)
        self._runs[run] = outcome
        self._open = None
        self.rows.append(("finished", run, outcome))

    async def history(self) -> Conversation:
        """See `Store.history`."""
        return tuple(self._messages)

    async def waiting(self) -> WaitingCalls | None:
        """See `Store.waiting`. Nothing of a killed process is here."""
        return None

    async def shrank(self, messages: Conversation) -> None:
        """See `Store.shrank`."""
        if not self._messages:
            raise StoreError("refused", "there is no message that could be shrunk")
        self._shrunk = len(self._messages), messages

    async def sent(self) -> Conversation:
        """See `Store.sent`."""
        upto, first = self._shrunk
        return (*first, *self._messages[upto:])

    async def last_exchanges(self, replies: int) -> Conversation:
        """See `Store.last_exchanges`."""
        places = [at for at, message in enumerate(self._messages) if isinstance(message, AssistantMessage)]
        return tuple(self._messages[places[-replies] if len(places) >= replies else 0 :])

    async def broken_off(self) -> bool:
        """See `Store.broken_off`. Nothing of a killed process is here."""
        return list(self._runs.values())[-1:] == ["terminated"]

    def _alive(self, run: str) -> None:
        if self._runs.get(run) is not None:
            raise StoreError("refused", f"run {run} has ended")

    def _awaits(self, result: ToolMessage) -> bool:
        answered = 0
        for message in reversed(self._messages):
            if isinstance(message, ToolMessage):
                answered += 1
                continue
            calls = message.tool_calls if isinstance(message, AssistantMessage) else ()
            return answered < len(calls) and calls[answered].id == result.call_id
        return False
