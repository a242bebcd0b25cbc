"""The output items of one Responses reply: which item an event speaks of, and what its end adds to what was streamed.

The rules are in `openai_responses`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sluice.values.deltas import Delta
from sluice.values.messages import Reasoning
from sluice.wire.assembler import Bound, PartialCall
from sluice.wire.dialects.base import ReplyState
from sluice.wire.dialects.responses_items import (
    CALL_KINDS,
    Item,
    arguments_of,
    id_of,
    index_of,
    native_text,
    reasoning_of,
    refusal_of,
    text_of,
)
from sluice.wire.pieces import Pieces
from sluice.wire.surrogates import is_torn, rejoined, storable


class OutputItems:
    """The items of one reply, by arrival. `speaker` is the one that text or reasoning came for last."""

    __slots__ = ("_state", "by_id", "by_index", "items", "open_calls", "speaker", "torn")

    def __init__(self, state: ReplyState) -> None:
        self._state = state
        self.items: list[Item] = []
        self.by_index: dict[int, Item] = {}
        self.by_id: dict[str, Item] = {}
        self.open_calls: dict[int, PartialCall] = {}  # by the server's index, until their end is said
        self.speaker = Item("", None, None)  # at first nobody
        self.torn = False  # half a surrogate pair was seen in text or reasoning

    def turn(self, index: int, kind: str) -> Item:
        """The item that speaks now, by its index."""
        return self.speak(self.by_index.get(index) or self.open(kind, index, None, "item_not_opened"))

    def speak(self, item: Item) -> Item:
        """Takes note that text or reasoning of this item comes now."""
        if item is not self.speaker:
            item.mixed = item.mixed or item.shown + item.part > 0
            self.speaker = item
        return item

    def open(self, kind: str, index: int | None, id: str | None, rule: str | None = None) -> Item:
        """A new item; `rule` is counted. Raises `Bound` where there are too many."""
        most = self._state.max_items
        if len(self.items) >= most:
            raise Bound("max_output_items", most, most + 1, "items")
        if rule is not None:
            self._state.tolerate(rule)
        item = Item(kind, index, id)
        self.items.append(item)
        if index is not None:
            self.by_index[index] = item
            self.open_calls.pop(index, None)
        if id is not None:
            self.by_id[id] = item
        return item

    def find(self, index: int | None, id: str | None, kind: str) -> Item | None:
        """The item that an event speaks of."""
        if index is not None:
            return self.by_index.get(index)
        if id is not None and id in self.by_id:
            return self.by_id[id]
        for item in reversed(self.items):
            if item.kind == kind and not item.done and (id is None or item.id is None):
                return item
        return None

    def place(self, event: dict[str, Any], kind: str) -> Item:
        """The same, by the members of the event; an item that nothing opened is opened here."""
        index, id = index_of(event), id_of(event.get("item_id"))
        item = self.find(index, id, kind)
        if item is None:
            item = self.open(kind, index, id, "item_not_opened")
            if kind in CALL_KINDS:
                self._open_call(item, None, None, [])
        return item

    def begin(self, raw: dict[str, Any], kind: str, index: int | None, id: str | None, out: list[Delta]) -> Item:
        """A new item from its first form on the wire."""
        item = self.open(kind, index, id, None if index is not None else "missing_output_index")
        member = CALL_KINDS.get(kind)
        if member is not None:
            self._open_call(item, id_of(raw.get("call_id")), id_of(raw.get("name")), out)
            item.held, _ = arguments_of(raw, member)
        return item

    def _open_call(self, item: Item, id: str | None, name: str | None, out: list[Delta]) -> None:
        index = item.index if item.index is not None else len(self.items) - 1
        item.call = self._state.calls.open_call(index, id, name, out)
        if item.kind == "custom_tool_call":
            item.call.kind = "custom"
        if item.index is not None:
            self.open_calls[item.index] = item.call

    def close(self, item: Item, raw: dict[str, Any], out: list[Delta]) -> None:
        """An item as it is at its end."""
        id = id_of(raw.get("id"))
        if item.id is not None and id is not None and id != item.id:
            self._state.tolerate("changing_item_id")
        item.done = True
        if item.index is not None and self.open_calls.get(item.index) is item.call:
            self.open_calls.pop(item.index, None)
        if self.keeps:
            item.raw = raw
        if item.kind == "message":
            self._close_message(item, raw, out)
        elif item.kind == "reasoning":
            self._close_reasoning(item, raw, out)
        elif item.call is not None:
            self._close_call(item, raw, out)

    def _close_message(self, item: Item, raw: dict[str, Any], out: list[Delta]) -> None:
        text = text_of(raw)
        if text:
            self.settle_text(item, text, item.shown + item.part, out)
        refusal = refusal_of(raw)
        if refusal and not self._state.refusal:
            self._state.tolerate("refusal_only_at_end")
            self._state.refusal.append(refusal)

    def _close_reasoning(self, item: Item, raw: dict[str, Any], out: list[Delta]) -> None:
        words = reasoning_of(raw)
        sealed = raw.get("encrypted_content")
        if words and not item.shown + item.part:
            self._state.tolerate("reasoning_only_at_end")
            self.speak(item)
            item.shown = len(words)
            self._state.add_reasoning(storable(words), out)
        if self.keeps and (words or sealed):
            signature = storable(sealed) if isinstance(sealed, str) and sealed else None
            self._state.blocks.append(Reasoning(text=storable(words), signature=signature))

    def _close_call(self, item: Item, raw: dict[str, Any], out: list[Delta]) -> None:
        state = self._state
        call = item.call
        assert call is not None
        state.calls.identify(call, id_of(raw.get("call_id")), id_of(raw.get("name")), out)
        self.settle_arguments(item, raw, CALL_KINDS[item.kind])
        if raw.get("output") is not None:
            # Some servers run a call themselves and show it in the same form: it must not be run again.
            call.problem = "the provider has run this call itself"
        if raw.get("status") not in ("incomplete", "in_progress", "failed"):
            state.calls.close_call(call, out)

    def settle_arguments(self, item: Item, said: dict[str, Any], member: str) -> None:
        """The last word on a call's arguments."""
        state = self._state
        call = item.call
        assert call is not None
        final, odd = arguments_of(said, member)
        if odd:
            state.tolerate("object_arguments")
        streamed = "".join(call.fragments)
        if not streamed and final and final != item.held:
            state.tolerate("arguments_only_at_end")
        elif streamed and final and final != streamed and final != _rejoined(streamed):
            state.tolerate("arguments_differ_at_end")
        if not final:
            final = _joined(item.held, streamed)
        if final != streamed:
            state.calls.replace_arguments(call, final)
        else:
            call.fragments.replace(streamed)  # so that an end that is said again and again costs no more joins
        item.held = ""

    def settle_open_calls(self) -> None:
        """The end of the reply: calls whose own end was not said."""
        for item in self.items:
            if item.call is not None and item.held:
                self.settle_arguments(item, {}, CALL_KINDS[item.kind])

    def settle_text(self, item: Item, text: str, shown: int, out: list[Delta]) -> None:
        """The whole text of a part or an item is said: hands out what was never streamed, counts what was otherwise."""
        state = self._state
        if self.torn and shown:
            return  # halves that were put together make lengths incomparable
        if not shown:
            self.speak(item)
            state.tolerate("text_only_at_end")
        elif len(text) < shown or not self._is_tail(item, text[:shown]) or (item.mixed and len(text) > shown):
            state.tolerate("text_differs_at_end")
            return
        elif len(text) == shown:
            return
        else:
            state.tolerate("text_completed_at_end")
        rest = storable(text[shown:])
        item.part += len(rest)
        state.add_text(rest, out)

    def _is_tail(self, item: Item, text: str) -> bool:
        """Whether the text ends with this, as far as that can be known: where nothing is kept, lengths have to do."""
        parts = self._state.text_parts
        if item.mixed or item is not self.speaker or not isinstance(parts, Pieces):
            return True
        tail: list[str] = []
        size = 0
        for piece in reversed(parts):
            if size >= len(text):
                break
            tail.append(piece)
            size += len(piece)
        return "".join(reversed(tail)).endswith(text)

    @property
    def keeps(self) -> bool:
        """Whether what comes is kept, or only handed out."""
        return isinstance(self._state.text_parts, Pieces)

    def native(self) -> str | None:
        """See `AssistantMessage.native`; `None` also if an item that said something is not in its final form."""
        said = sorted(self.items, key=lambda item: len(self.items) if item.index is None else item.index)
        kept = []
        for item in said:
            shown = item.shown + item.part
            if item.raw is not None and not (shown and item.kind == "message" and not text_of(item.raw)):
                kept.append(item.raw)
            elif shown or item.call is not None:
                return None
        return native_text(kept)

    def compare(self, output: Any, out: list[Delta]) -> None:
        """The whole reply at its end: speaks for items whose end was not said, is compared for the others."""
        items = [raw for raw in output if isinstance(raw, dict)] if isinstance(output, list) else []
        if not items:
            if self.items:
                self._state.tolerate("output_missing_at_end")
            return
        left = list(self.items)
        for raw in items:
            item = _match(left, raw)
            kind = raw.get("type")
            if item is not None:
                left.remove(item)
                if not item.done or (item.raw is not None and _is_bare(item.raw)):
                    self.close(item, raw, out)
                elif item.raw is not None and _says(item.raw) != _says(raw):
                    self._state.tolerate("output_differs_at_end")
            elif isinstance(kind, str):
                self._state.tolerate("item_only_at_end")
                self.close(self.begin(raw, kind, None, id_of(raw.get("id")), out), raw, out)


def _match(left: Sequence[Item], raw: dict[str, Any]) -> Item | None:
    """The streamed item that an item of the whole reply is: by id, by the call's id, else the first like it."""
    id, call_id = id_of(raw.get("id")), id_of(raw.get("call_id"))
    like = [item for item in left if item.kind == raw.get("type")]
    for item in like:
        if (id and item.id == id) or (call_id and item.call is not None and item.call.id == call_id):
            return item
    for item in like:
        if item.call is None or not item.call.name or item.call.name == raw.get("name"):
            return item
    return None


def _is_bare(raw: dict[str, Any]) -> bool:
    """Whether the end of a message or of reasoning named the item and nothing in it."""
    if raw.get("type") == "message":
        return not (text_of(raw) or refusal_of(raw))
    return raw.get("type") == "reasoning" and not (reasoning_of(raw) or raw.get("encrypted_content"))


def _says(raw: dict[str, Any]) -> Any:
    """What must not change between the end of an item and the end of the reply."""
    kind = raw.get("type")
    if kind == "message":
        return text_of(raw), refusal_of(raw)
    member = CALL_KINDS.get(kind) if isinstance(kind, str) else None
    return (raw.get("name"), arguments_of(raw, member)[0]) if member is not None else None


def _joined(held: str, streamed: str) -> str:
    """Arguments of an item's opening and of its fragments: a beginning, or all of it said twice."""
    if not streamed or (held.strip() == "{}" and streamed.lstrip().startswith("{")):
        return streamed or held
    return streamed if streamed.startswith(held) else held + streamed


def _rejoined(text: str) -> str:
    return rejoined(text) if is_torn(text) else text
