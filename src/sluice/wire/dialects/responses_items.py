"""Output items of the Responses API: what one says, and how a reply's items are kept for the next request."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from sluice.values.messages import Usage
from sluice.wire.assembler import PartialCall
from sluice.wire.dialects.reported_cost import reported_cost
from sluice.wire.surrogates import storable

CALL_KINDS: Mapping[str, str] = {"function_call": "arguments", "custom_tool_call": "input"}
"""Items that are calls for the host to run, and the member that says what the call is to do."""

_TOO_MANY = 2**63  # no count of tokens
_PLAIN_MESSAGE = frozenset({"type", "id", "status", "role", "content", "phase"})
_PLAIN_CALL = frozenset({"type", "id", "status", "call_id", "name", "arguments", "input"})


class Item:
    """One output item while it arrives."""

    __slots__ = ("call", "done", "held", "id", "index", "kind", "mixed", "part", "parts", "raw", "shown")

    def __init__(self, kind: str, index: int | None, id: str | None) -> None:
        self.kind = kind
        self.index = index  # the server's `output_index`, where it gave one
        self.id = id
        self.call: PartialCall | None = None
        self.held = ""  # arguments that came with the item itself; they count only if nothing better comes
        self.shown = 0  # characters of finished parts that were handed out
        self.part = 0  # characters of the part that is being written
        self.parts: set[int] = set()  # parts whose end was said
        self.mixed = False  # pieces of another item came between pieces of this one
        self.done = False
        self.raw: dict[str, Any] | None = None  # the item as it was at its end


def text_of(raw: Mapping[str, Any]) -> str:
    """All text of a message item."""
    return "".join(_strings(raw.get("content"), "output_text", "text"))


def refusal_of(raw: Mapping[str, Any]) -> str:
    """The refusal in a message item."""
    return storable("".join(_strings(raw.get("content"), "refusal", "refusal")))


def reasoning_of(raw: Mapping[str, Any]) -> str:
    """The readable reasoning of a reasoning item: its own words, or else the parts of its summary, as paragraphs."""
    words = "".join(_strings(raw.get("content"), "reasoning_text", "text"))
    return words or "\n\n".join(_strings(raw.get("summary"), "summary_text", "text"))


def arguments_of(raw: Mapping[str, Any], member: str) -> tuple[str, bool]:
    """What a call is to do, as text; true if it was no text but a value, which is serialised once."""
    value = raw.get(member)
    if value is None or isinstance(value, str):
        return value or "", False
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")), True


def index_of(event: Mapping[str, Any]) -> int | None:
    """The `output_index` of an event, if it is one."""
    value = event.get("output_index")
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def part_of(event: Mapping[str, Any]) -> int:
    """Which part of a message an event speaks of; the first where it does not say."""
    value = event.get("content_index")
    return value if isinstance(value, int) else 0


def id_of(value: Any) -> str | None:
    """An id or a name, if it is one."""
    return storable(value) if isinstance(value, str) and value else None


def _strings(parts: Any, kind: str, member: str) -> Iterable[str]:
    for part in parts if isinstance(parts, list) else ():
        if isinstance(part, dict) and part.get("type") == kind and isinstance(part.get(member), str):
            yield part[member]


def native_text(items: Iterable[dict[str, Any]]) -> str | None:
    """The JSON text of the items, or `None` if neutral fields carry all that is in them."""
    kept = list(items)
    if not any(_is_peculiar(raw) for raw in kept):
        return None
    try:
        return storable(json.dumps(kept, ensure_ascii=False, separators=(",", ":"), allow_nan=False))
    except (ValueError, RecursionError):  # a number that no JSON can hold, or nested beyond what can be written
        return None


def _is_peculiar(raw: Mapping[str, Any]) -> bool:
    kind = raw.get("type")
    if kind == "message":
        parts = raw.get("content") or []
        if not raw.keys() <= _PLAIN_MESSAGE or raw.get("phase") is not None or not isinstance(parts, list):
            return True
        return any(_is_peculiar_part(part) for part in parts)
    if kind in CALL_KINDS:
        return not raw.keys() <= _PLAIN_CALL
    if kind == "reasoning":
        return bool(raw.get("encrypted_content"))
    return True


def _is_peculiar_part(part: Any) -> bool:
    return not isinstance(part, dict) or part.get("type") != "output_text" or bool(part.get("annotations"))


def usage_of(raw: Mapping[str, Any]) -> Usage | None:
    """Usage as Responses reports it; counts that are no whole numbers are taken as 0."""
    given, made = raw.get("input_tokens_details"), raw.get("output_tokens_details")
    read = given if isinstance(given, dict) else {}
    written = made if isinstance(made, dict) else {}
    usage = Usage(
        input_tokens=_count(raw.get("input_tokens")),
        output_tokens=_count(raw.get("output_tokens")),
        cached_tokens=_count(read.get("cached_tokens")),
        cache_write_tokens=_count(read.get("cache_write_tokens")),
        reasoning_tokens=_count(written.get("reasoning_tokens")),
        cost=reported_cost(raw),
    )
    return usage if usage != Usage() else None


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < _TOO_MANY


def _count(value: Any) -> int:
    return value if isinstance(value, int) and _is_number(value) else 0
