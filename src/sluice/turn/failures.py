"""Classes of failure and how often each may come back (L4).

A fingerprint is (tool, status, digest of name and arguments). A recoverable failure may come back once; coming back again
ends the run. A change that worked makes the same call a new attempt: the tests that failed before an edit are not the
tests after it. The same fingerprint in several results of one turn counts once.
"""

from __future__ import annotations

import msgspec

from sluice.turn import outcomes
from sluice.turn.outcomes import End
from sluice.values.results import FailureClass, ToolResult

Fingerprint = tuple[str, str, str]

_BY_STATUS: dict[str, FailureClass] = {
    "skipped": "none",
    "timed_out": "retryable",
    "blocked": "blocked",
}

_GUIDANCE = {
    "retryable": "This may pass when tried again. The same call may be made once more.",
    "needs_inspection": "Look at what went wrong before you try again. The same call may be made once more.",
    "blocked": "Nothing was run. Go on without it, or say what the user would have to allow. Do not ask for it again.",
}


def class_of(result: ToolResult) -> FailureClass:
    """The class of a result, read from its typed fields only; text that says it failed changes nothing.

    A result that is blocked is `blocked` whatever else it says. What no rule knows needs inspection.
    """
    if result.status == "blocked" or result.failure == "blocked":
        return "blocked"
    if result.ok and result.status == "ok":
        return "none"
    if result.failure is not None:
        return result.failure
    if result.ok:  # says yes and no at once
        return "needs_inspection"
    return _BY_STATUS.get(result.status, "needs_inspection")


def guided(result: ToolResult, failure: FailureClass, *, last: bool = False) -> ToolResult:
    """The result with a short piece of advice at the end of its content; unchanged where there is nothing to advise.

    `last`: the run ends with it, so no further try is offered.
    """
    advice = None if last else _GUIDANCE.get(failure)
    if advice is None:
        return result
    content = f"{result.content}\n{advice}" if result.content else advice
    return msgspec.structs.replace(result, content=content)


def told(result: ToolResult) -> str:
    """One line that names tool and fault, for the message of a run that ends by it."""
    why = result.error.message if result.error else result.status
    return f"{result.tool}: {why}"


class FailureBudget:
    """Counts failures by fingerprint over a run and says when they end it."""

    def __init__(self, tries: int = 1) -> None:
        self.tries = tries
        self._failed: dict[Fingerprint, int] = {}
        self._blocked: set[Fingerprint] = set()
        self._in_turn: set[Fingerprint] = set()
        self._blocked_turns = 0

    def note(self, result: ToolResult, digest: str) -> End | None:
        """Counts one result; returns how the run ends by it, or `None` if it goes on."""
        failure = class_of(result)
        if failure == "none":
            return None
        if failure == "fatal":
            return outcomes.FAILED, told(result)
        fingerprint = (result.tool, result.status, digest)
        if fingerprint in self._in_turn:
            return None
        self._in_turn.add(fingerprint)
        if failure == "blocked":
            if fingerprint in self._blocked:
                return outcomes.BLOCKED, f"asked again for a blocked call: {told(result)}"
            self._blocked.add(fingerprint)
            return None
        count = self._failed.get(fingerprint, 0) + 1
        self._failed[fingerprint] = count
        if count > self.tries:
            return outcomes.FAILED, f"the same call failed again: {told(result)}"
        return None

    def changed(self) -> None:
        """Something was changed with success: failures from before it are forgotten, refusals are not."""
        self._failed.clear()

    def turn_over(self, results: list[ToolResult]) -> End | None:
        """Closes a turn with the results of its calls, in call order.

        Two turns running in which nothing but blocked calls was reached end the run.
        """
        self._in_turn.clear()
        reached = [r for r in results if r.status != "skipped"]
        if reached and all(class_of(r) == "blocked" for r in reached):
            self._blocked_turns += 1
        else:
            self._blocked_turns = 0
        if self._blocked_turns >= 2:
            return outcomes.BLOCKED, f"only blocked calls in two turns running; the last was {told(reached[-1])}"
        return None

    def copy(self) -> FailureBudget:
        """An independent copy."""
        other = FailureBudget(self.tries)
        other._failed = dict(self._failed)
        other._blocked = set(self._blocked)
        other._in_turn = set(self._in_turn)
        other._blocked_turns = self._blocked_turns
        return other

    def snapshot(self) -> tuple[object, ...]:
        """The whole state as plain values, for comparing."""
        counts = (sorted(self._failed.items()), sorted(self._blocked), sorted(self._in_turn))
        return (*counts, self._blocked_turns)
