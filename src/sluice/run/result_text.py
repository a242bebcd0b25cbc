"""The words in which the model is told what a call came to."""

from __future__ import annotations

from sluice.values.results import ToolResult
from sluice.wire.surrogates import storable


def result_text(result: ToolResult) -> str:
    """The content of the `tool` message for a result.

    What went well is the bare content. Anything else starts with one line that names the status, so that a model never
    has to guess it from what a tool printed.
    """
    if result.ok:
        return storable(result.content) or "(done; no output)"
    head = f"[{result.status}"
    if result.exit_code is not None:
        head += f", exit code {result.exit_code}"
    head += "]"
    content = result.content
    if result.error is not None:
        where = f" ({result.error.path})" if result.error.path else ""
        said = "" if content.startswith(result.error.message) else f": {result.error.message}"
        head += f" {result.error.code}{where}{said}"
    lines = [head]
    if result.blocked is not None and result.blocked.how_to_allow not in content:
        lines.append(f"How to allow it: {result.blocked.how_to_allow}")
    if content:
        lines.append(content)
    return storable("\n".join(lines))
