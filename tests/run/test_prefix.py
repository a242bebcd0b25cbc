"""A prefix once sent is sent again, byte for byte, marks for caching apart (L8); the tool list is read afresh each turn."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from run_world import World, calls, end_of, text

from sluice.values import notices as n
from sluice.wire.dialects import DIALECTS

TURNS = 20
_MARK = re.compile(rb',\s*"cache_control":\s*\{"type":\s*"ephemeral"\}')
_LISTS = ("messages", "input", "contents")


class Recording:
    """Builds requests in one dialect and keeps their bytes; what comes back is read as the World's model writes it."""

    def __init__(self, name: str) -> None:
        self._dialect = DIALECTS[name]
        self.bodies: list[bytes] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(DIALECTS["openai_chat"], name)

    def request(self, *given: Any, **more: Any) -> Any:
        made = self._dialect.request(*given, **more)
        self.bodies.append(made.body)
        return made


class Unchecked(World):
    """A world whose requests are not all in the form that it can check."""

    def check(self, notices: list[n.Notice]) -> None:
        self.transport.bodies.clear()
        super().check(notices)


def parts(body: bytes) -> tuple[list[bytes], dict[str, bytes]]:
    """The items of the conversation, and everything else, as they were sent but for the marks."""
    fields = msgspec.json.decode(_MARK.sub(b"", body), type=dict[str, msgspec.Raw])
    (name,) = [name for name in _LISTS if name in fields]
    items = msgspec.json.decode(bytes(fields.pop(name)), type=list[msgspec.Raw])
    return [bytes(item) for item in items], {key: bytes(value) for key, value in fields.items()}


@pytest.mark.parametrize("name", list(DIALECTS))
def test_what_was_sent_once_is_sent_again_byte_for_byte(name: str) -> None:
    dialect = Recording(name)
    scripts = [
        calls(("look", f'{{"path": "file {at} é"}}'), ("look", f'{{"path": "{at}"}}'), say=f"step {at}")
        for at in range(TURNS - 1)
    ]
    world = Unchecked(*scripts, text("fine"), dialect=dialect)
    assert end_of(world.run("go")).turns == TURNS
    sent = [parts(body) for body in dialect.bodies]
    assert len(sent) == TURNS
    for (before, head), (after, again) in pairwise(sent):
        assert again == head
        assert after[: len(before)] == before
        assert len(after) > len(before)


def test_marks_move_and_are_never_more_than_the_dialect_allows() -> None:
    dialect = Recording("anthropic_messages")
    world = Unchecked(*[calls(("look", f'{{"path": "{at}"}}')) for at in range(5)], text("fine"), dialect=dialect)
    world.run("go")
    counts = [len(_MARK.findall(body)) for body in dialect.bodies]
    assert min(counts) >= 1
    assert max(counts) <= 4


def test_the_tool_list_is_read_afresh_each_turn() -> None:
    world = World(calls("look"), calls("look"), text("fine"))

    async def look(arguments: dict[str, Any], cancel: Any) -> Any:
        world.tools.tools.pop("execute", None)
        return await first(arguments, cancel)

    category, first = world.tools.tools["look"]
    world.tools.tools["look"] = (category, look)
    world.run("go")
    offered = [{tool["function"]["name"] for tool in body["tools"]} for body in world.transport.bodies]
    assert "execute" in offered[0]
    assert "execute" not in offered[1] | offered[2]
