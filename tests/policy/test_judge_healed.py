"""The policy over a call whose arguments Sluice closed: its own digest, its own switch, and never more than `judge`."""

from __future__ import annotations

import msgspec
import pytest

from sluice.policy.decide import judge, judge_healed
from sluice.policy.rules import Policy, Rule
from sluice.values.calls import AllowedCall, CallKey, Grant, ToolSpec, call_digest
from sluice.values.healed import HealedArguments, allow_healed, healed_digest

KEY = CallKey("run", 1, 0)
HEALED = HealedArguments(written='{"path":"a', text='{"path":"a"}')
SPEC = ToolSpec(name="read", description="", parameters={}, category="read_only", accepts_healed=True)
ON = Policy(accept_healed=True)
DIGEST = healed_digest("read", HEALED)


def test_the_switch_allows_a_tool_that_takes_it_and_says_so() -> None:
    verdict = judge_healed(SPEC, KEY, DIGEST, HEALED, ON)
    assert (verdict.decision, verdict.rule, verdict.digest) == ("allow", "healed:read_only", DIGEST)
    allow_healed(SPEC, KEY, HEALED, verdict, switched_on=True, schema_valid=True)


def test_it_is_off_by_default() -> None:
    assert judge_healed(SPEC, KEY, DIGEST, HEALED, Policy()).decision == "deny"
    everything = Policy(allow_mutating_tools=True, allow_execution_tools=True, rules=(Rule("allow", "*"),))
    assert judge_healed(SPEC, KEY, DIGEST, HEALED, everything).decision == "deny"


@pytest.mark.parametrize("change", [{"accepts_healed": False}, {"category": "mutating"}, {"category": "execution"}])
def test_no_approval_makes_another_tool_take_it(change: dict[str, object]) -> None:
    spec = msgspec.structs.replace(SPEC, **change)
    policy = msgspec.structs.replace(
        ON, allow_mutating_tools=True, allow_execution_tools=True, rules=(Rule("allow", "*"),)
    )
    assert judge_healed(spec, KEY, DIGEST, HEALED, policy).decision == "deny"


def test_another_digest_is_denied() -> None:
    for digest in (call_digest("read", HEALED.text), call_digest("read", HEALED.written), ""):
        assert judge_healed(SPEC, KEY, digest, HEALED, ON).decision == "deny"


def test_what_the_rules_refuse_stays_refused() -> None:
    denied = msgspec.structs.replace(ON, rules=(Rule("deny", "read"),))
    assert judge_healed(SPEC, KEY, DIGEST, HEALED, denied).decision == "deny"
    broken = msgspec.structs.replace(ON, broken="line 3")
    assert judge_healed(SPEC, KEY, DIGEST, HEALED, broken).decision == "deny"


def test_a_yes_covers_the_healed_call_and_no_other() -> None:
    asked = msgspec.structs.replace(ON, ask=True, rules=(Rule("ask", "read"),))
    assert judge_healed(SPEC, KEY, DIGEST, HEALED, asked).decision == "ask"
    yes = Grant(KEY, DIGEST, "here")
    assert judge_healed(SPEC, KEY, DIGEST, HEALED, asked, grant=yes, place="here").decision == "allow"
    assert judge_healed(SPEC, KEY, DIGEST, HEALED, asked, grant=yes, place="there").decision == "ask"
    for other in (
        Grant(CallKey("run", 1, 1), DIGEST, "here"),
        Grant(KEY, call_digest("read", HEALED.text), "here"),  # a yes to the same words, had they come whole
    ):
        assert judge_healed(SPEC, KEY, DIGEST, HEALED, asked, grant=other, place="here").decision == "ask"


def test_a_healed_verdict_and_a_plain_one_do_not_stand_in_for_each_other() -> None:
    plain = judge(SPEC, KEY, call_digest("read", HEALED.text), HEALED.text, ON)
    with pytest.raises(Exception, match="no allowing verdict"):
        allow_healed(SPEC, KEY, HEALED, plain, switched_on=True, schema_valid=True)
    with pytest.raises(Exception, match="no allowing verdict"):
        AllowedCall(key=KEY, tool="read", arguments=HEALED.text, verdict=judge_healed(SPEC, KEY, DIGEST, HEALED, ON))
