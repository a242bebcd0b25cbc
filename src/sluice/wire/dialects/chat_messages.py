"""A conversation and tools in the words of Chat Completions (W13)."""

from __future__ import annotations

import re
from typing import Any

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
from sluice.wire.strict_json import parse_arguments

GIVEN_BACK = '[{"type":"reasoning_content"}]'
"""`native` of a reply that brought `reasoning_content`, be it empty: the server wants it again (see `messages_out`)."""

_MAX_NAME = 64
_NOT_A_NAME = re.compile(r"[^a-zA-Z0-9_-]")


def messages_out(conversation: Conversation) -> list[dict[str, Any]]:
    """The conversation in Chat's words: system text first and only if there is any, results right after their calls.

    DeepSeek and Moonshot refuse a later request whose history lacks the `reasoning_content` of a turn that called tools, an
    empty one too. So what came under that name goes back from the first reply of a user's turn that calls a tool on; never
    to another provider (`native` is taken off for that), and never where the server used another name or none.
    """
    out: list[dict[str, Any]] = []
    system = "\n\n".join(m.content for m in conversation if isinstance(m, SystemMessage) and m.content)
    if system:
        out.append({"role": "system", "content": system})
    called = False  # a reply of this user's turn called a tool
    for message in conversation:
        match message:
            case UserMessage():
                called = called and message.origin == "host"
                out.append({"role": "user", "content": _user_out(message)})
            case AssistantMessage():
                called = called or bool(message.tool_calls)
                out.append(_assistant_out(message))
                if called and message.dialect == "openai_chat" and message.native == GIVEN_BACK:
                    out[-1]["reasoning_content"] = "".join(thought.text for thought in message.reasoning)
            case ToolMessage():
                out.append({"role": "tool", "tool_call_id": message.call_id, "content": message.content})
            case SystemMessage():
                pass
    return out


def _user_out(message: UserMessage) -> str | list[dict[str, Any]]:
    if isinstance(message.content, str):
        return message.content
    parts: list[dict[str, Any]] = []
    for part in message.content:
        match part:
            case TextPart():
                parts.append({"type": "text", "text": part.text})
            case ImagePart():
                url = f"data:{part.media_type};base64,{part.data}"
                parts.append({"type": "image_url", "image_url": {"url": url}})
    return parts


def _assistant_out(message: AssistantMessage) -> dict[str, Any]:
    out: dict[str, Any] = {"role": "assistant"}
    if message.tool_calls:
        out["content"] = message.content or None
        out["tool_calls"] = [_call_out(call) for call in message.tool_calls]
    else:
        out["content"] = message.content or ""
    return out


def _call_out(call: ToolCall) -> dict[str, Any]:
    name, arguments = call.name, call.arguments
    if call.status != "whole":
        # Servers refuse a request whose history holds arguments that do not parse, or a name that cannot be one (W8).
        try:
            parse_arguments(arguments)
        except ArgumentsError:
            arguments = "{}"
        name = _NOT_A_NAME.sub("_", name[:_MAX_NAME]) or "unnamed"
    return {"id": call.id, "type": "function", "function": {"name": name, "arguments": arguments}}


def tool_out(spec: ToolSpec) -> dict[str, Any]:
    """A tool's declaration."""
    function = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
    return {"type": "function", "function": function}


def choice_out(choice: str) -> Any:
    """`tool_choice`: one of three words, or the name of a tool."""
    if choice in ("auto", "none", "required"):
        return choice
    return {"type": "function", "function": {"name": choice}}


def limit_key(model: str) -> str:
    """OpenAI's reasoning models refuse `max_tokens`; most compatible servers know only that."""
    return "max_completion_tokens" if model.startswith(("o1", "o3", "o4", "gpt-5")) else "max_tokens"
