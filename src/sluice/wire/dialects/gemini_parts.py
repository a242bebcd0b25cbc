"""The parts of one Gemini reply, in their order, as they are sent back.

Text and thoughts are kept once, by the reply itself; here it is only noted which stretch of them is one part. Neighbours
without a signature are one part. A part with a signature stays as it came: the signature counts for that part alone.
"""

from __future__ import annotations

import json
from typing import Any

from sluice.values.messages import Reasoning
from sluice.wire.dialects.base import Fault, ReplyState
from sluice.wire.pieces import Pieces
from sluice.wire.surrogates import storable

_MAX_PARTS = 10_000  # parts of one reply, each of which costs memory; real replies have a few dozen
_PLAIN_CALL = frozenset({"id", "name", "args"})


class Part:
    """One part: `size` characters of text (or of thoughts), or the JSON text of a part that we only carry."""

    __slots__ = ("raw", "signature", "size", "thought")

    def __init__(self, thought: bool | None, signature: str | None = None, raw: str | None = None) -> None:
        self.thought = thought
        self.size = 0
        self.signature = signature
        self.raw = raw


class Parts:
    """The parts so far. `last` takes more text of its kind; it is nobody where no part can."""

    __slots__ = ("_nobody", "_peculiar", "_state", "asked", "entries", "last")

    def __init__(self, state: ReplyState) -> None:
        self._state = state
        self._nobody = Part(None)
        self._peculiar = False  # something came that neutral fields cannot carry
        self.asked = False  # the last that came is code or a call for the server itself to run
        self.entries: list[Part] = []
        self.last = self._nobody

    def turn(self, thought: bool) -> Part:
        """A new part of text or thoughts, which is the last from now on. Raises `Fault`."""
        self.asked = False
        self.last = self._add(Part(thought))
        return self.last

    def say(self, thought: bool, size: int) -> None:
        """Takes note of `size` characters of text or of thoughts."""
        part = self.last if self.last.thought is thought else self.turn(thought)
        part.size += size

    def signed(self, thought: bool, signature: str, size: int) -> None:
        """A part of text with a signature of its own. Raises `Fault`."""
        self._add(Part(thought, storable(signature))).size = size
        self._peculiar = True
        self.asked = self.asked and not size
        self.last = self._nobody

    def carry(self, raw: dict[str, Any], thought: bool, size: int) -> None:
        """A part of another kind, of which `size` characters were said as text.

        Raises `Fault`, and `ValueError` if it holds a number that no JSON can hold.
        """
        self.last = self._nobody
        self.asked = "executableCode" in raw or "toolCall" in raw
        call = raw.get("functionCall")
        plain = raw.keys() == {"functionCall"} and isinstance(call, dict) and call.keys() <= _PLAIN_CALL
        self._peculiar = self._peculiar or not plain
        if self.keeps:
            try:
                written = _json(raw)
            except ValueError:
                if not isinstance(call, dict):
                    raise
                # The call itself is malformed then, and is sent back without its arguments.
                written = _json({**raw, "functionCall": {k: v for k, v in call.items() if k != "args"}})
            self._add(Part(thought, raw=written)).size = size

    @property
    def keeps(self) -> bool:
        """Whether what comes is kept as the dialect says it, or only handed out."""
        return isinstance(self._state.text_parts, Pieces)

    def blocks(self) -> list[Reasoning]:
        """The thoughts, with the signatures that stood on them."""
        if not self.keeps:
            return []
        thoughts = "".join(self._state.reasoning_parts)
        made, at = [], 0
        for part in self.entries:
            if part.thought:
                if part.raw is None and (part.size or part.signature):
                    made.append(Reasoning(text=thoughts[at : at + part.size], signature=part.signature))
                at += part.size
        return made

    def native(self) -> str | None:
        """See `AssistantMessage.native`."""
        if not self._peculiar or not self.keeps:
            return None
        said = {False: "".join(self._state.text_parts), True: "".join(self._state.reasoning_parts)}
        at = {False: 0, True: 0}
        items = []
        for part in self.entries:
            thought = bool(part.thought)
            start = at[thought]
            at[thought] += part.size
            if part.raw is not None:
                items.append(part.raw)
            elif part.size or part.signature:
                item: dict[str, Any] = {"text": said[thought][start : at[thought]]}
                if thought:
                    item["thought"] = True
                if part.signature is not None:
                    item["thoughtSignature"] = part.signature
                items.append(_json(item))
        return storable(f"[{','.join(items)}]")

    def _add(self, part: Part) -> Part:
        if len(self.entries) >= _MAX_PARTS:
            said = f"the reply passed a bound: max_output_parts is {_MAX_PARTS} parts, seen: {_MAX_PARTS + 1}"
            raise Fault("limit", said, bound="max_output_parts")
        self.entries.append(part)
        return part


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
