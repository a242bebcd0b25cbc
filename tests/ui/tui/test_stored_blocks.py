"""A stored conversation is shown as it was while it was live."""

from __future__ import annotations

import pytest

from sluice.ui.tui.call_block import CallBlock
from sluice.ui.tui.stored_blocks import stored_blocks
from sluice.values.messages import AssistantMessage, ToolCall


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
