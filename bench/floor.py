"""The floors: the least that any reader of a dialect's stream has to do, written down by hand.

Standard framing (LF, CR LF, CR, fields with and without the space, several data lines, comments), one typed decode of
the fields that are needed, one delta for a text event, assembly of calls by index. No bounds, no tolerances, no errors,
no end-of-input rules, no check of arguments: a reader for use has to do more, and is measured by how little more it is.
"""

from __future__ import annotations

import msgspec


class _Function(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: str | None = None


class _Call(msgspec.Struct, gc=False):
    index: int = 0
    id: str | None = None
    function: _Function | None = None


class _Delta(msgspec.Struct, gc=False):
    content: str | None = None
    tool_calls: list[_Call] | None = None
    reasoning_content: str | None = None


class _Choice(msgspec.Struct, gc=False):
    index: int = 0
    delta: _Delta | None = None
    finish_reason: str | None = None


class _Chunk(msgspec.Struct, gc=False):
    choices: list[_Choice] = []
    usage: dict[str, object] | None = None


class _BlockDelta(msgspec.Struct, gc=False):
    text: str | None = None
    partial_json: str | None = None
    stop_reason: str | None = None


class _Block(msgspec.Struct, gc=False):
    type: str
    name: str | None = None


class _Message(msgspec.Struct, gc=False):
    type: str
    index: int = 0
    delta: _BlockDelta | None = None
    content_block: _Block | None = None


class _Response(msgspec.Struct, gc=False):
    type: str | None = None
    delta: str | None = None
    output_index: int = 0


class _FunctionCall(msgspec.Struct, gc=False):
    name: str | None = None
    args: msgspec.Raw = msgspec.Raw()


class _Part(msgspec.Struct, gc=False):
    text: str | None = None
    thought: bool = False
    functionCall: _FunctionCall | None = None


class _Content(msgspec.Struct, gc=False):
    parts: list[_Part] = []


class _Candidate(msgspec.Struct, gc=False):
    index: int = 0
    content: _Content | None = None
    finishReason: str | None = None


class _Counts(msgspec.Struct, gc=False):
    promptTokenCount: int = 0
    candidatesTokenCount: int = 0
    thoughtsTokenCount: int = 0


class _Generated(msgspec.Struct, gc=False):
    candidates: list[_Candidate] = []
    usageMetadata: _Counts | None = None


class _LineFunction(msgspec.Struct, gc=False):
    name: str | None = None
    index: int = 0
    arguments: msgspec.Raw = msgspec.Raw()


class _LineCall(msgspec.Struct, gc=False):
    function: _LineFunction | None = None


class _LineMessage(msgspec.Struct, gc=False):
    content: str | None = None
    thinking: str | None = None
    tool_calls: list[_LineCall] | None = None


class _Line(msgspec.Struct, gc=False):
    message: _LineMessage | None = None
    done: bool = False
    done_reason: str | None = None


class Delta(msgspec.Struct, frozen=True, gc=False):
    """A piece of text."""

    text: str


_decode = msgspec.json.Decoder(_Chunk).decode
_decode_response = msgspec.json.Decoder(_Response).decode
_decode_generated = msgspec.json.Decoder(_Generated).decode
_decode_line = msgspec.json.Decoder(_Line).decode
_decode_message = msgspec.json.Decoder(_Message).decode


class Floor:
    """Reads one Chat reply; `text`, `calls` and `finish` hold what came."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.calls: dict[int, list[str]] = {}
        self.names: dict[int, str | None] = {}
        self.finish: str | None = None
        self._tail = bytearray()
        self._skip_lf = False
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[Delta]:
        """The deltas of this read."""
        if self._skip_lf and chunk[:1] == b"\n":
            chunk = chunk[1:]
        self._skip_lf = False
        if b"\r" in chunk:
            self._skip_lf = chunk[-1:] == b"\r"
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        if b"\n" not in chunk:
            self._tail += chunk
            return []
        lines = chunk.split(b"\n")
        if self._tail:
            lines[0] = bytes(self._tail) + lines[0]
        self._tail = bytearray(lines.pop())
        out: list[Delta] = []
        data = self._data
        for line in lines:
            if line.startswith(b"data:"):
                data.append(line[6:] if line.startswith(b"data: ") else line[5:])
            elif not line and data:
                event = data[0] if len(data) == 1 else b"\n".join(data)
                data.clear()
                if event != b"[DONE]":
                    self._event(event, out)
        return out

    def _event(self, event: bytes, out: list[Delta]) -> None:
        for choice in _decode(event).choices:
            delta = choice.delta
            if delta is not None:
                if delta.content:
                    self.text.append(delta.content)
                    out.append(Delta(delta.content))
                for call in delta.tool_calls or ():
                    function = call.function
                    if call.index not in self.calls:
                        self.calls[call.index] = []
                        self.names[call.index] = function.name if function else None
                    if function and function.arguments:
                        self.calls[call.index].append(function.arguments)
            if choice.finish_reason:
                self.finish = choice.finish_reason

    def close(self) -> tuple[str, list[str]]:
        """The text and the arguments of each call."""
        return "".join(self.text), ["".join(parts) for _, parts in sorted(self.calls.items())]


class MessagesFloor(Floor):
    """The same for Anthropic Messages."""

    def _event(self, event: bytes, out: list[Delta]) -> None:
        message = _decode_message(event)
        delta = message.delta
        if delta is not None:
            if delta.text:
                self.text.append(delta.text)
                out.append(Delta(delta.text))
            elif delta.partial_json:
                self.calls[message.index].append(delta.partial_json)
            elif delta.stop_reason:
                self.finish = delta.stop_reason
        elif message.content_block is not None and message.content_block.type == "tool_use":
            self.calls[message.index] = []
            self.names[message.index] = message.content_block.name


class ResponsesFloor(Floor):
    """The same for the Responses API."""

    def _event(self, event: bytes, out: list[Delta]) -> None:
        part = _decode_response(event)
        if part.type == "response.output_text.delta":
            if part.delta:
                self.text.append(part.delta)
                out.append(Delta(part.delta))
        elif part.type == "response.function_call_arguments.delta":
            if part.output_index not in self.calls:
                self.calls[part.output_index] = []
            if part.delta:
                self.calls[part.output_index].append(part.delta)
        elif part.type == "response.completed":
            self.finish = part.type


class GeminiFloor(Floor):
    """The same for Gemini, whose calls come whole."""

    def __init__(self) -> None:
        super().__init__()
        self.usage: _Counts | None = None

    def _event(self, event: bytes, out: list[Delta]) -> None:
        response = _decode_generated(event)
        for candidate in response.candidates:
            for part in candidate.content.parts if candidate.content is not None else ():
                if part.text:
                    self.text.append(part.text)
                    out.append(Delta(part.text))
                elif part.functionCall is not None:
                    self.names[len(self.calls)] = part.functionCall.name
                    self.calls[len(self.calls)] = [bytes(part.functionCall.args).decode()]
            if candidate.finishReason:
                self.finish = candidate.finishReason
        if response.usageMetadata is not None:
            self.usage = response.usageMetadata


class OllamaFloor(Floor):
    """The same for Ollama, whose events are lines."""

    def feed(self, chunk: bytes) -> list[Delta]:
        """The deltas of this read."""
        if b"\n" not in chunk:
            self._tail += chunk
            return []
        lines = chunk.split(b"\n")
        if self._tail:
            lines[0] = bytes(self._tail) + lines[0]
        self._tail = bytearray(lines.pop())
        out: list[Delta] = []
        for line in lines:
            if line:
                self._event(line, out)
        return out

    def _event(self, event: bytes, out: list[Delta]) -> None:
        line = _decode_line(event)
        message = line.message
        if message is not None:
            if message.content:
                self.text.append(message.content)
                out.append(Delta(message.content))
            for call in message.tool_calls or ():
                if call.function is not None:
                    self.names[len(self.calls)] = call.function.name
                    self.calls[len(self.calls)] = [bytes(call.function.arguments).decode()]
        if line.done:
            self.finish = line.done_reason
