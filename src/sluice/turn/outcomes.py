"""How a run can end, and the exit code of each end (L12)."""

from __future__ import annotations

from sluice.errors import InternalError

End = tuple[str, str]
"""How a run ends: outcome, and one line of message (may be empty)."""

COMPLETED = "completed"
FAILED = "failed"
INCOMPLETE = "incomplete"
PROVIDER_ERROR = "provider_error"
LOOP = "loop"
BLOCKED = "blocked"
CANCELLED = "cancelled"
TERMINATED = "terminated"

_EXIT_CODES = {
    COMPLETED: 0,
    FAILED: 1,
    INCOMPLETE: 1,
    PROVIDER_ERROR: 1,
    LOOP: 3,
    BLOCKED: 4,
    CANCELLED: 130,
    TERMINATED: 143,
}


def limit(bound: str) -> str:
    """The outcome of a limit met: `limit:` and the field of `Limits` without its `max_`."""
    return "limit:" + bound.removeprefix("max_")


def exit_code(outcome: str) -> int:
    """The exit code of an outcome; 3 for every `limit:<name>`. Raises `InternalError` for a word that is no outcome."""
    if outcome.startswith("limit:"):
        return 3
    if outcome not in _EXIT_CODES:
        raise InternalError(f"{outcome!r} is no outcome of a run")
    return _EXIT_CODES[outcome]
