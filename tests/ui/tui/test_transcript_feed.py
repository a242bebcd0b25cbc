"""The blocks that events become: what went wrong and did not end the run is no error, and what ended it is said once."""

from __future__ import annotations

import pytest

from sluice.testing.scripted_interaction import finished
from sluice.ui.tui.transcript_feed import TranscriptFeed
from sluice.values import notices as n
from sluice.values.messages import Usage


def lines(*events: n.Notice) -> list[str]:
    feed = TranscriptFeed(lambda: 0.0)
    for event in events:
        feed.hear(event)
        feed.step()
    rows = ["".join(part.text for part in row).rstrip() for block in feed.blocks for row in block.rows(80)]
    return [row for row in rows if row]


BROKE = n.Failed(kind="incomplete", message="the reply broke off")
ENDED = finished("incomplete", exit_code=1, message="the reply broke off")


def test_a_reply_that_broke_off_twice_is_one_error() -> None:
    shown = lines(n.TurnStarted(run="r", turn=1), BROKE, n.TurnStarted(run="r", turn=2), BROKE, ENDED)
    assert shown[:2] == ["· the reply broke off; going on", "✗ error: the reply broke off"]
    assert sum("broke off" in line for line in shown) == 2


def test_one_that_is_got_over_is_no_error() -> None:
    shown = lines(n.TurnStarted(run="r", turn=1), BROKE, n.TurnStarted(run="r", turn=2), finished())
    assert not any("error" in line for line in shown)


@pytest.mark.parametrize(
    ("end", "said"),
    [
        (ENDED, ["✗ error: the reply broke off"]),
        (
            finished("limit:cost", exit_code=3, message="the run cost $1"),
            ["✗ error: the reply broke off", "✗ error: limit:cost: the run cost $1"],
        ),
    ],
)
def test_what_ended_the_run_is_said_with_it(end: n.RunFinished, said: list[str]) -> None:
    assert lines(BROKE, end)[: len(said)] == said
    assert lines(BROKE, end)[len(said)].startswith("· ")


def test_a_context_that_was_shrunk_goes_on_with_it() -> None:
    shown = lines(n.Failed(kind="status", message="too long"), n.Summarised(before=10, after=5), finished())
    assert shown[0] == "· too long; going on"


def test_what_failed_in_a_run_whose_end_is_not_told_is_said_all_the_same() -> None:
    begun = n.RunStarted(run="r", model="m", workspace="/w", tools=(), mode="real")
    assert lines(BROKE, begun, finished())[0] == "✗ error: the reply broke off"


def test_money_for_what_was_estimated_is_marked() -> None:
    guess = Usage(input_tokens=1, estimated=True)
    assert lines(finished(cost=0.5, usage=guess))[-1].endswith("about $0.5000")
    assert lines(finished(cost=0.5))[-1].endswith("· $0.5000")
    assert lines(finished(cost=0.0, usage=guess))[-1].endswith("· $0.0000"), "what has no price costs nothing"


def test_what_is_not_saved_is_said_with_the_way_to_it() -> None:
    unsaved = "a message was not stored: the disk is full"
    shown = lines(finished("failed", exit_code=1, saved=False, unsaved=unsaved, extra={"unsaved_messages": 1}))
    assert shown[0] == f"✗ error: not saved: {unsaved}"
    assert shown[1].startswith("✗ error: 1 message of this run is in memory only")
    assert "/export FILE" in " ".join(shown)
    assert "memory" not in " ".join(lines(finished(saved=False, unsaved="the end of the run was not stored")))
