"""Conversations and options of every kind, for tests of requests."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from sluice.values.calls import ToolSpec
from sluice.values.messages import (
    AssistantMessage,
    Conversation,
    ImagePart,
    Message,
    Reasoning,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)

SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string"}},
    "required": ["path"],
    "additionalProperties": False,
}
SPEC = ToolSpec(name="read", description="Reads.", parameters=SCHEMA, category="read_only")
EFFORTS = ["none", "minimal", "low", "medium", "high", "xhigh", "max", "other"]

words = st.text(max_size=8).map(lambda text: text.encode("utf-8", "replace").decode())
names = st.text("abcXYZ_-", min_size=1, max_size=8)
calls = st.builds(
    ToolCall,
    id=words,
    name=st.one_of(names, words),
    arguments=st.one_of(
        st.dictionaries(words, words, max_size=2).map(json.dumps), words, st.just('{"n": 18446744073709551615}')
    ),
    status=st.sampled_from(["whole", "cut", "malformed"]),
)
thoughts = st.one_of(
    st.builds(Reasoning, text=words, signature=st.one_of(st.none(), names)), st.builds(Reasoning, redacted=names)
)
parts = st.one_of(
    st.builds(TextPart, text=words),
    st.builds(ImagePart, media_type=st.sampled_from(["image/png", "image/jpeg"]), data=st.just("QUJD")),
)


@st.composite
def conversations(draw: st.DrawFn, ours: str) -> Conversation:
    """Conversations as a run makes them: each call is answered, right after its message."""
    made: list[Message] = [SystemMessage(draw(words)), UserMessage(draw(words))]
    for _ in range(draw(st.integers(0, 4))):
        reply = AssistantMessage(
            content=draw(st.one_of(st.none(), words)),
            reasoning=tuple(draw(st.lists(thoughts, max_size=2))),
            tool_calls=tuple(draw(st.lists(calls, max_size=2))),
            dialect=draw(st.sampled_from([ours, "openai_chat", None])),
        )
        made.append(reply)
        made += [ToolMessage(c.id, c.name, draw(words), draw(st.booleans())) for c in reply.tool_calls]
        if draw(st.booleans()):
            made.append(UserMessage(draw(st.one_of(words, st.lists(parts, max_size=3).map(tuple)))))
    return tuple(made)


def options(models: list[str]) -> st.SearchStrategy[dict[str, Any]]:
    """Options of a call, some of them set."""
    return st.fixed_dictionaries(
        {"model": st.sampled_from(models)},
        optional={
            "temperature": st.floats(0, 1),
            "top_p": st.floats(0, 1),
            "max_output_tokens": st.integers(1, 100_000),
            "stop": st.lists(names, max_size=2).map(tuple),
            "seed": st.integers(0, 9),
            "tool_choice": st.sampled_from(["auto", "none", "required", "read"]),
            "parallel_tool_calls": st.booleans(),
            "reasoning_effort": st.sampled_from(EFFORTS),
            "specs": st.just((SPEC,)),
        },
    )
