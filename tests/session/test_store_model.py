"""The store against a model in memory: any order of a run's steps, with deaths and reopenings between them."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from session_world import broken, opened

from sluice.errors import StoreError
from sluice.session.opening import Wish
from sluice.session.resume import NOT_ANSWERED, NOT_STARTED, UNKNOWN
from sluice.session.store import SqliteStore
from sluice.testing.store_kit import allowed, asks, pairs_hold, well
from sluice.values.calls import CallKey, call_digest
from sluice.values.messages import AssistantMessage, Message, ToolMessage, UserMessage
from sluice.values.results import ResultStatus

_WORDS: dict[str, tuple[str, ResultStatus]] = {  # what recovery says of a call, by how far it had come
    "idle": (NOT_STARTED, "skipped"),
    "started": (UNKNOWN, "unknown_outcome"),
    "ended": ("[ok] seen", "ok"),
}
DIGEST = call_digest("look", "{}")
TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)


class StoreModel(RuleBasedStateMachine):
    """`told` is what the history must be; the rest is where the run stands."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.path = self.folder / "s.db"
        self.loop = asyncio.new_event_loop()
        self.told: list[Message] = []
        self.runs = 0
        self.run = ""
        self.turn = 0
        self.text: str | None = None  # of the reply that is arriving
        self.calls: list[str] = []  # without a result yet
        self.owner = ("", 0)  # run and turn that asked for them
        self.position = 0
        self.answers: dict[int, str] = {}  # by position: what a person who was asked has said: "", yes, no
        self.state = "idle"  # of the first of them: idle, started, ended
        self.store: SqliteStore = self._open("new")

    def _do(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)

    def _open(self, how: str) -> SqliteStore:
        opening = self._do(opened(self.path, Wish(how=how), new_id=lambda: "ses"))  # type: ignore[arg-type]
        return opening.store  # type: ignore[no-any-return]

    def _refused(self, work: Any) -> None:
        try:
            self._do(work)
        except StoreError as error:
            if error.kind == "refused":
                return
            raise
        raise AssertionError("taken")

    @property
    def taken_up(self) -> bool:
        """Whether the run that goes on has the calls from one before it."""
        return bool(self.calls and self.run and self.owner[0] != self.run)

    def key(self) -> CallKey:
        return CallKey(*self.owner, self.position)

    def call(self) -> Any:
        return allowed(*self.owner, self.position)

    @precondition(lambda self: not self.run)
    @rule(prompt=TEXT)
    def begin(self, prompt: str) -> None:
        """A prompt gives up what waits."""
        self.runs += 1
        self.run, self.turn = f"r{self.runs}", 0
        self._do(self.store.started(self.run, UserMessage(prompt)))
        for at, id in enumerate(self.calls, self.position):
            words = NOT_ANSWERED if self.answers.get(at) == "" else NOT_STARTED
            self.told.append(ToolMessage(id, "look", words, False, status="skipped"))
        self.calls = []
        self.told.append(UserMessage(prompt))

    @precondition(lambda self: not self.run and self.runs)
    @rule()
    def take_up(self) -> None:
        """A run without a prompt, which leaves what waits as it is."""
        self.runs += 1
        self.run, self.turn = f"r{self.runs}", 0
        self._do(self.store.started(self.run, None))

    @precondition(lambda self: self.run and not self.calls and self.text is None)
    @rule(prompt=TEXT)
    def prompt_later(self, prompt: str) -> None:
        self._do(self.store.append(self.run, UserMessage(prompt)))
        self.told.append(UserMessage(prompt))

    @precondition(lambda self: self.run and self.calls and self.state == "idle")
    @rule()
    def ask(self) -> None:
        if self.position in self.answers and not self.taken_up:
            return  # nobody is asked twice
        self._do(self.store.asked(self.key(), "look", DIGEST))
        self.answers[self.position] = ""

    @precondition(lambda self: self.run and self.answers.get(self.position) == "" and self.state == "idle")
    @rule(yes=st.booleans())
    def answer(self, yes: bool) -> None:
        self._do(self.store.answered(self.key(), yes))
        self.answers[self.position] = "yes" if yes else "no"

    @precondition(lambda self: self.run and not self.calls and self.text is None)
    @rule()
    def reply_begins(self) -> None:
        self.turn += 1
        self._do(self.store.reply_began(self.run, self.turn))
        self.text = ""

    @precondition(lambda self: self.text is not None)
    @rule(text=TEXT, flush=st.booleans())
    def delta(self, text: str, flush: bool) -> None:
        assert self.text is not None
        self._do(self.store.delta(self.run, "text", text))
        self.text += text
        if flush:
            self._do(self.store.database.write(lambda _c: None))

    @precondition(lambda self: self.text is not None)
    @rule(count=st.integers(0, 3))
    def reply_ends(self, count: int) -> None:
        self.calls = [f"c{at}" for at in range(count)]  # the same ids in every turn
        message = asks(*self.calls, text=self.text or None)
        self._do(self.store.append(self.run, message))
        self.told.append(message)
        self.text, self.position, self.state = None, 0, "idle"
        self.owner, self.answers = (self.run, self.turn), {}

    @precondition(lambda self: self.calls and self.state == "idle")
    @rule()
    def call_starts(self) -> None:
        call = self.call()
        if not self.run or (self.taken_up and self.answers.get(self.position) != "yes"):
            self._refused(self.store.call_started(call))
            return
        if self.answers.get(self.position, "yes") != "yes":
            return  # no run starts what was asked about and not allowed
        self._do(self.store.call_started(call))
        self._refused(self.store.call_started(call))
        self.state = "started"

    @precondition(lambda self: self.state == "started")
    @rule()
    def call_ends(self) -> None:
        self._do(self.store.call_ended(self.call(), well()))
        self._refused(self.store.call_ended(self.call(), well()))
        self._refused(self.store.call_started(self.call()))
        self.state = "ended"

    @precondition(lambda self: self.run and self.calls and self.state != "started")
    @rule()
    def result(self) -> None:
        message = ToolMessage(self.calls[0], "look", "seen", True)
        self._refused(self.store.append(self.run, ToolMessage("other", "look", "x")))
        self._do(self.store.append(self.run, message))
        self.told.append(message)
        self.calls.pop(0)
        self.position, self.state = self.position + 1, "idle"

    @precondition(lambda self: self.run and not self.calls)
    @rule()
    def end(self) -> None:
        self._do(self.store.finished(self.run, "completed"))
        self._refused(self.store.finished(self.run, "completed"))
        self._refused(self.store.append(self.run, AssistantMessage(content="late")))
        self.run, self.text = "", None

    @precondition(lambda self: self.runs)
    @rule()
    def die_and_reopen(self) -> None:
        """What was not ended is made right, and what was told of it is kept. What a person was asked about waits."""
        self._do(self.store.close())
        self.store = self._open("continue")
        if self.text:
            self.told.append(AssistantMessage(content=self.text, stop_reason="aborted"))
        while self.calls and (self.state != "idle" or self.answers.get(self.position) not in ("", "yes")):
            words, status = _WORDS[self.state]
            self.told.append(ToolMessage(self.calls.pop(0), "look", words, status == "ok", status=status))
            self.position, self.state = self.position + 1, "idle"
        if self.calls:
            self.answers[self.position] = ""
        self.run, self.text = "", None

    @invariant()
    def history_is_the_model(self) -> None:
        history = self._do(self.store.history())
        assert list(history)[: len(self.told)] == self.told
        waiting = self._do(self.store.waiting())
        if self.run or not self.calls:
            assert waiting is None
            pairs_hold(history)
        else:
            assert len(history) == len(self.told)
            assert (waiting.run, waiting.turn, waiting.first) == (*self.owner, self.position)
            assert [call.id for call in waiting.calls] == self.calls

    def teardown(self) -> None:
        self._do(self.store.close())
        self._do(asyncio.sleep(0))
        self.loop.close()
        if self.path.exists():
            assert {b.promise for b in broken(self.path)} <= {"D4"}
        shutil.rmtree(self.folder)


StoreModel.TestCase.settings = settings(
    max_examples=25, stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)
TestStoreModel = StoreModel.TestCase
