"""What an agent is made of, and the plain implementations of the smallest ports."""

from __future__ import annotations

import asyncio
import random
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from sluice.limits import Limits
from sluice.policy.rules import Policy
from sluice.run.prices import UNKNOWN, ModelEntry
from sluice.values.calls import ToolSpec
from sluice.values.messages import AssistantMessage, Conversation, UserMessage
from sluice.values.ports import Approver, Audit, Clock, Hooks, Ids, Store, ToolExecutor, Transport
from sluice.values.requests import ModelOptions
from sluice.values.results import ToolResult
from sluice.wire.dialects.base import Dialect


class SystemClock:
    """Implements `values.ports.Clock` with the system's clocks."""

    def monotonic_ns(self) -> int:
        """See `Clock.monotonic_ns`."""
        return time.monotonic_ns()

    def now(self) -> float:
        """See `Clock.now`."""
        return time.time()


class RandomIds:
    """Implements `values.ports.Ids` with random ids."""

    def new(self, kind: str) -> str:
        """See `Ids.new`."""
        return f"{kind}_{uuid.uuid4().hex[:16]}"


class NoHooks:
    """Implements `values.ports.Hooks` by doing nothing; derive from it and override what you need.

    A hook that waits is cancelled when the run is stopped.
    """

    async def prepare_turn(self, turn: int, conversation: Conversation) -> Sequence[UserMessage | AssistantMessage]:
        """See `Hooks.prepare_turn`."""
        return ()

    async def text(self, turn: int, text: str) -> None:
        """See `Hooks.text`."""

    async def reasoning(self, turn: int, text: str) -> None:
        """See `Hooks.reasoning`."""

    async def reasoning_ended(self, turn: int) -> None:
        """See `Hooks.reasoning_ended`."""

    async def call(self, turn: int, spec: ToolSpec, arguments: str) -> str | None:
        """See `Hooks.call`."""
        return None

    async def result(self, turn: int, result: ToolResult) -> None:
        """See `Hooks.result`."""

    async def turn_finished(self, turn: int, message: AssistantMessage, cost: float | None) -> None:
        """See `Hooks.turn_finished`."""

    async def stop_when(self, turn: int) -> str | None:
        """See `Hooks.stop_when`."""
        return None


def no_place() -> str:
    """No place: for parts whose tools run nothing."""
    return ""


async def no_jobs() -> None:
    """Ends no jobs: for parts whose tools start none."""


def nothing_in_front() -> None:
    """No command that a call waits for: for parts whose tools run none."""


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Everything an agent works with. `run/wiring.py` makes one from settings; an embedder may make its own.

    `window_tokens` is the model's context window if known, `model` holds its prices. `approver` is `None` where nobody
    can be asked. `random` and `sleep` serve the waits between attempts. `end_jobs` ends what runs in the background.
    `in_front` is the command line that a call waits for, if it can be moved to the background; `to_background` moves it and
    returns the job's name (`Jobs` in `tools/jobs.py`); both are `None` where there is none. `sandbox` says
    in words what commands run in. `news`
    are lines that the next run tells as warnings, once. `place` is the digest of the working folder and the environment
    names that a call would have; an approval holds only where it is still the same. `provider` is who answers, for stored
    replies. `ask_waiting` is who is asked about calls that are taken up from a run that was broken off, where `approver` is
    `None`. `inline` names the form in which the model writes calls inside its text. `intent` wants `CallIntent` and
    `CallProgressed` notices.
    """

    transport: Transport
    dialect: Dialect
    options: ModelOptions
    executor: ToolExecutor
    policy: Policy
    store: Store
    audit: Audit
    limits: Limits
    system_prompt: str
    workspace: str
    mode: str = "real"
    hooks: Hooks = field(default_factory=NoHooks)
    approver: Approver | None = None
    clock: Clock = field(default_factory=SystemClock)
    ids: Ids = field(default_factory=RandomIds)
    random: Callable[[], float] = random.random
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    window_tokens: int | None = None
    model: ModelEntry = UNKNOWN
    end_jobs: Callable[[], Awaitable[None]] = no_jobs
    in_front: Callable[[], str | None] = nothing_in_front
    sandbox: str = ""
    to_background: Callable[[], str | None] = nothing_in_front
    news: list[str] = field(default_factory=list)
    place: Callable[[], str] = no_place
    provider: str | None = None
    inline: str | None = None
    intent: bool = False
    ask_waiting: Approver | None = None
