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


class Delta(msgspec.Struct, frozen=True, gc=False):
    """A piece of text."""

    text: str


_decode = msgspec.json.Decoder(_Chunk).decode
_decode_response = msgspec.json.Decoder(_Response).decode
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
