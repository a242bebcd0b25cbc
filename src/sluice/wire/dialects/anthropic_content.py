"""The content of one Anthropic reply: its blocks as they open, grow and close, apart from the few deltas that are nearly
all of a stream and are read at once in `anthropic_messages`.

Every departure from the reference is put up with by a named tolerance; a form that cannot be meant raises `TypeError`,
`KeyError`, `AttributeError`, `OverflowError` or `RecursionError`, which the caller turns into a fault.
"""

from __future__ import annotations

import json
from typing import Any

from sluice.values.deltas import Delta, ReasoningDelta, TextDelta
from sluice.wire.assembler import Bound
from sluice.wire.dialects.anthropic_blocks import (
    OWN_KINDS,
    SERVER_KINDS,
    Block,
    Channel,
    extra_members,
    native_items,
    reasoning_blocks,
)
from sluice.wire.dialects.base import ReplyState
from sluice.wire.pieces import Pieces
from sluice.wire.surrogates import Halves, is_torn, storable

_KIND_BY_MEMBER = {"text": "text_delta", "partial_json": "input_json_delta", "thinking": "thinking_delta"}
_BLOCK_BY_DELTA = {"text_delta": "text", "input_json_delta": "tool_use"}
_MARKS = frozenset({"signature_delta", "citations_delta", "compaction_delta"})
_TOO_MANY = 2**63


class Content:
    """The blocks of one reply. `open` are those that may still grow, by index."""

    __slots__ = (
        "_all",
        "_keep",
        "_last",
        "_next",
        "_state",
        "_stopped",
        "_text_halves",
        "_thought_halves",
        "open",
        "text",
        "thought",
        "torn",
    )

    def __init__(self, state: ReplyState) -> None:
        self._state = state
        self._keep = isinstance(state.text_parts, Pieces)
        self._all: list[Block] = []  # by arrival
        self._stopped: dict[int, Block] = {}
        self._last: Block | None = None
        self._next = 0  # the index of the next block that has none
        self.open: dict[int, Block] = {}
        self.text = Channel(self._keep)
        self.thought = Channel(self._keep)
        self.torn = False  # half a surrogate pair was seen: from then on text goes through the two below
        self._text_halves = Halves()
        self._thought_halves = Halves()

    @property
    def begun(self) -> bool:
        """Whether any block was seen."""
        return self._last is not None

    def preloaded(self, raw: dict[str, Any], out: list[Delta]) -> None:
        """A block that came whole, with the start of its message."""
        self._state.tolerate("content_in_message_start")
        self.start(self._next, raw, out)
        self.stop(None, out)

    def end(self, out: list[Delta]) -> None:
        """The reply is over: blocks that nobody closed take what came with their start."""
        for block in self.open.values():
            self._state.tolerate("unstopped_block")
            self._take_given(block, out)
        self.flush(out)

    def settle(self) -> None:
        """What only the whole reply shows: reasoning block by block, and the reply's own form if it needs one."""
        state = self._state
        if not self._keep or state.blocks or state.native:
            return
        blocks = sorted(self._all, key=lambda block: block.index)
        thoughts = self.thought.by_block("".join(state.reasoning_parts))
        state.blocks += reasoning_blocks(blocks, thoughts)
        if state.stop_reason is not None:
            state.native = native_items(blocks, self.text.by_block("".join(state.text_parts)), thoughts)

    def start(self, index: Any, raw: dict[str, Any], out: list[Delta]) -> None:
        """`content_block_start`."""
        state = self._state
        kind = raw["type"]
        if not isinstance(kind, str):
            raise TypeError
        place = self._place(index)
        if place in self.open or place in self._stopped:
            state.tolerate("reused_index")
            self.stop(place, out)
        block = self._new(place, storable(kind))
        if kind == "text":
            self._add_text(block, raw.get("text"), out)
            for citation in raw.get("citations") or ():
                self._cite(block, citation)
        elif kind == "thinking":
            self.add_thought(block, raw.get("thinking"), out)
            self._sign(block, raw.get("signature"))
        elif kind == "redacted_thinking":
            block.signature = storable(raw["data"])
        elif kind == "tool_use":
            id, name, given = raw.get("id"), raw.get("name"), raw.get("input")
            block.call = state.calls.open_call(place, _text_or_none(id), _text_or_none(name), out)
            block.given = None if given in (None, {}, "") else _json_text(given)
            block.extra = extra_members(raw)
        else:
            if kind not in SERVER_KINDS:
                state.tolerate("unknown_block")
            if self._keep:
                block.raw = _storable_json(raw)

    def _new(self, index: int, kind: str) -> Block:
        block = Block(index, kind)
        if self._keep:
            self._all.append(block)
        self._stopped.pop(index, None)
        self.open[index] = block
        self._last = block
        self._next = max(self._next, index + 1)
        return block

    def stop(self, index: Any, out: list[Delta]) -> None:
        """`content_block_stop`; without an index, of the block that came last."""
        if index is None and self._last is not None:
            index = self._last.index
        block = self.open.pop(index, None)
        if block is None:
            if index not in self._stopped:
                self._state.tolerate("stop_of_no_block")
            return
        self._stopped[index] = block
        if self.torn:
            self.flush(out)
        if block.call is not None:
            self._take_given(block, out)
            self._state.calls.close_call(block.call, out)

    def _take_given(self, block: Block, out: list[Delta]) -> None:
        """Input that came with the start of a call counts only if no fragment followed."""
        call, given = block.call, block.given
        if call is None or given is None:
            return
        block.given = None
        if call.fragments:
            self._state.tolerate("start_input_dropped")
        else:
            self._state.calls.add(block.index, None, None, given, out)

    def _place(self, index: Any) -> int:
        if isinstance(index, int) and not isinstance(index, bool) and 0 <= index < _TOO_MANY:
            return index
        self._state.tolerate("missing_index")
        return self._next

    def delta(self, value: dict[str, Any], out: list[Delta]) -> None:
        """`content_block_delta`, in any shape."""
        state = self._state
        delta = value.get("delta")
        if not delta:
            state.tolerate("empty_delta")
            return
        kind = delta.get("type")
        if kind is None:
            state.tolerate("delta_without_type")
            kind = next((k for member, k in _KIND_BY_MEMBER.items() if member in delta), None)
        block = self._block_of(value.get("index"), kind, out)
        if kind not in ("text_delta", "thinking_delta", "input_json_delta"):
            self._mark(block, kind, delta)
        elif block.kind not in OWN_KINDS:
            self._carry(block, kind, delta)
        elif kind == "input_json_delta":
            if block.call is None:
                state.tolerate("delta_of_other_kind")
            else:
                fragment = delta.get("partial_json")
                if fragment is not None and not isinstance(fragment, str):
                    state.tolerate("object_arguments")
                state.calls.add(block.index, None, None, _json_text(fragment) if fragment is not None else None, out)
        else:
            if block.kind != ("text" if kind == "text_delta" else "thinking"):
                state.tolerate("delta_of_other_kind")
            if kind == "text_delta":
                self._add_text(block, delta.get("text"), out)
            else:
                self.add_thought(block, delta.get("thinking"), out)

    def _block_of(self, index: Any, kind: Any, out: list[Delta]) -> Block:
        """The block that a delta belongs to: the open one, one that was closed too early, or one that was never opened."""
        state = self._state
        if index is None and self._last is not None:
            state.tolerate("missing_index")
            index = self._last.index
        place = self._place(index)
        block = self.open.get(place)
        if block is not None:
            return block
        block = self._stopped.pop(place, None)
        if block is not None:
            state.tolerate("delta_after_stop")
            self.open[place] = block
            if block.call is not None:
                state.calls.reopen(block.call)
            return block
        state.tolerate("unopened_block")
        block = self._new(place, _BLOCK_BY_DELTA.get(kind, "thinking"))
        if block.kind == "tool_use":
            # Without a name it can never be run, but the model is told so.
            block.call = state.calls.open_call(place, None, None, out)
        return block

    def _mark(self, block: Block, kind: Any, delta: dict[str, Any]) -> None:
        """Deltas that say something about a block."""
        if kind == "signature_delta" and block.kind == "thinking":
            self._sign(block, delta.get("signature"))
        elif kind == "citations_delta" and block.kind == "text":
            self._cite(block, delta.get("citation"))
        elif kind == "compaction_delta" and block.raw is not None:
            item = json.loads(block.raw)
            item.update({k: v for k, v in delta.items() if k != "type" and v is not None})
            block.raw = _storable_json(item)
        elif block.kind in SERVER_KINDS and kind == "compaction_delta":
            pass  # nothing is kept
        elif kind in _MARKS:
            self._state.tolerate("delta_of_other_kind")
        else:
            self._state.tolerate("unknown_delta")

    def _carry(self, block: Block, kind: str, delta: dict[str, Any]) -> None:
        """Input of a call that the server itself runs: kept to be sent back."""
        if kind != "input_json_delta":
            self._state.tolerate("delta_of_other_kind")
            return
        fragment = _json_text(delta.get("partial_json") or "")
        limit = self._state.calls.max_bytes
        block.size += len(fragment.encode("utf-8", "surrogatepass"))
        if block.size > limit:
            raise Bound("max_arguments_bytes", limit, block.size, "bytes")
        if fragment and self._keep:
            if block.json is None:
                block.json = Pieces()
            block.json.append(fragment)
            block.json.fold()

    def _sign(self, block: Block, signature: Any) -> None:
        if isinstance(signature, str) and signature:
            if block.signature and block.signature != signature:
                self._state.tolerate("second_signature")
            block.signature = storable(signature)

    def _cite(self, block: Block, citation: Any) -> None:
        if self._keep and isinstance(citation, dict):
            if block.citations is None:
                block.citations = []
            block.citations.append({k: v for k, v in citation.items() if v is not None})

    # -- text

    def _add_text(self, block: Block, text: Any, out: list[Delta]) -> None:
        text = self._whole_characters(text, self._text_halves)
        if text:
            channel = self.text
            if channel.block is not block:
                channel.turn(block)
            channel.size += len(text)
            self._state.text(text)
            out.append(TextDelta(text))

    def add_thought(self, block: Block, thought: Any, out: list[Delta]) -> None:
        """A piece of a block's reasoning."""
        thought = self._whole_characters(thought, self._thought_halves)
        if thought:
            channel = self.thought
            if channel.block is not block:
                channel.turn(block)
            channel.size += len(thought)
            self._state.reasoning(thought)
            out.append(ReasoningDelta(thought))

    def _whole_characters(self, text: Any, halves: Halves) -> str:
        if text is None:
            return ""
        if not isinstance(text, str):
            raise TypeError
        if is_torn(text):
            self.torn = True
            self._state.tolerate("torn_surrogate")
        return halves.join(text) if self.torn else text

    def flush(self, out: list[Delta]) -> None:
        """Halves of surrogate pairs that nothing can follow any more."""
        for halves, channel, add in (
            (self._thought_halves, self.thought, self._state.add_reasoning),
            (self._text_halves, self.text, self._state.add_text),
        ):
            rest = halves.rest()
            channel.size += len(rest)
            add(rest, out)


def _text_or_none(value: Any) -> str | None:
    return storable(value) if isinstance(value, str) else None


def _json_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _storable_json(value: Any) -> bytes:
    return storable(json.dumps(value, ensure_ascii=False, separators=(",", ":"))).encode()
