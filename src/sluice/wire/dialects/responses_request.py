"""A conversation and tools in the words of the Responses API (W13)."""

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
from sluice.wire.dialects.responses_items import CALL_KINDS
from sluice.wire.strict_json import parse_arguments

_DIALECT = "openai_responses"
_MAX_NAME = 64
_NOT_A_NAME = re.compile(r"[^a-zA-Z0-9_-]")

# Models that think; to be asked for sealed reasoning is refused by the others.
_THINKS = re.compile(r"(?:^|/)(?:o[1-9]|gpt-5(?!-chat)|codex)")

_CALL_MEMBERS = frozenset({"type", "id", "call_id", "name", "arguments", "input", "status", "namespace", "caller"})


def request_body(conversation: Conversation, specs: Sequence[ToolSpec], options: ModelOptions) -> bytes:
    """The JSON of a streaming request. Nothing is left with the server: all that it needs is sent each time."""
    body: dict[str, Any] = {
        "model": options.model,
        "input": [msgspec.Raw(json.dumps(item, ensure_ascii=False).encode()) for item in input_out(conversation)],
        "stream": True,
        "store": False,
    }
    system = "\n\n".join(m.content for m in conversation if isinstance(m, SystemMessage) and m.content)
    if system:
        body["instructions"] = system
    if specs:
        body["tools"] = [tool_out(spec) for spec in specs]
        if options.tool_choice is not None:
            body["tool_choice"] = choice_out(options.tool_choice)
        if options.parallel_tool_calls is not None:
            body["parallel_tool_calls"] = options.parallel_tool_calls
    for key in ("temperature", "top_p", "max_output_tokens"):
        value = getattr(options, key)
        if value is not None:
            body[key] = value
    if options.reasoning_effort is not None:
        body["reasoning"] = {"effort": options.reasoning_effort}
    if options.reasoning_effort is not None or _THINKS.search(options.model):
        body["include"] = ["reasoning.encrypted_content"]
    return msgspec.json.encode(body)


def input_out(conversation: Conversation) -> list[dict[str, Any]]:
    """The conversation as input items, without its system text. A message that says nothing is left out."""
    out: list[dict[str, Any]] = []
    free: set[str] = set()  # ids of calls with free text: their results have a form of their own
    for message in conversation:
        match message:
            case UserMessage():
                out.append({"type": "message", "role": "user", "content": _user_out(message)})
            case AssistantMessage():
                free.update(call.id for call in message.tool_calls if call.kind == "custom")
                out.extend(_assistant_out(message))
            case ToolMessage():
                kind = "custom_tool_call_output" if message.call_id in free else "function_call_output"
                out.append({"type": kind, "call_id": message.call_id, "output": message.content})
            case SystemMessage():
                pass
    return out


def tool_out(spec: ToolSpec) -> dict[str, Any]:
    """A tool's declaration."""
    return {
        "type": "function",
        "name": spec.name,
        "description": spec.description,
        "parameters": spec.parameters,
        "strict": False,
    }


def choice_out(choice: str) -> Any:
    """`tool_choice`: one of three words, or the name of a tool."""
    return choice if choice in ("auto", "none", "required") else {"type": "function", "name": choice}


def _user_out(message: UserMessage) -> str | list[dict[str, Any]]:
    if isinstance(message.content, str):
        return message.content
    parts: list[dict[str, Any]] = []
    for part in message.content:
        match part:
            case TextPart():
                parts.append({"type": "input_text", "text": part.text})
            case ImagePart():
                url = f"data:{part.media_type};base64,{part.data}"
                parts.append({"type": "input_image", "image_url": url, "detail": "auto"})
    return parts


def _assistant_out(message: AssistantMessage) -> list[dict[str, Any]]:
    native = _native_out(message) if message.native is not None and message.dialect == _DIALECT else None
    if native is not None:
        return native
    out: list[dict[str, Any]] = []
    if message.content:
        out.append({"type": "message", "role": "assistant", "content": message.content})
    out.extend(_call_out(call) for call in message.tool_calls)
    return out


def _call_out(call: ToolCall) -> dict[str, Any]:
    name, arguments = _name_and_arguments(call)
    if call.kind == "custom":
        return {"type": "custom_tool_call", "call_id": call.id, "name": name, "input": call.arguments}
    return {"type": "function_call", "call_id": call.id, "name": name, "arguments": arguments}


def _name_and_arguments(call: ToolCall) -> tuple[str, str]:
    """As they can be sent: a request is never refused for a call that a model once got wrong (W8)."""
    if call.status == "whole":
        return call.name, call.arguments
    arguments = call.arguments
    try:
        parse_arguments(arguments)
    except ArgumentsError:
        arguments = "{}"
    return _NOT_A_NAME.sub("_", call.name[:_MAX_NAME]) or "unnamed", arguments


def _native_out(message: AssistantMessage) -> list[dict[str, Any]] | None:
    """The provider's own items, as far as it takes them back; `None` if they are not this message's any more."""
    try:
        items = json.loads(message.native or "")
    except (ValueError, RecursionError):
        return None
    if not isinstance(items, list) or not all(isinstance(raw, dict) for raw in items):
        return None
    calls = {call.id: call for call in message.tool_calls}
    ids = [raw.get("call_id") for raw in items if raw.get("type") in CALL_KINDS]
    if len(ids) != len(message.tool_calls) or not all(isinstance(id, str) and id in calls for id in ids):
        return None
    answered = {str(raw.get("call_id")) for raw in items if str(raw.get("type")).endswith("_output")}
    out: list[dict[str, Any]] = []
    for raw in items:
        kind = str(raw.get("type"))
        if kind in CALL_KINDS:
            out.append({**_members(raw, _CALL_MEMBERS), **_call_out(calls[raw["call_id"]])})
        elif kind == "message":
            out.extend(_message_out(raw))
        elif kind == "reasoning":
            if raw.get("encrypted_content"):  # else the server would look it up, and it was asked not to store it
                out.append(_members(raw, raw.keys()))
        elif kind == "mcp_approval_request" or (kind.endswith("_call") and _waits(raw, answered)):
            continue  # the server would wait for an answer that nobody here can give
        else:
            out.append(raw)
    while out and out[-1]["type"] == "reasoning":
        out.pop()  # reasoning that nothing followed is refused
    return out


def _waits(raw: dict[str, Any], answered: set[str]) -> bool:
    return isinstance(raw.get("call_id"), str) and raw["call_id"] not in answered


def _message_out(raw: dict[str, Any]) -> list[dict[str, Any]]:
    content = raw.get("content")
    parts = [
        {"annotations": [], **part} if part.get("type") == "output_text" else part
        for part in (content if isinstance(content, list) else ())
        if isinstance(part, dict) and part.get("type") in ("output_text", "refusal")
    ]
    if not parts:
        return []
    if not isinstance(raw.get("id"), str):
        return [{"type": "message", "role": "assistant", "content": "".join(str(p.get("text") or "") for p in parts)}]
    kept = _members(raw, frozenset({"id", "phase", "status"}))
    return [{"status": "completed", **kept, "type": "message", "role": "assistant", "content": parts}]


def _members(raw: dict[str, Any], names: Any) -> dict[str, Any]:
    return {key: value for key, value in raw.items() if key in names and value is not None}
