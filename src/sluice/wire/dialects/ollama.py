"""Ollama's `/api/chat`: one JSON object a line.

Source: Ollama's API reference ("Generate a chat completion"), the types of the official client, and recorded streams.
`done: true` is the terminal mark, and nothing after it is read; `done_reason` says why. Calls come whole, each in an entry
of its own: an entry never goes on with an earlier one, whatever its number or id says, for servers were recorded that
number every call 0. Nothing in a reply needs to go back in the server's own form.
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
from sluice.wire.dialects.base import ReplyState
from sluice.wire.dialects.faults import malformed, provider_error
from sluice.wire.dialects.ollama_request import request_body
from sluice.wire.dialects.whole_arguments import arguments_text
from sluice.wire.recognise import dialect_of
from sluice.wire.sse import Event
from sluice.wire.surrogates import Halves, is_torn, storable

STOP_REASONS = {"stop": "end_turn", "length": "max_tokens"}
"""Words of `done_reason`. Any other (`load`, `unload`) is kept as it is."""

_MEMBERS = frozenset({"message", "done", "response"})
_TOO_MANY = 2**62  # no count of tokens


class _Message(msgspec.Struct, gc=False):
    content: str = ""
    thinking: str = ""
    tool_calls: None = None  # anything else takes the slow path


class _Line(msgspec.Struct, gc=False):
    message: _Message
    done: bool = False
    error: None = None


class _RawFunction(msgspec.Struct):
    arguments: msgspec.Raw = msgspec.Raw()


class _RawCall(msgspec.Struct):
    function: _RawFunction | None = None


class _RawMessage(msgspec.Struct):
    tool_calls: list[_RawCall]


class _RawLine(msgspec.Struct):
    message: _RawMessage


_decode = msgspec.json.Decoder(_Line).decode
_decode_raw = msgspec.json.Decoder(_RawLine).decode


class OllamaReader:
    """Lines of one Ollama reply."""

    __slots__ = ("_begun", "_state", "_text", "_thought", "_torn")

    def __init__(self, state: ReplyState) -> None:
        self._state = state
        self._begun = False
        self._torn = False  # half a surrogate pair was seen
        self._text = Halves()
        self._thought = Halves()

    def read(self, events: Sequence[Event], out: list[Delta]) -> None:
        """See `EventReader.read`."""
        state = self._state
        decode = _decode
        say = state.text
        think = state.reasoning
        for _, data, _ in events:
            state.events += 1
            if self._begun and not self._torn:
                try:
                    line = decode(data)
                except (msgspec.DecodeError, RecursionError):
                    line = None
                if line is not None and not line.done:
                    message = line.message
                    if message.thinking:
                        think(message.thinking)
                        out.append(ReasoningDelta(message.thinking))
                    if message.content:
                        say(message.content)
                        out.append(TextDelta(message.content))
                    continue
            self._slow(data, out)
            if state.ended:
                return

    def finish(self, out: list[Delta]) -> None:
        """End of input: halves of surrogate pairs that nothing followed."""
        self._state.add_reasoning(self._thought.rest(), out)
        self._state.add_text(self._text.rest(), out)

    # -- the slow path: the first line, calls, the last line, and what is odd

    def _slow(self, data: bytes, out: list[Delta]) -> None:
        state = self._state
        stripped = data.strip()
        if stripped == b"[DONE]":
            state.events -= 1
            state.ended = True
            return
        try:
            value = json.loads(data, parse_constant=_no_constant)
        except (ValueError, RecursionError):
            is_sse = stripped.startswith((b"data:", b"event:"))
            raise malformed(state.events, data, "is an event stream's" if is_sse else "is no JSON") from None
        if not isinstance(value, dict):
            raise malformed(state.events, data, "is no JSON object")
        if value.get("error"):
            raise provider_error(value["error"])
        try:
            self._line(value, data, out)
        except (TypeError, AttributeError, KeyError, ValueError, RecursionError):
            raise malformed(state.events, data, "has not the form of a line of Ollama's") from None

    def _line(self, value: dict[str, Any], data: bytes, out: list[Delta]) -> None:
        state = self._state
        if value.keys().isdisjoint(_MEMBERS):
            other = None if self._begun else dialect_of(value)
            if other is not None:
                raise malformed(state.events, data, f"is no line of ollama; it looks like {other}")
            state.tolerate("unknown_line")
            return
        self._begun = True
        model = value.get("model")
        if state.model is None and isinstance(model, str) and model:
            state.model = storable(model)
        message = value.get("message") or {}
        content = message.get("content")
        if content is None and isinstance(value.get("response"), str):
            state.tolerate("response_for_message")  # the words of the older `/api/generate`
            message = {"thinking": value.get("thinking"), **message}
            content = value["response"]
        state.add_reasoning(self._whole(self._thought, message.get("thinking")), out)
        state.add_text(self._whole(self._text, content), out)
        calls = message.get("tool_calls")
        if calls:
            written = _as_written(data, len(calls))
            for call, arguments in zip(calls, written, strict=True):
                self._call(call, arguments, out)
        if value.get("done") is True:
            self._done(value, out)
        elif value.get("done"):
            raise TypeError

    def _call(self, call: dict[str, Any], written: msgspec.Raw | None, out: list[Delta]) -> None:
        state = self._state
        function = call.get("function") or {}
        index = function.get("index", call.get("index"))
        if not isinstance(index, int) or isinstance(index, bool) or index < 0:
            index = len(state.calls.calls)
        elif state.calls.at(index) is not None:
            state.tolerate("repeated_index")
        arguments = arguments_text(function.get("arguments"), written, state.tolerate)
        made = state.calls.open_call(index, _word(call.get("id")), _word(function.get("name")), out)
        if arguments:
            state.calls.replace_arguments(made, arguments)
        state.calls.close_call(made, out)

    def _done(self, value: dict[str, Any], out: list[Delta]) -> None:
        state = self._state
        word = value.get("done_reason")
        if not isinstance(word, str) or not word:
            state.tolerate("no_done_reason")  # servers before 0.3 say only that it is done
            word = "stop"
        read, written = _count(value.get("prompt_eval_count")), _count(value.get("eval_count"))
        if read or written:
            state.usage = Usage(input_tokens=read, output_tokens=written)
        state.stop_reason = STOP_REASONS.get(word, storable(word))
        state.calls.finish(state.stop_reason, out)
        state.ended = True

    def _whole(self, halves: Halves, text: Any) -> str:
        """A piece of text that may begin or end with half a surrogate pair."""
        if not text:
            return ""
        if not isinstance(text, str):
            raise TypeError
        if not self._torn and is_torn(text):
            self._torn = True
            self._state.tolerate("torn_surrogate")
        return halves.join(text) if self._torn else text


class Ollama:
    """The dialect `ollama`."""

    name = "ollama"
    terminal_mark = '"done": true'
    framing: Literal["sse", "ndjson"] = "ndjson"
    whole_events = True

    def reader(self, state: ReplyState) -> OllamaReader:
        """A fresh reader for one reply."""
        return OllamaReader(state)

    def request(self, conversation: Conversation, specs: Sequence[ToolSpec], options: ModelOptions) -> Request:
        """A streaming request to `/api/chat`. Only what is set is sent.

        The API has no choice of tools: with `none` no tool is sent, any other choice is left out.
        """
        return Request(dialect=self.name, path="/api/chat", body=request_body(conversation, specs, options))


def _as_written(data: bytes, count: int) -> list[msgspec.Raw | None]:
    """The bytes of each call's arguments in a line."""
    try:
        calls = _decode_raw(data).message.tool_calls
    except (msgspec.DecodeError, RecursionError):
        return [None] * count
    return [call.function.arguments if call.function is not None else None for call in calls]


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _TOO_MANY else 0


def _word(value: Any) -> str | None:
    return storable(value) if isinstance(value, str) and value else None


def _no_constant(word: str) -> None:
    raise ValueError(word)
