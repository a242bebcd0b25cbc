"""The verdict on one call (P3). Total: whatever it is given, it returns a verdict, and what it does not know is no."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import NamedTuple

import msgspec

from sluice.policy.command_rules import covering, strongest_no
from sluice.policy.command_words import Reading, read_command
from sluice.policy.read_only_commands import known_read_only
from sluice.policy.rules import ALLOW_EXECUTION, Policy, Rule, approvals_for, missing
from sluice.values.calls import CallKey, Decision, Grant, ToolSpec, Verdict, call_digest
from sluice.values.healed import HealedArguments, healed_digest
from sluice.values.results import Blocked, ErrorInfo, ToolResult

_CATEGORIES = frozenset({"read_only", "mutating", "execution"})
_ORDER = ("deny", "ask", "allow")
_UNREADABLE = "\0"  # no command line: reading it says so


def judge(
    spec: ToolSpec,
    key: CallKey,
    digest: str,
    arguments: str,
    policy: Policy,
    *,
    grant: Grant | None = None,
    place: str = "",
) -> Verdict:
    """The verdict for the call `key` of the tool `spec` with these raw arguments.

    `digest` is of the name and arguments; another one is denied. `place` is the digest of where the call would run
    (`place_digest`). A `grant` turns ask into allow for exactly its key, digest and place, and never turns deny into
    allow. Never raises: an error inside is a denial.
    """
    try:
        said = _decide(spec, digest, arguments, policy)
        if said.decision == "ask" and grant is not None and grant == Grant(key, digest, place):
            said = _Said("allow", f"granted:{said.rule}", (), "a person allowed this call")
    except Exception as error:  # an error must not let a call through
        said = _Said("deny", "error", (), f"the policy failed ({type(error).__name__})")
    return Verdict(
        key=key, digest=digest, decision=said.decision, rule=said.rule, missing=said.missing, words=said.words
    )


def judge_healed(
    spec: ToolSpec,
    key: CallKey,
    digest: str,
    arguments: HealedArguments,
    policy: Policy,
    *,
    grant: Grant | None = None,
    place: str = "",
) -> Verdict:
    """The verdict for a call with healed arguments (W9), as `judge` gives it; its rule begins with `healed:`.

    Denied unless the user switched it on (`Policy.accept_healed`), the tool takes healed arguments and reads only, and
    `digest` is the one of healed arguments. All that `judge` would refuse is refused here too. Never raises.
    """
    why = _no_healing(spec, digest, arguments, policy)
    if why:
        said = _Said("deny", "healed", (), why)
        return Verdict(key=key, digest=digest, decision=said.decision, rule=said.rule, words=said.words)
    inner = call_digest(spec.name, arguments.text)
    granted = Grant(grant.key, inner, grant.place) if grant is not None and grant.digest == digest else None
    verdict = judge(spec, key, inner, arguments.text, policy, grant=granted, place=place)
    return msgspec.structs.replace(verdict, key=key, digest=digest, rule=f"healed:{verdict.rule}")


def _no_healing(spec: ToolSpec, digest: str, arguments: HealedArguments, policy: Policy) -> str:
    if policy.accept_healed is not True:
        return "the call was cut, and running cut calls with closed arguments is switched off"
    if spec.accepts_healed is not True or spec.category != "read_only":
        return "the call was cut, and its tool does not take closed arguments"
    if digest != healed_digest(spec.name, arguments):
        return "the digest is not of this healed call"
    return ""


class _Said(NamedTuple):
    decision: Decision
    rule: str
    missing: tuple[str, ...] = ()
    words: str = ""


def _decide(spec: ToolSpec, digest: str, arguments: str, policy: Policy) -> _Said:
    if policy.broken is not None:
        return _Said("deny", "broken_policy", (), f"the policy file cannot be used: {policy.broken}")
    if digest != call_digest(spec.name, arguments):
        return _Said("deny", "digest", (), "the digest is not of this call")
    if spec.category not in _CATEGORIES:
        return _Said("deny", "unknown_category", (), "the tool's category is not known")
    lacking = missing(policy, approvals_for(spec.category, spec))
    rules = tuple(rule for rule in policy.rules if fnmatchcase(spec.name, rule.tool))
    rule = _strongest(rules)
    if rule is not None and rule.effect == "deny":
        return _said(rule, lacking)
    line = _Line(spec, arguments, policy, rules) if spec.category == "execution" else None
    no = line.refusal(lacking) if line is not None else None
    if no is not None and (no.decision == "deny" or rule is None or rule.effect != "ask"):
        return no
    if rule is not None:
        return _said(rule, lacking)
    if not lacking:
        return _Said("allow", "read_only" if spec.category == "read_only" else "approved")
    yes = line.permission(lacking) if line is not None else None
    if yes is not None:
        return yes
    words = f"{spec.category} tools are not allowed in this run"
    if line is not None and policy.ask is True:
        words += line.why_asked()
    return _Said("ask" if policy.ask is True else "deny", "not_approved", lacking, words)


def _strongest(rules: tuple[Rule, ...]) -> Rule | None:
    """Of the rules for whole tools the one that counts: deny before ask before allow, then the first."""
    whole = [rule for rule in rules if rule.command is None]
    return min(whole, key=lambda rule: _ORDER.index(rule.effect), default=None)


def _said(rule: Rule, lacking: tuple[str, ...]) -> _Said:
    return _Said(rule.effect, rule.named(), lacking, f"a rule of {rule.origin} covers this tool")


class _Line:
    """The command line of a call, read only if something depends on it."""

    def __init__(self, spec: ToolSpec, arguments: str, policy: Policy, rules: tuple[Rule, ...]) -> None:
        self._rules = tuple(rule for rule in rules if rule.command is not None)
        self._policy = policy
        wanted = bool(self._rules) or (policy.ask is True and not policy.allow_execution_tools)
        self._text: str | None = None
        self._reading: Reading | None = None
        if wanted and spec.subject == "command":
            self._text = _command(arguments)
            self._reading = read_command(self._text)

    def refusal(self, lacking: tuple[str, ...]) -> _Said | None:
        """What deny and ask rules say of it; ask if they cannot be checked for certain."""
        if self._reading is None:
            return None
        match = strongest_no(self._rules, self._reading)
        if match is not None:
            decision: Decision = match.rule.effect if match.certain else "ask"
            verb = "matches" if match.certain else "may match"
            words = f"a rule of {match.rule.origin} {verb} these words: {match.words}"
            return _Said(decision, match.rule.named(), lacking, words)
        if self._reading.doubts and any(rule.effect != "allow" for rule in self._rules):
            words = f"there are rules for commands, and this one is not read for certain: {self._reading.doubts[0]}"
            return _Said("ask", "unread_command", lacking, words)
        return None

    def permission(self, lacking: tuple[str, ...]) -> _Said | None:
        """Whether it may run without the approvals: rules allow all of it, or it reads only and questions are spared."""
        if self._reading is None or self._text is None or any(name != ALLOW_EXECUTION for name in lacking):
            return None
        match = covering(self._rules, self._text, self._reading)
        if match is not None:
            words = f"rules of {match.rule.origin} cover every command, the first by its words: {match.words}"
            return _Said("allow", match.rule.named(), (), words)
        spares = self._policy.ask is True and self._policy.spare_read_only is True
        if spares and known_read_only(self._text, self._reading):
            return _Said("allow", "known_read_only", (), "every command of the line is known to read only")
        return None

    def why_asked(self) -> str:
        """The first doubt, for the person."""
        return f"; {self._reading.doubts[0]}" if self._reading is not None and self._reading.doubts else ""


def _command(arguments: str) -> str:
    """The command line among the raw arguments. One that is not there, or no text, is one that cannot be read."""
    try:
        found = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, UnicodeError):
        return _UNREADABLE
    command = found.get("command") if isinstance(found, dict) else None
    return command if isinstance(command, str) else _UNREADABLE


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
    if verdict.rule.startswith("healed"):
        return "ask for the call again, whole"
    if verdict.rule == "broken_policy":
        return "mend the policy file"
    if verdict.rule == "not_approved" and verdict.missing:
        flags = " ".join(f"--{name.replace('_', '-')}" for name in verdict.missing)
        return f"run again with {flags}"
    if verdict.rule.startswith("deny:"):
        return f"take the rule {verdict.rule} out of the config it stands in"
    if verdict.rule.startswith("ask:") or verdict.rule == "unread_command":
        return "run where a person can be asked"
    return "it cannot be allowed as it is; this is a fault of the host"
