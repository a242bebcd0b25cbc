"""Rules for commands: deny and ask if any program matches, allow only if every one is covered."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.policy.decide import judge
from sluice.policy.rules import Policy, Rule, Rules, rules_from
from sluice.values.calls import CallKey, Grant, Risk, ToolSpec, Verdict, call_digest

KEY = CallKey("run", 1, 0)
SHELL = ToolSpec(
    name="bash_execute_safe",
    description="",
    parameters={},
    category="execution",
    risk=Risk(runs_repository_code=True),
    subject="command",
)


def verdict(command: str, *rules: str, **policy: bool) -> Verdict:
    """Each rule as `effect pattern`, for every tool."""
    arguments = json.dumps({"command": command})
    made = tuple(Rule(rule.partition(" ")[0], "*", rule.partition(" ")[2]) for rule in rules)  # type: ignore[arg-type]
    return judge(SHELL, KEY, call_digest(SHELL.name, arguments), arguments, Policy(rules=made, **policy))


@pytest.mark.parametrize(
    ("command", "rules", "decision"),
    [
        ("git status -s", ["allow git status*"], "allow"),
        ("git status; ls", ["allow git status*"], "deny"),
        ("git status && ls -l", ["allow git status*", "allow ls *"], "allow"),
        ("git status | sh", ["allow git status*"], "deny"),
        ("git status $(rm x)", ["allow git status*"], "deny"),
        ("git status $X", ["allow git status*"], "deny"),
        ("git status > f", ["allow git status*"], "deny"),
        ("git status &", ["allow git status*"], "deny"),
        ("GIT_DIR=x git status", ["allow git status*"], "deny"),
        ("./git status", ["allow git status*"], "deny"),
        ("'git status' x", ["allow git status*"], "deny"),
        ("timeout 5 git status", ["allow git status*"], "allow"),
        ("sudo git status", ["allow git status*"], "deny"),
        ("git status\nrm x", ["allow git status*"], "deny"),
        ("git status # \\\nrm x", ["allow git status*"], "deny"),
        ("echo \"${var@P}\"", ["allow echo*"], "deny"),
        ("git status 2>/dev/null", ["allow git status*"], "allow"),
        ("ls", ["allow ls *"], "allow"),
        ("lsof", ["allow ls *"], "deny"),
        ("git push", ["allow *", "deny git push*"], "deny"),
        ("git push", ["allow *", "ask git push*"], "ask"),
    ],
)  # fmt: skip
def test_allow_needs_every_command(command: str, rules: list[str], decision: str) -> None:
    assert verdict(command, *rules).decision == decision


@pytest.mark.parametrize(
    "command",
    [
        "rm x",
        "/bin/rm x",
        "a; rm x",
        "sudo rm x",
        "echo $(rm x)",
        "sh -c 'rm x'",
        "xargs rm",
        "r\\m x",
        "'rm' x",
        "RM x",
        "rm",
    ],
)
def test_a_deny_holds_wherever_the_program_stands(command: str) -> None:
    got = verdict(command, "deny rm *", "allow *", allow_execution_tools=True)
    assert (got.decision, got.rule) == ("deny", "deny:*[rm *]")
    assert "user's config" in got.words
    assert "rm" in got.words.lower()


@pytest.mark.parametrize(
    "command", ["$x -rf /", "echo 'open", "eval $x", "git $x", "x=1; (( x ))", "x" * 50_000, "a\0"]
)
def test_what_cannot_be_checked_against_a_deny_is_asked_about(command: str) -> None:
    assert verdict(command, "deny git push*", allow_execution_tools=True).decision == "ask"


@pytest.mark.parametrize("arguments", ["{}", '{"command": 1}', '{"command": "\\ud800"}', "[]", "{"])
def test_arguments_without_a_command_line_are_asked_about(arguments: str) -> None:
    policy = Policy(allow_execution_tools=True, rules=(Rule("deny", "*", "rm *"),))
    assert judge(SHELL, KEY, call_digest(SHELL.name, arguments), arguments, policy).decision == "ask"


def test_rules_for_commands_leave_other_lines_and_tools_alone() -> None:
    assert verdict("ls $x", "deny rm *", allow_execution_tools=True).rule == "approved"
    build = ToolSpec(name="build", description="", parameters={}, category="execution")
    rules = (Rule("deny", "*", "*"), Rule("allow", "*", "*"))
    assert judge(build, KEY, call_digest("build", "{}"), "{}", Policy(rules=rules)).decision == "deny"
    got = judge(build, KEY, call_digest("build", "{}"), "{}", Policy(rules=rules, allow_execution_tools=True))
    assert got.decision == "allow"


def test_the_list_of_reading_commands_only_spares_questions() -> None:
    assert verdict("ls -l").decision == "deny"
    assert verdict("ls -l", "allow make*").decision == "deny"
    got = verdict("ls -l", ask=True)
    assert (got.decision, got.rule) == ("allow", "known_read_only")
    assert verdict("ls -l; x", ask=True).decision == "ask"
    assert verdict("ls -l", ask=True, spare_read_only=False).decision == "ask"
    assert verdict("ls -l", "ask ls*", ask=True).decision == "ask"
    assert verdict("ls -l", "deny ls*", ask=True).decision == "deny"


def test_a_grant_holds_only_where_it_was_given() -> None:
    arguments = json.dumps({"command": "make"})
    digest = call_digest(SHELL.name, arguments)
    grant = Grant(KEY, digest, "here")
    for place, decision in (("here", "allow"), ("there", "ask"), ("", "ask")):
        got = judge(SHELL, KEY, digest, arguments, Policy(ask=True), grant=grant, place=place)
        assert got.decision == decision


@pytest.mark.parametrize(
    "raw",
    [None, "x", {}, [1], [{}], [{"effect": "allow"}], [{"effect": "maybe", "tool": "a"}], [{"effect": "deny", "tool": ""}],
     [{"effect": "deny", "command": 1}], [{"effect": "deny", "tool": "a", "typo": 1}],
     [{"effect": "deny", "tool": "a"}, {"effect": "allow"}], [{"effect": "allow", "tool": "a", "origin": "x"}]],
)  # fmt: skip
def test_one_bad_rule_makes_all_of_them_broken(raw: object) -> None:
    found = rules_from(raw)
    assert found.broken
    assert found.rules == ()


def test_rules_are_read_and_named() -> None:
    found = rules_from(
        [{"effect": "deny", "command": "rm *"}, {"effect": "allow", "tool": "bash*", "command": "ls*"}], "f"
    )
    assert found == Rules((Rule("deny", "*", "rm *", "f"), Rule("allow", "bash*", "ls*", "f")))
    assert found.shown() == ("deny:*[rm *]", "allow:bash*[ls*]")


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=40), st.sampled_from([" ; ", " && ", " | ", "\n", " $(", " `", " & ", " > "]))
def test_whatever_follows_an_allowed_command_does_not_ride_along(tail: str, joint: str) -> None:
    got = verdict(f"git status{joint}{tail}", "allow git status*")
    if got.decision == "allow":
        assert not tail.strip() or tail.strip() in ("", ";") or tail.strip().startswith("git status")
