"""A model played from a fixture: assistant messages rendered to the bytes a provider would have sent (T4).

The bytes go through the same reader as those of a real server, torn at places that are no event boundaries and with the
arguments of calls in fragments.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from sluice.errors import ConfigurationError, TransportError
from sluice.transport.faults import one_line
from sluice.values.requests import Request

_TEXT_PIECE = 24  # characters of text in one event
_ARGUMENTS_PIECE = 16  # characters of arguments in one event
_READS = (7, 61, 211, 509)  # bytes of one read, in turn: no multiple of anything an event could be


class _Function(msgspec.Struct):
    name: str
    arguments: str | dict[str, Any] = "{}"


class _Call(msgspec.Struct):
    function: _Function
    id: str = ""
    type: str = "function"


class _Message(msgspec.Struct):
    role: str = "assistant"
    content: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[_Call] | None = None
    finish_reason: str | None = None
    usage: dict[str, Any] | None = None


class ScriptedTransport:
    """Answers request k with message k of `source`: a JSON file, or the messages themselves.

    A message is `{"role": "assistant", "content": …, "tool_calls": [{"id", "type", "function": {"name", "arguments"}}]}`,
    optionally with `reasoning_content`, `finish_reason` (default `tool_calls` or `stop`) and `usage`; `arguments` is JSON
    text or an object. `dialect` must be `openai_chat`. Raises `ConfigurationError` that says what is wrong and where.
    """

    def __init__(self, source: Path | str | Sequence[Mapping[str, Any]], dialect: str = "openai_chat") -> None:
        if dialect != "openai_chat":
            raise ConfigurationError(
                f"mock fixtures are played in the dialect openai_chat, not {one_line(dialect, 40)}"
            )
        if isinstance(source, str | Path):
            self._name = f"mock fixture {source}"
            entries = _entries(source, self._name)
        else:
            self._name = "the script"
            entries = list(source)
        self._messages = [_checked(entry, place, self._name) for place, entry in enumerate(entries)]
        self._next = 0

    async def send(self, request: Request) -> ScriptedExchange:
        """See `values.ports.Transport.send`; raises `TransportError` (`no_recording`) after the last message."""
        if self._next >= len(self._messages):
            count = len(self._messages)
            raise TransportError("no_recording", f"{self._name} holds {count} message(s) and no answer more")
        message = self._messages[self._next]
        self._next += 1
        return ScriptedExchange(render(message, self._next))

    async def close(self) -> None:
        """See `values.ports.Transport.close`."""
        self._next = len(self._messages)


class ScriptedExchange:
    """A reply's bytes, torn into reads."""

    def __init__(self, body: bytes) -> None:
        self.status = 200
        self.headers: Mapping[str, str] = {"content-type": "text/event-stream"}
        self._reads = _torn(body)
        self._closed = False

    async def read(self) -> bytes:
        """See `values.ports.Exchange.read`."""
        if self._closed:
            raise TransportError("broken", "the exchange was closed")
        return next(self._reads, b"")

    async def close(self) -> None:
        """See `values.ports.Exchange.close`."""
        self._closed = True


def render(message: _Message, number: int) -> bytes:
    """The Chat Completions stream of one message; `number` makes its ids, and the same input gives the same bytes."""
    events = [_delta(number, {"role": "assistant", "content": ""})]
    for piece in _pieces(message.reasoning_content or "", _TEXT_PIECE):
        events.append(_delta(number, {"reasoning_content": piece}))
    for piece in _pieces(message.content or "", _TEXT_PIECE):
        events.append(_delta(number, {"content": piece}))
    calls = message.tool_calls or []
    for index, call in enumerate(calls):
        arguments = call.function.arguments
        text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
        call_id = call.id or f"call_{number}_{index}"
        function = {"name": call.function.name, "arguments": ""}
        opened = {"index": index, "id": call_id, "type": "function", "function": function}
        events.append(_delta(number, {"tool_calls": [opened]}))
        for piece in _pieces(text, _ARGUMENTS_PIECE):
            events.append(_delta(number, {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}))
    events.append(_delta(number, {}, message.finish_reason or ("tool_calls" if calls else "stop")))
    if message.usage is not None:
        events.append(_chunk(number, choices=[], usage=message.usage))
    return b"".join(b"data: " + event + b"\n\n" for event in (*events, b"[DONE]"))


def _delta(number: int, delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
    return _chunk(number, choices=[{"index": 0, "delta": delta, "finish_reason": finish_reason}])


def _chunk(number: int, **fields: Any) -> bytes:
    head = {"id": f"chatcmpl-mock-{number}", "object": "chat.completion.chunk", "created": 0, "model": "mock"}
    return msgspec.json.encode(head | fields)


def _pieces(text: str, size: int) -> Iterator[str]:
    return (text[at : at + size] for at in range(0, len(text), size))


def _torn(body: bytes) -> Iterator[bytes]:
    at = turn = 0
    while at < len(body):
        size = _READS[turn % len(_READS)]
        yield body[at : at + size]
        at += size
        turn += 1


def _entries(source: Path | str, name: str) -> list[Any]:
    try:
        found = msgspec.json.decode(Path(source).read_bytes())
    except OSError as error:
        raise ConfigurationError(f"{name} cannot be read: {error.strerror}") from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{name} is not JSON: {one_line(str(error), 120)}") from None
    if not isinstance(found, list):
        raise ConfigurationError(f"{name} must be a JSON array of assistant messages")
    return found


def _checked(entry: Any, place: int, name: str) -> _Message:
    """One message of a fixture; its place is named from 0, as in the array."""
    try:
        message = msgspec.convert(entry, _Message)
        calls = message.tool_calls or []
        # The text is rendered again as UTF-8; a lone surrogate (possible in a JSON escape) could not be.
        msgspec.json.encode(message)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        raise ConfigurationError(
            f"{name}: entry {place} is no assistant message: {one_line(str(error), 160)}"
        ) from None
    if message.role != "assistant":
        role = one_line(message.role, 40)
        raise ConfigurationError(f"{name}: entry {place} has the role {role!r}; only assistant messages are played")
    if any(not call.function.name for call in calls):
        raise ConfigurationError(f"{name}: entry {place} calls a tool without a name")
    return message
