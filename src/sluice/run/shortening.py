"""Messages made shorter without a model: what old results said, then words that are too long for any window."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from sluice.errors import ArgumentsError
from sluice.run import stand_in
from sluice.run.cut_middle import cut_middle
from sluice.values.messages import (
    AssistantMessage,
    Conversation,
    ImagePart,
    Message,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from sluice.wire import parse_arguments

SHORTER = (8192, 2048, 512)  # characters that stay of what is too long, tried one after the other
# A first line that says where the whole can be read again; before it the line that names what went wrong, if it did.
_SPILLED = re.compile(r"(?:\[[a-z_]+.{0,300}\n)?.{0,300}\bspill:\d+.*")


def dropped(messages: Conversation, part: slice) -> Conversation:
    """Of results that were kept in a file as a whole, only the line that says so."""
    return _each(messages, part, _dropped)


def short_results(messages: Conversation, part: slice, kept: int) -> Conversation:
    """Of each result at most `kept` characters: its beginning and its end."""
    return _each(messages, part, lambda m: _with_content(m, lambda text: cut_middle(text, kept)))


def short_words(messages: Conversation, part: slice, kept: int, *, spare_last: bool = True) -> Conversation:
    """Of each prompt, answer and text inside a call's arguments at most `kept` characters, and no images.

    With `spare_last` the last words of the user stay as they are. A reply that only its provider can read stays too, if
    it asks for calls: it has to go back as it came.
    """
    said = [at for at, m in enumerate(messages) if isinstance(m, UserMessage) and m.origin == "user"]
    last = said[-1] if said and spare_last else -1

    def change(at: int, message: Message) -> Message:
        return message if at == last else _with_short_words(message, kept)

    within = range(*part.indices(len(messages)))
    return tuple(change(at, m) if at in within else m for at, m in enumerate(messages))


def _each(messages: Conversation, part: slice, change: Callable[[Message], Message]) -> Conversation:
    within = range(*part.indices(len(messages)))
    return tuple(change(m) if at in within else m for at, m in enumerate(messages))


def _with_content(message: Message, change: Callable[[str], str]) -> Message:
    """A result with its text changed; any other message as it is."""
    if not isinstance(message, ToolMessage):
        return message
    return msgspec.structs.replace(message, content=change(message.content))


def _dropped(message: Message) -> Message:
    """Any output may look as if it were kept; only one whose handle is known here can be read again."""
    if not isinstance(message, ToolMessage) or not message.spilled:
        return message
    found = _SPILLED.match(message.content)
    if found is None or message.spilled not in found[0]:
        return message
    return msgspec.structs.replace(message, content=f"{found[0]}\n[left out here; it can be read again]")


def _with_short_words(message: Message, kept: int) -> Message:
    if (past := stand_in.read(message)) is not None:
        return past.shorter(kept).message()
    if isinstance(message, UserMessage):
        if isinstance(message.content, str):
            return msgspec.structs.replace(message, content=cut_middle(message.content, kept))
        return msgspec.structs.replace(message, content=tuple(_short_part(one, kept) for one in message.content))
    if isinstance(message, AssistantMessage):
        return _short_reply(message, kept)
    return message


def _short_part(part: TextPart | ImagePart, kept: int) -> TextPart:
    return TextPart("[an image left out]" if isinstance(part, ImagePart) else cut_middle(part.text, kept))


def _short_reply(reply: AssistantMessage, kept: int) -> AssistantMessage:
    size = max(len(reply.content or ""), len(reply.native or ""))
    if not reply.tool_calls:
        if size <= kept:
            return reply
        content = None if reply.content is None else cut_middle(reply.content, kept)
        return msgspec.structs.replace(reply, content=content, reasoning=(), native=None)
    if reply.native is not None or any(block.signature or block.redacted for block in reply.reasoning):
        return reply
    content = None if reply.content is None else cut_middle(reply.content, kept)
    calls = tuple(_short_call(call, kept) for call in reply.tool_calls)
    return msgspec.structs.replace(reply, content=content, tool_calls=calls)


def _short_call(call: ToolCall, kept: int) -> ToolCall:
    """The call with long texts inside its arguments shortened; they stay a JSON object of the same shape."""
    if call.status != "whole" or len(call.arguments) <= kept:
        return call
    try:
        arguments = parse_arguments(call.arguments)
    except ArgumentsError:
        return call
    text = msgspec.json.encode(_short_value(arguments, kept)).decode("utf-8")
    return msgspec.structs.replace(call, arguments=text)


def _short_value(value: Any, kept: int) -> Any:
    if isinstance(value, str):
        return cut_middle(value, kept)
    if isinstance(value, dict):
        return {name: _short_value(one, kept) for name, one in value.items()}
    return [_short_value(one, kept) for one in value] if isinstance(value, list) else value
