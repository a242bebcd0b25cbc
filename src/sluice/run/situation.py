"""What is shown of an interaction beside its events: the status line, the tools, and the policy in words."""

from __future__ import annotations

from collections.abc import Iterator

from sluice.policy.decide import judge
from sluice.policy.rules import Policy
from sluice.run.grants import SessionGrants
from sluice.run.interaction import Situation
from sluice.run.open_session import OpenSession
from sluice.run.parts import Parts
from sluice.run.settings import Settings
from sluice.tools.sandbox import available
from sluice.values.calls import CallKey, ToolSpec, call_digest

_ANY_CALL = CallKey("", 0, 0)
_STATES = {"allow": "allowed", "ask": "asked", "deny": "blocked"}


def situation(settings: Settings, session: OpenSession, sandbox: str, running: bool) -> Situation:
    """What the status line shows."""
    parts, spending = session.agent.parts, session.spending
    return Situation(
        model=settings.model,
        workspace=settings.workspace,
        session=session.agent.session,
        policy=policy_words(parts.policy),
        sandbox=sandbox,
        running=running,
        context_tokens=session.context_tokens,
        context_estimated=session.context_estimated,
        window_tokens=parts.window_tokens,
        usage=spending.usage,
        cost=spending.cost,
        turns=spending.turns,
        job=parts.in_front() is not None,
    )


def sandbox_words(settings: Settings) -> str:
    """What holds commands here, in a word; finds it out by trying, which takes a moment the first time."""
    if settings.sandbox == "off":
        return "none"
    kind = available()
    return {"landlock": "Landlock"}.get(kind, kind)


def policy_words(policy: Policy) -> str:
    """The mode in a few words."""
    if policy.broken is not None:
        return "denies all"
    if policy.allow_execution_tools:
        return "edits and commands" if policy.allow_mutating_tools else "commands"
    if policy.allow_mutating_tools:
        return "edits"
    return "asks" if policy.ask else "read only"


def tools(parts: Parts, grants: SessionGrants) -> tuple[tuple[str, str, str], ...]:
    """Name, category and state of every offered tool. A rule for commands makes the whole tool one that is asked about."""
    return tuple((spec.name, spec.category, _state(spec, parts.policy, grants)) for spec in parts.executor.specs())


def _state(spec: ToolSpec, policy: Policy, grants: SessionGrants) -> str:
    verdict = judge(spec, _ANY_CALL, call_digest(spec.name, "{}"), "{}", policy)
    if verdict.decision == "ask" and verdict.rule == "not_approved" and grants.covers_tool(spec.name):
        return "allowed"
    return _STATES[verdict.decision]


def policy_lines(settings: Settings, parts: Parts, grants: SessionGrants, sandbox: str) -> tuple[str, ...]:
    """The policy in force in plain words. What a model wrote is in the lines of grants, unescaped."""
    policy = parts.policy

    def lines() -> Iterator[str]:
        if policy.broken is not None:
            yield f"every call is denied: the rules cannot be used ({policy.broken})"
            return
        otherwise = "asked about" if policy.ask else "blocked"
        yield "reading: allowed"
        yield f"changing files: {'allowed' if policy.allow_mutating_tools else otherwise}"
        spared = " (but for commands known to read only)" if policy.ask and policy.spare_read_only else ""
        yield f"running commands: {'allowed' if policy.allow_execution_tools else otherwise + spared}"
        for rule in policy.rules:
            yield f"rule {rule.named()}, from {rule.origin}"
        for line in grants.lines():
            yield f"allowed for this session: {line}"
        yield f"sandbox for commands: {sandbox}{_reach(settings)}"
        if settings.allow_unsandboxed and sandbox == "none":
            yield "commands run without a sandbox, as you allowed"

    return tuple(lines())


def _reach(settings: Settings) -> str:
    if settings.allow_network:
        return ", with network"
    return f", reaches {', '.join(settings.allow_host)}" if settings.allow_host else ", no network"
