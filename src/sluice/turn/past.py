"""What a conversation that is taken up again says about how its last run went: the rules of the loop go on from there.

Work that comes back is counted since the model last gave an answer: a person who asks for the same thing again, after
each answer, makes no loop. Failures and cut calls are counted only over a run that was broken off, from the last words of
its user on: a run that came to its end was stopped by them already, and a new prompt is a new attempt.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from sluice.turn.failures import FailureBudget, class_of
from sluice.turn.repeats import CutWatch, LoopWatch
from sluice.values.calls import call_digest
from sluice.values.messages import AssistantMessage, Conversation, Reply, ToolCall, ToolMessage, UserMessage
from sluice.values.results import ToolResult


class Past:
    """The counts with which a run begins. One object serves the runs of an agent one after another."""

    def __init__(self) -> None:
        self.loops = LoopWatch()
        self.failures = FailureBudget()
        self.cuts = CutWatch()

    def fresh_prompt(self) -> None:
        """A run has ended: its failures and cut calls are not those of the next one."""
        self.failures, self.cuts = FailureBudget(), CutWatch()


def past(messages: Conversation, *, broken_off: bool, changes: Callable[[str], bool]) -> Past:
    """The counts after these messages. `broken_off`: their last run has no end of its own.

    `changes` says of a tool's name whether it may change something; a result of it that went well clears the failures.
    """
    found = Past()
    calls: list[tuple[ToolCall, ToolMessage]] = []
    open_calls: list[ToolCall] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            if open_calls:
                calls.append((open_calls.pop(0), message))
            continue
        _close(found, calls, changes)
        calls, open_calls = [], []
        if isinstance(message, AssistantMessage):
            open_calls = list(message.tool_calls)
            if is_answer(message):
                found.loops.answered()
        elif isinstance(message, UserMessage) and message.origin == "user":
            found.fresh_prompt()
    _close(found, calls, changes)
    if not broken_off:
        found.fresh_prompt()
    return found


def is_answer(message: AssistantMessage | Reply) -> bool:
    """Whether a reply is the model's answer: it asks for nothing, and came to its own end."""
    return not message.tool_calls and message.stop_reason not in (None, "aborted", "max_tokens", "pause")


def _close(found: Past, calls: list[tuple[ToolCall, ToolMessage]], changes: Callable[[str], bool]) -> None:
    """Counts one turn as the machine does when its calls are over."""
    if not calls:
        return
    results = [_result(said) for _call, said in calls]
    for (call, _said), result in zip(calls, results, strict=True):
        if call.status == "cut":
            if call.arguments:
                found.cuts.note(call.name, call.arguments)
            continue
        found.failures.note(result, call_digest(call.name, call.arguments))
        if class_of(result) == "none" and result.status == "ok" and changes(call.name):
            found.failures.changed()
    found.failures.turn_over(results)
    found.loops.note_turn(
        [(call.name, call.arguments, said.digest, said.status == "skipped") for call, said in calls if said.digest]
    )


def _result(message: ToolMessage) -> ToolResult:
    """As much of the result as a stored message tells of it."""
    status = message.status or ("ok" if message.ok else "failed")
    return msgspec.convert(
        {
            "ok": message.ok,
            "status": status,
            "tool": message.name,
            "content": message.content,
            "failure": message.failure,
        },
        ToolResult,
    )
