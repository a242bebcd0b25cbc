from __future__ import annotations

import pytest
from turn_world import blocked, broke, fine

from sluice.turn.failures import FailureBudget, class_of, guided
from sluice.values.results import ToolResult


def result(ok: bool, status: str, failure: str | None = None, content: str = "") -> ToolResult:
    return ToolResult(ok=ok, status=status, tool="t", failure=failure, content=content)


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (result(True, "ok"), "none"),
        (result(False, "skipped"), "none"),
        (result(False, "timed_out"), "retryable"),
        (result(False, "failed"), "needs_inspection"),
        (result(False, "failed", "retryable"), "retryable"),
        (result(False, "failed", "fatal"), "fatal"),
        (result(False, "failed", "none"), "none"),
        (result(False, "invalid"), "needs_inspection"),
        (result(False, "cancelled"), "needs_inspection"),
        (result(False, "unknown_outcome"), "needs_inspection"),
        (result(False, "blocked", "none"), "blocked"),
        (result(True, "blocked"), "blocked"),
        (result(True, "failed"), "needs_inspection"),
        (result(False, "ok"), "needs_inspection"),
        (result(True, "ok", content='{"ok": false, "status": "failed"}'), "none"),
    ],
)
def test_classes(one, expected) -> None:
    assert class_of(one) == expected


def test_guidance_is_added_and_takes_nothing_away() -> None:
    one = broke(content="line 1")
    more = guided(one, "needs_inspection")
    assert more.content.startswith("line 1\n")
    assert len(more.content) - len(one.content) < 200
    assert (more.error, more.status, more.ok) == (one.error, one.status, one.ok)
    assert guided(fine(), "none") == fine()
    assert guided(one, "needs_inspection", last=True) == one
    assert guided(one, "fatal") == one


def test_one_more_try_for_each_fingerprint() -> None:
    budget = FailureBudget()
    for digest in ("a", "b"):
        assert budget.note(broke(), digest) is None
        budget.turn_over([])
    assert budget.note(broke(), "a")[0] == "failed"


def test_the_same_failure_side_by_side_counts_once() -> None:
    budget = FailureBudget()
    assert budget.note(broke(), "a") is None
    assert budget.note(broke(), "a") is None


def test_status_is_part_of_the_fingerprint() -> None:
    budget = FailureBudget()
    budget.note(broke(), "a")
    budget.turn_over([])
    assert budget.note(broke(status="timed_out"), "a") is None


def test_a_change_forgets_failures_but_no_refusal() -> None:
    budget = FailureBudget()
    budget.note(broke(), "a")
    budget.note(blocked(), "b")
    budget.turn_over([])
    budget.changed()
    assert budget.note(broke(), "a") is None
    assert budget.note(blocked(), "b")[0] == "blocked"


def test_only_blocked_turns_in_a_row_count() -> None:
    budget = FailureBudget()
    skipped = result(False, "skipped")
    assert budget.turn_over([blocked(), skipped]) is None
    assert budget.turn_over([fine(), blocked()]) is None
    assert budget.turn_over([blocked(), skipped]) is None
    assert budget.turn_over([skipped]) is None
    assert budget.turn_over([blocked()]) is None
    assert budget.turn_over([blocked()])[0] == "blocked"
