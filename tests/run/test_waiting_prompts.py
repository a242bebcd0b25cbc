"""Each prompt has one fate: begun, given as steering, taken back. In order, and by its number."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.errors import ConfigurationError
from sluice.run.steering import Steering
from sluice.run.waiting_prompts import MAX_PROMPT_BYTES, MAX_WAITING, WaitingPrompts

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["add", "steer", "next", "give", "close", "end", "edit", "take", "all"]), st.integers(1, 12)
    )
)


@given(steps=STEPS)
def test_no_prompt_is_lost_or_sent_twice(steps: list[tuple[str, int]]) -> None:
    prompts, steering = WaitingPrompts(), Steering()
    added, gone = [], []
    for what, number in steps:
        match what:
            case "add":
                added.append(prompts.add("x").number)
            case "steer":
                added.append(prompts.add("x", steering.add).number)
            case "next" if (prompt := prompts.next()) is not None:
                gone.append(prompt.number)
            case "give":
                if (ticket := steering.first()) is not None:
                    ticket.state = "given"
                if (prompt := prompts.given()) is not None:
                    assert prompt.steering
                    gone.append(prompt.number)
            case "close":
                steering.close()  # the run is over, and it has not been told yet
            case "end":
                steering.close()
                late = any(p.steering for p in prompts.shown())
                assert prompts.run_ended() == late
                steering = Steering()
            case "edit":
                waits = number in [p.number for p in prompts.shown()]
                assert prompts.edit(number, f"y{number}") == waits
            case "take":
                waits = number in [p.number for p in prompts.shown()]
                assert (prompts.take_back(number) is not None) == waits
                gone += [number] if waits else []
            case "all":
                gone += [p.number for p in prompts.take_all_back()]
                assert prompts.shown() == ()
        shown = [p.number for p in prompts.shown()]
        assert sorted(gone + shown) == added, "each is in one place"


def test_steering_that_is_edited_says_the_new_words() -> None:
    prompts, steering = WaitingPrompts(), Steering()
    number = prompts.add("old", steering.add).number
    prompts.edit(number, "new")
    ticket = steering.first()
    assert ticket is not None
    assert ticket.message.content == "new"
    assert prompts.shown()[0].text == "new"


def test_what_was_given_is_not_sent_again_when_the_run_ends_before_it_is_told() -> None:
    prompts, steering = WaitingPrompts(), Steering()
    prompts.add("x", steering.add)
    ticket = steering.first()
    assert ticket is not None
    ticket.state = "given"
    assert not prompts.run_ended()
    assert prompts.shown() == ()


def test_steering_of_a_run_that_is_just_over_still_waits() -> None:
    prompts, steering = WaitingPrompts(), Steering()
    steering.close()
    numbers = [prompts.add(words, steering.add).number for words in ("a", "b", "c")]
    assert prompts.edit(numbers[0], "other")
    assert prompts.take_back(numbers[1]) == "b"
    assert [p.text for p in prompts.take_all_back()] == ["other", "c"]
    assert not prompts.run_ended()


def test_late_steering_goes_before_what_waits() -> None:
    prompts, steering = WaitingPrompts(), Steering()
    prompts.add("later")
    prompts.add("now", steering.add)
    steering.close()
    assert prompts.run_ended()
    assert [(p.text, p.steering) for p in prompts.shown()] == [("now", False), ("later", False)]


def test_what_cannot_be_sent_is_refused() -> None:
    prompts = WaitingPrompts()
    number = prompts.add("x" * MAX_PROMPT_BYTES).number
    for words in ("", "\n ", "é" * MAX_PROMPT_BYTES):
        with pytest.raises(ConfigurationError):
            prompts.add(words)
        with pytest.raises(ConfigurationError):
            prompts.edit(number, words)
    for _ in range(MAX_WAITING - 1):
        prompts.add("x")
    with pytest.raises(ConfigurationError, match="wait already"):
        prompts.add("x")
