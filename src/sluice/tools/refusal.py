"""How a file tool says no: one shape for what the wall, the seen files or the tool itself refuse."""

from __future__ import annotations

from sluice.errors import PathError
from sluice.tools.relative_path import visible
from sluice.values.results import FailureClass, ResultStatus, ToolResult, failed


def refused(
    tool: str,
    code: str,
    message: str,
    *,
    path: str,
    details: str = "",
    failure: FailureClass = "needs_inspection",
    status: ResultStatus = "failed",
) -> ToolResult:
    """A refusal whose content repeats code and message for the model; `details` follow on lines of their own."""
    content = f"{code}: {message}" + (f"\n{details}" if details else "")
    return failed(tool, code, message, path=visible(path), content=content, failure=failure, status=status)


def refused_path(tool: str, error: PathError) -> ToolResult:
    """The result of a call that the wall refused."""
    return refused(tool, error.code, str(error), path=error.path)
