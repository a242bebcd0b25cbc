"""A world around the machine, for tests: it answers commands, keeps its own books, and checks every rule as it goes.

It shares no code with the machine but the words, so that it can judge it.
"""

from __future__ import annotations

import copy

from sluice.limits import Limits
from sluice.turn import facts as f
from sluice.turn.machine import Machine
from sluice.values.calls import CallKey, call_digest
from sluice.values.messages import Reply, ToolCall
from sluice.values.results import ToolResult, failed
from sluice.values.waiting import WaitingCalls

RUN = "run_1"
BEFORE = "run_0"  # the run that left calls open
CATEGORIES = {"look": "read_only", "edit": "mutating", "exec": "execution"}


def call(name: str = "look", arguments: str = '{"a":1}', status: str = "whole", **more: object) -> ToolCall:
    return ToolCall(id="", name=name, arguments=arguments, status=status, **more)


def reply(*calls: ToolCall, text: str = "", stop: str | None = None) -> Reply:
    stop = stop if stop is not None else ("tool_use" if calls else "end_turn")
    return Reply(text=text or ("" if calls else "done"), tool_calls=calls, stop_reason=stop)


def fine(tool: str = "look", content: str = "yes", **more: object) -> ToolResult:
    return ToolResult(ok=True, status="ok", tool=tool, content=content, **more)


def broke(tool: str = "look", **more: object) -> ToolResult:
    return failed(tool, "no_such_file", "there is no such file", **more)


def blocked(tool: str = "edit", **more: object) -> ToolResult:
    return ToolResult(ok=False, status="blocked", tool=tool, failure="blocked", **more)


def waiting(
    *calls: ToolCall, results: tuple[ToolResult | None, ...] = (), first: int = 0, stop: str = "tool_use"
) -> WaitingCalls:
    """Calls that the seventh turn of an earlier run left open; of the last ones of them `results` are known."""
    known = (None,) * (len(calls) - len(results)) + results
    return WaitingCalls(run=BEFORE, turn=7, first=first, calls=calls, results=known, stop_reason=stop)


class World:
    """One machine and what is known about it from outside."""

    def __init__(self, limits: Limits | None = None, *, can_ask: bool = True, window: int | None = None) -> None:
        self.machine = Machine(RUN, limits or Limits(), can_ask=can_ask, window_tokens=window)
        self.out: list[f.Command] = []  # commands that wait for a fact
        self.facts: list[f.Fact] = []
        self.given: list[f.Command] = []
        self.calls: dict[CallKey, ToolCall] = {}
        self.verdicts: set[tuple[CallKey, str]] = set()  # allowing ones, not used up
        self.grants: set[tuple[CallKey, str]] = set()
        self.withdrawn: set[CallKey] = set()
        self.running: set[CallKey] = set()
        self.refused: dict[CallKey, ToolResult] = {}
        self.results: dict[CallKey, ToolResult] = {}
        self.released: list[CallKey] = []
        self.reopened: set[CallKey] = set()
        self.first: dict[tuple[str, int], int] = {}  # position of the first call in hand, where it is not 0
        self.stopped = False
        self.finish: f.Finish | None = None

    def copy(self) -> World:
        other = copy.copy(self)
        for name in ("out", "facts", "given", "calls", "verdicts", "grants", "withdrawn"):
            setattr(other, name, copy.copy(getattr(self, name)))
        for name in ("running", "refused", "results", "released", "reopened", "first"):
            setattr(other, name, copy.copy(getattr(self, name)))
        other.machine = self.machine.copy()
        return other

    # -- feeding

    def feed(self, fact: f.Fact) -> list[f.Command]:
        self._before(fact)
        commands = self.machine.feed(fact)
        self.facts.append(fact)
        self._after(fact)
        for command in commands:
            assert self.finish is None, "something follows Finish"
            self._note(command)
            self.given.append(command)
        return commands

    def _before(self, fact: f.Fact) -> None:
        match fact:
            case f.Judged(decision="allow") if fact.key not in self.withdrawn:
                self.verdicts.add((fact.key, fact.digest))
            case f.Answered(granted=True) if fact.key not in self.withdrawn:
                self.grants.add((fact.key, fact.digest))
            case f.Reopened(waiting=left):
                for at, (asked, result) in enumerate(zip(left.calls, left.results, strict=True), left.first):
                    key = CallKey(left.run, left.turn, at)
                    self.calls[key] = asked
                    self.reopened.add(key)
                    if result is not None:
                        self.results[key] = result
                self.first[left.run, left.turn] = left.first
            case f.Replied():
                self._reply(fact.turn, fact.reply)
            case f.ModelFailed() if fact.partial:
                self._reply(fact.turn, fact.partial)
            case f.Cancelled() | f.HostStopped():
                self.stopped = True
            case f.Ran():
                self.results[fact.key] = fact.result
            case f.Refused():
                self.results[fact.key] = self.refused[fact.key]

    def _reply(self, turn: int, one: Reply) -> None:
        for at, asked in enumerate(one.tool_calls):
            self.calls[CallKey(RUN, turn, at)] = asked

    def _after(self, fact: f.Fact) -> None:
        for command in self.out:
            if answers(command, fact):
                self.out.remove(command)
                break
        if isinstance(fact, f.Ran):
            self.running.discard(fact.key)

    def _note(self, command: f.Command) -> None:
        if self.stopped:
            assert not isinstance(
                command, f.RunTools | f.Ask | f.Judge | f.Check | f.CallModel | f.Prepare | f.Summarise | f.KeepPrompt
            ), f"{command} after a stop"
        match command:
            case f.RunTools():
                for key in command.keys:
                    pair = (key, digest_of(self.calls[key]))
                    assert pair in self.verdicts, f"{key} runs without a verdict"
                    self.verdicts.discard(pair)
                    assert key not in self.refused
                    assert key not in self.reopened or pair in self.grants, "taken up, and nobody said yes"
                    self.running.add(key)
                if len(command.keys) > 1:
                    assert all(CATEGORIES[self.calls[k].name] == "read_only" for k in command.keys)
                alone = [k for k in self.running if CATEGORIES[self.calls[k].name] != "read_only"]
                assert not alone or len(self.running) == 1, "a writer does not run alone"
            case f.Judge():
                assert command.digest == digest_of(self.calls[command.key])
                assert not command.granted or (command.key, command.digest) in self.grants
            case f.Ask():
                assert not any(isinstance(c, f.Ask) for c in self.out), "two questions at once"
            case f.Refuse():
                assert command.key not in self.refused
                self.refused[command.key] = command.result
                for other in self.out:
                    if isinstance(other, f.Check | f.Judge | f.Ask) and other.key == command.key:
                        self.withdrawn.add(command.key)
            case f.Release():
                assert command.key not in self.released, "a second result"
                turn = command.key.run, command.key.turn
                same_turn = [k.position for k in self.released if (k.run, k.turn) == turn]
                assert command.key.position == len(same_turn) + self.first.get(turn, 0), "results out of order"
                theirs = self.results[command.key]
                assert (command.result.status, command.result.ok) == (theirs.status, theirs.ok)
                self.released.append(command.key)
            case f.KeepPrompt() | f.Prepare() | f.CallModel() | f.EndJobs() | f.Finish():
                assert set(self.released) == set(self.calls), "a call without a result"
                late = [
                    c
                    for c in self.out
                    if not isinstance(c, f.Prepare | f.KeepPrompt) and getattr(c, "key", None) not in self.withdrawn
                ]
                assert not late, f"{late} still out at {command}"
        match command:
            case f.Finish():
                assert any(isinstance(c, f.EndJobs) for c in self.given)
                self.finish = command
            case f.StopModel() | f.StopTool() | f.Release():
                pass
            case f.RunTools():
                self.out += [f.RunTools((key,)) for key in command.keys]
            case _:
                self.out.append(command)

    # -- answering

    def benign(self) -> f.Fact:
        """The answer that lets the oldest open command succeed."""
        return benign(self.out[0], self)

    def drive(self, steps: int = 200) -> f.Finish:
        """Answers everything well until the end."""
        for _ in range(steps):
            if self.finish:
                return self.finish
            self.feed(self.benign())
        raise AssertionError("the run does not end")

    def until(self, kind: type) -> f.Command:
        """Answers everything well until a command of this kind is out; returns it."""
        for _ in range(200):
            for command in self.out:
                if isinstance(command, kind):
                    return command
            self.feed(self.benign())
        raise AssertionError(f"no {kind.__name__} came")

    def answer(self, kind: type, make) -> list[f.Command]:
        """Drives to a command of this kind and answers it by `make(command)`."""
        return self.feed(make(self.until(kind)))


def digest_of(asked: ToolCall) -> str:
    return call_digest(asked.name, asked.arguments)


def answers(command: f.Command, fact: f.Fact) -> bool:
    """Whether the fact answers the command (a run's Started leaves RunTools open)."""
    match command, fact:
        case f.Prepare(), f.Prepared() | f.HostStopped():
            return True
        case f.KeepPrompt(), f.Asked() | f.HostStopped():
            return True
        case f.Summarise(), f.Summarised():
            return True
        case f.CallModel(), f.Replied() | f.ModelFailed():
            return True
        case f.EndJobs(), f.JobsEnded():
            return True
        case f.RunTools(), f.Ran():
            return command.keys == (fact.key,)
        case f.Check(), f.Checked() | f.Rejected():
            return command.key == fact.key
        case f.Judge(), f.Judged():
            return command.key == fact.key
        case f.Ask(), f.Answered():
            return command.key == fact.key
        case f.Refuse(), f.Refused():
            return command.key == fact.key
    return False


def benign(command: f.Command, world: World, at: int = 0) -> f.Fact:
    match command:
        case f.KeepPrompt():
            return f.Asked(at=at)
        case f.Prepare():
            return f.Prepared(at=at, turn=command.turn, context_bytes=100)
        case f.Summarise():
            return f.Summarised(at=at, ok=True, context_bytes=50)
        case f.CallModel():
            return f.Replied(at=at, turn=command.turn, reply=reply())
        case f.Check():
            return f.Checked(
                at=at,
                key=command.key,
                digest=call_digest(command.name, command.arguments),
                category=CATEGORIES[command.name],
            )
        case f.Judge():
            return f.Judged(at=at, key=command.key, digest=command.digest, decision="allow", rule="test")
        case f.Ask():
            return f.Answered(at=at, key=command.key, digest=command.digest, granted=True)
        case f.RunTools(keys=(key,)):
            return f.Ran(at=at, key=key, result=fine(world.calls[key].name))
        case f.Refuse():
            return f.Refused(at=at, key=command.key)
        case f.EndJobs():
            return f.JobsEnded(at=at)
    raise AssertionError(f"no answer to {command}")


def started(limits: Limits | None = None, **more) -> World:
    world = World(limits, **more)
    world.feed(f.Asked(at=0))
    return world


def taken_up(left: WaitingCalls, limits: Limits | None = None, *, can_ask: bool = True, prompt: bool = True) -> World:
    """A run that begins with calls that a run before left open."""
    world = World(limits)
    world.feed(f.Reopened(at=0, waiting=left, can_ask=can_ask, prompt=prompt))
    return world


def replying(*replies: Reply, limits: Limits | None = None, **more) -> World:
    """A world in which the model has given these replies, everything between them going well."""
    world = started(limits, **more)
    for one in replies:
        world.answer(f.CallModel, lambda c, one=one: f.Replied(at=0, turn=c.turn, reply=one))
    return world
