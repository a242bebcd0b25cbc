"""What a dialect is: a provider's wire format, both ways.

A dialect turns events into deltas through an `EventReader` that works on a `ReplyState`, and our conversation into a
`Request`. It does no framing, no I/O and no waiting.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Sequence
from typing import Literal, Protocol

from sluice.errors import StreamFault
from sluice.limits import Limits
from sluice.values.calls import ToolSpec
from sluice.values.deltas import Delta, ReasoningDelta, TextDelta
from sluice.values.messages import Conversation, Reasoning, Reply, Usage
from sluice.values.requests import ModelOptions, Request
from sluice.wire.assembler import CallAssembler
from sluice.wire.intent import WatchedCalls
from sluice.wire.pieces import Pieces
from sluice.wire.sse import Event


class Fault(Exception):
    """Why a stream must stop here; the reader turns it into a `StreamError` with what had arrived."""

    def __init__(self, kind: StreamFault, message: str, *, bound: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.kind: StreamFault = kind
        self.bound = bound
        self.code = code


class ReplyState:
    """One reply as it grows. The event reader of a dialect is the only writer."""

    __slots__ = (
        "blocks",
        "calls",
        "ended",
        "events",
        "id",
        "max_items",
        "model",
        "native",
        "other_choices",
        "reasoning",
        "reasoning_parts",
        "refusal",
        "shown",
        "stop_reason",
        "stop_words",
        "text",
        "text_parts",
        "tolerances",
        "usage",
    )

    def __init__(
        self, limits: Limits, *, keep: bool, used_ids: Container[str] = (), intent: bool = False, inline: bool = False
    ) -> None:
        # Where nothing is kept, the last piece still shows that something was said.
        self.text_parts: Pieces | deque[str] = Pieces() if keep else deque(maxlen=1)
        # With calls inside text, what the dialect says is text is only part of what comes in; `shown` is the text then.
        self.shown: Pieces | deque[str] | None = None
        if inline:
            self.shown, self.text_parts = self.text_parts, deque(maxlen=1)
        self.reasoning_parts: Pieces | deque[str] = Pieces() if keep else deque(maxlen=1)
        self.text: Callable[[str], None] = self.text_parts.append
        self.reasoning: Callable[[str], None] = self.reasoning_parts.append
        self.tolerances: dict[str, int] = {}
        made = WatchedCalls if intent else CallAssembler
        self.calls = made(limits.max_calls_per_reply, limits.max_arguments_bytes, self.tolerate, used_ids)
        self.max_items = limits.max_output_items
        self.stop_words = ""  # the provider's own words about why it stopped
        self.stop_reason: str | None = None  # set by the dialect's terminal mark and by nothing else
        self.usage: Usage | None = None
        self.model: str | None = None
        self.id: str | None = None
        self.other_choices = 0
        self.refusal: list[str] = []
        self.blocks: list[Reasoning] = []
        self.native: str | None = None  # see `AssistantMessage.native`; set once
        self.events = 0  # events that carried data, also those already counted when a fault is raised
        self.ended = False  # nothing after this point is read

    def tolerate(self, rule: str) -> None:
        """Counts one use of a named tolerance."""
        self.tolerances[rule] = self.tolerances.get(rule, 0) + 1

    def add_text(self, text: str, out: list[Delta]) -> None:
        """A piece of text, for the less common paths."""
        if text:
            self.text(text)
            out.append(TextDelta(text))

    def add_reasoning(self, text: str, out: list[Delta]) -> None:
        """A piece of reasoning, for the less common paths."""
        if text:
            self.reasoning(text)
            out.append(ReasoningDelta(text))

    def show(self, text: str) -> None:
        """A piece of text that holds no calls, where the dialect's text may hold some."""
        if self.shown is not None:
            self.shown.append(text)

    def fold(self) -> None:
        """Lets go of the memory that many short pieces cost; to be called now and then."""
        for parts in (self.text_parts, self.reasoning_parts, self.shown):
            if isinstance(parts, Pieces):
                parts.fold()
        self.calls.fold()

    def reply(self, dialect: str, keep: bool, *, whole: bool) -> Reply:
        """The reply so far. `whole` is false for a partial one: then no open call can be whole."""
        return Reply(
            text="".join(self.text_parts if self.shown is None else self.shown) if keep else "",
            reasoning="".join(self.reasoning_parts) if keep else "",
            tool_calls=self.calls.tool_calls(self.stop_reason if whole else None),
            stop_reason=self.stop_reason,
            usage=self.usage,
            tolerances=dict(self.tolerances),
            dialect=dialect,
            model=self.model,
            id=self.id,
            kept=keep,
            other_choices=self.other_choices,
            refusal="".join(self.refusal),
            blocks=tuple(self.blocks),
            native=self.native,
            stop_words=self.stop_words,
            arrivals=self.calls.arrivals(),
        )


class EventReader(Protocol):
    """Reads the events of one reply into its state."""

    def read(self, events: Sequence[Event], out: list[Delta]) -> None:
        """Appends what becomes known to `out`. Raises `Fault`; deltas of earlier events are in `out` by then."""
        ...

    def finish(self, out: list[Delta]) -> None:
        """End of input, with or without a terminal mark."""
        ...


class Dialect(Protocol):
    """A provider's wire format. Stateless; one object serves every reply.

    `terminal_mark` names what ends a reply, for error messages. `whole_events`: one event may carry a whole reply or image.
    """

    name: str
    terminal_mark: str
    framing: Literal["sse", "ndjson"]
    whole_events: bool

    def reader(self, state: ReplyState) -> EventReader:
        """A fresh event reader for one reply."""
        ...

    def request(self, conversation: Conversation, specs: Sequence[ToolSpec], options: ModelOptions) -> Request:
        """The streaming request for this conversation. Only what is set is sent."""
        ...
