"""The calls of the reply in hand: checked together, cut into groups, run or refused, released in call order.

`Calls` moves each call along `CALL_TABLE` and says what is to be done next; it judges nothing. What a result means for
the run is asked of a `Settle` function, once for each call, in call order.
"""

from __future__ import annotations

from collections.abc import Callable

from sluice.errors import InternalError
from sluice.turn import answers
from sluice.turn.facts import (
    Answered,
    Ask,
    CallFact,
    Check,
    Checked,
    Command,
    Judge,
    Judged,
    Ran,
    Refuse,
    Refused,
    Rejected,
    Release,
    RunTools,
    Started,
    StopTool,
)
from sluice.turn.outcomes import End
from sluice.turn.states import CALL_TABLE, CallEvent, CallState
from sluice.values.calls import CallKey, Category, call_digest
from sluice.values.healed import HealedArguments, HealedCall, healed_digest
from sluice.values.messages import ToolCall
from sluice.values.results import ToolResult
from sluice.values.waiting import WaitingCalls

_S, _E = CallState, CallEvent

_HAS_RESULT = frozenset({_S.DONE, _S.WITHDRAWN})
_WAITS = frozenset({_S.STARTING, _S.RUNNING, _S.STOPPING, _S.REFUSING, _S.WITHDRAWING})
_CHECKING = frozenset({_S.CHECKING, _S.RECHECKING})
_CHECKED = frozenset({_S.CHECKED, _S.RECHECKED})
_WITH_POLICY = frozenset({_S.JUDGING, _S.REJUDGING, _S.JUDGING_AGAIN, _S.ASKING})
_ANSWER_DUE = _CHECKING | _WITH_POLICY


class Slot:
    """One call and where it stands.

    `fit`: its reply lets it be checked at all; `unfit` is the result it is refused with, once there is one. `result` is
    set once; `ran` says whether a tool gave it, `told` is the result as the model gets it. With `healed` it is the closed
    arguments that are checked and judged, under a digest of their own; `cut` is then what it is refused with if they do
    not fit either.
    """

    __slots__ = ("call", "category", "cut", "digest", "fit", "healed", "key", "ran", "result", "state", "told", "unfit")

    def __init__(
        self, key: CallKey, call: ToolCall, unfit: ToolResult | None, healed: HealedArguments | None = None
    ) -> None:
        self.key = key
        self.call = call
        self.healed = healed
        self.digest = call_digest(call.name, call.arguments) if healed is None else healed_digest(call.name, healed)
        self.cut = unfit if healed is not None else None
        self.fit = unfit is None or healed is not None
        self.unfit = unfit if healed is None else None
        self.state = _S.NEW
        self.category: Category = "execution"  # until it is known
        self.result: ToolResult | None = None
        self.told: ToolResult | None = None
        self.ran = False

    def to(self, event: CallEvent) -> None:
        """Takes the table's edge; raises `InternalError`, changing nothing, where it has none."""
        after = CALL_TABLE.get((self.state, event))
        if after is None:
            raise InternalError(f"call {self.key} is {self.state.value}; {event.value} cannot happen to it")
        self.state = after

    def copy(self) -> Slot:
        """An independent copy."""
        other = Slot.__new__(Slot)
        for name in Slot.__slots__:
            setattr(other, name, getattr(self, name))
        return other

    def snapshot(self) -> tuple[object, ...]:
        """The whole state as plain values, for comparing."""
        return tuple(getattr(self, name) for name in Slot.__slots__)


Settle = Callable[[Slot, ToolResult], tuple[ToolResult, bool, End | None]]
"""Given a call and its result: the result as the model gets it, whether the turn goes on, how the run ends if it does."""

Admit = Callable[[list[Category]], End | None]
"""Given the categories that would start now: how the run ends if a rate limit is met, or `None`."""


class Calls:
    """The calls of one reply. `end` is how the run ends by them, once that is known.

    `limit`: a limit that forbids every one of them (L11). `can_ask`: a person can be asked. Of `healed` only what
    `answers.may_be_healed` says counts. `first` is the position of the first of `calls` in its reply.
    """

    def __init__(
        self,
        run: str,
        turn: int,
        calls: tuple[ToolCall, ...],
        stop: str | None,
        *,
        can_ask: bool,
        limit: End | None,
        healed: tuple[HealedCall, ...] = (),
        first: int = 0,
    ) -> None:
        closed = {one.position: one.arguments for one in healed}
        self.slots = [
            Slot(
                CallKey(run, turn, at),
                call,
                answers.unfit(call, stop),
                closed.get(at) if answers.may_be_healed(call, stop) else None,
            )
            for at, call in enumerate(calls, first)
        ]
        self._first = first
        self.can_ask = can_ask
        self.end: End | None = limit
        self._skip: str | None = limit[0] if limit else None  # why what is left of the turn is skipped
        self._denied: CallKey | None = None  # the first denial of the group in hand
        self._stopped = False
        self._released = 0

    @classmethod
    def reopened(cls, waiting: WaitingCalls, *, can_ask: bool, limit: End | None) -> Calls:
        """Calls that an earlier run left open. Those that never started run only by a person's yes, however they are judged;
        where nobody can be asked they are not judged at all. The others have their results already."""
        stop, first = waiting.stop_reason, waiting.first
        made = cls(waiting.run, waiting.turn, waiting.calls, stop, can_ask=can_ask, limit=limit, first=first)
        for slot, result in zip(made.slots, waiting.results, strict=True):
            if result is not None:
                slot.state, slot.result, slot.category = _S.DONE, result, "read_only"
                slot.ran = slot.fit = True
                continue
            slot.state = _S.REOPENED
            if slot.fit and not can_ask:
                slot.fit, slot.unfit = False, answers.nobody_to_ask(slot.call)
        return made

    @property
    def over(self) -> bool:
        """Every call has its result, and all of them are released."""
        return self._released == len(self.slots)

    # -- facts

    def apply(self, fact: CallFact) -> None:
        """Moves the call that the fact is about. Raises `InternalError`, changing nothing, if the fact cannot be."""
        slot = self._slot(fact.key)
        if isinstance(fact, Checked | Judged | Answered) and fact.digest != slot.digest:
            raise InternalError(f"call {fact.key}: this is about another call (its digest differs)")
        if slot.healed is not None and isinstance(fact, Checked) and fact.category != "read_only":
            raise InternalError(f"call {fact.key}: healed arguments are for tools that only read")
        slot.to(_event_of(fact))
        if slot.state in (_S.WITHDRAWING, _S.WITHDRAWN):
            return
        match fact:
            case Checked():
                slot.category = fact.category
            case Rejected():
                slot.unfit = slot.cut or fact.result
                slot.fit = slot.cut is None
            case Judged() if slot.state in (_S.DENIED, _S.TO_ASK):
                slot.unfit = answers.denied(slot.call, fact.result, fact.rule, slot.category)
            case Answered() if not fact.granted:
                slot.unfit = answers.refused_by_person(slot.call, fact.words.strip(), slot.category)
            case Ran():
                slot.result = fact.result
                slot.ran = True

    def _slot(self, key: CallKey) -> Slot:
        at = key.position - self._first
        if 0 <= at < len(self.slots) and self.slots[at].key == key:
            return self.slots[at]
        raise InternalError(f"no call {key} in the reply in hand")

    # -- steps

    def begin(self) -> list[Command]:
        """Has every call that is fit checked, unless none may run."""
        if self._skip:
            return []
        commands: list[Command] = []
        for slot in self.slots:
            if slot.fit and slot.state in (_S.NEW, _S.REOPENED):
                slot.to(_E.CHECK)
                commands.append(Check(slot.key, slot.call.name, slot.call.arguments, slot.healed))
        return commands

    def advance(self, settle: Settle, admit: Admit) -> list[Command]:
        """Everything that can be done now: results released in call order, then the next step of the first group."""
        commands: list[Command] = []
        while True:
            more = self._release(settle) or self._step(admit)
            if not more:
                return commands
            commands += more

    def stop(self) -> list[Command]:
        """The run is to end: running calls are told to stop, all others are refused as not started. Doing it again does
        nothing."""
        self._stopped = True
        commands: list[Command] = []
        for slot in self.slots:
            if slot.state in (_S.STARTING, _S.RUNNING):
                slot.to(_E.STOP)
                commands.append(StopTool(slot.key))
            elif slot.state not in _WAITS and slot.state not in _HAS_RESULT:
                event = _E.WITHDRAW if slot.state in _ANSWER_DUE else _E.REFUSE
                commands.append(self._refuse(slot, answers.not_started(slot.call), event))
        return commands

    def _release(self, settle: Settle) -> list[Command]:
        commands: list[Command] = []
        while not self.over and self.slots[self._released].state in _HAS_RESULT:
            slot = self.slots[self._released]
            if slot.result is None:
                raise InternalError(f"call {slot.key} is over without a result")
            self._released += 1
            result = slot.result
            if not self._stopped and (slot.ran or result.status != "skipped"):
                result, goes_on, end = settle(slot, result)
                self.end = self.end or end
                if end or not goes_on or not slot.ran:
                    self._skip = self._skip or (answers.RUN_ENDS if end else answers.FAILED_BEFORE)
            slot.told = result
            commands.append(Release(slot.key, result))
        return commands

    def _step(self, admit: Admit) -> list[Command]:
        """The next step; empty if something must be waited for or nothing is left."""
        left = self.slots[self._released :]
        if not left or any(slot.state in _CHECKING for slot in left):
            return []
        group = _first_group(left)
        if any(slot.state in _WAITS or slot.state in _WITH_POLICY for slot in group):
            return []
        if self._skip:
            return self._skip_rest(left)
        first = group[0]
        if first.unfit is not None and first.state in (_S.NEW, _S.REOPENED, _S.REJECTED, _S.DENIED):
            return [self._refuse(first, first.unfit, _E.REFUSE)]
        fresh = [slot for slot in group if slot.state in _CHECKED]
        if fresh:
            for slot in fresh:
                slot.to(_E.JUDGE)
            return [Judge(slot.key, slot.digest) for slot in fresh]
        return self._ask_or_run(group, admit)

    def _ask_or_run(self, group: list[Slot], admit: Admit) -> list[Command]:
        """Settles open questions in call order, then runs what is allowed up to the first denial."""
        allowed: list[Slot] = []
        for slot in group:
            if slot.state is _S.GRANTED:
                slot.to(_E.JUDGE)
                return [Judge(slot.key, slot.digest, granted=True)]
            if slot.state is _S.TO_ASK and self.can_ask:
                slot.to(_E.ASK)
                return [Ask(slot.key, slot.digest)]
            if slot.state is _S.TO_ASK:
                slot.to(_E.ASK_NOBODY)
            if slot.state is not _S.ALLOWED:
                self._denied = slot.key
                break
            allowed.append(slot)
        if not allowed:
            first = group[0]
            own = first.unfit or answers.denied(first.call, None, "none", first.category)
            return [self._refuse(first, own, _E.REFUSE)]
        limit = admit([slot.category for slot in allowed])
        if limit:
            self.end = self.end or limit
            self._skip = limit[0]
            return self._skip_rest(self.slots[self._released :])
        for slot in allowed:
            slot.to(_E.RUN)
        return [RunTools(tuple(slot.key for slot in allowed))]

    def _skip_rest(self, left: list[Slot]) -> list[Command]:
        """Refuses what has not started. The denial that its group was run up to keeps its words; all others are skipped."""
        commands: list[Command] = []
        for slot in left:
            if slot.state in _WAITS or slot.state in _HAS_RESULT:
                continue
            own = slot.unfit if slot.key == self._denied else None
            commands.append(self._refuse(slot, own or answers.skipped(slot.call, self._skip or ""), _E.REFUSE))
        return commands

    def _refuse(self, slot: Slot, result: ToolResult, event: CallEvent) -> Refuse:
        slot.to(event)
        slot.result = result
        return Refuse(slot.key, result)

    # -- state

    def copy(self) -> Calls:
        """An independent copy."""
        other = Calls.__new__(Calls)
        other.__dict__.update(self.__dict__)
        other.slots = [slot.copy() for slot in self.slots]
        return other

    def snapshot(self) -> tuple[object, ...]:
        """The whole state as plain values, for comparing."""
        slots = tuple(slot.snapshot() for slot in self.slots)
        return (slots, self.can_ask, self.end, self._skip, self._denied, self._stopped, self._released, self._first)


def _event_of(fact: CallFact) -> CallEvent:
    match fact:
        case Checked():
            return _E.CHECKED
        case Rejected():
            return _E.REJECTED
        case Judged(decision="allow"):
            return _E.JUDGED_ALLOW
        case Judged(decision="ask"):
            return _E.JUDGED_ASK
        case Judged():  # deny, and any word that is no decision
            return _E.JUDGED_DENY
        case Answered():
            return _E.ANSWERED_YES if fact.granted else _E.ANSWERED_NO
        case Started():
            return _E.STARTED
        case Ran():
            return _E.RAN
        case Refused():
            return _E.REFUSED


def _first_group(left: list[Slot]) -> list[Slot]:
    """The calls that go on together: consecutive read-only ones, else the first alone (L3).

    A call that was not checked, or was rejected, has no category of its own and so stands alone. One that has its result
    already waits only for its place.
    """
    group: list[Slot] = []
    for slot in left:
        if slot.category != "read_only" or (group and slot.state in _HAS_RESULT):
            break
        group.append(slot)
    return group or left[:1]
