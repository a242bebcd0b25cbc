"""A stored conversation is shown as it was while it was live."""

from __future__ import annotations

import pytest

from sluice.run.interaction import SessionOpened
from sluice.run.result_text import result_text
from sluice.turn.answers import refused_by_person
from sluice.ui.tui.call_block import CallBlock
from sluice.ui.tui.stored_blocks import stored_blocks
from sluice.ui.tui.transcript_feed import TranscriptFeed
from sluice.values import notices as n
from sluice.values.messages import AssistantMessage, ToolCall, ToolMessage
from sluice.values.results import ToolResult


@pytest.mark.parametrize(
    ("tool", "arguments", "shown"),
    [
        ("apply_patch", '{"path": "a.py", "old_text": "x"}', "apply_patch a.py"),
        ("apply_patch", '{"path": 3}', 'apply_patch {"path": 3}'),
        ("apply_patch", '{"path": "a', 'apply_patch {"path": "a'),
        ("git_status", '{"short": true}', "git_status"),
        ("gone", '{"x": 1}', 'gone {"x": 1}'),
        ("gone", "{}", "gone"),
    ],
)
def test_a_stored_call_says_what_it_touched(tool: str, arguments: str, shown: str) -> None:
    history = (AssistantMessage(content="", tool_calls=(ToolCall(id="1", name=tool, arguments=arguments),)),)
    (block,) = stored_blocks(history, {"apply_patch": "path", "git_status": None})
    assert isinstance(block, CallBlock)
    assert block.words == shown


@pytest.mark.parametrize("words", ["", "not this one\nthe other"])
def test_a_stored_no_reads_as_it_did(words: str) -> None:
    asked = ToolCall(id="1", name="edit", arguments="{}")
    refused = refused_by_person(asked, words, "mutating")
    result = ToolMessage("1", "edit", result_text(refused), ok=False, status="blocked")
    stored = stored_blocks((AssistantMessage(content="", tool_calls=(asked,)), result), {})[0]
    live = CallBlock("edit")
    live.arrives("", "whole")
    live.finishes(refused, 0.0)
    assert [row.text for row in stored.rows(80)] == [row.text for row in live.rows(80)]
    assert "you said no" in stored.rows(80)[1].text


def test_a_tool_that_went_well_and_speaks_like_the_host_is_no_refusal() -> None:
    asked = ToolCall(id="1", name="edit", arguments="{}")
    result = ToolMessage("1", "edit", "[blocked] refused: The user refused this call.", ok=True)
    (block,) = stored_blocks((AssistantMessage(content="", tool_calls=(asked,)), result), {})
    assert not any("you said no" in row.text for row in block.rows(80))


def test_a_call_that_waits_stands_once_and_goes_on_where_it_stands() -> None:
    """It is shown with the stored conversation, and the run that takes it up tells of it as of a call of turn 0."""
    asked = AssistantMessage(
        tool_calls=(ToolCall(id="1", name="edit", arguments="{}"), ToolCall(id="2", name="edit", arguments="{}"))
    )
    feed = TranscriptFeed(lambda: 0.0)
    feed.hear(SessionOpened(session="s", history=(asked, ToolMessage("1", "edit", "done"))))
    calls = [block for block in feed.blocks if isinstance(block, CallBlock)]
    assert ["waits for your answer" in call.rows(80)[-1].text for call in calls] == [False, True]
    feed.hear(n.RunStarted(run="r", model="m", mode="real", workspace="/w", tools=("edit",), blocked=(), sandbox=""))
    arrived = {"turn": 0, "position": 1, "arrival": 1, "id": "2", "tool": "edit", "arguments": "{}"}
    feed.hear(n.CallArrived(status="whole", **arrived))  # type: ignore[arg-type]
    feed.hear(n.CallJudged(turn=0, position=1, tool="edit", decision="ask", rule="waited"))
    feed.hear(n.CallStarted(turn=0, position=1, tool="edit"))
    result = ToolResult(ok=True, status="ok", tool="edit", content="changed")
    feed.hear(n.CallFinished(turn=0, position=1, id="2", tool="edit", result=result))
    assert [block for block in feed.blocks if isinstance(block, CallBlock)] == calls
    assert "changed" in "".join(row.text for row in calls[1].rows(80))
