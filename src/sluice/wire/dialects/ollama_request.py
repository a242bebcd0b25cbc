"""A conversation and tools in the words of Ollama's `/api/chat` (W13).

Source: Ollama's API reference and the types of the official client. Calls are objects without ids; a result names the
tool that it comes from and follows its calls in their order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import msgspec

from sluice.errors import ArgumentsError
from sluice.values.calls import ToolSpec
from sluice.values.messages import (
    AssistantMessage,
    Conversation,
    ImagePart,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from sluice.values.requests import ModelOptions
from sluice.wire.strict_json import parse_arguments

DIALECT = "ollama"

_THINK: dict[str, bool | str] = {
    "none": False,
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "high",
    "max": "high",
}
_MAX_NAME = 128
_NOT_A_NAME = re.compile(r"[^a-zA-Z0-9_.:/-]")


def request_body(conversation: Conversation, specs: Sequence[ToolSpec], options: ModelOptions) -> bytes:
    """The JSON of a streaming request. Raises nothing: what the server may refuse is left to its own words."""
    messages = [msgspec.Raw(json.dumps(m, ensure_ascii=False).encode()) for m in messages_out(conversation)]
    body: dict[str, Any] = {"model": options.model, "messages": messages, "stream": True}
    if specs and options.tool_choice != "none":
        body["tools"] = [tool_out(spec) for spec in specs]
    chosen = {
        key: value
        for key, value in (
            ("temperature", options.temperature),
            ("top_p", options.top_p),
            ("seed", options.seed),
            ("num_predict", options.max_output_tokens),
            ("num_ctx", options.window_tokens),
            ("stop", list(options.stop) or None),
        )
        if value is not None
    }
    if chosen:
        body["options"] = chosen
    think = _THINK.get(options.reasoning_effort or "")
    if think is not None:
        body["think"] = think
    return msgspec.json.encode(body)


def messages_out(conversation: Conversation) -> list[dict[str, Any]]:
    """The conversation with its system text first, and only if there is any."""
    out: list[dict[str, Any]] = []
    system = "\n\n".join(m.content for m in conversation if isinstance(m, SystemMessage) and m.content)
    if system:
        out.append({"role": "system", "content": system})
    for message in conversation:
        match message:
            case UserMessage():
                out.append(_user_out(message))
            case AssistantMessage():
                out.append(_assistant_out(message))
            case ToolMessage():
                out.append({"role": "tool", "content": message.content, "tool_name": _name(message.name)})
            case SystemMessage():
                pass
    return out


def tool_out(spec: ToolSpec) -> dict[str, Any]:
    """A tool's declaration."""
    function = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
    return {"type": "function", "function": function}


def _user_out(message: UserMessage) -> dict[str, Any]:
    if isinstance(message.content, str):
        return {"role": "user", "content": message.content}
    text = "\n\n".join(part.text for part in message.content if isinstance(part, TextPart) and part.text)
    out: dict[str, Any] = {"role": "user", "content": text}
    images = [part.data for part in message.content if isinstance(part, ImagePart)]
    if images:
        out["images"] = images
    return out


def _assistant_out(message: AssistantMessage) -> dict[str, Any]:
    out: dict[str, Any] = {"role": "assistant", "content": message.content or ""}
    thoughts = "".join(thought.text for thought in message.reasoning) if message.dialect == DIALECT else ""
    if thoughts:
        out["thinking"] = thoughts
    if message.tool_calls:
        out["tool_calls"] = [_call_out(call) for call in message.tool_calls]
    return out


def _call_out(call: ToolCall) -> dict[str, Any]:
    try:
        arguments = parse_arguments(call.arguments)
    except ArgumentsError:
        arguments = {}  # the place must hold an object (W8); the raw text is in the store and in the error result
    return {"function": {"name": _name(call.name), "arguments": arguments}}


def _name(name: str) -> str:
    """As it can be sent: a request is never refused for a name that a model once got wrong (W8)."""
    return _NOT_A_NAME.sub("_", name[:_MAX_NAME]) or "unnamed"
