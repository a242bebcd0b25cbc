"""What a call came to: one shape for every tool (P12).

The loop reads these typed fields and never a tool's text: output that contains `"ok": false` changes nothing.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from sluice.values.calls import Category

ResultStatus = Literal["ok", "failed", "timed_out", "blocked", "skipped", "cancelled", "invalid", "unknown_outcome"]

FailureClass = Literal["none", "retryable", "needs_inspection", "fatal", "blocked"]


class ErrorInfo(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a call did not do its work: a code from the tool's document, one line, and the path or JSON path concerned."""

    code: str
    message: str
    path: str | None = None


class Blocked(msgspec.Struct, frozen=True, kw_only=True):
    """Why a call was not allowed, and what a person could do to allow it."""

    category: Category
    missing: tuple[str, ...]
    how_to_allow: str


class ToolResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of one call.

    `content` is text for the model, already bounded; `truncated` says that it is not all. `failure` classes what went
    wrong when the status alone does not tell (an executor's own fault is `fatal`). `facts` are structured extras for
    faces and the session (a diff, a digest, a count), never read by the loop. `end_turn` asks the loop to stop.
    """

    ok: bool
    status: ResultStatus
    tool: str
    content: str = ""
    truncated: bool = False
    end_turn: bool = False
    error: ErrorInfo | None = None
    exit_code: int | None = None
    timed_out: bool = False
    blocked: Blocked | None = None
    failure: FailureClass | None = None
    facts: dict[str, Any] = {}


def failed(
    tool: str,
    code: str,
    message: str,
    *,
    path: str | None = None,
    content: str = "",
    failure: FailureClass = "needs_inspection",
    status: ResultStatus = "failed",
) -> ToolResult:
    """A result that says no: `code` and `message` as in `ErrorInfo`; inspection is what the model should do by default."""
    error = ErrorInfo(code, message, path)
    return ToolResult(ok=False, status=status, tool=tool, content=content, error=error, failure=failure)
