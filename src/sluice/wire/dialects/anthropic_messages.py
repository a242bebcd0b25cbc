"""Anthropic Messages, as Anthropic sends it and as servers and gateways that speak it do.

Source: the reference of the Messages API ("Streaming messages"), the official clients for what they do with an event,
and recorded streams. The typed decode knows only the three deltas that nearly every event is; all else takes the slow
path. One body is one message: nothing after `message_stop` is read, and a second message inside the first stops the
stream, because their blocks have the same numbers and would be glued together.

Where the evidence conflicts, decided here:

- a signature that comes twice: the last one counts, as in the official clients;
- `message_start` twice: the same message again before anything was said is a repeat (recorded), else `malformed_event`;
- `stop_reason` twice: the more careful one stands;
- input at a block's start: counts only if no fragment follows (deferred calls were recorded so, and so was `{}`);
- a fragment after its block's stop goes to that block (translators close blocks early), which is open again by it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from sluice.values.calls import ToolSpec
from sluice.values.deltas import Delta, TextDelta
from sluice.values.messages import Conversation, Usage
from sluice.values.requests import ModelOptions, Request
from sluice.wire.dialects.anthropic_content import Content
from sluice.wire.dialects.anthropic_request import request_body
from sluice.wire.dialects.base import Fault, ReplyState
from sluice.wire.dialects.faults import any_json, malformed, provider_error
from sluice.wire.dialects.reported_cost import reported_cost
from sluice.wire.recognise import dialect_of
from sluice.wire.sse import Event
from sluice.wire.surrogates import storable

STOP_REASONS = {
    "end_turn": "end_turn",
    "stop_sequence": "end_turn",
    "tool_use": "tool_use",
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "refusal": "refusal",
    "pause_turn": "pause",
}

_CAUTION = {"end_turn": 0, "tool_use": 1, "pause": 2, "refusal": 3, "max_tokens": 4}
_COUNTS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_TOO_MANY = 2**63  # no count of tokens


class _Delta(msgspec.Struct, gc=False):
    type: str | None = None
    text: str | None = None
    partial_json: str | None = None
    thinking: str | None = None


class _Event(msgspec.Struct, gc=False):
    type: str | None = None
    index: int = -1
    delta: _Delta | None = None


_decode = msgspec.json.Decoder(_Event).decode


class MessagesReader:
    """Events of one Messages reply."""

    __slots__ = ("_begun", "_content", "_counts", "_reason", "_state")

    def __init__(self, state: ReplyState) -> None:
        self._state = state
        self._content = Content(state)
        self._begun = False
        self._reason: str | None = None  # becomes the stop reason with `message_stop`
        self._counts: dict[str, int] = {}

    def read(self, events: Sequence[Event], out: list[Delta]) -> None:
        """See `EventReader.read`."""
        state = self._state
        decode = _decode
        content = self._content
        blocks = content.open
        text_channel = content.text
        extend = state.calls.extend
        for name, data, _ in events:
            if data == b"[DONE]":
                state.ended = True
                return
            state.events += 1
            try:
                event = decode(data)
            except (msgspec.DecodeError, RecursionError):
                self._slow(name, data, out)
                if state.ended:
                    return
                continue
            delta = event.delta
            if delta is not None and event.type == "content_block_delta" and not content.torn:
                block = blocks.get(event.index)
                if block is not None:
                    kind = delta.type
                    if kind == "input_json_delta":
                        call = block.call
                        if call is not None:
                            if delta.partial_json:
                                extend(call, delta.partial_json, out)
                            continue
                    elif kind == "text_delta":
                        if block.kind == "text":
                            text = delta.text
                            if text:
                                if text_channel.block is not block:
                                    text_channel.turn(block)
                                text_channel.size += len(text)
                                state.text(text)
                                out.append(TextDelta(text))
                            continue
                    elif kind == "thinking_delta" and block.kind == "thinking":
                        content.add_thought(block, delta.thinking, out)
                        continue
            self._slow(name, data, out)
            if state.ended:
                return

    def finish(self, out: list[Delta]) -> None:
        """End of input: halves of surrogate pairs that nothing followed, and what only the whole reply shows."""
        self._content.flush(out)
        self._content.settle()

    # -- the slow path: every event that is no plain delta

    def _slow(self, name: str | None, data: bytes, out: list[Delta]) -> None:
        state = self._state
        if name == "error":
            raise provider_error(any_json(data))
        stripped = data.strip()
        if not stripped:
            state.tolerate("empty_event")
            return
        if stripped == b"[DONE]":
            state.ended = True
            return
        try:
            value = json.loads(data, parse_constant=_no_constant)
        except (ValueError, RecursionError):
            raise malformed(state.events, data, "is no JSON") from None
        if not isinstance(value, dict):
            raise malformed(state.events, data, "is no JSON object")
        try:
            self._event(name, value, out)
        except (TypeError, AttributeError, KeyError, OverflowError, RecursionError):
            raise malformed(state.events, data, "has not the form of a Messages event") from None

    def _event(self, name: str | None, value: dict[str, Any], out: list[Delta]) -> None:
        kind = value.get("type")
        if kind is None and value.get("error"):
            raise provider_error(value["error"])
        if kind is None and name is not None:
            self._state.tolerate("type_from_event_name")
            kind = name
        match kind:
            case "content_block_delta":
                self._content.delta(value, out)
            case "content_block_start":
                self._content.start(value.get("index"), value["content_block"], out)
            case "content_block_stop":
                self._content.stop(value.get("index"), out)
            case "message_start":
                self._message_start(value["message"], out)
            case "message_delta":
                self._message_delta(value)
            case "message_stop":
                self._message_stop(out)
            case "ping":
                self._state.events -= 1  # a sign of life, no progress: it must not hold up an idle timer
            case "error":
                raise provider_error(value.get("error") or value)
            case _:
                self._unknown(kind, value)

    def _unknown(self, kind: Any, value: dict[str, Any]) -> None:
        state = self._state
        other = None if self._begun else dialect_of(value)
        if other is not None:
            raise Fault(
                "malformed_event", f"event {state.events} is no event of anthropic_messages; it looks like {other}"
            )
        state.tolerate("unknown_event")

    def _message_start(self, message: dict[str, Any], out: list[Delta]) -> None:
        state = self._state
        id = message.get("id")
        if self._begun:
            if self._content.begun or id != state.id:
                raise Fault(
                    "malformed_event",
                    f"event {state.events} begins a second message ({str(id)[:64]!r}) "
                    f"inside the first ({str(state.id)[:64]!r})",
                )
            state.tolerate("repeated_message_start")
        self._begun = True
        state.id = storable(id) if isinstance(id, str) and id else state.id
        model = message.get("model")
        state.model = storable(model) if isinstance(model, str) and model else state.model
        self._usage(message.get("usage"))
        self._stop_reason(message.get("stop_reason"))
        for item in message.get("content") or ():
            self._content.preloaded(item, out)

    def _message_delta(self, value: dict[str, Any]) -> None:
        self._usage(value.get("usage"))
        delta = value.get("delta") or {}
        reason = delta.get("stop_reason")
        self._stop_reason(reason)
        details = delta.get("stop_details")
        if reason == "refusal" and isinstance(details, dict) and isinstance(details.get("explanation"), str):
            self._state.refusal.append(storable(details["explanation"]))

    def _stop_reason(self, word: Any) -> None:
        if word is None:
            return
        if not isinstance(word, str) or not word:
            self._state.tolerate("odd_stop_reason")
            word = str(word)
        reason = STOP_REASONS.get(word, storable(word))
        if self._reason is None:
            self._reason = reason
        elif reason != self._reason:
            self._state.tolerate("second_stop_reason")
            if _CAUTION.get(reason, 9) > _CAUTION.get(self._reason, 9):
                self._reason = reason

    def _message_stop(self, out: list[Delta]) -> None:
        state = self._state
        if self._reason is None:
            raise Fault("incomplete", "message_stop came without a stop_reason: why the reply ended is not known")
        self._content.end(out)
        if not self._begun:
            state.tolerate("no_message_start")
        state.stop_reason = self._reason
        state.calls.finish(state.stop_reason, out)
        state.ended = True

    def _usage(self, raw: Any) -> None:
        """Counts are cumulative: what is said later replaces what was said before, and what is not said stays."""
        if not isinstance(raw, dict):
            return
        counts = self._counts
        for key in _COUNTS:
            if _is_count(raw.get(key)):
                counts[key] = raw[key]
        details = raw.get("output_tokens_details")
        if isinstance(details, dict) and _is_count(details.get("thinking_tokens")):
            counts["thinking_tokens"] = details["thinking_tokens"]
        cost = reported_cost(raw)
        before = self._state.usage
        cached, written = counts.get("cache_read_input_tokens", 0), counts.get("cache_creation_input_tokens", 0)
        usage = Usage(
            input_tokens=counts.get("input_tokens", 0) + cached + written,
            output_tokens=counts.get("output_tokens", 0),
            cached_tokens=cached,
            cache_write_tokens=written,
            reasoning_tokens=counts.get("thinking_tokens", 0),
            cost=cost if cost is not None or before is None else before.cost,
        )
        self._state.usage = usage if usage != Usage() else before


class AnthropicMessages:
    """The dialect `anthropic_messages`."""

    name = "anthropic_messages"
    terminal_mark = "message_stop"
    framing: Literal["sse", "ndjson"] = "sse"
    whole_events = False

    def reader(self, state: ReplyState) -> MessagesReader:
        """A fresh reader for one reply."""
        return MessagesReader(state)

    def request(self, conversation: Conversation, specs: Sequence[ToolSpec], options: ModelOptions) -> Request:
        """A streaming request to `/messages`, with cache marks. Only what is set is sent, beside `max_tokens`."""
        return Request(
            dialect=self.name,
            path="/messages",
            body=msgspec.json.encode(request_body(conversation, specs, options)),
            headers=(("anthropic-version", "2023-06-01"),),
            auth="x-api-key",
        )


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _TOO_MANY


def _no_constant(word: str) -> None:
    raise ValueError(word)
