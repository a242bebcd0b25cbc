"""OpenAI Chat Completions, and everything that calls itself compatible with it.

Source: the Chat Completions API reference ("chat.completion.chunk"), and recorded streams of many servers for what they
send in its place. The typed decode reads only the wanted fields; an event that does not fit takes a slow path that
knows the departures by name.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from sluice.errors import ArgumentsError
from sluice.values.calls import ToolSpec
from sluice.values.deltas import Delta, ReasoningDelta, TextDelta
from sluice.values.messages import (
    AssistantMessage,
    Conversation,
    ImagePart,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from sluice.values.requests import ModelOptions, Request
from sluice.wire.dialects.base import Fault, ReplyState
from sluice.wire.sse import Event
from sluice.wire.strict_json import parse_arguments

STOP_REASONS = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "length": "max_tokens",
    "content_filter": "content_filter",
}

# Of two contradicting terminal marks in one reply the more careful one stands (a proxy was seen to add "stop").
_CAUTION = {"end_turn": 0, "tool_use": 1, "max_tokens": 2, "content_filter": 3}

_HEAD = 64


class _Function(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: str | None = None


class _Call(msgspec.Struct, gc=False):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Delta(msgspec.Struct, gc=False):
    content: str | None = None
    tool_calls: list[_Call] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    function_call: _Function | None = None


class _Choice(msgspec.Struct, gc=False):
    delta: _Delta | None = None
    index: int | None = None
    finish_reason: str | None = None


class _Chunk(msgspec.Struct, gc=False):
    choices: list[_Choice] | None = None
    usage: dict[str, Any] | None = None
    error: Any = None


class _FirstChunk(_Chunk, gc=False):
    id: str | None = None
    model: str | None = None


_decode = msgspec.json.Decoder(_Chunk).decode
_decode_first = msgspec.json.Decoder(_FirstChunk).decode


class ChatReader:
    """Chunks of one Chat Completions reply."""

    __slots__ = ("_finished", "_held", "_named", "_state")

    def __init__(self, state: ReplyState) -> None:
        self._state = state
        self._named = False  # id and model are known
        self._finished = False  # calls were closed by a finish_reason
        self._held = ""  # the first half of a surrogate pair that two events tore apart

    def read(self, events: Sequence[Event], out: list[Delta]) -> None:
        """See `EventReader.read`."""
        state = self._state
        keep_text = state.text
        emit = out.append
        add_call = state.calls.add
        decode = _decode
        for name, data, _ in events:
            if data == b"[DONE]":
                state.ended = True
                return
            state.events += 1
            try:
                chunk = decode(data) if self._named and name is None else self._first(name, data)
            except (msgspec.DecodeError, RecursionError):
                odd = self._odd(name, data)
                if odd is None:
                    if state.ended:
                        return
                    continue
                chunk = odd
            if chunk.error:
                raise _provider_error(chunk.error)
            if chunk.usage is not None:
                state.usage = _usage(chunk.usage) or state.usage
            choices = chunk.choices
            if not choices:
                if chunk.usage is None:
                    self._no_choices(data)
                continue
            for choice in choices:
                if choice.index:
                    state.other_choices = max(state.other_choices, choice.index)
                    continue
                delta = choice.delta
                if delta is not None:
                    thought = delta.reasoning_content or delta.reasoning
                    if thought:
                        state.reasoning(thought)
                        emit(ReasoningDelta(thought))
                    text = delta.content
                    if text:
                        if self._held:
                            text = self._rejoin(text)
                        keep_text(text)
                        emit(TextDelta(text))
                    calls = delta.tool_calls
                    if calls:
                        for call in calls:
                            function = call.function
                            if function is None:
                                add_call(call.index, call.id, None, None, out)
                            else:
                                add_call(call.index, call.id, function.name, function.arguments, out)
                    elif not text and not thought:
                        self._quiet(delta, out)
                if choice.finish_reason:
                    self._finish(choice.finish_reason, out)

    def finish(self, out: list[Delta]) -> None:
        """End of input: a torn surrogate pair that never got its second half becomes U+FFFD."""
        if self._held:
            self._state.add_text(self._rejoin(""), out)

    def _first(self, name: str | None, data: bytes) -> _Chunk:
        if name == "error":
            raise _provider_error(_any_json(data))
        chunk = _decode_first(data)
        state = self._state
        if chunk.model and state.model is None:
            state.model = chunk.model
        if chunk.id and state.id is None:
            state.id = chunk.id
        self._named = state.model is not None and state.id is not None and chunk.choices is not None
        return chunk

    def _quiet(self, delta: _Delta, out: list[Delta]) -> None:
        """The rarest channels: a refusal, and the call form of 2023."""
        state = self._state
        if delta.refusal:
            state.refusal.append(delta.refusal)
        call = delta.function_call
        if call is not None and (call.name or call.arguments):
            state.tolerate("legacy_function_call")
            state.calls.add(0, None, call.name, call.arguments, out)

    def _finish(self, word: str, out: list[Delta]) -> None:
        state = self._state
        if word == "error":
            raise Fault("provider_error", "the provider ended the reply with finish_reason 'error'")
        reason = STOP_REASONS.get(word, word)
        if state.refusal and reason == "end_turn":
            reason = "refusal"
        if not self._finished:
            self._finished = True
            state.stop_reason = reason
            state.calls.finish(reason, out)
        elif reason != state.stop_reason:
            state.tolerate("second_finish_reason")
            held = state.stop_reason or ""
            if _CAUTION.get(reason, 9) > _CAUTION.get(held, 9):
                state.stop_reason = reason

    def _no_choices(self, data: bytes) -> None:
        """An event without choices and usage: an error in another shape, a provider's extra, or a first Azure chunk."""
        whole = _any_json(data)
        if isinstance(whole, dict):
            if whole.get("object") == "error" or ("message" in whole and "code" in whole):
                raise _provider_error(whole)
            detail = whole.get("detail")
            if detail and "choices" not in whole:
                raise _provider_error(detail)
        self._state.tolerate("no_choices")

    def _odd(self, name: str | None, data: bytes) -> _Chunk | None:
        """An event that the typed decode refused; `None` if there is nothing in it."""
        state = self._state
        stripped = data.strip()
        if stripped == b"[DONE]":
            state.ended = True
            return None
        if not stripped:
            state.tolerate("empty_event")
            return None
        if name == "error":
            raise _provider_error(_any_json(data))
        try:
            whole = json.loads(data, parse_constant=_no_constant)
        except (ValueError, RecursionError):
            raise malformed(state.events, data, "is no JSON") from None
        if not isinstance(whole, dict):
            raise malformed(state.events, data, "is no JSON object")
        if whole.get("error") is not None:
            raise _provider_error(whole["error"])
        try:
            return _Chunk(
                choices=[self._odd_choice(c) for c in whole.get("choices") or []], usage=_dict(whole, "usage")
            )
        except (TypeError, AttributeError, KeyError):
            raise malformed(state.events, data, "has not the form of a chat.completion.chunk") from None

    def _odd_choice(self, choice: dict[str, Any]) -> _Choice:
        state = self._state
        delta = choice.get("delta") or {}
        text, thought = self._content(delta.get("content"))
        thought = thought or _str(delta.get("reasoning_content")) or _str(delta.get("reasoning"))
        calls = [self._odd_call(c) for c in delta.get("tool_calls") or []]
        legacy = delta.get("function_call")
        index = choice.get("index")
        reason = choice.get("finish_reason")
        if reason is not None and not isinstance(reason, str):
            state.tolerate("odd_finish_reason")
            reason = str(reason)
        return _Choice(
            delta=_Delta(
                content=self._mend(text),
                tool_calls=calls or None,
                reasoning_content=_clean(thought),
                refusal=_clean(_str(delta.get("refusal"))),
                function_call=_function(legacy) if legacy else None,
            ),
            index=index if isinstance(index, int) else 0,
            finish_reason=reason,
        )

    def _odd_call(self, call: dict[str, Any]) -> _Call:
        index = call.get("index")
        if isinstance(index, bool) or not isinstance(index, int):
            index = None
        id = call.get("id")
        function = call.get("function")
        if isinstance(function, dict) and isinstance(function.get("arguments"), (dict, list)):
            self._state.tolerate("object_arguments")
        return _Call(index, id if isinstance(id, str) else None, _function(function) if function else None)

    def _content(self, content: Any) -> tuple[str | None, str | None]:
        """Text and reasoning of `content`, which some servers send as a list of parts."""
        if content is None or isinstance(content, str):
            return content, None
        if not isinstance(content, list):
            raise TypeError
        self._state.tolerate("content_parts")
        text: list[str] = []
        thought: list[str] = []
        for part in content:
            if isinstance(part, str):
                text.append(part)
            elif part.get("type") == "thinking":
                inner = part.get("thinking")
                thought.extend(p if isinstance(p, str) else p.get("text") or "" for p in inner or [])
            elif isinstance(part.get("text"), str):
                text.append(part["text"])
            else:
                self._state.tolerate("unknown_content_part")
        return "".join(text) or None, "".join(thought) or None

    def _mend(self, text: str | None) -> str | None:
        """Text with half a surrogate pair: the first half waits for the next event, anything else becomes U+FFFD."""
        if not text or text.isascii():
            return text
        try:
            text.encode()
        except UnicodeEncodeError:
            self._state.tolerate("torn_surrogate")
            text = self._held + text
            self._held = ""
            if "\ud800" <= text[-1] <= "\udbff":
                self._held = text[-1]
                text = text[:-1]
            text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        return text

    def _rejoin(self, text: str) -> str:
        held, self._held = self._held, ""
        return (held + text).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


class OpenAIChat:
    """The dialect `openai_chat`."""

    name = "openai_chat"
    framing: Literal["sse", "ndjson"] = "sse"
    whole_events = False

    def reader(self, state: ReplyState) -> ChatReader:
        """A fresh reader for one reply."""
        return ChatReader(state)

    def request(self, conversation: Conversation, specs: Sequence[ToolSpec], options: ModelOptions) -> Request:
        """A streaming request to `/chat/completions` that asks for usage. Only what is set is sent (W13)."""
        body: dict[str, Any] = {
            "model": options.model,
            "messages": messages_out(conversation),
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if specs:
            body["tools"] = [_tool_out(spec) for spec in specs]
            if options.tool_choice is not None:
                body["tool_choice"] = _choice_out(options.tool_choice)
            if options.parallel_tool_calls is not None:
                body["parallel_tool_calls"] = options.parallel_tool_calls
        for key in ("temperature", "top_p", "seed", "reasoning_effort"):
            value = getattr(options, key)
            if value is not None:
                body[key] = value
        if options.stop:
            body["stop"] = list(options.stop)
        if options.max_output_tokens is not None:
            body[_limit_key(options.model)] = options.max_output_tokens
        return Request(dialect=self.name, path="/chat/completions", body=msgspec.json.encode(body))


def messages_out(conversation: Conversation) -> list[dict[str, Any]]:
    """The conversation in Chat's words: system text first and only if there is any, results right after their calls."""
    out: list[dict[str, Any]] = []
    system = "\n\n".join(m.content for m in conversation if isinstance(m, SystemMessage) and m.content)
    if system:
        out.append({"role": "system", "content": system})
    for message in conversation:
        match message:
            case UserMessage():
                out.append({"role": "user", "content": _user_out(message)})
            case AssistantMessage():
                out.append(_assistant_out(message))
            case ToolMessage():
                out.append({"role": "tool", "tool_call_id": message.call_id, "content": message.content})
            case SystemMessage():
                pass
    return out


def malformed(number: int, data: bytes, what: str) -> Fault:
    """An event that stops the stream: its number (from 1) and its first 64 characters."""
    head = data[: _HEAD * 4].decode("utf-8", "replace")[:_HEAD]
    return Fault("malformed_event", f"event {number} {what}: {head!r}")


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
    arguments = call.arguments
    if call.status != "whole":
        # Some servers parse the arguments of history and refuse the request if they cannot (W8).
        try:
            parse_arguments(arguments)
        except ArgumentsError:
            arguments = "{}"
    return {"id": call.id, "type": "function", "function": {"name": call.name or "unnamed", "arguments": arguments}}


def _tool_out(spec: ToolSpec) -> dict[str, Any]:
    function = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
    return {"type": "function", "function": function}


def _choice_out(choice: str) -> Any:
    if choice in ("auto", "none", "required"):
        return choice
    return {"type": "function", "function": {"name": choice}}


def _limit_key(model: str) -> str:
    """OpenAI's reasoning models refuse `max_tokens`; most compatible servers know only that."""
    return "max_completion_tokens" if model.startswith(("o1", "o3", "o4", "gpt-5")) else "max_tokens"


def _usage(raw: dict[str, Any]) -> Usage | None:
    """Usage as Chat reports it; counts that are no whole numbers are taken as 0."""
    prompt = _dict(raw, "prompt_tokens_details") or {}
    completion = _dict(raw, "completion_tokens_details") or {}
    cost = raw.get("cost")
    usage = Usage(
        input_tokens=_count(raw.get("prompt_tokens")),
        output_tokens=_count(raw.get("completion_tokens")),
        cached_tokens=_count(prompt.get("cached_tokens")) or _count(raw.get("prompt_cache_hit_tokens")),
        cache_write_tokens=_count(prompt.get("cache_write_tokens")),
        reasoning_tokens=_count(completion.get("reasoning_tokens")),
        cost=float(cost) if isinstance(cost, (int, float)) and not isinstance(cost, bool) else None,
    )
    return usage if usage != Usage() else None


def _provider_error(error: Any) -> Fault:
    """The provider's own words, from any of the shapes in which errors are sent."""
    code = None
    message = error
    if isinstance(error, dict):
        inner = error.get("error")
        if isinstance(inner, (dict, str)) and "message" not in error:
            return _provider_error(inner)
        message = error.get("message") or error.get("detail") or error
        word = error.get("code") or error.get("type")
        code = str(word) if word is not None else None
    text = message if isinstance(message, str) else json.dumps(message, ensure_ascii=False)
    return Fault("provider_error", f"the provider reported an error: {text[:2000]}", code=code)


def _any_json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return data[:2000].decode("utf-8", "replace")


def _no_constant(word: str) -> None:
    raise ValueError(word)


def _function(raw: Any) -> _Function:
    name = raw.get("name")
    arguments = raw.get("arguments")
    if isinstance(arguments, (dict, list)):
        arguments = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
    return _Function(name if isinstance(name, str) else None, arguments if isinstance(arguments, str) else None)


def _clean(text: str | None) -> str | None:
    if text is None or text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _dict(raw: dict[str, Any], key: str) -> dict[str, Any] | None:
    value = raw.get(key)
    return value if isinstance(value, dict) else None


def _str(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0
