"""Chat streams for tests: made from the members that matter."""

from __future__ import annotations

import json
from typing import Any

from sluice.errors import StreamError
from sluice.limits import DEFAULT_LIMITS, Limits
from sluice.values.deltas import Delta, ReasoningDelta, TextDelta
from sluice.values.messages import Reply
from sluice.wire import ReplyReader

DONE = b"data: [DONE]\n\n"


def event(value: Any, *, ascii_only: bool = False) -> bytes:
    """One event whose data is `value` as JSON."""
    return b"data: " + json.dumps(value, ensure_ascii=ascii_only).encode() + b"\n\n"


def chunk(delta: Any = None, finish: Any = None, **more: Any) -> bytes:
    """A chunk with one choice; a `delta` that is `None` is sent as null. `more` are members of the chunk itself."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return event({"id": "c1", "model": "m1", "choices": [choice], **more}, ascii_only=True)


def text(*pieces: str) -> bytes:
    """A text event for each piece."""
    return b"".join(chunk({"content": piece}) for piece in pieces)


def call(index: int | None, id: str | None, name: str | None, arguments: Any) -> dict[str, Any]:
    """One entry of `tool_calls`; parts that are `None` are absent."""
    function = {k: v for k, v in (("name", name), ("arguments", arguments)) if v is not None}
    made: dict[str, Any] = {"function": function}
    if index is not None:
        made["index"] = index
    if id is not None:
        made["id"] = id
    return made


def calls(*entries: dict[str, Any], finish: str | None = None) -> bytes:
    """One event with these entries of `tool_calls`."""
    return chunk({"tool_calls": list(entries)}, finish)


class Reading:
    """A reader's whole life over these pieces: deltas, and the reply or the error."""

    def __init__(
        self, pieces: list[bytes], *, limits: Limits = DEFAULT_LIMITS, keep: bool = True, dialect: str = "openai_chat"
    ) -> None:
        self.reader = ReplyReader(dialect, limits=limits, keep=keep)
        self.deltas: list[Delta] = []
        self.error: StreamError | None = None
        self.whole: Reply | None = None
        try:
            for piece in pieces:
                self.deltas += self.reader.feed(piece)
                if self.reader.ended:
                    break
            self.whole = self.reader.close()
        except StreamError as error:
            self.error = error
        self.deltas += self.reader.closing

    @property
    def reply(self) -> Reply:
        """The reply, whole or partial."""
        return self.whole or self.partial

    @property
    def partial(self) -> Reply:
        """What the error holds."""
        assert self.error is not None
        return self.error.partial

    @property
    def kind(self) -> str | None:
        """The kind of the error, if there is one."""
        return self.error.kind if self.error else None

    @property
    def shown_text(self) -> str:
        """All text deltas, joined."""
        return "".join(d.text for d in self.deltas if isinstance(d, TextDelta))

    @property
    def shown_reasoning(self) -> str:
        """All reasoning deltas, joined."""
        return "".join(d.text for d in self.deltas if isinstance(d, ReasoningDelta))

    @property
    def result(self) -> tuple[Any, ...]:
        """All that must be the same under every split."""
        return (self.kind, self.reply, self.deltas, self.error.bound if self.error else None)


def read(*parts: bytes) -> Reading:
    """Reads the parts as one body, whole and byte by byte; both must agree."""
    body = b"".join(parts)
    reading = Reading([body])
    assert Reading([body[i : i + 1] for i in range(len(body))]).result == reading.result
    return reading
