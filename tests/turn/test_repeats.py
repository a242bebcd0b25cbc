from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from turn_world import broke, fine

from sluice.turn.repeats import CutWatch, LoopWatch, repeated_text, signature
from sluice.values.results import ToolResult


def test_the_signature_is_over_name_input_and_output_each_ended_by_nul() -> None:
    expected = hashlib.sha256(b"look\0in\0out\0edit\0x\0y\0").hexdigest()
    assert signature([("look", "in", "out"), ("edit", "x", "y")]) == expected


def test_six_of_the_last_ten_turns_is_a_loop_and_five_is_not() -> None:
    same = [("look", "{}", fine())]
    watch = LoopWatch()
    seen = []
    for turn in range(11):
        other = [("look", str(turn), fine())]
        seen.append(watch.turn_over(same if turn % 2 == 0 else other))
    assert not any(seen)  # every other turn: never more than five of ten
    watch = LoopWatch()
    assert [watch.turn_over(same) for _ in range(6)] == [False] * 5 + [True]


def test_turns_older_than_ten_are_forgotten() -> None:
    watch = LoopWatch()
    same = [("look", "{}", fine())]
    for _ in range(5):
        watch.turn_over(same)
    for turn in range(9):
        assert not watch.turn_over([("look", str(turn), fine())])
    assert not watch.turn_over(same)


def test_equal_calls_in_one_turn_count_once() -> None:
    watch = LoopWatch()
    assert not watch.turn_over([("look", "{}", fine())] * 8)
    assert not watch.turn_over([("look", "{}", fine())] * 8)


def test_one_call_that_comes_back_among_others_is_found() -> None:
    watch = LoopWatch()
    got = [watch.turn_over([("look", "{}", fine()), ("look", str(n), fine())]) for n in range(6)]
    assert got == [False] * 5 + [True]


@pytest.mark.parametrize(
    "vary",
    [
        lambda n: ("look", str(n), fine()),
        lambda n: ("look", "{}", fine(content=str(n))),
        lambda n: ("look", "{}", broke(content=str(n))),
    ],
)
def test_other_inputs_or_outputs_are_work(vary) -> None:
    watch = LoopWatch()
    assert not any(watch.turn_over([vary(n)]) for n in range(10))


def test_a_skipped_call_has_no_signature_of_its_own() -> None:
    watch = LoopWatch()
    skipped = ToolResult(ok=False, status="skipped", tool="look")
    assert not any(watch.turn_over([("edit", str(n), broke()), ("look", "{}", skipped)]) for n in range(8))


def test_a_cut_call_is_known_again_wherever_it_was_cut() -> None:
    watch = CutWatch()
    assert not watch.note("edit", '{"path":"a","content":"x')
    assert not watch.note("edit", '{"path":"a"')
    assert watch.note("edit", '{"path":"a","content":"xyz')


def test_other_cut_calls_are_other_calls() -> None:
    watch = CutWatch()
    for n in range(5):
        assert not watch.note("edit", f'{{"path":"{n}","content":"x')
        assert not watch.note(f"tool{n}", "{")


def test_what_differs_after_the_leading_part_is_the_same_call() -> None:
    watch = CutWatch()
    assert [watch.note("edit", "x" * 256 + str(n)) for n in range(3)] == [False, False, True]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", False),
        ("I will do it. " * 7, False),
        ("I will do it now. " * 40, True),
        ("Fine. " + "I will do it now. " * 40, True),
        ("I will do it now. " * 40 + "Then I did it.", False),
        ("=" * 500, True),
        ("=" * 80, False),
        ("words" + "\n" * 3000, False),
        ("".join(f"line {n} of the listing\n" for n in range(300)), False),
        ("long unit of text, " * 3 + "x" * 100, False),
        ("é🙂\n" * 200, True),
    ],
)
def test_repetition_inside_one_reply(text, expected) -> None:
    assert repeated_text(text) is expected


@given(st.text(min_size=1, max_size=40), st.integers(8, 60), st.text(max_size=200))
def test_any_unit_repeated_long_enough_is_found(unit, times, before) -> None:
    text = before + unit * times
    if len((unit * times).rstrip()) >= max(400, 8 * len(unit)):
        assert repeated_text(text)
