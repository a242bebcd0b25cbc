"""The protocols that wet rooms implement and `run` consumes.

`run/wiring.py` is the only place that joins an implementation to a protocol.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

from sluice.values.calls import AllowedCall, CallKey, ToolSpec
from sluice.values.healed import AllowedHealedCall, StartedCall
from sluice.values.messages import AssistantMessage, Conversation, Message, UserMessage
from sluice.values.notices import Notice
from sluice.values.requests import Request
from sluice.values.results import ToolResult
from sluice.values.waiting import WaitingCalls


class Exchange(Protocol):
    """One open HTTP exchange. Close it in every case; closing twice is fine.

    `status` and `headers` (names in lower case) are known once `Transport.send` has returned.
    """

    status: int
    headers: Mapping[str, str]

    async def read(self) -> bytes:
        """The next bytes of the body, as they came; `b""` at its proper end.

        Raises `TransportError` (`idle_timeout`, `first_byte_timeout`, `total_timeout`, `broken`, `too_large`, …) when the
        body cannot be had whole. Cancellation leaves the exchange to be closed by `close`.
        """
        ...

    async def close(self) -> None:
        """Ends the exchange: the connection of an unfinished body is closed within 100 ms."""
        ...


class Transport(Protocol):
    """Sends requests. Holds key and address; a request holds neither."""

    async def send(self, request: Request) -> Exchange:
        """Opens one exchange and returns when status and headers are there, whatever the status is.

        Raises `TransportError`. Never retries. Cancellation closes the connection.
        """
        ...

    async def close(self) -> None:
        """Ends every open exchange and releases all descriptors; the transport cannot be used again."""
        ...


class Cancel(Protocol):
    """A wish to stop, seen by a tool while it works."""

    def is_set(self) -> bool:
        """True once the call should stop."""
        ...

    async def wait(self) -> bool:
        """Returns when the call should stop."""
        ...


class ToolExecutor(Protocol):
    """Knows the tools; checks a call; runs an allowed one."""

    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools offered now, in a stable order; asked afresh for every turn."""
        ...

    def check(self, name: str, arguments: str) -> ToolSpec | ToolResult:
        """The spec if tool and arguments are valid, else the result that tells the model what is wrong."""
        ...

    async def run(self, call: AllowedCall, cancel: Cancel) -> ToolResult:
        """Runs one call and returns its result; never raises for what a tool did.

        When `cancel` is set the tool stops what it started and answers `cancelled`.
        """
        ...

    async def run_healed(self, call: AllowedHealedCall, cancel: Cancel) -> ToolResult:
        """As `run`, for a read-only call whose arguments Sluice closed (W9). There is no other way to run one."""
        ...


ChunkKind = Literal["text", "reasoning", "call"]


class Store(Protocol):
    """The session's message stream. A method returns only when what it was given is kept, but for `delta` and `noted`.

    What breaks the order of a run (a second start or end, a row after the end, a result without its call) is refused with
    `StoreError`; so is what cannot be written. Being cancelled takes nothing back. `session` is the session's id, empty
    for one that nobody can come back to.
    """

    session: str

    async def started(self, run: str, prompt: UserMessage | None) -> None:
        """A run begins with this prompt; what waited for a person by then is given up as not started.

        With `None` the run takes up what waits, and its prompt, if it has one, comes later by `append`.
        """
        ...

    async def reply_began(self, run: str, turn: int, sent: int = 0) -> None:
        """The row of the reply number `turn` is there, before its first delta. The next `append` of a reply fills it.

        `sent` are the bytes of its request: what it used is estimated from them if nobody lives to say it. 0: not known.
        """
        ...

    async def delta(self, run: str, kind: ChunkKind, text: str) -> None:
        """The next piece of the arriving reply; of a call its name. Kept at most 20 ms or 4 KiB behind.

        Raises `StoreError` if an earlier piece could not be kept.
        """
        ...

    async def call_grew(self, run: str, call: int, size: int) -> None:
        """The arguments of the arriving reply's call number `call`, in the order of their names, have `size` bytes so far.

        Kept with the next piece, or at each 4 KiB more. Raises as `delta` does.
        """
        ...

    async def append(self, run: str, message: Message) -> str:
        """Keeps one message; returns its id."""
        ...

    async def asked(self, key: CallKey, tool: str, digest: str) -> None:
        """A person is asked about this very call. About one that was taken up: what they said before counts no more."""
        ...

    async def answered(self, key: CallKey, granted: bool) -> None:
        """The person's answer, which counts once and for this call alone."""
        ...

    async def call_started(self, call: StartedCall) -> None:
        """Kept before the call starts, once for ever. Of a run that has ended only a call starts that waited, was taken up
        by the run that goes on, and has a person's yes since."""
        ...

    async def call_ended(self, call: StartedCall, result: ToolResult) -> None:
        """Kept as soon as the call has ended, also in a cancelled run."""
        ...

    async def noted(self, run: str, notice: Notice) -> None:
        """A notice that matters after the run (usage, warnings, errors). Kept with the next row, or 20 ms later.

        One of usage is kept when this returns. Raises `StoreError` if it cannot be; then the run goes on all the same.
        With an empty `run` it belongs to the last one.
        """
        ...

    async def finished(self, run: str, outcome: str) -> None:
        """The last thing kept of a run."""
        ...

    async def history(self) -> Conversation:
        """The stored conversation, oldest first, every call with its one result; only those that wait have none."""
        ...

    async def waiting(self) -> WaitingCalls | None:
        """The calls that a broken-off run left open at the end, if a person was being asked about the first of them."""
        ...

    async def shrank(self, messages: Conversation) -> None:
        """From here on `messages` are sent in place of all that is stored so far, which stays."""
        ...

    async def sent(self) -> Conversation:
        """What is sent: what `shrank` was last given and what came after it, or all of `history`."""
        ...

    async def last_exchanges(self, replies: int) -> Conversation:
        """The end of `history`: the last `replies` replies and all that stands behind the first of them."""
        ...

    async def broken_off(self) -> bool:
        """Whether the last run was ended from outside: its process was killed or told to go."""
        ...


class Journal(Protocol):
    """Keeps what a file held before a change."""

    def keep(self, path: str, content: bytes | None, mode: int | None) -> str | None:
        """Makes the pre-image of workspace file `path` durable (`None`: there was no file); returns its handle.

        Called before the rename that makes it needed. Raises `OSError` if it cannot be kept: then nothing may change.
        """
        ...


class Audit(Protocol):
    """The append-only record of decisions and executions (P10)."""

    def record(self, event: str, **fields: Any) -> None:
        """Puts one line on disk before it returns; raises `AuditError` if it cannot."""
        ...


class Clock(Protocol):
    """Time as an input."""

    def monotonic_ns(self) -> int:
        """Nanoseconds that never go back."""
        ...

    def now(self) -> float:
        """Seconds since the epoch."""
        ...


class Ids(Protocol):
    """Fresh ids as an input."""

    def new(self, kind: str) -> str:
        """A new unique id such as `run_…` for kind `run`."""
        ...


class Approver(Protocol):
    """A person who can be asked. `None` in place of an approver means nobody: ask is then deny."""

    async def ask(self, spec: ToolSpec, arguments: str, reason: str) -> tuple[bool, str]:
        """Whether the person allows this very call, and the word they add for the model (may be empty).

        Raising is a no. Cancelled when the run is stopped: the question is taken back.
        """
        ...


class Hooks(Protocol):
    """Places around the loop where an embedder may look, add, or stop (L6).

    A hook that raises stops what it guards: `call` raising refuses that call, any other ends the run as failed. One that
    waits is cancelled when the run is stopped.
    """

    async def prepare_turn(self, turn: int, conversation: Conversation) -> Sequence[UserMessage | AssistantMessage]:
        """Messages for this request only; they are not stored and count for context. Those of the user are marked as the
        host's, one of the model begins its reply and holds no calls."""
        ...

    async def text(self, turn: int, text: str) -> None:
        """A piece of text, as it arrives."""
        ...

    async def reasoning(self, turn: int, text: str) -> None:
        """A piece of reasoning, as it arrives."""
        ...

    async def reasoning_ended(self, turn: int) -> None:
        """The reasoning of this reply is over."""
        ...

    async def call(self, turn: int, spec: ToolSpec, arguments: str) -> str | None:
        """Before a call is judged: a text refuses it and is told to the model, `None` lets it go on to policy."""
        ...

    async def result(self, turn: int, result: ToolResult) -> None:
        """The result of a call, after it is stored."""
        ...

    async def turn_finished(self, turn: int, message: AssistantMessage, cost: float | None) -> None:
        """A reply is stored, with its usage and what it cost, if known."""
        ...

    async def stop_when(self, turn: int) -> str | None:
        """After the results of a turn: a text ends the run, and is its message."""
        ...
