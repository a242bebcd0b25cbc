"""The verdict on one call (P3). Total: whatever it is given, it returns a verdict, and what it does not know is no."""

from __future__ import annotations

from fnmatch import fnmatchcase

from sluice.policy.rules import Policy, Rule, approvals_for, missing
from sluice.values.calls import CallKey, Decision, Grant, ToolSpec, Verdict, call_digest
from sluice.values.results import Blocked, ErrorInfo, ToolResult

_CATEGORIES = frozenset({"read_only", "mutating", "execution"})
_ORDER = ("deny", "ask", "allow")


def judge(
    spec: ToolSpec, key: CallKey, digest: str, arguments: str, policy: Policy, *, grant: Grant | None = None
) -> Verdict:
    """The verdict for the call `key` of the tool `spec` with these raw arguments.

    `digest` is of the name and arguments; another one is denied. A `grant` turns ask into allow for exactly its key and
    digest, and never turns deny into allow. Never raises: an error inside is a denial.
    """
    try:
        decision, rule, lacking, words = _decide(spec, digest, arguments, policy)
        if decision == "ask" and grant is not None and grant == Grant(key, digest):
            decision, rule, words = "allow", f"granted:{rule}", "a person allowed this call"
    except Exception as error:  # an error must not let a call through
        decision, rule, lacking = "deny", "error", ()
        words = f"the policy failed ({type(error).__name__})"
    return Verdict(key=key, digest=digest, decision=decision, rule=rule, missing=lacking, words=words)


def _decide(spec: ToolSpec, digest: str, arguments: str, policy: Policy) -> tuple[Decision, str, tuple[str, ...], str]:
    if policy.broken is not None:
        return "deny", "broken_policy", (), f"the policy file cannot be used: {policy.broken}"
    if digest != call_digest(spec.name, arguments):
        return "deny", "digest", (), "the digest is not of this call"
    if spec.category not in _CATEGORIES:
        return "deny", "unknown_category", (), "the tool's category is not known"
    lacking = missing(policy, approvals_for(spec.category, spec))
    rule = _strongest(policy.rules, spec.name)
    if rule is not None:
        return rule.effect, f"{rule.effect}:{rule.tool}", lacking, "a rule of the user's config covers this tool"
    if not lacking:
        return "allow", "read_only" if spec.category == "read_only" else "approved", (), ""
    words = f"{spec.category} tools are not allowed in this run"
    return ("ask" if policy.ask is True else "deny"), "not_approved", lacking, words


def _strongest(rules: tuple[Rule, ...], tool: str) -> Rule | None:
    """Of the rules that cover the tool the one that counts: deny before ask before allow, then the first."""
    covering = [rule for rule in rules if fnmatchcase(tool, rule.tool)]
    return min(covering, key=lambda rule: _ORDER.index(rule.effect), default=None)


def blocked_result(spec: ToolSpec, verdict: Verdict) -> ToolResult:
    """The result of a call that was not allowed: what was missing and how a person can allow it."""
    how = _how_to_allow(verdict)
    why = verdict.words or "this call is not allowed"
    return ToolResult(
        ok=False,
        status="blocked",
        tool=spec.name,
        content=f"Blocked, nothing was run: {why}. To allow it: {how}.",
        error=ErrorInfo("blocked", why),
        blocked=Blocked(category=spec.category, missing=verdict.missing, how_to_allow=how),
        failure="blocked",
    )


def _how_to_allow(verdict: Verdict) -> str:
    if verdict.rule == "broken_policy":
        return "mend the policy file"
    if verdict.rule == "not_approved" and verdict.missing:
        flags = " ".join(f"--{name.replace('_', '-')}" for name in verdict.missing)
        return f"run again with {flags}"
    if verdict.rule.startswith("deny:"):
        return f"take the rule {verdict.rule} out of the user's config"
    if verdict.rule.startswith("ask:"):
        return "run where a person can be asked"
    return "it cannot be allowed as it is; this is a fault of the host"
