"""The status line: every part where there is room, by rank where there is not, and never wider than the screen."""

from __future__ import annotations

import msgspec
import pytest
from rich.cells import cell_len

from sluice.run.interaction import Situation
from sluice.testing.scripted_interaction import finished
from sluice.ui.tui.status_line import StatusLine, status_words
from sluice.values.messages import Usage
from sluice.values.notices import CallStarted, TurnStarted

SITUATION = Situation(
    model="provider/model-x", workspace="/home/person/project", session="s", policy="asks", sandbox="bubblewrap",
    running=True, context_tokens=12_345, window_tokens=200_000, usage=Usage(input_tokens=1_234_567, output_tokens=999),
    cost=0.1234,
)  # fmt: skip


def test_everything_where_there_is_room() -> None:
    assert status_words(SITUATION, "⠋ thinking 3 s", 200) == (
        "⠋ thinking 3 s · provider/model-x · context ~12.3k of 200k (6%) · 1.2M in 999 out · $0.1234 · asks"
        " · sandbox: bubblewrap · /home/person/project"
    )


def test_money_for_what_was_estimated_is_marked() -> None:
    guessed = msgspec.structs.replace(SITUATION, usage=Usage(input_tokens=5, estimated=True), cost=2.5)
    assert " · ~$2.50 · " in status_words(guessed, "", 200)


def test_at_eighty_columns_the_sandbox_and_the_folder_go_first() -> None:
    words = status_words(SITUATION, "", 80)
    assert words == "provider/model-x · context ~12.3k of 200k (6%) · $0.1234 · asks"


@pytest.mark.parametrize("width", [1, 5, 20, 40, 60, 80, 120])
def test_it_fits_and_what_goes_on_is_the_last_to_go(width: int) -> None:
    words = status_words(SITUATION, "? waits for your answer", width)
    assert cell_len(words) <= width
    assert words.startswith("? waits for your answer"[:width])


def test_what_a_workspace_is_called_cannot_break_it() -> None:
    words = status_words(
        Situation(model="m\x1b[2J", workspace="a\nb", session="s", policy="p", sandbox="x", running=False), "", 99
    )
    assert words == "m␛[2J · p · sandbox: x · a␊b"


def test_nothing_is_shown_of_what_is_not_known() -> None:
    bare = Situation(model="m", workspace="w", session="s", policy="p", sandbox="none", running=False)
    assert status_words(bare, "", 80) == "m · p · sandbox: none · w"


def test_what_takes_long_is_named_with_its_time_and_what_is_quick_is_not() -> None:
    now = 100.0
    line = StatusLine(SITUATION, lambda: now)
    with line.busy("storing"):
        assert line._activity() == ""
        now = 103.4
        assert line._activity().endswith("storing 3 s")
    assert line._activity() == ""
    line.hear(TurnStarted(run="r", turn=1))
    now = 105.0
    assert "waiting for the model 2 s · ctrl+c stops" in line._activity()
    for position in range(2):
        line.hear(CallStarted(turn=1, position=position, tool=f"tool{position}"))
    now = 107.0
    assert "running 2 calls 2 s" in line._activity()
    line.hear(finished())
    assert line._activity() == ""
