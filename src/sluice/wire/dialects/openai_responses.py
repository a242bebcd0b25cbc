"""OpenAI Responses, and the servers that speak it too.

Source: the Responses API reference ("streaming events"), and recorded streams of many servers. Which word counts:

- an item is named by `output_index`, else by its id, else it is the last open one of its kind: ids were recorded that
  change with every event, and servers that send no index;
- text, reasoning and refusal count as they are streamed. The end of a part, of an item or of the reply repeats them: it
  counts only for what was never streamed. If the end of an item goes on where the stream stopped, the rest is handed
  out; if it says something else, what was shown stands and that is counted. The end of a part is not asked for a rest:
  one was recorded that said more than its item in the end;
- a call's arguments are shown to nobody before their end, so there the end of the item has the last word. Arguments that
  came with the opening of an item count only if nothing else comes, or as the beginning of what comes;
- `response.completed` speaks for items whose end was not said, and is only compared for the others. Without items it
  says nothing (recorded with every reply of one server);
- a part of a summary is a paragraph: a blank line is handed out between two of them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Literal

import msgspec

from sluice.values.calls import ToolSpec
from sluice.values.deltas import Delta, ReasoningDelta, TextDelta
from sluice.values.messages import Conversation
from sluice.values.requests import ModelOptions, Request
from sluice.wire.dialects.base import ReplyState
from sluice.wire.dialects.faults import any_json, malformed, provider_error
from sluice.wire.dialects.responses_items import Item, id_of, index_of, part_of, usage_of
from sluice.wire.dialects.responses_output import OutputItems
from sluice.wire.dialects.responses_request import request_body
from sluice.wire.recognise import dialect_of
from sluice.wire.sse import Event
from sluice.wire.surrogates import Halves, is_torn, storable

STOP_REASONS = {"max_output_tokens": "max_tokens", "content_filter": "content_filter"}
"""Reasons of `response.incomplete`. Any other word is kept."""

# Events of items that are not ours to read: the item's end carries all that they said.
_QUIET = (
    "response.content_part.",
    "response.output_text.annotation",
    "response.reasoning_summary_part.done",
    "response.web_search_call",
    "response.file_search_call",
    "response.code_interpreter_call",
    "response.image_generation_call",
    "response.mcp_",
    "response.computer_call",
    "response.shell_call",
    "response.apply_patch_call",
    "response.audio",
    "response.compaction",
    "response.steer",
)

_TEXT = "response.output_text.delta"
_ARGUMENTS = "response.function_call_arguments.delta"
_SUMMARY = "response.reasoning_summary_text.delta"


class _Event(msgspec.Struct, gc=False):
    type: str | None = None
    delta: str | None = None
    output_index: int | None = None


_decode = msgspec.json.Decoder(_Event).decode
_Handler = Callable[["ResponsesReader", dict[str, Any], list[Delta]], None]


class ResponsesReader:
    """Events of one Responses reply."""

    __slots__ = ("_created", "_output", "_state", "_text", "_thought")

    def __init__(self, state: ReplyState) -> None:
        self._state = state
        self._output = OutputItems(state)
        self._created = False  # the first event was looked at
        self._text = Halves()  # both are used from the first half of a surrogate pair on
        self._thought = Halves()

    def read(self, events: Sequence[Event], out: list[Delta]) -> None:
        """See `EventReader.read`."""
        state = self._state
        output = self._output
        extend = state.calls.extend
        decode = _decode
        for name, data, _ in events:
            if data == b"[DONE]":
                state.ended = True
                return
            state.events += 1
            try:
                event = decode(data)
            except (msgspec.DecodeError, RecursionError):
                event = None
            if event is not None and event.delta and event.output_index is not None:
                kind, delta, index = event.type, event.delta, event.output_index
                if kind == _TEXT:
                    speaker = output.speaker
                    if index != speaker.index:
                        speaker = output.turn(index, "message")
                    if output.torn:
                        delta = self._text.join(delta)
                    if delta:
                        speaker.part += len(delta)
                        state.text(delta)
                        out.append(TextDelta(delta))
                    continue
                if kind == _ARGUMENTS:
                    call = output.open_calls.get(index)
                    if call is not None:
                        extend(call, delta, out)
                        continue
                elif kind == _SUMMARY:
                    if output.torn:
                        delta = self._thought.join(delta)
                    self._reasoning(output.turn(index, "reasoning"), delta, out)
                    continue
            self._other(name, data, out)
            if state.ended:
                return

    def finish(self, out: list[Delta]) -> None:
        """End of input: halves of surrogate pairs that nothing followed."""
        self._state.add_reasoning(self._thought.rest(), out)
        self._state.add_text(self._text.rest(), out)

    # -- the less common events -----------------------------------------------------------------------------------------

    def _other(self, name: str | None, data: bytes, out: list[Delta]) -> None:
        state = self._state
        stripped = data.strip()
        if stripped == b"[DONE]":
            state.ended = True
            return
        if not stripped:
            state.tolerate("empty_event")
            return
        try:
            event = json.loads(data, parse_constant=_no_constant)
        except (ValueError, RecursionError):
            if name == "error":
                raise provider_error(any_json(data)) from None
            raise malformed(state.events, data, "is no JSON") from None
        if not isinstance(event, dict):
            raise malformed(state.events, data, "is no JSON object")
        kind = event.get("type")
        if kind in ("error", "response.error") or name == "error" or (event.get("error") and kind is None):
            raise provider_error({k: v for k, v in event.items() if k != "type"})
        if not isinstance(kind, str):
            kind = event["type"] = self._typeless(name, event, data)
        if not self._created:
            self._begin(kind, event, data)
        handler = _HANDLERS.get(kind)
        if handler is None:
            if not kind.startswith(_QUIET):
                state.tolerate("unknown_event")
            return
        try:
            handler(self, event, out)
        except (TypeError, AttributeError, RecursionError):
            raise malformed(state.events, data, f"has not the form of {kind[:64]}") from None

    def _typeless(self, name: str | None, event: dict[str, Any], data: bytes) -> str:
        """An event without a type of its own: some proxies leave it to the `event:` line."""
        if name is not None and name.startswith("response."):
            self._state.tolerate("type_from_event_name")
            return name
        other = dialect_of(event)
        raise malformed(self._state.events, data, f"has no type{f' and looks like {other}' if other else ''}")

    def _begin(self, kind: str, event: dict[str, Any], data: bytes) -> None:
        """The first event: whether this is our dialect at all, and whether it starts as documented."""
        self._created = True
        if not kind.startswith("response."):
            other = dialect_of(event)
            if other is not None:
                raise malformed(self._state.events, data, f"is none of this dialect and looks like {other}")
        if kind not in ("response.created", "response.queued", "response.in_progress"):
            self._state.tolerate("missing_created")

    def _identity(self, event: dict[str, Any], out: list[Delta]) -> None:
        """`response.created` and its like: id and model. The first id stands."""
        response = event.get("response")
        if not isinstance(response, dict):
            return
        state = self._state
        model, id = response.get("model"), response.get("id")
        if state.model is None and isinstance(model, str) and model:
            state.model = storable(model)
        if isinstance(id, str) and id:
            if state.id is None:
                state.id = storable(id)
            elif storable(id) != state.id:
                state.tolerate("changing_response_id")

    def _text_delta(self, event: dict[str, Any], out: list[Delta]) -> None:
        item = self._output.speak(self._output.place(event, "message"))
        text = self._whole(self._text, event.get("delta"))
        item.part += len(text)
        self._state.add_text(text, out)

    def _reasoning_delta(self, event: dict[str, Any], out: list[Delta]) -> None:
        item = self._output.speak(self._output.place(event, "reasoning"))
        self._reasoning(item, self._whole(self._thought, event.get("delta")), out)

    def _reasoning(self, item: Item, text: str, out: list[Delta]) -> None:
        if text:
            item.part += len(text)
            self._state.reasoning(text)
            out.append(ReasoningDelta(text))

    def _whole(self, halves: Halves, text: Any) -> str:
        """A piece of text that may begin or end with half a surrogate pair."""
        if not text:
            return ""
        if not isinstance(text, str):
            raise TypeError
        if not self._output.torn and is_torn(text):
            self._output.torn = True
            self._state.tolerate("torn_surrogate")
        return halves.join(text) if self._output.torn else text

    def _summary_part(self, event: dict[str, Any], out: list[Delta]) -> None:
        """A part of a summary begins: a paragraph of its own."""
        if self._state.reasoning_parts:
            self._state.add_reasoning("\n\n", out)

    def _refusal_delta(self, event: dict[str, Any], out: list[Delta]) -> None:
        item = self._output.place(event, "message")
        refusal = event.get("delta")
        if isinstance(refusal, str) and refusal:
            item.parts.add(part_of(event))
            self._state.refusal.append(storable(refusal))

    def _refusal_done(self, event: dict[str, Any], out: list[Delta]) -> None:
        item = self._output.place(event, "message")
        refusal = event.get("refusal")
        if isinstance(refusal, str) and refusal and part_of(event) not in item.parts:
            item.parts.add(part_of(event))
            self._state.tolerate("refusal_only_at_end")
            self._state.refusal.append(storable(refusal))

    def _arguments_delta(self, event: dict[str, Any], out: list[Delta]) -> None:
        custom = event["type"] != _ARGUMENTS
        item = self._output.place(event, "custom_tool_call" if custom else "function_call")
        delta = event.get("delta")
        if delta is not None and not isinstance(delta, str):
            raise TypeError
        if item.call is None or item.done:
            self._state.tolerate("orphan_fragment")
        elif delta:
            self._state.calls.extend(item.call, delta, out)

    def _arguments_done(self, event: dict[str, Any], out: list[Delta]) -> None:
        custom = "input" in event
        item = self._output.place(event, "custom_tool_call" if custom else "function_call")
        if item.call is None or item.done:
            self._state.tolerate("orphan_fragment")
        else:
            self._output.settle_arguments(item, event, "input" if custom else "arguments")

    def _text_done(self, event: dict[str, Any], out: list[Delta]) -> None:
        item = self._output.place(event, "message")
        part = part_of(event)
        text = event.get("text")
        if part not in item.parts and isinstance(text, str):
            item.parts.add(part)
            if text and not item.part:
                self._output.settle_text(item, text, 0, out)
            item.shown += item.part  # whether more was to come is for the end of the item to say
            item.part = 0

    # -- items ----------------------------------------------------------------------------------------------------------

    def _item_added(self, event: dict[str, Any], out: list[Delta]) -> None:
        raw = event["item"] if isinstance(event.get("item"), dict) else {}
        kind = raw.get("type")
        if not isinstance(kind, str):
            raise TypeError
        index, id = index_of(event), id_of(raw.get("id"))
        item = self._output.by_index.get(index) if index is not None else self._output.by_id.get(id or "")
        if item is not None:
            if item.kind == kind and not item.done:
                self._state.tolerate("repeated_item")
                return
            self._state.tolerate("reused_output_index")
        self._output.begin(raw, kind, index, id, out)

    def _item_done(self, event: dict[str, Any], out: list[Delta]) -> None:
        raw = event["item"] if isinstance(event.get("item"), dict) else {}
        kind = raw.get("type")
        if not isinstance(kind, str):
            raise TypeError
        index, id = index_of(event), id_of(raw.get("id"))
        item = self._output.find(index, id, kind)
        if item is None or item.kind != kind:
            self._state.tolerate("item_not_opened")
            item = self._output.begin(raw, kind, index, id, out)
        if item.done:
            self._state.tolerate("repeated_item")
            return
        self._output.close(item, raw, out)

    # -- the end --------------------------------------------------------------------------------------------------------

    def _end(self, event: dict[str, Any], out: list[Delta]) -> None:
        """A terminal mark: `response.completed`, `.incomplete`, `.cancelled`, `.failed`, or the older `.done`."""
        state = self._state
        self._identity(event, out)
        given = event.get("response")
        response = given if isinstance(given, dict) else {}
        word = event["type"].removeprefix("response.")
        if word == "done":
            word = "completed"
            state.tolerate("done_for_completed")
        status = response.get("status")
        if status in ("completed", "incomplete", "failed", "cancelled") and status != word:
            state.tolerate("status_differs")
            # Of two words for the end the one that claims less counts.
            word = max(word, status, key=lambda w: _CAUTION.get(w, 0))
        if word == "failed" or response.get("error"):
            raise provider_error(response.get("error") or "the response failed, without a word why")
        usage = response.get("usage")
        if isinstance(usage, dict):
            state.usage = usage_of(usage)
        self._output.compare(response.get("output"), out)
        self._output.settle_open_calls()
        reason = self._reason(word, response)
        state.stop_reason = reason
        state.calls.finish(reason, out)
        if self._output.keeps:
            state.native = self._output.native()
        state.ended = True

    def _reason(self, word: str, response: dict[str, Any]) -> str:
        if word == "cancelled":
            return "aborted"
        if word == "incomplete":
            details = response.get("incomplete_details")
            why = details.get("reason") if isinstance(details, dict) else None
            return STOP_REASONS.get(why, storable(why)) if isinstance(why, str) and why else "incomplete"
        if self._state.calls.calls:
            return "tool_use"
        return "refusal" if self._state.refusal else "end_turn"


_CAUTION = {"completed": 0, "incomplete": 1, "cancelled": 2, "failed": 3}

_HANDLERS: dict[str, _Handler] = {
    "response.created": ResponsesReader._identity,
    "response.queued": ResponsesReader._identity,
    "response.in_progress": ResponsesReader._identity,
    _TEXT: ResponsesReader._text_delta,
    "response.output_text.done": ResponsesReader._text_done,
    _SUMMARY: ResponsesReader._reasoning_delta,
    "response.reasoning_text.delta": ResponsesReader._reasoning_delta,
    "response.reasoning_summary_part.added": ResponsesReader._summary_part,
    "response.reasoning_summary_text.done": lambda reader, event, out: None,
    "response.reasoning_text.done": lambda reader, event, out: None,
    "response.refusal.delta": ResponsesReader._refusal_delta,
    "response.refusal.done": ResponsesReader._refusal_done,
    _ARGUMENTS: ResponsesReader._arguments_delta,
    "response.function_call_arguments.done": ResponsesReader._arguments_done,
    "response.custom_tool_call_input.delta": ResponsesReader._arguments_delta,
    "response.custom_tool_call_input.done": ResponsesReader._arguments_done,
    "response.output_item.added": ResponsesReader._item_added,
    "response.output_item.done": ResponsesReader._item_done,
    "response.completed": ResponsesReader._end,
    "response.done": ResponsesReader._end,
    "response.incomplete": ResponsesReader._end,
    "response.cancelled": ResponsesReader._end,
    "response.failed": ResponsesReader._end,
}


class OpenAIResponses:
    """The dialect `openai_responses`."""

    name = "openai_responses"
    terminal_mark = "response.completed"
    framing: Literal["sse", "ndjson"] = "sse"
    whole_events = True

    def reader(self, state: ReplyState) -> ResponsesReader:
        """A fresh reader for one reply."""
        return ResponsesReader(state)

    def request(self, conversation: Conversation, specs: Sequence[ToolSpec], options: ModelOptions) -> Request:
        """A streaming request to `/responses` that the server is asked not to store. Only what is set is sent.

        Stop sequences and a seed are not sent: the API knows neither.
        """
        return Request(dialect=self.name, path="/responses", body=request_body(conversation, specs, options))


def _no_constant(word: str) -> None:
    raise ValueError(word)
