from __future__ import annotations

import pytest
from turn_world import call

from sluice.turn import answers


@pytest.mark.parametrize("stop", ["tool_use", "end_turn", "max_tokens", "content_filter", "refusal", "pause"])
def test_a_whole_call_of_a_reply_that_ended_by_a_known_word_is_fit(stop) -> None:
    assert answers.unfit(call(), stop) is None


@pytest.mark.parametrize("stop", [None, "", "aborted", "STOP", "tool_use ", answers.BROKEN])
def test_no_call_of_any_other_reply_is_fit(stop) -> None:
    assert answers.unfit(call(), stop).status == "invalid"


@pytest.mark.parametrize("stop", ["tool_use", "max_tokens"])
@pytest.mark.parametrize("status", ["cut", "malformed", "a new word"])
def test_no_call_that_is_not_whole_is_fit(stop, status) -> None:
    result = answers.unfit(call(status=status), stop)
    assert not result.ok
    assert result.error.code == ("cut_call" if status == "cut" else "malformed_call")


def test_the_stop_word_of_a_provider_is_quoted_bounded() -> None:
    assert len(answers.unfit(call(), "x" * 10_000).error.message) < 300


def test_the_malformed_result_is_bounded() -> None:
    assert len(answers.unfit(call(arguments="\n" * 10**6, status="malformed"), "tool_use").error.message) < 500


def test_skipped_says_which_limit_was_met() -> None:
    assert "total_tool_calls" in answers.skipped(call(), "limit:total_tool_calls").error.message
    assert answers.skipped(call(), answers.FAILED_BEFORE).status == "skipped"


def test_our_own_denial_names_the_rule() -> None:
    result = answers.denied(call("edit"), None, "deny:ed*", "mutating")
    assert "deny:ed*" in result.error.message
    assert (result.status, result.blocked.category) == ("blocked", "mutating")


@pytest.mark.parametrize("words", ["", "use the other file"])
def test_a_persons_no_says_to_the_model_what_could_change_it(words) -> None:
    result = answers.refused_by_person(call("edit"), words, "mutating")
    assert words in result.error.message
    assert result.end_turn == (not words)
    assert result.facts == {"refused": words}
    assert "the user's yes alone" in result.blocked.how_to_allow
