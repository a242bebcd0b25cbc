"""What "this session" covers: a tool that changes files as it is, a command word for word, and nothing a rule speaks of."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sluice.run.grants import SessionGrants
from sluice.values.calls import Category, Risk, ToolSpec

LACKING = "not_approved: execution tools are not allowed in this run"
OTHER_REASONS = (
    "ask:*[echo *]: a rule",
    "deny:*[rm *]: may match",
    "unread_command: doubts",
    "",
    "granted:not_approved",
)


def spec(name: str, category: Category, **risk: bool) -> ToolSpec:
    return ToolSpec(name=name, description="", parameters={}, category=category, risk=Risk(**risk))


WRITE = spec("write", "mutating", changes_repository=True)
SHELL = spec("shell", "execution", runs_repository_code=True)
BOTH = spec("both", "mutating", runs_repository_code=True)


def test_a_tool_that_changes_files_is_granted_with_any_arguments() -> None:
    grants = SessionGrants()
    assert not grants.covers(WRITE, "{}", LACKING, "here")
    assert grants.allow(WRITE, '{"path": "a"}', LACKING, "here")
    assert grants.covers(WRITE, '{"path": "b"}', LACKING, "elsewhere")
    assert not grants.covers(spec("other", "mutating"), "{}", LACKING, "here")
    assert grants.covers_tool("write")
    grants.clear()
    assert not grants.covers(WRITE, "{}", LACKING, "here")
    assert grants.lines() == ()


@given(
    granted=st.tuples(st.sampled_from([SHELL, BOTH]), st.text(max_size=8), st.sampled_from(["here", "there"])),
    asked=st.tuples(st.sampled_from([SHELL, BOTH]), st.text(max_size=8), st.sampled_from(["here", "there"])),
)
def test_what_runs_something_is_granted_word_for_word_and_at_one_place(
    granted: tuple[ToolSpec, str, str], asked: tuple[ToolSpec, str, str]
) -> None:
    grants = SessionGrants()
    tool, arguments, place = granted
    assert grants.allow(tool, arguments, LACKING, place)
    assert grants.covers(tool, arguments, LACKING, place)
    assert not grants.covers_tool(tool.name)
    wanted, words, where = asked
    assert grants.covers(wanted, words, LACKING, where) == (asked == granted)


def test_only_a_missing_approval_can_be_granted() -> None:
    for reason in OTHER_REASONS:
        for tool in (WRITE, SHELL):
            grants = SessionGrants()
            assert grants.offer(tool, reason) is None
            assert not grants.allow(tool, "{}", reason, "here")
            assert grants.allow(tool, "{}", LACKING, "here")
            assert not grants.covers(tool, "{}", reason, "here"), "also not by a grant from another question"


def test_a_grant_is_told() -> None:
    grants = SessionGrants()
    grants.allow(WRITE, "{}", LACKING, "here")
    grants.allow(SHELL, '{"command": "make"}', LACKING, "here")
    assert grants.lines() == ("every call of write inside the workspace", 'exactly shell {"command": "make"}')
