"""Gemini `streamGenerateContent`, as the Gemini API and Vertex AI send it with `alt=sse`.

Source: the reference of the Gemini API ("GenerateContentResponse", "Content"), the types of the official client, and
recorded streams. Each event is a piece of one response: parts of text, thoughts, whole calls, and the server's own tools.

Where the evidence conflicts, decided here:

- `finishReason` is the terminal mark, but more may follow it (recorded: code that the server runs, with a mark after the
  code and another after its result). A mark that content follows was none; so is a `STOP` right after code or a server's
  tool call that has no result yet. Hence nothing ends the reading but the end of the body, or `[DONE]`;
- two marks with nothing between them: the more careful one stands;
- a prompt that was blocked has no candidate, but `promptFeedback.blockReason`: that is a mark of its own, and stays;
- a call comes whole and is closed at once. Calls in parts by JSON path (`partialArgs`, of Vertex AI, only on request)
  are never asked for; if they come all the same they are malformed, never empty;
- every count of tokens stands for the whole reply so far; one that is not said again stays.
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
from sluice.wire.assembler import PartialCall
from sluice.wire.dialects.base import Fault, ReplyState
from sluice.wire.dialects.faults import malformed, provider_error
from sluice.wire.dialects.gemini_chunks import Counts, as_written, decode_text, whole, word_of
from sluice.wire.dialects.gemini_parts import Parts
from sluice.wire.dialects.gemini_request import path_of, request_body
from sluice.wire.dialects.whole_arguments import arguments_text
from sluice.wire.recognise import dialect_of
from sluice.wire.sse import Event
from sluice.wire.surrogates import Halves, is_torn, storable

STOP_REASONS = {
    "STOP": "end_turn",
    "MAX_TOKENS": "max_tokens",
    "SAFETY": "content_filter",
    "RECITATION": "content_filter",
    "BLOCKLIST": "content_filter",
    "PROHIBITED_CONTENT": "content_filter",
    "SPII": "content_filter",
    "MODEL_ARMOR": "content_filter",
    "IMAGE_SAFETY": "content_filter",
    "IMAGE_PROHIBITED_CONTENT": "content_filter",
    "IMAGE_RECITATION": "content_filter",
}
"""Words of `finishReason`. Any other (`MALFORMED_FUNCTION_CALL`, `LANGUAGE`, `OTHER` and more) is kept as it is."""

_CAUTION = {"end_turn": 0, "max_tokens": 1, "content_filter": 2}
_MEMBERS = frozenset({"candidates", "promptFeedback", "usageMetadata", "modelVersion", "responseId"})
_TEXT_MEMBERS = frozenset({"text", "thought", "thoughtSignature"})
_KINDS = frozenset(
    {
        "text",
        "functionCall",
        "executableCode",
        "codeExecutionResult",
        "toolCall",
        "toolResponse",
        "inlineData",
        "fileData",
    }
)
_IN_PARTS = "the arguments came in parts by JSON path, which was not asked for"


class GeminiReader:
    """Events of one Gemini reply."""

    __slots__ = (
        "_begun",
        "_blocked",
        "_counts",
        "_in_parts",
        "_parts",
        "_reason",
        "_state",
        "_text",
        "_thought",
        "_torn",
    )

    def __init__(self, state: ReplyState) -> None:
        self._state = state
        self._parts = Parts(state)
        self._begun = False
        self._reason: str | None = None  # the mark of the candidate
        self._blocked = False  # the prompt itself was refused
        self._in_parts: PartialCall | None = None  # a call whose arguments come in parts
        self._counts = Counts()
        self._torn = False  # half a surrogate pair was seen
        self._text = Halves()
        self._thought = Halves()

    def read(self, events: Sequence[Event], out: list[Delta]) -> None:
        """See `EventReader.read`."""
        state = self._state
        decode = decode_text
        parts = self._parts
        for _, data, _ in events:
            if data == b"[DONE]":
                state.ended = True
                return
            state.events += 1
            if self._begun and not self._torn and state.stop_reason is None:
                try:
                    chunk = decode(data)
                except (msgspec.DecodeError, RecursionError):
                    chunk = None
                if chunk is not None:
                    (candidate,) = chunk.candidates
                    if candidate.index == 0 and candidate.finishReason is None:
                        for part in candidate.content.parts:
                            text = part.text
                            if text:
                                thought = part.thought
                                last = parts.last
                                if last.thought is not thought:
                                    last = parts.turn(thought)
                                last.size += len(text)
                                if thought:
                                    state.reasoning(text)
                                    out.append(ReasoningDelta(text))
                                else:
                                    state.text(text)
                                    out.append(TextDelta(text))
                        counts = chunk.usageMetadata
                        if counts is not None:
                            self._count(counts)
                        continue
            self._slow(data, out)
            if state.ended:
                return

    def finish(self, out: list[Delta]) -> None:
        """End of input: halves of surrogate pairs that nothing followed, and what only the whole reply shows."""
        self._say(True, self._thought.rest(), out)
        self._say(False, self._text.rest(), out)
        state = self._state
        state.blocks = self._parts.blocks()
        if state.stop_reason is not None:
            state.native = self._parts.native()

    # -- the slow path: the first event, and every event that is not text alone

    def _slow(self, data: bytes, out: list[Delta]) -> None:
        state = self._state
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
        if value.get("error"):
            raise _error(value["error"])
        try:
            self._chunk(value, data, out)
        except (TypeError, AttributeError, KeyError, ValueError, RecursionError):
            raise malformed(state.events, data, "has not the form of a Gemini response") from None

    def _chunk(self, value: dict[str, Any], data: bytes, out: list[Delta]) -> None:
        state = self._state
        if value.keys().isdisjoint(_MEMBERS):
            other = None if self._begun else dialect_of(value)
            if other is not None:
                raise malformed(state.events, data, f"is no event of gemini; it looks like {other}")
            state.tolerate("unknown_event")
            return
        self._begun = True
        model, id = value.get("modelVersion"), value.get("responseId")
        if state.model is None and isinstance(model, str) and model:
            state.model = storable(model)
        if state.id is None and isinstance(id, str) and id:
            state.id = storable(id)
        usage = value.get("usageMetadata")
        if isinstance(usage, dict):
            self._count(Counts(*(whole(usage.get(key)) for key in Counts.__struct_fields__)))
        for place, candidate in enumerate(value.get("candidates") or ()):
            index = candidate.get("index") or 0
            if isinstance(index, int) and index > 0:
                state.other_choices = max(state.other_choices, index)
            else:
                self._candidate(candidate, place, data, out)
        feedback = value.get("promptFeedback") or {}
        block = feedback.get("blockReason")
        if block and not (isinstance(block, str) and block.endswith("_UNSPECIFIED")):
            self._blocked = True
            self._words(feedback.get("blockReasonMessage"), block)
            self._mark(out)

    def _candidate(self, candidate: dict[str, Any], place: int, data: bytes, out: list[Delta]) -> None:
        content = candidate.get("content") or {}
        parts = content.get("parts") or ()
        written: list[Any] = []
        for n, part in enumerate(parts):
            if part.get("functionCall") is not None and not written:
                written = as_written(data, place, len(parts))
            self._part(part, written[n] if written else None, out)
        word = candidate.get("finishReason")
        if word is not None:
            self._finish_reason(word, out)
            self._words(candidate.get("finishMessage"))

    def _part(self, part: dict[str, Any], written: Any, out: list[Delta]) -> None:
        text = part.get("text")
        if text is not None and not isinstance(text, str):
            raise TypeError
        thought = bool(part.get("thought"))
        call = part.get("functionCall")
        kept = part.keys() <= _TEXT_MEMBERS
        if self._state.stop_reason is not None and (text or not kept):
            self._go_on()
        shown = self._whole(self._thought if thought else self._text, text)
        if kept and part.get("thoughtSignature"):
            signature = part["thoughtSignature"]
            if not isinstance(signature, str):
                raise TypeError
            self._parts.signed(thought, signature, len(shown))
        elif kept:
            if not part:
                self._state.tolerate("empty_part")
            elif shown:
                self._parts.say(thought, len(shown))
        else:
            self._parts.carry(part, thought, len(shown))
            if part.keys().isdisjoint(_KINDS):
                self._state.tolerate("unknown_part")
        self._show(thought, shown, out)
        if call is not None:
            self._call(call, written, out)

    def _call(self, call: dict[str, Any], written: Any, out: list[Delta]) -> None:
        state = self._state
        name, id = word_of(call.get("name")), word_of(call.get("id"))
        index = len(state.calls.calls)
        goes_on = bool(call.get("willContinue"))
        if goes_on or call.get("partialArgs") is not None or (self._in_parts is not None and name is None):
            if name is not None or self._in_parts is None:
                state.tolerate("partial_arguments")
                self._in_parts = state.calls.open_call(index, id, name, out)
                self._in_parts.problem = _IN_PARTS
            if not goes_on:
                self._in_parts = None
            return
        arguments = arguments_text(call.get("args"), written, state.tolerate)
        made = state.calls.open_call(index, id, name, out)
        if arguments:
            state.calls.replace_arguments(made, arguments)
        state.calls.close_call(made, out)

    def _say(self, thought: bool, text: str, out: list[Delta]) -> None:
        if text:
            self._parts.say(thought, len(text))
            self._show(thought, text, out)

    def _show(self, thought: bool, text: str, out: list[Delta]) -> None:
        if thought:
            self._state.add_reasoning(text, out)
        else:
            self._state.add_text(text, out)

    def _whole(self, halves: Halves, text: str | None) -> str:
        """A piece of text that may begin or end with half a surrogate pair."""
        if not text:
            return ""
        if not self._torn and is_torn(text):
            self._torn = True
            self._state.tolerate("torn_surrogate")
        return halves.join(text) if self._torn else text

    # -- the end

    def _go_on(self) -> None:
        """Content after a mark: the mark was none."""
        if self._reason is not None:
            self._state.tolerate("continued_after_finish")
            self._reason = None
            self._state.stop_reason = "content_filter" if self._blocked else None

    def _words(self, said: Any, reason: Any = None) -> None:
        """What the provider says about why it stopped; the first words stand."""
        words = said if isinstance(said, str) and said.strip() else reason
        if isinstance(words, str) and not self._state.stop_words:
            self._state.stop_words = storable(words.strip())

    def _finish_reason(self, word: Any, out: list[Delta]) -> None:
        state = self._state
        if not isinstance(word, str) or not word:
            state.tolerate("odd_finish_reason")
            word = str(word)
        if word == "FINISH_REASON_UNSPECIFIED":
            state.tolerate("unspecified_finish_reason")
            return
        reason = STOP_REASONS.get(word, storable(word))
        if reason == "end_turn" and self._parts.asked:
            state.tolerate("finish_before_result")
            return
        if self._reason is not None and reason != self._reason:
            state.tolerate("second_finish_reason")
            reason = max(self._reason, reason, key=lambda r: _CAUTION.get(r, 9))
        self._reason = reason
        self._mark(out)

    def _mark(self, out: list[Delta]) -> None:
        reason = self._reason
        if self._blocked and _CAUTION.get(reason or "end_turn", 9) < _CAUTION["content_filter"]:
            reason = "content_filter"
        self._state.stop_reason = reason
        self._state.calls.finish(reason, out)

    def _count(self, counts: Counts) -> None:
        """Counts are of the whole reply so far; what is not said stays."""
        last = self._counts
        prompt = counts.promptTokenCount or last.promptTokenCount
        said = counts.candidatesTokenCount or last.candidatesTokenCount
        cached = counts.cachedContentTokenCount or last.cachedContentTokenCount
        thoughts = counts.thoughtsTokenCount or last.thoughtsTokenCount
        tools = counts.toolUsePromptTokenCount or last.toolUsePromptTokenCount
        self._counts = Counts(prompt, said, cached, thoughts, tools)
        if prompt or said or cached or thoughts or tools:
            self._state.usage = Usage(
                input_tokens=prompt + tools,
                output_tokens=said + thoughts,
                cached_tokens=cached,
                reasoning_tokens=thoughts,
            )


class Gemini:
    """The dialect `gemini`."""

    name = "gemini"
    terminal_mark = "a finishReason"
    framing: Literal["sse", "ndjson"] = "sse"
    whole_events = True

    def reader(self, state: ReplyState) -> GeminiReader:
        """A fresh reader for one reply."""
        return GeminiReader(state)

    def request(self, conversation: Conversation, specs: Sequence[ToolSpec], options: ModelOptions) -> Request:
        """A streaming request to `:streamGenerateContent`. Only what is set is sent.

        Whether calls may be parallel is not sent: the API has no word for it.
        """
        return Request(
            dialect=self.name,
            path=path_of(options.model),
            body=request_body(conversation, specs, options),
            auth="x-goog-api-key",
        )


def _error(error: Any) -> Fault:
    """Google's errors have a number and a word for the same thing; the word says more."""
    if isinstance(error, dict) and isinstance(error.get("status"), str) and error["status"]:
        error = {**error, "code": error["status"]}
    return provider_error(error)


def _no_constant(word: str) -> None:
    raise ValueError(word)
