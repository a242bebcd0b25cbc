"""The machine: facts in, commands out, one list of commands for each fact.

It holds no clock, no randomness and no I/O: the same facts give the same commands and the same state, so resuming is
`Machine.replay`. A fact that the tables of `states` have no edge for raises `InternalError` and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from sluice.errors import InternalError
from sluice.limits import Limits
from sluice.turn import answers, outcomes
from sluice.turn.budget import Budget
from sluice.turn.calls import Calls, Slot
from sluice.turn.context import CONTEXT_OVERFLOW, OVERFLOW_SHARE, byte_cap, bytes_per_token, told_window
from sluice.turn.facts import (
    Asked,
    CallFact,
    CallModel,
    Cancelled,
    Command,
    EndJobs,
    Fact,
    Finish,
    HostStopped,
    JobsEnded,
    KeepPrompt,
    ModelFailed,
    Prepare,
    Prepared,
    Ran,
    Reopened,
    Replied,
    StopModel,
    Summarise,
    Summarised,
    Tick,
)
from sluice.turn.failures import class_of, guided, told
from sluice.turn.notes import CONTINUE_NOTE, GO_ON_NOTE, LOOP_NOTE, REPEATED_NOTE
from sluice.turn.outcomes import End
from sluice.turn.past import Past, is_answer
from sluice.turn.repeats import repeated_text
from sluice.turn.replies import end_of_failure, end_of_reply
from sluice.turn.states import RUN_TABLE, RunEvent, RunState
from sluice.values.healed import HealedCall
from sluice.values.messages import Reply
from sluice.values.results import ToolResult

_R, _F = RunState, RunEvent

_NO_END_IN_SIGHT = frozenset({_R.PREPARING, _R.SUMMARISING, _R.CALLING, _R.ACTING})


class Machine:
    """One run, from its prompt to its outcome.

    `run` is the run's id. `can_ask`: a person can be asked, else a verdict of ask is a denial. `window_tokens` is the
    model's context window, if known. `past` is what is still counted of runs before it. After `Finish` was given,
    `outcome` and `message` say how the run ended.
    """

    def __init__(
        self,
        run: str,
        limits: Limits,
        *,
        can_ask: bool = False,
        window_tokens: int | None = None,
        past: Past | None = None,
    ) -> None:
        past = past or Past()
        self.run = run
        self.limits = limits
        self.can_ask = can_ask
        self.window_tokens = window_tokens
        self.state = _R.IDLE
        self.turn = 0  # the turn in hand
        self.turns = 0  # replies asked for
        self.outcome: str | None = None
        self.message = ""
        self._began: int | None = None
        self._prompt_waits = False  # the prompt is kept once the calls that a run before left open are settled
        self._budget = Budget(limits)
        self._failures = past.failures
        self._loops = past.loops
        self._cuts = past.cuts
        self._calls: Calls | None = None
        self._cut_reply = False  # the reply in hand broke off
        self._breaks = 0  # replies in a row that broke off
        self._continued = 0  # turns in a row that went on with an answer that was cut at its length
        self._notes: tuple[str, ...] = (LOOP_NOTE,) if self._loops.near else ()  # for the next Prepare
        self._cap = 0  # bytes that the shrinking which is out is to reach
        self._overflowed = False  # the request of this turn was too long for the model, and is asked again
        self._request_bytes = 0
        self._ratio: float | None = None  # bytes per token, as the provider last counted
        self._end: End | None = None  # how the run ends: set by a stop
        self._after_reply: End | None = None  # how the run ends once the reply in hand is worked through

    # -- what may be asked

    @property
    def finished(self) -> bool:
        """`Finish` was given; no command follows."""
        return self.state is _R.FINISHED

    @property
    def tool_calls(self) -> int:
        """Calls asked for so far, whether they ran or not."""
        return self._budget.calls

    def deadline(self) -> int | None:
        """When a `Tick` is wanted (monotonic ns); `None` if the run has no time limit or is ending already."""
        if self._end is not None or self.state not in _NO_END_IN_SIGHT:
            return None
        return self._budget.deadline(self._began)

    # -- feeding

    def feed(self, fact: Fact) -> list[Command]:
        """The commands that follow from one fact, in the order in which they are to be carried out.

        Raises `InternalError`, changing nothing, for a fact that cannot be now. After `Finish` only facts that may still
        be on their way are taken; they change nothing and give no commands.
        """
        match fact:
            case Tick():
                return self._tick(fact.at)
            case Cancelled():
                return self._stop(fact.reason, "", fact.at)
            case HostStopped():
                return self._stop(fact.outcome, fact.message, fact.at)
            case Asked():
                self._to(_F.ASKED)
                self._began = fact.at if self._began is None else self._began
                self._prompt_waits = False
                return self._next_turn(fact.at) if self.state is _R.SETTLED else []
            case Reopened():
                return self._reopened(fact)
            case Prepared():
                return self._prepared(fact)
            case Summarised():
                return self._summarised(fact)
            case Replied():
                return self._replied(fact)
            case ModelFailed():
                return self._model_failed(fact)
            case JobsEnded():
                return self._jobs_ended()
            case _:
                return self._call_fact(fact)

    @classmethod
    def replay(
        cls,
        facts: Iterable[Fact],
        run: str,
        limits: Limits,
        *,
        can_ask: bool = False,
        window_tokens: int | None = None,
    ) -> tuple[Machine, list[list[Command]]]:
        """A machine in the state after these facts, and the commands that each of them gave."""
        machine = cls(run, limits, can_ask=can_ask, window_tokens=window_tokens)
        return machine, [machine.feed(fact) for fact in facts]

    def _to(self, event: RunEvent) -> None:
        after = RUN_TABLE.get((self.state, event))
        if after is None:
            raise InternalError(f"run {self.run} is {self.state.value}; {event.value} cannot happen to it")
        self.state = after

    def _expect(self, event: RunEvent, turn: int) -> None:
        if (self.state, event) in RUN_TABLE and turn != self.turn:
            raise InternalError(f"run {self.run} is in turn {self.turn}; {event.value} speaks of turn {turn}")

    # -- calls of a run before

    def _reopened(self, fact: Reopened) -> list[Command]:
        """Takes up calls that a run before left open, as those of a reply that has just been stored."""
        self._to(_F.REOPENED)
        self._began, self._prompt_waits = fact.at, fact.prompt
        limit = self._budget.reply(len(fact.waiting.tools))
        self._calls = Calls.reopened(fact.waiting, can_ask=fact.can_ask, limit=limit)
        return self._work(fact.at, self._calls.begin())

    def _reopened_over(self, calls: Calls, at: int) -> list[Command]:
        """They are settled. What came of them ends nothing where a prompt waits: a person goes on from there."""
        end = self._end or calls.end
        if end:
            return self._close(end)
        self._turn_over(calls)
        late = self._out_of_time(at)
        if late:
            return self._close(late)
        self._to(_F.KEEP_PROMPT)
        return [KeepPrompt()]

    # -- turns

    def _next_turn(self, at: int) -> list[Command]:
        """The step before each request: limits of turns and time, then Prepare."""
        limit = self._budget.before_turn(self.turn + 1)
        if limit:
            return self._close(limit)
        late = self._out_of_time(at)
        if late:
            return self._close(late)
        self._to(_F.PREPARE)
        self.turn += 1
        notes, self._notes = self._notes, ()
        return [Prepare(self.turn, notes)]

    def _prepared(self, fact: Prepared) -> list[Command]:
        self._expect(_F.PREPARED, fact.turn)
        self._to(_F.PREPARED)
        if self.state is not _R.READY:
            return []
        cap = byte_cap(self.limits, self.window_tokens, self._ratio)
        if fact.context_bytes <= cap:
            return self._call_model(fact.context_bytes)
        return self._summarise(cap)

    def _summarise(self, cap: int) -> list[Command]:
        self._to(_F.SUMMARISE)
        self._cap = cap
        return [Summarise(cap)]

    def _summarised(self, fact: Summarised) -> list[Command]:
        self._to(_F.SUMMARISED)
        self._budget.spend(fact.tokens, fact.cost, fact.estimated)
        if self.state is _R.SETTLED:  # stopped meanwhile
            return self._close(None)
        spent = self._budget.spent_out()
        if spent:
            return self._close(spent)
        cap, self._cap = self._cap, 0
        if fact.ok and fact.context_bytes <= cap:
            return self._call_model(fact.context_bytes)
        why = "it is still too large" if fact.ok else "it could not be made smaller"
        return self._close((outcomes.limit("max_context"), f"the conversation has outgrown its limit and {why}"))

    def _call_model(self, context_bytes: int) -> list[Command]:
        self._to(_F.CALL_MODEL)
        self._request_bytes = context_bytes
        self.turns += not self._overflowed
        return [CallModel(self.turn)]

    # -- replies

    def _replied(self, fact: Replied) -> list[Command]:
        self._expect(_F.REPLIED, fact.turn)
        self._to(_F.REPLIED)
        self._budget.spend(fact.tokens, fact.cost, fact.estimated)
        self._breaks = 0
        reply = fact.reply
        self._ratio = bytes_per_token(self._request_bytes, reply.usage) or self._ratio
        repeated = repeated_text(reply.text)
        if repeated:
            self._notes = (REPEATED_NOTE,)
        if reply.stop_reason == "aborted":
            return self._take_up(reply, "aborted", (outcomes.CANCELLED, "the reply was aborted"), fact.at)
        end = None if reply.tool_calls else end_of_reply(reply, repeated)
        if is_answer(reply):
            self._loops.answered()
        goes_on = end is not None and not repeated and self._may_continue(reply)
        self._continued = self._continued + 1 if goes_on else 0
        if goes_on:
            end, self._notes = None, (CONTINUE_NOTE,)
        return self._take_up(reply, reply.stop_reason, end, fact.at, fact.healed)

    def _may_continue(self, reply: Reply) -> bool:
        """Whether a reply is an answer cut at its length that a further turn may go on with."""
        if reply.stop_reason != "max_tokens" or not reply.text.strip() or self.turn >= self.limits.max_turns:
            return False
        return self._continued < self.limits.max_continuations

    def _model_failed(self, fact: ModelFailed) -> list[Command]:
        self._expect(_F.MODEL_FAILED, fact.turn)
        overflow = fact.code == CONTEXT_OVERFLOW and fact.partial is None
        if overflow and not self._overflowed and self.state is _R.CALLING:
            return self._overflow(fact)
        self._to(_F.MODEL_FAILED)
        self._budget.spend(fact.tokens, fact.cost, fact.estimated)
        partial = fact.partial
        self._breaks += 1
        end = end_of_failure(fact, again=self._breaks > 1, continued=self._continued > 0)
        if end is None:
            self._notes = (GO_ON_NOTE,)
        self._continued = 0
        stop = "aborted" if fact.kind == "aborted" else answers.BROKEN
        return self._take_up(partial or Reply(), stop, end, fact.at)

    def _overflow(self, fact: ModelFailed) -> list[Command]:
        """The provider found the request too long, whatever we had counted: it is shrunk well below, and asked again."""
        self._to(_F.OVERFLOWED)
        self._overflowed = True
        self._budget.spend(fact.tokens, fact.cost, fact.estimated)
        spent = self._budget.spent_out()
        if spent:
            return self._close(spent)
        told = told_window(fact.message)
        if told is not None:
            self.window_tokens = told if self.window_tokens is None else min(told, self.window_tokens)
        cap = byte_cap(self.limits, self.window_tokens, self._ratio)
        return self._summarise(min(cap, int(self._request_bytes * OVERFLOW_SHARE)))

    def _take_up(
        self, reply: Reply, stop: str | None, end: End | None, at: int, healed: tuple[HealedCall, ...] = ()
    ) -> list[Command]:
        """Begins with the calls of a stored reply. `end`: how the run ends after them, unless they end it otherwise."""
        limit = self._budget.reply(len(reply.tool_calls))
        calls = Calls(self.run, self.turn, reply.tool_calls, stop, can_ask=self.can_ask, limit=limit, healed=healed)
        self._calls = calls
        self._overflowed = False
        self._after_reply = end
        self._cut_reply = stop == answers.BROKEN
        if self.state is _R.STOPPING_CALLS:
            return self._work(at, calls.stop())
        if stop == "aborted" and end is not None:
            return self._stop(*end, at)
        return self._work(at, calls.begin())

    # -- calls

    def _call_fact(self, fact: CallFact) -> list[Command]:
        if (self.state, _F.CALL_FACT) not in RUN_TABLE or self._calls is None:
            raise InternalError(f"run {self.run} is {self.state.value}; no call is in hand")
        self._calls.apply(fact)
        if isinstance(fact, Ran):
            self._budget.spend(fact.tokens, fact.cost, fact.estimated)
        if self.state in (_R.CLOSING, _R.FINISHED):
            return []
        return self._work(fact.at, [])

    def _work(self, at: int, commands: list[Command]) -> list[Command]:
        """Goes on with the calls in hand; when all are released, with the run."""
        calls = self._calls
        if calls is None:
            raise InternalError(f"run {self.run} has no calls in hand")
        commands = commands + calls.advance(self._settle, lambda categories: self._budget.start(categories, at))
        if not calls.over:
            return commands
        self._to(_F.RELEASED)
        if self._prompt_waits:
            return commands + self._reopened_over(calls, at)
        end = self._end or self._after_reply or calls.end or self._turn_over(calls)
        return commands + (self._close(end) if end else self._next_turn(at))

    def _settle(self, slot: Slot, result: ToolResult) -> tuple[ToolResult, bool, End | None]:
        """What the result of one call means: for the model, for the rest of the turn, for the run."""
        failure = class_of(result)
        end: End | None = None
        if not slot.fit and answers.is_cut(slot.call, answers.BROKEN if self._cut_reply else None):
            if self._cuts.note(slot.call.name, slot.call.arguments):
                end = (outcomes.LOOP, f"the same call of {slot.call.name} was cut again and again")
        else:
            end = self._failures.note(result, slot.digest)
        if result.end_turn and end is None:
            word = {"none": outcomes.COMPLETED, "blocked": outcomes.BLOCKED}.get(failure, outcomes.FAILED)
            end = (word, "" if failure == "none" else told(result))
        end = None if self._prompt_waits else end
        if failure == "none" and slot.ran and slot.category != "read_only":
            self._failures.changed()
        if slot.fit:
            result = guided(result, failure, last=end is not None)
        return result, failure == "none", end

    def _turn_over(self, calls: Calls) -> End | None:
        results = [slot.result for slot in calls.slots if slot.result is not None]
        done = [(slot.call.name, slot.call.arguments, slot.told) for slot in calls.slots if slot.told is not None]
        blocked = self._failures.turn_over(results)
        if blocked:
            return blocked
        if self._loops.turn_over(done):
            return outcomes.LOOP, "the same call with the same result came back too often"
        if self._loops.near:
            self._notes = (*self._notes, LOOP_NOTE)
        return None

    # -- ends

    def _out_of_time(self, at: int) -> End | None:
        deadline = self._budget.deadline(self._began)
        if deadline is None or at < deadline:
            return None
        return outcomes.limit("max_seconds"), f"the run took longer than {self.limits.max_seconds:g} seconds"

    def _tick(self, at: int) -> list[Command]:
        late = self._out_of_time(at) if self.deadline() is not None else None
        return self._stop(*late, at) if late else []

    def _stop(self, outcome: str, message: str, at: int) -> list[Command]:
        """The run is to end by a wish from outside. What is out is stopped and waited for; the first wish counts."""
        before = self.state
        self._to(_F.STOP)
        if before is _R.CLOSING and outcome == outcomes.FAILED and self.outcome == outcomes.COMPLETED:
            self.outcome, self.message = outcome, message  # a hook that fails at the end is not passed over
        if before in (_R.CLOSING, _R.FINISHED):
            return []
        if before is _R.ACTING and self._calls is not None:
            self._end = self._after_reply or self._calls.end  # what had ended the run before
        self._end = self._end or (outcome, message)
        if self.state is _R.SETTLED:
            return self._close(None)
        if before in (_R.CALLING, _R.SUMMARISING):
            return [StopModel()]
        if self.state is _R.STOPPING_CALLS and self._calls is not None:
            return self._work(at, self._calls.stop())
        return []

    def _close(self, end: End | None) -> list[Command]:
        self._to(_F.END_JOBS)
        self.outcome, self.message = self._end or end or (outcomes.FAILED, "")
        return [EndJobs()]

    def _jobs_ended(self) -> list[Command]:
        self._to(_F.JOBS_ENDED)
        self._to(_F.FINISH)
        return [Finish(self.outcome or outcomes.FAILED, self.message)]

    # -- state

    def copy(self) -> Machine:
        """An independent copy, for walkers."""
        other = Machine.__new__(Machine)
        other.__dict__.update(self.__dict__)
        other._budget = self._budget.copy()
        other._failures = self._failures.copy()
        other._loops = self._loops.copy()
        other._cuts = self._cuts.copy()
        other._calls = self._calls.copy() if self._calls else None
        return other

    def snapshot(self) -> dict[str, object]:
        """The whole state as plain values, for comparing."""
        state = {name: value for name, value in self.__dict__.items() if not hasattr(value, "snapshot")}
        parts = {name: value.snapshot() for name, value in self.__dict__.items() if hasattr(value, "snapshot")}
        return {**state, **parts}
