"""The words in which the model is told what a call came to."""

from __future__ import annotations

from sluice.values.results import ToolResult


def result_text(result: ToolResult) -> str:
    """The content of the `tool` message for a result.

    What went well is the bare content. Anything else starts with one line that names the status, so that a model never
    has to guess it from what a tool printed.
    """
    if result.ok:
        return result.content or "(done; no output)"
    head = f"[{result.status}"
    if result.exit_code is not None:
        head += f", exit code {result.exit_code}"
    head += "]"
    lines = [head]
    if result.error is not None:
        where = f" ({result.error.path})" if result.error.path else ""
        lines[0] += f" {result.error.code}{where}: {result.error.message}"
    if result.blocked is not None:
        lines.append(f"How to allow it: {result.blocked.how_to_allow}")
    if result.content:
        lines.append(result.content)
    return "\n".join(lines)
