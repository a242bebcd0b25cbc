"""The table itself: what can be read off it without running anything."""

from __future__ import annotations

import pytest

from sluice.turn.states import CALL_TABLE, RUN_TABLE, CallEvent, CallState, RunEvent, RunState

S, E = CallState, CallEvent


def reachable(table, start, without=()) -> set:
    seen, todo = {start}, [start]
    while todo:
        here = todo.pop()
        for (before, event), after in table.items():
            if before is here and (before, event) not in without and after not in seen:
                seen.add(after)
                todo.append(after)
    return seen


def test_the_only_edge_to_starting_leaves_allowed() -> None:
    assert [edge for edge, after in CALL_TABLE.items() if after is S.STARTING] == [(S.ALLOWED, E.RUN)]
    assert [edge for edge in CALL_TABLE if edge[1] is E.RUN] == [(S.ALLOWED, E.RUN)]


def test_allowed_is_reached_only_by_an_allowing_verdict_asked_for() -> None:
    edges = {edge for edge, after in CALL_TABLE.items() if after is S.ALLOWED}
    assert edges == {(S.JUDGING, E.JUDGED_ALLOW), (S.JUDGING_AGAIN, E.JUDGED_ALLOW)}
    for start in (S.NEW, S.REOPENED):
        cut_off = reachable(CALL_TABLE, start, without=edges)
        assert not cut_off & {S.ALLOWED, S.STARTING, S.RUNNING, S.STOPPING}


def test_a_call_that_is_taken_up_runs_only_by_a_persons_yes() -> None:
    without_a_yes = reachable(CALL_TABLE, S.REOPENED, without={(S.ASKING, E.ANSWERED_YES)})
    assert not without_a_yes & {S.ALLOWED, S.STARTING, S.RUNNING, S.STOPPING}
    assert S.ASKING in without_a_yes
    assert S.ALLOWED in reachable(CALL_TABLE, S.REOPENED)


def test_a_call_of_a_new_reply_is_none_that_is_taken_up() -> None:
    assert not reachable(CALL_TABLE, S.NEW) & {S.REOPENED, S.RECHECKING, S.RECHECKED, S.REJUDGING}


def test_a_persons_yes_leads_to_a_second_verdict_and_nowhere_else() -> None:
    assert {edge for edge, after in CALL_TABLE.items() if after is S.GRANTED} == {(S.ASKING, E.ANSWERED_YES)}
    assert {edge for edge in CALL_TABLE if edge[0] is S.GRANTED} == {(S.GRANTED, E.JUDGE)}
    assert CALL_TABLE[S.GRANTED, E.JUDGE] is S.JUDGING_AGAIN
    assert S.TO_ASK not in reachable(CALL_TABLE, S.JUDGING_AGAIN)


def test_running_is_entered_through_starting_alone() -> None:
    assert {before for (before, _), after in CALL_TABLE.items() if after is S.RUNNING} == {S.STARTING}


def test_nothing_leaves_the_end() -> None:
    for state in (S.DONE, S.WITHDRAWN):
        assert {after for (before, _), after in CALL_TABLE.items() if before is state} <= {state}
    assert {after for (before, _), after in RUN_TABLE.items() if before is RunState.FINISHED} == {RunState.FINISHED}


def test_finish_has_one_way_in_and_it_goes_through_the_end_of_jobs() -> None:
    assert [e for e, after in RUN_TABLE.items() if after is RunState.FINISHED and e[0] is not RunState.FINISHED] == [
        (RunState.ENDED, RunEvent.FINISH)
    ]
    assert [e for e, after in RUN_TABLE.items() if after is RunState.ENDED] == [(RunState.CLOSING, RunEvent.JOBS_ENDED)]


def test_every_call_state_is_reached_and_can_end() -> None:
    assert reachable(CALL_TABLE, S.NEW) | reachable(CALL_TABLE, S.REOPENED) == set(S)
    assert all(reachable(CALL_TABLE, state) & {S.DONE, S.WITHDRAWN} for state in S)


def test_every_run_state_is_reached_and_can_end() -> None:
    assert reachable(RUN_TABLE, RunState.IDLE) == set(RunState)
    assert all(RunState.FINISHED in reachable(RUN_TABLE, state) for state in RunState)


def test_the_tables_are_frozen() -> None:
    with pytest.raises(TypeError):
        CALL_TABLE[S.NEW, E.RUN] = S.STARTING  # type: ignore[index]
    with pytest.raises(TypeError):
        RUN_TABLE[RunState.IDLE, RunEvent.FINISH] = RunState.FINISHED  # type: ignore[index]
