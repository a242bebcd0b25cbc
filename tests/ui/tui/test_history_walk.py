"""Going through earlier prompts loses neither the draft nor a change made on the way."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sluice.ui.tui.history_walk import HistoryWalk


def test_back_and_forth() -> None:
    walk = HistoryWalk(["one", "two"])
    assert walk.older("draft") == "two"
    assert walk.older("two, changed") == "one"
    assert walk.older("one") is None
    assert walk.newer("one") == "two, changed"
    assert walk.newer("two, changed") == "draft"
    assert walk.newer("draft") is None


@given(st.lists(st.text(), max_size=4), st.text(), st.lists(st.booleans(), max_size=12))
def test_the_draft_is_always_at_the_end(prompts: list[str], draft: str, steps: list[bool]) -> None:
    walk, now = HistoryWalk(prompts), draft
    for back in steps:
        now = next((text for text in [(walk.older if back else walk.newer)(now)] if text is not None), now)
    for _ in range(len(prompts)):
        now = next((text for text in [walk.newer(now)] if text is not None), now)
    assert now == draft
