"""The calls of one reply by themselves, where the machine around them does not matter."""

from __future__ import annotations

import pytest
from turn_world import RUN, call

from sluice.errors import InternalError
from sluice.turn.calls import Calls, Slot
from sluice.turn.facts import RunTools
from sluice.turn.states import CallEvent, CallState
from sluice.values.calls import CallKey


def test_a_slot_takes_only_edges_of_the_table() -> None:
    slot = Slot(CallKey(RUN, 1, 0), call(), None)
    for event in set(CallEvent) - {CallEvent.CHECK, CallEvent.REFUSE}:
        with pytest.raises(InternalError):
            slot.to(event)
    assert slot.state is CallState.NEW


def test_a_call_whose_state_was_forced_does_not_run_either() -> None:
    """The step to RunTools takes the table's edge; a bookkeeping fault raises instead of running."""
    calls = Calls(RUN, 1, (call("edit"),), "tool_use", can_ask=False, limit=None)
    calls.begin()
    for state in set(CallState) - {CallState.ALLOWED}:
        calls.slots[0].state = state
        try:
            commands = calls.copy().advance(lambda slot, result: (result, True, None), lambda categories: None)
        except InternalError:
            continue
        assert not any(isinstance(c, RunTools) for c in commands)


def test_an_empty_reply_is_over_at_once() -> None:
    calls = Calls(RUN, 1, (), "end_turn", can_ask=False, limit=None)
    assert calls.begin() == []
    assert calls.over
