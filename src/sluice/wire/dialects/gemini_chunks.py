"""Events of Gemini, decoded by type: only what is read of them."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from sluice.wire.surrogates import storable

_TOO_MANY = 2**62  # no count of tokens

_Count = Annotated[int, msgspec.Meta(ge=0, lt=_TOO_MANY)]


class _Text(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    text: str
    thought: bool = False


class _Content(msgspec.Struct, gc=False):
    parts: list[_Text]


class _Candidate(msgspec.Struct, gc=False):
    content: _Content
    index: int = 0
    finishReason: str | None = None


class Counts(msgspec.Struct, gc=False):
    """Counts of tokens, as far as they are said."""

    promptTokenCount: _Count = 0
    candidatesTokenCount: _Count = 0
    cachedContentTokenCount: _Count = 0
    thoughtsTokenCount: _Count = 0
    toolUsePromptTokenCount: _Count = 0


class _Chunk(msgspec.Struct, gc=False):
    candidates: tuple[_Candidate]
    usageMetadata: Counts | None = None
    promptFeedback: None = None  # anything else takes the slow path
    error: None = None


class _RawCall(msgspec.Struct):
    args: msgspec.Raw = msgspec.Raw()


class _RawPart(msgspec.Struct):
    functionCall: _RawCall | None = None


class _RawContent(msgspec.Struct):
    parts: list[_RawPart] | None = None


class _RawCandidate(msgspec.Struct):
    content: _RawContent | None = None


class _RawChunk(msgspec.Struct):
    candidates: list[_RawCandidate]


decode_text = msgspec.json.Decoder(_Chunk).decode
"""Decodes an event of one candidate with text alone; any other raises `DecodeError`, and so do odd counts."""

_decode_raw = msgspec.json.Decoder(_RawChunk).decode


def as_written(data: bytes, place: int, count: int) -> list[Any]:
    """The bytes of each part's arguments in an event: of the candidate at `place`, which has `count` parts."""
    try:
        content = _decode_raw(data).candidates[place].content
    except (msgspec.DecodeError, RecursionError):
        return [None] * count
    parts = content.parts if content is not None and content.parts is not None else []
    if len(parts) != count:
        return [None] * count
    return [part.functionCall.args if part.functionCall is not None else None for part in parts]


def whole(value: Any) -> int:
    """A count, or 0 for what can be none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _TOO_MANY else 0


def word_of(value: Any) -> str | None:
    """An id or a name, if it is one."""
    return storable(value) if isinstance(value, str) and value else None
