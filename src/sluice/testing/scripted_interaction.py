"""An `Interaction` with no model behind it: plays events from a script, records every request. For tests of faces.

    interaction = ScriptedInteraction([TextNotice(turn=1, text="Hello"), HOLD, finished()])

The first prompt that is submitted plays the first script, and so on; a prompt without a script ends at once. `HOLD` waits
for `go_on()`, and an `ApprovalWanted` for its answer. `tell` sends an event at any time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, Final, Literal

from sluice.run.interaction import (
    Allowed,
    ApprovalSettled,
    ApprovalWanted,
    Event,
    PromptBegan,
    QueueChanged,
    Queued,
    SessionOpened,
    SessionRow,
    Situation,
    UntrustedFile,
)
from sluice.values.messages import Usage
from sluice.values.notices import RunFinished

HOLD: Final = "hold"
Item = Event | Literal["hold"] | float
"""An event, `HOLD`, or a number of seconds to wait."""


def finished(outcome: str = "completed", **more: Any) -> RunFinished:
    """The last notice of a run, with quiet values for what `more` does not name."""
    values: dict[str, Any] = {
        "run": "run-1", "outcome": outcome, "exit_code": 0 if outcome == "completed" else 1, "message": "",
        "text": "", "message_id": "m-1", "turns": 1, "tool_calls": 0, "usage": Usage(input_tokens=12, output_tokens=3),
    }  # fmt: skip
    return RunFinished(**{**values, **more})


class ScriptedInteraction:
    """See the module. `requests` lists every request as a tuple of its name and arguments, in order.

    The lists that a face asks for (`rows`, `files`, `model_names`, `tool_rows`, `lines`) are plain attributes to be set.
    A request named in `failures` raises that exception instead.
    """

    def __init__(self, *scripts: Iterable[Item], situation: Situation | None = None) -> None:
        self.requests: list[tuple[Any, ...]] = []
        self.rows: tuple[SessionRow, ...] = ()
        self.files: tuple[UntrustedFile, ...] = ()
        self.model_names: tuple[str, ...] = ("small", "large")
        self.tool_rows: Sequence[tuple[str, str, str]] = (("read_file", "read_only", "allowed"),)
        self.lines: tuple[str, ...] = ("read only",)
        self.failures: dict[str, Exception] = {}
        self.can_background = False
        self._scripts = list(scripts)
        self._situation = situation or Situation(
            model="scripted", workspace="project", session="s-1", policy="asks", sandbox="none", running=False
        )
        self._events: asyncio.Queue[Event | None] = asyncio.Queue()
        self._waiting: list[Queued] = []
        self._numbers = 0
        self._task: asyncio.Task[None] | None = None
        self._on = asyncio.Event()
        self._asked: dict[int, asyncio.Event] = {}
        self._closed = False

    # -- for the test

    def tell(self, *events: Event) -> None:
        """Sends events now, whatever a script does."""
        for event in events:
            if isinstance(event, Situation):
                self._situation = event
            self._events.put_nowait(event)

    def go_on(self) -> None:
        """Lets the script that stands at `HOLD` go on."""
        self._on.set()

    async def settled(self) -> None:
        """Returns when no script runs and the face has taken every event."""
        while self._task is not None or not self._events.empty():  # noqa: ASYNC110 - nothing else tells of both
            await asyncio.sleep(0.001)

    # -- the contract

    async def events(self) -> AsyncIterator[Event]:
        """The events, until `close`."""
        while (event := await self._events.get()) is not None:
            yield event

    def situation(self) -> Situation:
        """The last situation that was told, or the first one."""
        return self._situation

    def unknown_files(self) -> tuple[UntrustedFile, ...]:
        """`files`, until they have been answered for."""
        return self.files

    def trust(self, read: bool) -> None:
        """Recorded; no file is unknown after it."""
        self._record("trust", read)
        self.files = ()

    def submit(self, text: str, *, steering: bool = False) -> int:
        """Queues a prompt; the next script is played when those before it are done."""
        self._record("submit", text, steering)
        self._numbers += 1
        self._waiting.append(Queued(number=self._numbers, text=text, steering=steering))
        if self._task is None:
            self._next()
        else:
            self._queue_changed()
        return self._numbers

    def edit(self, number: int, text: str) -> bool:
        """Changes a waiting prompt."""
        self._record("edit", number, text)
        for at, queued in enumerate(self._waiting):
            if queued.number == number:
                self._waiting[at] = Queued(number=number, text=text, steering=queued.steering)
                self._queue_changed()
                return True
        return False

    def take_back(self, number: int) -> str | None:
        """Removes a waiting prompt."""
        self._record("take_back", number)
        for queued in self._waiting:
            if queued.number == number:
                self._waiting.remove(queued)
                self._queue_changed()
                return queued.text
        return None

    def answer(self, number: int, allowed: Allowed, words: str = "") -> bool:
        """Lets the script go on that waits for this answer."""
        self._record("answer", number, allowed, words)
        asked = self._asked.pop(number, None)
        if asked is None:
            return False
        self.tell(ApprovalSettled(number=number, decision=allowed))
        asked.set()
        return True

    def cancel(self) -> tuple[Queued, ...]:
        """Ends the script with a cancelled run; the waiting prompts are given back."""
        self._record("cancel")
        back = tuple(self._waiting)
        self._waiting.clear()
        if self._task is not None:
            self._task.cancel()
        if back:
            self._queue_changed()
        return back

    def to_background(self) -> bool:
        """`can_background`."""
        self._record("to_background")
        return self.can_background

    async def compact(self) -> tuple[int, int]:
        """Always from 1000 to 100 bytes."""
        self._record("compact")
        return 1000, 100

    def set_model(self, model: str) -> None:
        """Recorded."""
        self._record("set_model", model)

    def models(self) -> tuple[str, ...]:
        """`model_names`."""
        return self.model_names

    def tools(self) -> Sequence[tuple[str, str, str]]:
        """`tool_rows`."""
        return self.tool_rows

    def policy_lines(self) -> tuple[str, ...]:
        """`lines`."""
        return self.lines

    def sessions(self) -> tuple[SessionRow, ...]:
        """`rows`."""
        return self.rows

    async def open_session(self, session: str | None) -> None:
        """Tells of an empty conversation."""
        self._record("open_session", session)
        self.tell(SessionOpened(session=session or "s-new", history=()))

    async def fork(self, upto: int | None = None) -> str:
        """Tells of an empty conversation, the copy."""
        self._record("fork", upto)
        self.tell(SessionOpened(session="s-fork", history=()))
        return "s-fork"

    async def undo(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """One file restored."""
        self._record("undo")
        return ("a.txt",), ()

    async def export(self, form: Literal["json", "md"], path: str) -> str:
        """Writes nothing."""
        self._record("export", form, path)
        return f"/exported/{path}"

    def cost_lines(self) -> tuple[str, ...]:
        """`lines`."""
        return self.lines

    async def doctor(self) -> tuple[str, ...]:
        """`lines`."""
        self._record("doctor")
        return self.lines

    def settings_shown(self) -> dict[str, Any]:
        """Nothing."""
        return {}

    async def close(self) -> None:
        """Ends the script and `events`."""
        if self._closed:
            return
        self._closed = True
        self.requests.append(("close",))
        self._waiting.clear()
        self._scripts.clear()
        if (task := self._task) is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        self._events.put_nowait(None)

    # -- the script

    def _record(self, name: str, *arguments: Any) -> None:
        self.requests.append((name, *arguments))
        if name in self.failures:
            raise self.failures[name]

    def _queue_changed(self) -> None:
        self.tell(QueueChanged(waiting=tuple(self._waiting)))

    def _next(self) -> None:
        if not self._waiting:
            self._task = None
            return
        first = self._waiting.pop(0)
        self.tell(PromptBegan(number=first.number, text=first.text, steering=first.steering))
        self._queue_changed()
        script = self._scripts.pop(0) if self._scripts else [finished()]
        self._task = asyncio.get_running_loop().create_task(self._play(script))

    async def _play(self, script: Iterable[Item]) -> None:
        try:
            for item in script:
                if isinstance(item, float):
                    await asyncio.sleep(item)
                elif isinstance(item, str):
                    await self._on.wait()
                    self._on.clear()
                elif isinstance(item, ApprovalWanted):
                    asked = self._asked[item.number] = asyncio.Event()
                    self.tell(item)
                    await asked.wait()
                else:
                    self.tell(item)
        except asyncio.CancelledError:
            for number in self._asked:
                self.tell(ApprovalSettled(number=number, decision="withdrawn"))
            self._asked.clear()
            self.tell(finished("cancelled", exit_code=130))
        self._next()
