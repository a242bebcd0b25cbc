"""What a person has allowed for a session: kept in this process, forgotten with the session.

A grant answers a question; it is no rule. It is looked at only where the policy asks because an approval is missing, so a
rule that denies, one that asks, and a line that cannot be read for certain are not covered. Each call that it answers is
judged and recorded by itself.
"""

from __future__ import annotations

from sluice.policy.rules import ALLOW_EXECUTION, approvals_for
from sluice.values.calls import ToolSpec, call_digest

_COVERED = "not_approved"  # the one rule whose question a grant may answer


class SessionGrants:
    """The grants of one session. A tool that runs something is granted one command line at one place; one that changes
    files is granted as it is: it reaches no file outside the workspace anyway."""

    def __init__(self) -> None:
        self._tools: dict[str, None] = {}
        self._calls: dict[tuple[str, str], str] = {}

    def offer(self, spec: ToolSpec, reason: str) -> str | None:
        """What "this session" would allow, in one line; `None` where only a single call may be allowed."""
        if reason.partition(":")[0] != _COVERED:
            return None
        if _executes(spec):
            return f"exactly this call of {spec.name}, as often as it is asked for, until this session is left"
        return f"every call of {spec.name} inside the workspace, until this session is left"

    def allow(self, spec: ToolSpec, arguments: str, reason: str, place: str) -> bool:
        """Keeps what `offer` offered; false where it offered nothing. `place` is as in `Grant`."""
        if self.offer(spec, reason) is None:
            return False
        if _executes(spec):
            self._calls[call_digest(spec.name, arguments), place] = f"{spec.name} {arguments}"
        else:
            self._tools[spec.name] = None
        return True

    def covers(self, spec: ToolSpec, arguments: str, reason: str, place: str) -> bool:
        """Whether the question about this call is answered by a grant."""
        if self.offer(spec, reason) is None:
            return False
        if _executes(spec):
            return (call_digest(spec.name, arguments), place) in self._calls
        return spec.name in self._tools

    def covers_tool(self, name: str) -> bool:
        """Whether all calls of the tool are granted."""
        return name in self._tools

    def clear(self) -> None:
        """Another session begins."""
        self._tools.clear()
        self._calls.clear()

    def lines(self) -> tuple[str, ...]:
        """Each grant in one line; what a model wrote is in it, unescaped."""
        tools = (f"every call of {name} inside the workspace" for name in self._tools)
        return (*tools, *(f"exactly {words}" for words in self._calls.values()))


def _executes(spec: ToolSpec) -> bool:
    return spec.category == "execution" or ALLOW_EXECUTION in approvals_for(spec.category, spec)
