"""What the user of a run allows. Built only from flags and the user's own config, never from a file of the workspace."""

from __future__ import annotations

from typing import Literal

import msgspec

from sluice.values.calls import Category, ToolSpec

ALLOW_MUTATING = "allow_mutating_tools"
ALLOW_EXECUTION = "allow_execution_tools"

Effect = Literal["allow", "ask", "deny"]


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One rule: `effect` for every tool whose name the shell pattern `tool` covers (letter case counts).

    With `command` it speaks of command lines only, see `sluice.policy.command_rules`. `origin` is where it was written.
    """

    effect: Effect
    tool: str
    command: str | None = None
    origin: str = "the user's config"

    def named(self) -> str:
        """The rule in one word, as verdicts name it: `deny:bash*[rm *]`."""
        return f"{self.effect}:{self.tool}" + (f"[{self.command}]" if self.command is not None else "")


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """All that a verdict rests on.

    `ask`: what is not allowed is asked for instead of denied; `spare_read_only`: but not for commands known to read only.
    Of the rules that cover a tool, deny goes before ask and ask before allow. `broken` says why the policy file cannot
    be used; while it is set, everything is denied. `accept_healed`: a read-only call that was cut at the length limit may
    run with its arguments closed by us, if its tool takes that; it is judged on its own.
    """

    allow_mutating_tools: bool = False
    allow_execution_tools: bool = False
    ask: bool = False
    spare_read_only: bool = True
    rules: tuple[Rule, ...] = ()
    broken: str | None = None
    accept_healed: bool = False


class Rules(msgspec.Struct, frozen=True):
    """The rules of a config file, or why they cannot be used."""

    rules: tuple[Rule, ...] = ()
    broken: str | None = None

    def shown(self) -> tuple[str, ...]:
        """Each rule in one line."""
        return (f"broken: {self.broken}",) if self.broken else tuple(rule.named() for rule in self.rules)


def rules_from(raw: object, origin: str = "the user's config") -> Rules:
    """Reads `[[rules]]` as a config file holds them. One that cannot be used makes all of them broken, with the reason.

    A rule has an `effect` and at least one of `tool` and `command`; without `tool` it is for every tool. Never raises.
    """
    if not isinstance(raw, list | tuple):
        return Rules(broken="rules must be [[rules]] tables")
    found = []
    for number, one in enumerate(raw, 1):
        if not isinstance(one, dict):
            return Rules(broken=f"rule {number} is no table")
        unknown = sorted(str(key) for key in one if key not in ("effect", "tool", "command"))
        if unknown:
            return Rules(broken=f"rule {number} has an unknown key {unknown[0][:40]!r}")
        patterns = [one[key] for key in ("tool", "command") if key in one]
        if one.get("effect") not in ("allow", "ask", "deny"):
            return Rules(broken=f"rule {number} needs an effect: allow, ask or deny")
        if not patterns or not all(isinstance(text, str) and text.strip() for text in patterns):
            return Rules(broken=f"rule {number} needs a tool or a command, each a pattern in text")
        found.append(Rule(one["effect"], one.get("tool", "*"), one.get("command"), origin))
    return Rules(tuple(found))


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
