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

from sluice.values.calls import ToolSpec
from sluice.values.deltas import Delta, ReasoningDelta, TextDelta
from sluice.values.messages import Conversation, Usage
from sluice.values.requests import ModelOptions, Request
from sluice.wire.dialects.base import Fault, ReplyState
from sluice.wire.dialects.chat_messages import GIVEN_BACK, choice_out, limit_key, messages_out, tool_out
from sluice.wire.dialects.faults import any_json, malformed, provider_error
from sluice.wire.dialects.reported_cost import reported_cost
from sluice.wire.sse import Event
from sluice.wire.surrogates import Halves, is_torn, storable

STOP_REASONS = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "length": "max_tokens",
    "content_filter": "content_filter",
}

# Of two contradicting terminal marks in one reply the more careful one stands (a proxy was seen to add "stop").
_CAUTION = {"end_turn": 0, "tool_use": 1, "max_tokens": 2, "content_filter": 3}

_TOO_MANY = 2**63  # no count of tokens


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
    message: _Delta | None = None
    error: Any = None


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

    __slots__ = ("_finished", "_named", "_state", "_text", "_thought", "_torn")

    def __init__(self, state: ReplyState) -> None:
        self._state = state
        self._named = False  # id and model are known
        self._finished = False  # calls were closed by a finish_reason
        self._torn = False  # half a surrogate pair was seen: from then on text goes through the two below
        self._text = Halves()
        self._thought = Halves()

    def read(self, events: Sequence[Event], out: list[Delta]) -> None:
        """See `EventReader.read`."""
        state = self._state
        decode = _decode
        for name, data, _ in events:
            if data == b"[DONE]":
                state.ended = True
                return
            state.events += 1
            try:
                chunk = decode(data) if self._named and name is None else self._first(name, data)
            except (msgspec.DecodeError, RecursionError):
                odd = self._odd(data)
                if odd is None:
                    if state.ended:
                        return
                    continue
                chunk = odd
            if chunk.error:
                raise provider_error(chunk.error)
            if chunk.usage is not None:
                state.usage = _usage(chunk.usage) or state.usage
            choices = chunk.choices
            if choices:
                self._choices(choices, out)
            elif chunk.usage is None:
                self._no_choices(data)

    def finish(self, out: list[Delta]) -> None:
        """End of input: halves of surrogate pairs that nothing followed, and calls that came after the terminal mark."""
        state = self._state
        state.add_reasoning(self._thought.rest(), out)
        state.add_text(self._text.rest(), out)
        if state.stop_reason is not None:
            state.calls.finish(state.stop_reason, out)

    def _choices(self, choices: list[_Choice], out: list[Delta]) -> None:
        state = self._state
        for choice in choices:
            if choice.index:
                state.other_choices = max(state.other_choices, choice.index)
                continue
            if choice.error:
                raise provider_error(choice.error)
            delta = choice.delta or self._message(choice)
            if delta is not None:
                thought = delta.reasoning_content
                if thought is not None and state.native is None:
                    state.native = GIVEN_BACK
                thought = thought or delta.reasoning
                if thought and self._torn:
                    thought = self._thought.join(thought)
                if thought:
                    state.reasoning(thought)
                    out.append(ReasoningDelta(thought))
                text = delta.content
                if text and self._torn:
                    text = self._text.join(text)
                if text:
                    state.text(text)
                    out.append(TextDelta(text))
                calls = delta.tool_calls
                if calls:
                    self._calls(calls, out)
                if delta.refusal is not None or delta.function_call is not None:
                    self._quiet(delta, out)
            if choice.finish_reason:
                self._finish(choice.finish_reason, out)

    def _calls(self, calls: list[_Call], out: list[Delta]) -> None:
        add = self._state.calls.add
        if self._finished:
            self._state.tolerate("call_after_finish")
        for call in calls:
            function = call.function
            if function is None:
                add(call.index, call.id, None, None, out)
            else:
                add(call.index, call.id, function.name, function.arguments, out)

    def _message(self, choice: _Choice) -> _Delta | None:
        """A choice without `delta`: some servers put all they have to say into a `message`, some repeat the reply there."""
        message = choice.message
        if message is None:
            return None
        state = self._state
        if state.text_parts or state.reasoning_parts or state.calls.calls or state.refusal:
            state.tolerate("message_after_deltas")
            return None
        state.tolerate("message_for_delta")
        return message

    def _first(self, name: str | None, data: bytes) -> _Chunk:
        if name == "error":
            raise provider_error(any_json(data))
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
        whole = any_json(data)
        if isinstance(whole, dict):
            if whole.get("object") == "error" or ("message" in whole and "code" in whole):
                raise provider_error(whole)
            detail = whole.get("detail")
            if detail and "choices" not in whole:
                raise provider_error(detail)
        self._state.tolerate("no_choices")

    def _odd(self, data: bytes) -> _Chunk | None:
        """An event that the typed decode refused; `None` if there is nothing in it."""
        state = self._state
        stripped = data.strip()
        if stripped == b"[DONE]":
            state.ended = True
            return None
        if not stripped:
            state.tolerate("empty_event")
            return None
        try:
            whole = json.loads(data, parse_constant=_no_constant)
        except (ValueError, RecursionError):
            raise malformed(state.events, data, "is no JSON") from None
        if not isinstance(whole, dict):
            raise malformed(state.events, data, "is no JSON object")
        if whole.get("error"):
            raise provider_error(whole["error"])
        try:
            return _Chunk(
                choices=[self._odd_choice(c) for c in whole.get("choices") or []], usage=_dict(whole, "usage")
            )
        except (TypeError, AttributeError, KeyError, OverflowError):
            raise malformed(state.events, data, "has not the form of a chat.completion.chunk") from None

    def _odd_choice(self, choice: dict[str, Any]) -> _Choice:
        index = choice.get("index")
        reason = choice.get("finish_reason")
        if reason is not None and not isinstance(reason, str):
            self._state.tolerate("odd_finish_reason")
            reason = str(reason)
        delta, message = choice.get("delta"), choice.get("message")
        return _Choice(
            delta=self._odd_delta(delta) if delta else None,
            index=int(index) if isinstance(index, (int, float)) else 0,
            finish_reason=storable(reason) if reason else None,
            message=self._odd_delta(message) if message and not delta else None,
            error=choice.get("error"),
        )

    def _odd_delta(self, delta: dict[str, Any]) -> _Delta:
        text, thought = self._content(delta.get("content"))
        own = None if thought else self._reasoning(delta.get("reasoning_content"))
        thought = thought or self._reasoning(delta.get("reasoning"))
        if is_torn((text or "") + (own or thought or "")):
            self._torn = True
            self._state.tolerate("torn_surrogate")
        calls = [self._odd_call(c) for c in delta.get("tool_calls") or []]
        legacy = delta.get("function_call")
        refusal = delta.get("refusal")
        return _Delta(
            content=text,
            tool_calls=calls or None,
            reasoning_content=own,
            reasoning=thought,
            refusal=storable(refusal) if isinstance(refusal, str) else None,
            function_call=_function(legacy) if legacy else None,
        )

    def _odd_call(self, call: dict[str, Any]) -> _Call:
        index = call.get("index")
        if isinstance(index, bool) or not isinstance(index, int):
            index = None
        id = call.get("id")
        function = call.get("function")
        if isinstance(function, dict) and not isinstance(function.get("arguments"), (str, type(None))):
            self._state.tolerate("object_arguments")
        return _Call(index, storable(id) if isinstance(id, str) else None, _function(function) if function else None)

    def _reasoning(self, thought: Any) -> str | None:
        """Reasoning, which some servers send as an object around its text."""
        if isinstance(thought, dict):
            self._state.tolerate("object_reasoning")
            thought = thought.get("text") or thought.get("content")
        return thought if isinstance(thought, str) else None

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


class OpenAIChat:
    """The dialect `openai_chat`."""

    name = "openai_chat"
    terminal_mark = "a finish_reason"
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
            body["tools"] = [tool_out(spec) for spec in specs]
            if options.tool_choice is not None:
                body["tool_choice"] = choice_out(options.tool_choice)
            if options.parallel_tool_calls is not None:
                body["parallel_tool_calls"] = options.parallel_tool_calls
        for key in ("temperature", "top_p", "seed", "reasoning_effort"):
            value = getattr(options, key)
            if value is not None:
                body[key] = value
        if options.stop:
            body["stop"] = list(options.stop)
        if options.max_output_tokens is not None:
            body[limit_key(options.model)] = options.max_output_tokens
        return Request(dialect=self.name, path="/chat/completions", body=msgspec.json.encode(body))


def _usage(raw: dict[str, Any]) -> Usage | None:
    """Usage as Chat reports it; counts that are no whole numbers are taken as 0."""
    prompt = _dict(raw, "prompt_tokens_details") or {}
    completion = _dict(raw, "completion_tokens_details") or {}
    usage = Usage(
        input_tokens=_count(raw.get("prompt_tokens")),
        output_tokens=_count(raw.get("completion_tokens")),
        cached_tokens=_count(prompt.get("cached_tokens")) or _count(raw.get("prompt_cache_hit_tokens")),
        cache_write_tokens=_count(prompt.get("cache_write_tokens")),
        reasoning_tokens=_count(completion.get("reasoning_tokens")),
        cost=reported_cost(raw),
    )
    return usage if usage != Usage() else None


def _no_constant(word: str) -> None:
    raise ValueError(word)


def _function(raw: dict[str, Any]) -> _Function:
    name = raw.get("name")
    arguments = raw.get("arguments")
    if arguments is not None and not isinstance(arguments, str):
        # An object is serialised once; anything else is kept too, so that it is refused and never taken for "none".
        arguments = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
    return _Function(storable(name) if isinstance(name, str) else None, arguments)


def _dict(raw: dict[str, Any], key: str) -> dict[str, Any] | None:
    value = raw.get(key)
    return value if isinstance(value, dict) else None


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _TOO_MANY else 0
