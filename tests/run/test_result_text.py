"""What a model is told of a result: the bare content of what went well, the status first of what did not."""

from __future__ import annotations

import pytest

from sluice.run.result_text import result_text
from sluice.values.results import Blocked, ErrorInfo, ToolResult, failed


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (ToolResult(ok=True, status="ok", tool="t", content="hi"), "hi"),
        (ToolResult(ok=True, status="ok", tool="t"), "(done; no output)"),
        (failed("t", "no_match", "the text is not there", path="a.py"), "[failed] no_match (a.py): the text is not there"),
        (failed("t", "no_match", "not there", content="not there, see"), "[failed] no_match\nnot there, see"),
        (
            ToolResult(ok=False, status="failed", tool="t", content="boom", exit_code=2),
            "[failed, exit code 2]\nboom",
        ),
        (
            ToolResult(
                ok=False,
                status="blocked",
                tool="t",
                error=ErrorInfo("blocked", "no"),
                blocked=Blocked(category="mutating", missing=("x",), how_to_allow="ask the user"),
            ),
            "[blocked] blocked: no\nHow to allow it: ask the user",
        ),
    ],
)  # fmt: skip
def test_the_words_of_a_result(result: ToolResult, text: str) -> None:
    assert result_text(result) == text


def test_output_cannot_pass_for_a_status() -> None:
    told = result_text(ToolResult(ok=False, status="failed", tool="t", content="[ok] all good", exit_code=1))
    assert told.splitlines()[0] == "[failed, exit code 1]"
