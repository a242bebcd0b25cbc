from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.policy.decide import blocked_result, judge
from sluice.policy.rules import Policy, Rule
from sluice.values.calls import AllowedCall, CallKey, Grant, Risk, ToolSpec, Verdict, call_digest

KEY = CallKey("run_1", 1, 0)
ALL = Policy(allow_mutating_tools=True, allow_execution_tools=True)


def spec(category: str = "read_only", name: str = "t", **risk: bool) -> ToolSpec:
    return ToolSpec(name=name, description="", parameters={}, category=category, risk=Risk(**risk))


def verdict(one: ToolSpec, policy: Policy, grant: Grant | None = None, arguments: str = "{}") -> Verdict:
    return judge(one, KEY, call_digest(one.name, arguments), arguments, policy, grant=grant)


@pytest.mark.parametrize(
    ("one", "policy", "decision", "lacking"),
    [
        (spec("read_only"), Policy(), "allow", ()),
        (spec("mutating"), Policy(), "deny", ("allow_mutating_tools",)),
        (spec("mutating"), Policy(allow_execution_tools=True), "deny", ("allow_mutating_tools",)),
        (spec("mutating"), Policy(allow_mutating_tools=True), "allow", ()),
        (spec("execution"), Policy(allow_mutating_tools=True), "deny", ("allow_execution_tools",)),
        (spec("execution"), Policy(allow_execution_tools=True), "allow", ()),
        (spec("mutating", runs_repository_code=True), Policy(allow_mutating_tools=True), "deny", ("allow_execution_tools",)),
        (spec("mutating", runs_repository_code=True), ALL, "allow", ()),
        (spec("mutating"), Policy(ask=True), "ask", ("allow_mutating_tools",)),
        (spec("read_only"), Policy(ask=True), "allow", ()),
        (spec("read_only"), Policy(broken="line 3"), "deny", ()),
        (spec("mutating"), Policy(broken="line 3", allow_mutating_tools=True, ask=True), "deny", ()),
        (spec("new word"), ALL, "deny", ()),
    ],
)  # fmt: skip
def test_decisions(one, policy, decision, lacking) -> None:
    got = verdict(one, policy)
    assert (got.decision, got.missing) == (decision, lacking)
    assert got.rule


def test_an_allowing_verdict_is_what_the_executor_takes() -> None:
    got = verdict(spec("mutating"), ALL)
    assert AllowedCall(key=KEY, tool="t", arguments="{}", verdict=got).verdict is got


def rules(*pairs: str) -> tuple[Rule, ...]:
    return tuple(Rule(effect=p.split()[0], tool=p.split()[1]) for p in pairs)


@pytest.mark.parametrize(
    ("given_rules", "decision", "rule"),
    [
        (rules("allow t"), "allow", "allow:t"),
        (rules("allow *", "ask t"), "ask", "ask:t"),
        (rules("allow *", "ask t", "deny ?"), "deny", "deny:?"),
        (rules("deny T"), "deny", "not_approved"),
        (rules("allow other"), "deny", "not_approved"),
    ],
)
def test_deny_goes_before_ask_and_ask_before_allow(given_rules, decision, rule) -> None:
    got = verdict(spec("mutating"), Policy(rules=given_rules))
    assert (got.decision, got.rule) == (decision, rule)


def test_a_rule_narrows_what_is_else_allowed() -> None:
    assert verdict(spec(), Policy(rules=rules("deny t"))).decision == "deny"
    assert verdict(spec("mutating"), Policy(allow_mutating_tools=True, rules=rules("ask t"))).decision == "ask"


def test_a_grant_allows_exactly_its_call() -> None:
    one, policy = spec("mutating"), Policy(ask=True)
    digest = call_digest("t", "{}")
    assert verdict(one, policy, Grant(KEY, digest)).decision == "allow"
    for wrong in (
        Grant(CallKey("run_1", 2, 0), digest),
        Grant(CallKey("run_1", 1, 1), digest),
        Grant(CallKey("run_2", 1, 0), digest),
        Grant(KEY, call_digest("t", "{ }")),
        "yes",
    ):
        assert verdict(one, policy, wrong).decision == "ask"  # type: ignore[arg-type]


@pytest.mark.parametrize("policy", [Policy(), Policy(rules=rules("deny t"), ask=True), Policy(broken="x", ask=True)])
def test_a_grant_never_turns_a_denial_into_a_yes(policy) -> None:
    assert verdict(spec("mutating"), policy, Grant(KEY, call_digest("t", "{}"))).decision == "deny"


def test_a_digest_of_another_call_is_denied() -> None:
    assert judge(spec(), KEY, call_digest("t", "{ }"), "{}", ALL).decision == "deny"
    assert judge(spec(), KEY, call_digest("u", "{}"), "{}", ALL).decision == "deny"


anything = st.one_of(st.none(), st.integers(), st.text(), st.binary(), st.lists(st.integers()), st.just(object()))


@given(one=anything, key=anything, digest=anything, arguments=anything, policy=anything, grant=anything)
def test_whatever_it_is_given_it_says_no(one, key, digest, arguments, policy, grant) -> None:
    got = judge(one, key, digest, arguments, policy, grant=grant)
    assert got.decision == "deny"


@given(category=anything, effect=anything, pattern=anything, name=st.text())
def test_broken_parts_never_allow_more_than_the_flags(category, effect, pattern, name) -> None:
    broken = Policy(rules=(Rule(effect=effect, tool=pattern),))
    one = ToolSpec(name=name, description="", parameters={}, category="mutating")
    assert judge(one, KEY, call_digest(name, "{}"), "{}", broken).decision != "allow"
    odd = ToolSpec(name=name, description="", parameters={}, category=category)
    assert judge(odd, KEY, call_digest(name, "{}"), "{}", Policy()).decision == "deny"


def test_the_blocked_result_says_what_is_missing_and_how_to_allow_it() -> None:
    one = spec("mutating", runs_repository_code=True)
    result = blocked_result(one, verdict(one, Policy()))
    assert (result.ok, result.status, result.tool, result.failure) == (False, "blocked", "t", "blocked")
    assert result.blocked.category == "mutating"
    assert result.blocked.missing == ("allow_mutating_tools", "allow_execution_tools")
    assert result.blocked.how_to_allow == "run again with --allow-mutating-tools --allow-execution-tools"
    assert result.blocked.how_to_allow in result.content


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (Policy(broken="line 3: no JSON"), "mend the policy file"),
        (Policy(rules=rules("deny t")), "deny:t"),
        (Policy(rules=rules("ask t")), "a person can be asked"),
        (Policy(ask=True), "--allow-mutating-tools"),
    ],
)
def test_how_to_allow_fits_the_rule(policy, words) -> None:
    one = spec("mutating")
    result = blocked_result(one, verdict(one, policy))
    assert words in result.blocked.how_to_allow
