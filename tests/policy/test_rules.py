from __future__ import annotations

import msgspec
import pytest

from sluice.policy.rules import Policy, Rule, approvals_for, blocked_categories, missing
from sluice.values.calls import Risk, ToolSpec


def spec(category: str, **risk: bool) -> ToolSpec:
    return ToolSpec(name="t", description="", parameters={}, category=category, risk=Risk(**risk))


@pytest.mark.parametrize(
    ("one", "needs"),
    [
        (spec("read_only"), ()),
        (spec("mutating"), ("allow_mutating_tools",)),
        (spec("execution"), ("allow_execution_tools",)),
        (spec("mutating", runs_repository_code=True), ("allow_mutating_tools", "allow_execution_tools")),
        (spec("execution", changes_repository=True), ("allow_mutating_tools", "allow_execution_tools")),
        (spec("read_only", changes_repository=True), ("allow_mutating_tools",)),
    ],
)
def test_a_tool_needs_the_approval_of_its_category_and_of_each_mark(one, needs) -> None:
    assert approvals_for(one.category, one) == needs


def test_only_a_plain_true_gives_an_approval() -> None:
    odd = Policy(allow_mutating_tools="false")  # type: ignore[arg-type]
    assert missing(odd, ("allow_mutating_tools", "new")) == ("allow_mutating_tools", "new")


@pytest.mark.parametrize(
    ("policy", "blocked"),
    [
        (Policy(), ("mutating", "execution")),
        (Policy(allow_mutating_tools=True), ("execution",)),
        (Policy(allow_mutating_tools=True, allow_execution_tools=True), ()),
        (Policy(ask=True), ()),
        (Policy(broken="empty file"), ("read_only", "mutating", "execution")),
    ],
)
def test_blocked_categories(policy, blocked) -> None:
    assert blocked_categories(policy) == blocked


def test_a_rule_with_an_unknown_effect_or_key_is_refused_when_it_is_read() -> None:
    for text in ('{"effect":"maybe","tool":"*"}', '{"effect":"deny","tool":"*","typo":1}', '{"effect":"allow"}'):
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(text, type=Rule)
