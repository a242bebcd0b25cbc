"""The conversation of a session as it is sent: what is stored, the system text before it, what a hook adds for one turn."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from sluice.errors import ArgumentsError
from sluice.run.refusals import without_refused
from sluice.session.unsaved import Unsaved
from sluice.values.calls import ToolSpec
from sluice.values.messages import (
    AssistantMessage,
    Conversation,
    ImagePart,
    Message,
    Reasoning,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from sluice.values.ports import Store
from sluice.values.waiting import WaitingCalls
from sluice.wire import parse_arguments
from sluice.wire.surrogates import storable

_SUBJECT_CHARACTERS = 2000
_WAITS = "[not_started] This call waits for the user's approval; nothing of it was done yet."


class Talk:
    """Messages in order. What is added is stored first; shrinking changes only what is sent, never what is stored.

    `provider` is who is asked: what another one signed or encrypted is not sent to it. `unsaved` is what the store refused,
    oldest first: it can be had from here only.
    """

    def __init__(self, system: str, store: Store, history: Conversation = (), provider: str | None = None) -> None:
        self._provider = provider
        self._system = system
        self._store = store
        self.messages: Conversation = history
        self.unsaved: tuple[Unsaved, ...] = ()
        self.before: tuple[Message, ...] = ()  # sent first and not stored: it is made anew from what it came from
        self.extra: tuple[Message, ...] = ()
        self.call_ids: set[str] = {call.id for m in history if isinstance(m, AssistantMessage) for call in m.tool_calls}

    def speak_to(self, provider: str | None, system: str) -> None:
        """Another model is asked from here on."""
        self._provider, self._system = provider, system

    async def begin(self, run: str, prompt: UserMessage | None) -> WaitingCalls | None:
        """Stores that a run begins, and the prompt that it answers; but where calls wait to be taken up only that it begins,
        and returns them: the prompt is then to be added once they are settled."""
        prompt = None if prompt is None else encodable(prompt)
        try:
            waiting = await self._store.waiting() if self.open_calls() else None
            await self._store.started(run, None if waiting is not None else prompt)
        except Exception:
            if prompt is not None:
                self._refused(run, prompt)
            raise
        self.unsaved = tuple(one if one.before else msgspec.structs.replace(one, before=run) for one in self.unsaved)
        if waiting is None and prompt is not None:
            self.messages = (*self.messages, prompt)
        return waiting

    async def add(self, run: str, message: Message) -> str:
        """Stores one message and makes it part of what is sent; returns its id. Raises what the store raises.

        A result is sent even if it could not be stored: a call without one would spoil every later request.
        """
        message = encodable(message) if isinstance(message, UserMessage) else message
        try:
            id = await self._store.append(run, message)
        except Exception:
            self._refused(run, message)
            if isinstance(message, ToolMessage):
                self.messages = (*self.messages, message)
            raise
        self.messages = (*self.messages, message)
        if isinstance(message, AssistantMessage):
            self.call_ids.update(call.id for call in message.tool_calls)
        return id

    def _refused(self, run: str, message: Message) -> None:
        behind = self.messages[-1] if self.messages else None
        self.unsaved = (*self.unsaved, Unsaved(run=run, message=message, behind=behind))

    def open_calls(self) -> tuple[ToolCall, ...]:
        """The calls of the last reply that have no result yet."""
        return _open_calls(self.messages)

    def to_send(self, *, extra: bool = True, messages: Conversation | None = None) -> Conversation:
        """What goes into the next request, with or without what a hook added for this turn.

        `messages` take the place of those of the conversation. A call that waits has a result in it that says so: none is
        ever sent without one.
        """
        messages = self.messages if messages is None else messages
        system = (SystemMessage(self._system),) if self._system else ()
        return (
            *system,
            *self.before,
            *map(self._unsigned, without_refused(messages)),
            *(ToolMessage(call.id, call.name, _WAITS, False) for call in _open_calls(messages)),
            *(encodable(m) if isinstance(m, UserMessage) else m for m in (self.extra if extra else ())),
        )

    def _unsigned(self, message: Message) -> Message:
        """The message, without what only the provider that it came from can read, if that is another one."""
        if not isinstance(message, AssistantMessage) or message.provider in (None, self._provider):
            return message
        if message.native is None and all(r.signature is None and r.redacted is None for r in message.reasoning):
            return message
        reasoning = tuple(Reasoning(text=block.text) for block in message.reasoning if block.text)
        return msgspec.structs.replace(message, native=None, reasoning=reasoning)

    def subject(self, call: ToolCall, specs: Sequence[ToolSpec]) -> str | None:
        """The argument that says what a call will touch, for people to look at; `None` if it cannot be told."""
        spec = next((s for s in specs if s.name == call.name), None)
        if spec is None or spec.subject is None:
            return None
        try:
            value = parse_arguments(call.arguments).get(spec.subject)
        except ArgumentsError:
            return None
        return value[:_SUBJECT_CHARACTERS] if isinstance(value, str) else None


def encodable(message: UserMessage) -> UserMessage:
    """The message with text that can be stored and sent: one lone surrogate in it would spoil every later request."""
    content: str | tuple[TextPart | ImagePart, ...]
    if isinstance(message.content, str):
        content = storable(message.content)
    else:
        content = tuple(TextPart(storable(p.text)) if isinstance(p, TextPart) else p for p in message.content)
    return message if content == message.content else msgspec.structs.replace(message, content=content)


def _open_calls(messages: Conversation) -> tuple[ToolCall, ...]:
    results = 0
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            results += 1
        else:
            return message.tool_calls[results:] if isinstance(message, AssistantMessage) else ()
    return ()
