"""One text through one form of inline calls, in pieces, and what must hold of it whatever it says."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from sluice.limits import DEFAULT_LIMITS
from sluice.values.calls import ToolSpec
from sluice.values.deltas import CallClosed, CallOpened, Delta, ReasoningDelta, TextDelta
from sluice.values.messages import Reply, ToolCall
from sluice.wire.dialects.base import ReplyState
from sluice.wire.inline_calls import InlineCalls

WRITE = ToolSpec(
    name="write",
    description="",
    category="mutating",
    parameters={
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "lines": {"type": "integer"},
            "tags": {"type": "array"},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "deep": {"type": ["object", "null"]},
        },
    },
)


class Run:
    """One text through one form, in pieces."""

    def __init__(self, form: str, pieces: list[str], *, specs: list[ToolSpec] | None = None, stop: str = "end_turn"):
        state = ReplyState(DEFAULT_LIMITS, keep=True, inline=True)
        self.inline = InlineCalls(form, state, DEFAULT_LIMITS, specs or [])
        self.inline.trace = []
        self.deltas: list[Delta] = []
        for piece in pieces:
            self.inline.feed(piece, self.deltas)
        self.before_end = list(self.deltas)
        self.inline.finish(self.deltas)
        state.stop_reason = stop
        state.calls.finish(stop, self.deltas)
        self.reply: Reply = state.reply("openai_chat", True, whole=True)
        self.trace = self.inline.trace

    @property
    def calls(self) -> list[tuple[str, Any, str]]:
        return [(c.name, _value(c), c.status) for c in self.reply.tool_calls]

    def facts(self) -> Any:
        return self.reply.text, self.reply.reasoning, self.reply.tool_calls, self.inline.state


def _value(call: ToolCall) -> Any:
    return json.loads(call.arguments) if call.status == "whole" else call.arguments


def cut_at(text: str, at: list[int]) -> list[str]:
    places = [0, *sorted(a % (len(text) + 1) for a in at), len(text)]
    return [text[a:b] for a, b in pairwise(places)]


def holds(run: Run, text: str) -> None:
    """What holds for any text: nothing is lost or doubled, and deltas joined are the reply."""
    assert "".join(piece for _, piece in run.trace) == text
    assert "".join(d.text for d in run.deltas if isinstance(d, TextDelta)) == run.reply.text
    assert "".join(piece for kind, piece in run.trace if kind == "text") == run.reply.text
    assert "".join(d.text for d in run.deltas if isinstance(d, ReasoningDelta)) == run.reply.reasoning
    opened = [d.position for d in run.deltas if isinstance(d, CallOpened)]
    closed = {d.position: d.status for d in run.deltas if isinstance(d, CallClosed)}
    assert opened == list(range(len(run.reply.tool_calls)))
    assert closed == {c.index: c.status for c in run.reply.tool_calls}


def check(form: str, text: str, said: str, thought: str, calls: list[tuple[str, Any, str]]) -> None:
    """Whole, in single characters, and at every split in two: the same reply."""
    whole = Run(form, [text], specs=[WRITE])
    assert (whole.reply.text, whole.reply.reasoning, whole.calls) == (said, thought, calls)
    for pieces in [list(text), *([text[:i], text[i:]] for i in range(1, len(text)))]:
        run = Run(form, pieces, specs=[WRITE])
        assert run.facts() == whole.facts()
        holds(run, text)
