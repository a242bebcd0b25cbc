"""A conversation and tools in the words of Gemini's `generateContent` (W13).

Source: the reference of the Gemini API ("Generating content", "Function calling", "Thinking", "Thought signatures") and
the types of the official client. Results of calls are a turn of their own, directly after the calls; what the user says
beside them is the next. The API caches by itself and has no marks for it.
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

DIALECT = "gemini"

THINKING_TOKENS = {"none": 0, "minimal": 1024, "low": 1024, "medium": 8192, "high": 24576, "xhigh": 24576, "max": 24576}
"""Tokens that a model of the 2.5 series may think for each `reasoning_effort`; later ones take a level instead."""

_LEVELS = {"minimal": "MINIMAL", "low": "LOW", "medium": "MEDIUM", "high": "HIGH", "xhigh": "HIGH", "max": "HIGH"}
_LEVEL_MODEL = re.compile(r"gemini-([3-9]|\d\d)|gemini-[a-z-]*latest")
_BUDGET_MODEL = re.compile(r"gemini-2\.5")
_NO_CHECK = "skip_thought_signature_validator"  # the API's own word for calls that another model has made

_MAX_NAME = 128
_NOT_A_NAME = re.compile(r"[^a-zA-Z0-9_.:-]")
_SAFE_IN_PATH = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/@")

Parts = list[dict[str, Any]]


def path_of(model: str) -> str:
    """The path of a model, which may be a bare name or a resource such as `tunedModels/x`; no name leaves the path."""
    name = "".join(chr(b) if b in _SAFE_IN_PATH else f"%{b:02X}" for b in model.strip("/").encode("utf-8", "replace"))
    name = re.sub(r"(?<![^/])\.+(?![^/])", lambda dots: dots.group().replace(".", "%2E"), name)
    return f"/{name if '/' in name else f'models/{name}'}:streamGenerateContent?alt=sse"


def request_body(conversation: Conversation, specs: Sequence[ToolSpec], options: ModelOptions) -> bytes:
    """The JSON of a request. Raises nothing: what the provider may refuse is left to its own words."""
    contents = contents_out(conversation, options.model)
    body: dict[str, Any] = {"contents": [msgspec.Raw(json.dumps(c, ensure_ascii=False).encode()) for c in contents]}
    system = "\n\n".join(m.content for m in conversation if isinstance(m, SystemMessage) and m.content.strip())
    if system:
        body["systemInstruction"] = {"parts": [{"text": system}]}
    if specs:
        declared = [{"name": s.name, "description": s.description, "parametersJsonSchema": s.parameters} for s in specs]
        body["tools"] = [{"functionDeclarations": declared}]
        if options.tool_choice is not None:
            body["toolConfig"] = {"functionCallingConfig": choice_out(options.tool_choice)}
    generation = _generation(options)
    if generation:
        body["generationConfig"] = generation
    return msgspec.json.encode(body)


def contents_out(conversation: Conversation, model: str = "") -> list[dict[str, Any]]:
    """The conversation as contents that begin with the user's, without its system text. Empty messages are left out."""
    out: list[dict[str, Any]] = []
    ids: dict[str, list[str | None]] = {}  # the ids that were sent for the calls that have no result yet
    for message in conversation:
        match message:
            case UserMessage():
                _append(out, "user", _user_out(message), "text")
            case ToolMessage():
                _append(out, "user", [_result_out(message, ids)], "functionResponse")
            case AssistantMessage():
                parts = _assistant_out(message, model, ids)
                if parts and not out:
                    # The first turn must be the user's; after shrinking it may not be.
                    _append(out, "user", [{"text": "(the beginning is not shown)"}], "text")
                _append(out, "model", parts, "")
            case SystemMessage():
                pass
    return out


def choice_out(choice: str) -> dict[str, Any]:
    """The mode of function calling: one of three words, or the name of a tool."""
    mode = {"auto": "AUTO", "none": "NONE", "required": "ANY"}.get(choice)
    return {"mode": mode} if mode is not None else {"mode": "ANY", "allowedFunctionNames": [choice]}


def _generation(options: ModelOptions) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in (
        ("temperature", options.temperature),
        ("topP", options.top_p),
        ("maxOutputTokens", options.max_output_tokens),
        ("stopSequences", list(options.stop) or None),
        ("seed", options.seed),
        ("thinkingConfig", _thinking(options)),
    ):
        if value is not None:
            out[key] = value
    return out


def _thinking(options: ModelOptions) -> dict[str, Any] | None:
    """How much to think, in the words of the model's series; nothing for series that do not think."""
    effort = options.reasoning_effort
    if effort not in THINKING_TOKENS:
        return None
    if _LEVEL_MODEL.search(options.model):
        # These models cannot be told not to think; the larger ones know nothing below `LOW`.
        least = "LOW" if "pro" in options.model else "MINIMAL"
        level = _LEVELS.get(effort, "MINIMAL")
        return {"thinkingLevel": least if level == "MINIMAL" else level, "includeThoughts": effort != "none"}
    if _BUDGET_MODEL.search(options.model):
        return {"thinkingBudget": THINKING_TOKENS[effort], "includeThoughts": effort != "none"}
    return None


def _append(out: list[dict[str, Any]], role: str, parts: Parts, kind: str) -> None:
    """Neighbours of one role are one turn, but results of calls stay apart from words."""
    if not parts:
        return
    if out and out[-1]["role"] == role and (kind == "functionResponse") == ("functionResponse" in out[-1]["parts"][0]):
        out[-1]["parts"] += parts
    else:
        out.append({"role": role, "parts": parts})


def _user_out(message: UserMessage) -> Parts:
    content = (TextPart(message.content),) if isinstance(message.content, str) else message.content
    parts: Parts = []
    for part in content:
        match part:
            case TextPart():
                if part.text:
                    parts.append({"text": part.text})
            case ImagePart():
                parts.append({"inlineData": {"mimeType": part.media_type, "data": part.data}})
    return parts


def _result_out(message: ToolMessage, ids: dict[str, list[str | None]]) -> dict[str, Any]:
    response: dict[str, Any] = {"name": _name(message.name)}
    waiting = ids.get(message.call_id)
    id = waiting.pop(0) if waiting else message.call_id
    if id:
        response["id"] = id
    response["response"] = {"output" if message.ok else "error": message.content}
    return {"functionResponse": response}


def _assistant_out(message: AssistantMessage, model: str, ids: dict[str, list[str | None]]) -> Parts:
    if message.dialect == DIALECT and message.native is not None:
        parts = _native_out(message.native, message.tool_calls, ids)
        if parts is not None:
            return parts
    parts = [{"text": message.content}] if message.content else []
    for n, call in enumerate(message.tool_calls):
        part: dict[str, Any] = {"functionCall": _call_out(call, call.id, ids)}
        if n == 0 and _LEVEL_MODEL.search(model):
            part["thoughtSignature"] = _NO_CHECK  # these models refuse a first call without any
        parts.append(part)
    return parts


def _native_out(native: str, calls: Sequence[ToolCall], ids: dict[str, list[str | None]]) -> Parts | None:
    """The message's own parts with the calls of the message in them; `None` if they do not belong together."""
    try:
        parts = json.loads(native)
    except (ValueError, RecursionError):
        return None
    if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
        return None
    asked = [part for part in parts if "functionCall" in part]
    if len(asked) != len(calls) or not all(isinstance(part["functionCall"], dict) for part in asked):
        return None
    for part, call in zip(asked, sorted(calls, key=lambda c: c.index), strict=True):
        given = part["functionCall"].get("id")
        part["functionCall"] = _call_out(call, given if isinstance(given, str) else None, ids)
    return parts


def _call_out(call: ToolCall, id: str | None, ids: dict[str, list[str | None]]) -> dict[str, Any]:
    try:
        arguments = parse_arguments(call.arguments)
    except ArgumentsError:
        arguments = {}  # the place must hold an object (W8); the raw text is in the store and in the error result
    ids.setdefault(call.id, []).append(id)
    made: dict[str, Any] = {"name": _name(call.name), "args": arguments}
    if id:
        made["id"] = id
    return made


def _name(name: str) -> str:
    """As it can be sent: a request is never refused for a name that a model once got wrong (W8)."""
    name = _NOT_A_NAME.sub("_", name[:_MAX_NAME])
    return name if name[:1].isalpha() or name[:1] == "_" else f"_{name[: _MAX_NAME - 1]}"
