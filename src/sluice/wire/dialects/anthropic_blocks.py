"""The content blocks of one Anthropic reply: which text belongs to which, and how they look when they are sent back.

Text and reasoning are kept once, by the reply itself; here it is only noted where each block's part of it begins.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from sluice.errors import ArgumentsError
from sluice.values.messages import Reasoning
from sluice.wire.assembler import PartialCall
from sluice.wire.pieces import Pieces
from sluice.wire.strict_json import parse_arguments
from sluice.wire.surrogates import storable

OWN_KINDS = frozenset({"text", "thinking", "redacted_thinking", "tool_use"})
"""Blocks that are read for what they say. Every other kind is kept as it is and never run by us."""

SERVER_KINDS = frozenset(
    {
        "server_tool_use",
        "web_search_tool_result",
        "web_fetch_tool_result",
        "code_execution_tool_result",
        "bash_code_execution_tool_result",
        "text_editor_code_execution_tool_result",
        "tool_search_tool_result",
        "advisor_tool_result",
        "mcp_tool_use",
        "mcp_tool_result",
        "container_upload",
        "compaction",
        "fallback",
    }
)

_CALL_MEMBERS = frozenset({"type", "id", "name", "input"})
_DIRECT = {"type": "direct"}


class Block:
    """One content block while it arrives.

    `raw` is the JSON text of a block that we only carry; `json` its input in fragments. `given` is a call's input that
    came with its start, `extra` what a call has beside id, name and input.
    """

    __slots__ = ("call", "citations", "extra", "given", "index", "json", "kind", "raw", "signature", "size")

    def __init__(self, index: int, kind: str) -> None:
        self.index = index
        self.kind = kind
        self.call: PartialCall | None = None
        self.raw: bytes | None = None
        self.json: Pieces | None = None
        self.size = 0
        self.given: str | None = None
        self.extra: dict[str, Any] | None = None
        self.citations: list[Any] | None = None
        self.signature = ""


class Channel:
    """Which block each part of a text belongs to. `size` counts the characters so far; the text itself is elsewhere."""

    __slots__ = ("_keep", "block", "runs", "size")

    def __init__(self, keep: bool) -> None:
        self.block: Block | None = None
        self.size = 0
        self._keep = keep
        self.runs: list[tuple[Block, int]] = []

    def turn(self, block: Block) -> None:
        """What comes from here on belongs to this block."""
        self.block = block
        if self._keep:
            self.runs.append((block, self.size))

    def by_block(self, whole: str) -> dict[Block, str]:
        """The text of each block that has any, given the whole text."""
        if not self.runs:
            return {}
        ends = [start for _, start in self.runs[1:]] + [len(whole)]
        parts: dict[Block, list[str]] = {}
        for (block, start), end in zip(self.runs, ends, strict=True):
            parts.setdefault(block, []).append(whole[start:end])
        return {block: "".join(texts) for block, texts in parts.items()}


def extra_members(raw: dict[str, Any]) -> dict[str, Any] | None:
    """What a call must be sent back with, beside id, name and input; `None` for a call that the model itself made."""
    extra = {key: value for key, value in raw.items() if key not in _CALL_MEMBERS and value is not None}
    if extra.get("caller") == _DIRECT:
        del extra["caller"]
    return extra or None


def reasoning_blocks(blocks: Sequence[Block], thoughts: dict[Block, str]) -> list[Reasoning]:
    """The reasoning of a reply, block by block. A signature that is empty is none: sent back it would be refused."""
    out = []
    for block in blocks:
        if block.kind == "thinking":
            text = thoughts.get(block, "")
            if text or block.signature:
                out.append(Reasoning(text=text, signature=block.signature or None))
        elif block.kind == "redacted_thinking":
            out.append(Reasoning(redacted=block.signature))
    return out


def native_items(blocks: Sequence[Block], texts: dict[Block, str], thoughts: dict[Block, str]) -> str | None:
    """The JSON text of the blocks as they go back to the provider; `None` if text and calls say it all.

    The input of a call is left empty: the message's own calls have it. Left out are blocks that would be refused:
    empty text, reasoning without a signature, and a server's call that was cut.
    """
    if not any(_is_special(block) for block in blocks):
        return None
    items = [item for block in blocks if (item := _item(block, texts, thoughts)) is not None]
    return storable(json.dumps(items, ensure_ascii=False, separators=(",", ":")))


def _is_special(block: Block) -> bool:
    match block.kind:
        case "text":
            return bool(block.citations)
        case "thinking":
            return bool(block.signature)
        case "tool_use":
            return block.extra is not None
        case _:
            return True


def _item(block: Block, texts: dict[Block, str], thoughts: dict[Block, str]) -> dict[str, Any] | None:
    match block.kind:
        case "text":
            text = texts.get(block, "")
            cited = {"citations": block.citations} if block.citations else {}
            return {"type": "text", "text": text, **cited} if text.strip() else None
        case "thinking":
            if not block.signature:
                return None
            return {"type": "thinking", "thinking": thoughts.get(block, ""), "signature": block.signature}
        case "redacted_thinking":
            return {"type": "redacted_thinking", "data": block.signature}
        case "tool_use":
            call = block.call
            return (
                {"type": "tool_use", "id": call.id, "name": call.name, "input": {}, **(block.extra or {})}
                if call
                else None
            )
    item: dict[str, Any] = json.loads(block.raw or b"{}")
    if block.json:
        try:
            item["input"] = parse_arguments(storable("".join(block.json)))
        except ArgumentsError:
            return None
    return item
