"""What the user of a run allows. Built only from flags and the user's own config, never from a file of the workspace."""

from __future__ import annotations

from typing import Literal

import msgspec

from sluice.values.calls import Category, ToolSpec

ALLOW_MUTATING = "allow_mutating_tools"
ALLOW_EXECUTION = "allow_execution_tools"

Effect = Literal["allow", "ask", "deny"]


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One rule: `effect` for every tool whose name the shell pattern `tool` covers (letter case counts)."""

    effect: Effect
    tool: str


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """All that a verdict rests on.

    `ask`: what is not allowed is asked for instead of denied. Of the rules that cover a tool, deny goes before ask and
    ask before allow. `broken` says why the policy file cannot be used; while it is set, everything is denied.
    """

    allow_mutating_tools: bool = False
    allow_execution_tools: bool = False
    ask: bool = False
    rules: tuple[Rule, ...] = ()
    broken: str | None = None


def approvals_for(category: Category, spec: ToolSpec | None = None) -> tuple[str, ...]:
    """The approvals that a tool of this category (with the risk marks of `spec`) needs, by their flag names."""
    changes = category == "mutating" or (spec is not None and spec.risk.changes_repository)
    executes = category == "execution" or (spec is not None and spec.risk.runs_repository_code)
    return ((ALLOW_MUTATING,) if changes else ()) + ((ALLOW_EXECUTION,) if executes else ())


def missing(policy: Policy, approvals: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the approvals that the policy does not give."""
    given = {ALLOW_MUTATING: policy.allow_mutating_tools, ALLOW_EXECUTION: policy.allow_execution_tools}
    return tuple(name for name in approvals if given.get(name) is not True)


def blocked_categories(policy: Policy) -> tuple[Category, ...]:
    """The categories whose tools this policy blocks by itself, rules aside: for the note where tools are offered (P13)."""
    if policy.broken is not None:
        return ("read_only", "mutating", "execution")
    if policy.ask:
        return ()
    categories: tuple[Category, ...] = ("mutating", "execution")
    return tuple(c for c in categories if missing(policy, approvals_for(c)))
