"""A conversation and tools in the words of Anthropic Messages (W13), with cache marks (L8).

Source: the reference of the Messages API ("Create a Message", "Prompt caching", "Extended thinking"). A message that
came from this dialect with items of its own goes back as those items; every other one is built from its neutral fields,
and reasoning of other providers is left out.
"""

from __future__ import annotations

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

DIALECT = "anthropic_messages"

MAX_OUTPUT_TOKENS = 8192
"""Sent when nothing is set, for the API demands a number: what every model since Claude 3.5 may write at the least."""

MIN_THINKING_TOKENS = 1024
"""The API's own lower bound of a thinking budget."""

THINKING_TOKENS = {"minimal": 1024, "low": 4096, "medium": 8192, "high": 16384, "xhigh": 32000, "max": 63999}
"""Tokens a model may think for each `reasoning_effort`. `none` switches thinking off; other words are not sent."""

_EFFORTS = {"minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "xhigh", "max": "max"}
_MARKED_MESSAGES = 2  # with the system text three marks, of four that the API allows
_MAX_NAME = 128
_NOT_A_NAME = re.compile(r"[^a-zA-Z0-9_-]")

# Claude models that take a budget; newer ones decide by themselves how long they think and take an effort.
_BUDGET_MODEL = re.compile(r"claude-(3[-.]\d|(opus|sonnet|haiku)-4)([-.][015])?(?![-.]?\d{1,2}(?!\d))")

Blocks = list[dict[str, Any]]


def request_body(conversation: Conversation, specs: Sequence[ToolSpec], options: ModelOptions) -> dict[str, Any]:
    """The body of a streaming request. Raises nothing: what the provider may refuse is left to its own words."""
    thinking, effort, extra_tokens = _thinking(options)
    body: dict[str, Any] = {"model": options.model, "max_tokens": (options.max_output_tokens or MAX_OUTPUT_TOKENS)}
    if options.max_output_tokens is None:
        body["max_tokens"] += extra_tokens
    system = system_out(conversation)
    messages = messages_out(conversation)
    mark(system, messages)
    if system:
        body["system"] = system
    body["messages"] = messages
    body["stream"] = True
    if specs:
        body["tools"] = [{"name": s.name, "description": s.description, "input_schema": s.parameters} for s in specs]
        choice = choice_out(options.tool_choice, options.parallel_tool_calls)
        if choice is not None:
            body["tool_choice"] = choice
    # The version of the API that is asked for still takes these two; models that do not say so in their own words.
    if options.temperature is not None:
        body["temperature"] = options.temperature
    if options.top_p is not None:
        body["top_p"] = options.top_p
    if options.stop:
        body["stop_sequences"] = list(options.stop)
    if thinking is not None:
        body["thinking"] = thinking
    if effort is not None:
        body["output_config"] = {"effort": effort}
    return body


def system_out(conversation: Conversation) -> Blocks:
    """The system text as at most one block."""
    text = "\n\n".join(m.content for m in conversation if isinstance(m, SystemMessage) and m.content.strip())
    return [{"type": "text", "text": text}] if text else []


def messages_out(conversation: Conversation) -> Blocks:
    """The conversation as messages that alternate and begin with the user's, without marks.

    What stands between two assistant messages becomes one user message, results of calls first. A message with nothing
    in it is left out. Each message depends on those before it only, so the same beginning gives the same bytes.
    """
    out: Blocks = []
    ids = _Ids()
    results: Blocks = []
    words: Blocks = []

    def user_turn() -> None:
        if results or words:
            _append(out, "user", results + words)
            results.clear()
            words.clear()

    for message in conversation:
        match message:
            case UserMessage():
                words += _user_out(message)
            case ToolMessage():
                results.append(_result_out(message, ids))
            case AssistantMessage():
                blocks = _assistant_out(message, ids)
                if blocks:
                    user_turn()
                    if not out:
                        # The first message must be the user's; after shrinking it may not be.
                        _append(out, "user", [{"type": "text", "text": "(the beginning is not shown)"}])
                    _append(out, "assistant", blocks)
            case SystemMessage():
                pass
    user_turn()
    if out and out[-1]["role"] == "assistant":
        _trim(out[-1]["content"])
    return out


def mark(system: Blocks, messages: Blocks) -> None:
    """Sets cache marks: on the system text, and on the last block that may have one of each of the last two messages."""
    for blocks in [system, *(m["content"] for m in messages[-_MARKED_MESSAGES:])]:
        for block in reversed(blocks):
            if block["type"] not in ("thinking", "redacted_thinking"):
                block["cache_control"] = {"type": "ephemeral"}
                break


def choice_out(choice: str | None, parallel: bool | None) -> dict[str, Any] | None:
    """`tool_choice`, which also says whether calls may be parallel."""
    if choice is None and parallel is None:
        return None
    if choice == "none":
        return {"type": "none"}
    out: dict[str, Any]
    if choice in (None, "auto"):
        out = {"type": "auto"}
    elif choice == "required":
        out = {"type": "any"}
    else:
        out = {"type": "tool", "name": choice}
    if parallel is not None:
        out["disable_parallel_tool_use"] = not parallel
    return out


def _thinking(options: ModelOptions) -> tuple[dict[str, Any] | None, str | None, int]:
    """The thinking member, the effort, and how many more tokens the reply needs for it if no limit is set.

    Thinking gives way to a forced tool, which the API does not allow beside it, and to a limit too small for both.
    """
    effort = options.reasoning_effort
    if effort == "none":
        return {"type": "disabled"}, None, 0
    budget = THINKING_TOKENS.get(effort or "")
    if effort is None or budget is None or options.tool_choice not in (None, "auto", "none"):
        return None, None, 0
    if "claude" in options.model and not _BUDGET_MODEL.search(options.model):
        return {"type": "adaptive"}, _EFFORTS[effort], budget
    if options.max_output_tokens is not None:
        budget = min(budget, options.max_output_tokens // 2)
    if budget < MIN_THINKING_TOKENS:
        return None, None, 0
    return {"type": "enabled", "budget_tokens": budget}, None, budget


class _Ids:
    """Call ids as the API takes them: letters, digits, `_` and `-`, each used once in a request."""

    def __init__(self) -> None:
        self._open: dict[str, list[str]] = {}  # ids of calls that have no result yet, by the id they had
        self._taken: set[str] = set()

    def call(self, id: str) -> str:
        """The id of a call; an id that was used before gets a number."""
        base = _NOT_A_NAME.sub("_", id) or "call"
        made, n = base, 1
        while made in self._taken:
            n += 1
            made = f"{base}_{n}"
        self._taken.add(made)
        self._open.setdefault(id, []).append(made)
        return made

    def result(self, id: str) -> str:
        """The id of the first call that had this one and has no result yet."""
        waiting = self._open.get(id)
        return waiting.pop(0) if waiting else _NOT_A_NAME.sub("_", id) or "call"


def _append(out: Blocks, role: str, blocks: Blocks) -> None:
    if out and out[-1]["role"] == role:
        out[-1]["content"] += blocks
    else:
        out.append({"role": role, "content": list(blocks)})


def _trim(blocks: Blocks) -> None:
    """White space at the end of the last message, if it is the assistant's, is refused."""
    last = blocks[-1]
    if last["type"] == "text":
        last["text"] = last["text"].rstrip()


def _user_out(message: UserMessage) -> Blocks:
    parts = (TextPart(message.content),) if isinstance(message.content, str) else message.content
    blocks: Blocks = []
    for part in parts:
        match part:
            case TextPart():
                if part.text.strip():
                    blocks.append({"type": "text", "text": part.text})
            case ImagePart():
                source = {"type": "base64", "media_type": part.media_type, "data": part.data}
                blocks.append({"type": "image", "source": source})
    return blocks


def _result_out(message: ToolMessage, ids: _Ids) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": ids.result(message.call_id)}
    if message.content.strip():
        block["content"] = message.content
    if not message.ok:
        block["is_error"] = True
    return block


def _assistant_out(message: AssistantMessage, ids: _Ids) -> Blocks:
    ours = message.dialect == DIALECT
    if ours and message.native is not None:
        items = _native_out(message.native, message.tool_calls, ids)
        if items is not None:
            return items
    blocks: Blocks = []
    if ours:
        for thought in message.reasoning:
            if thought.redacted is not None:
                blocks.append({"type": "redacted_thinking", "data": thought.redacted})
            elif thought.signature:
                blocks.append({"type": "thinking", "thinking": thought.text, "signature": thought.signature})
    if message.content and message.content.strip():
        blocks.append({"type": "text", "text": message.content})
    return blocks + [_call_out(call, ids) for call in message.tool_calls]


def _native_out(native: str, calls: Sequence[ToolCall], ids: _Ids) -> Blocks | None:
    """The message's own items with the calls of the message in them; `None` if they do not belong together."""
    try:
        items = msgspec.json.decode(native, type=list[dict[str, Any]])
    except (msgspec.DecodeError, RecursionError):
        return None
    if sum(item.get("type") == "tool_use" for item in items) != len(calls) or not all(
        isinstance(item.get("type"), str) for item in items
    ):
        return None
    left = iter(calls)
    for item in items:
        item.pop("cache_control", None)
        if item["type"] == "tool_use":
            item.update(_call_out(next(left), ids))
    return items


def _call_out(call: ToolCall, ids: _Ids) -> dict[str, Any]:
    try:
        arguments = parse_arguments(call.arguments)
    except ArgumentsError:
        arguments = {}  # the place must hold an object (W8); the raw text is in the store and in the error result
    name = _NOT_A_NAME.sub("_", call.name[:_MAX_NAME]) or "unnamed"
    return {"type": "tool_use", "id": ids.call(call.id), "name": name, "input": arguments}
