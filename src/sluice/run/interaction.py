"""What an interactive face and a run say to each other: events in one direction, requests in the other, nothing else.

`run/interactive.py` implements `Interaction` over real sessions; a face can be driven by any other implementation of it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec

from sluice.values.messages import Conversation, Usage
from sluice.values.notices import Notice

Allowed = Literal["once", "session", "deny"]


class ApprovalWanted(msgspec.Struct, frozen=True, kw_only=True):
    """A person must decide. `text` is what would run, complete and escaped; nothing of it can hide or look like ours.

    `number` names the question in `answer`. `reason` says why it is asked. `session_words` says what "this session" would
    allow, in one line; `None` where only a single call may be allowed. `details` are further lines, escaped, such as what
    a build would run: what stands in the project's files is behind a gutter.
    `arguments` is the raw text, for a face that shows a diff or a command of its own; never shown unescaped.
    """

    number: int
    tool: str
    category: str
    folder: str
    text: str
    characters: int
    reason: str
    session_words: str | None
    arguments: str
    details: tuple[str, ...] = ()


class ApprovalSettled(msgspec.Struct, frozen=True, kw_only=True):
    """A question needs no answer any more: it was answered, or its run was cancelled."""

    number: int
    decision: Allowed | Literal["withdrawn"]


class Queued(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt that waits. With `steering` it goes to the model between two turns of the run that is going."""

    number: int
    text: str
    steering: bool = False


class QueueChanged(msgspec.Struct, frozen=True, kw_only=True):
    """The prompts that wait, in the order in which they will be sent."""

    waiting: tuple[Queued, ...]


class PromptBegan(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt is sent now (as a run's prompt, or as steering within one)."""

    number: int
    text: str
    steering: bool = False


class SessionOpened(msgspec.Struct, frozen=True, kw_only=True):
    """Another conversation is shown from here on: what is stored of it, oldest first.

    `subjects` names for each tool the argument that says what a call touches, `None` where there is none. Calls at the end
    that have no result wait for the person: a run that no prompt begins asks about them at once.
    """

    session: str
    history: Conversation
    subjects: Mapping[str, str | None] = {}


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """What the status line shows; a new one whenever it changes.

    `context_tokens` is how much of the window the conversation fills (`context_estimated` if it is our estimate), `None`
    before the first reply. `usage` and `cost` (US dollars, `None` if unknown) are totals of the session. `policy` and
    `sandbox` are short words ("read only", "edits", "edits and commands", "asks"; "bubblewrap", "Landlock", "none").
    `running` is whether a run is going; `job` whether a command runs that could be moved to the background.
    """

    model: str
    workspace: str
    session: str
    policy: str
    sandbox: str
    running: bool
    context_tokens: int | None = None
    context_estimated: bool = True
    window_tokens: int | None = None
    usage: Usage = Usage()
    cost: float | None = None
    turns: int = 0
    job: bool = False


Event = (
    Notice | ApprovalWanted | ApprovalSettled | QueueChanged | PromptBegan | SessionOpened | Situation
)  # in the order in which they happen


class SessionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A stored session, for a list of them. `used` is seconds since the epoch; `title` its first prompt, one line.

    `held`: another program has it open. `waits`: a person has to decide about a call of it.
    """

    session: str
    title: str
    used: float
    messages: int
    held: bool = False
    waits: bool = False


class UntrustedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the workspace that would be read as instructions to the model, or as configuration that may narrow."""

    path: str
    bytes: int
    purpose: str


class Interaction(Protocol):
    """One person, one workspace, one conversation at a time. For one event loop.

    Requests raise `ConfigurationError`, `StoreError` or `PathError` with one clear line for what a person can mend, and
    change nothing then. What a request causes is told by events.
    """

    def events(self) -> AsyncIterator[Event]:
        """All events from the opening on, for one reader. Ends when the interaction is closed."""
        ...

    def situation(self) -> Situation:
        """What the status line shows now."""
        ...

    def unknown_files(self) -> tuple[UntrustedFile, ...]:
        """What this folder would have read, if it has not been answered for before; empty if it has. Nothing is read yet."""
        ...

    def trust(self, read: bool) -> None:
        """Whether these files are given to the model as untrusted text; remembered for this folder. Widens nothing."""
        ...

    def submit(self, text: str, *, steering: bool = False) -> int:
        """Queues a prompt; it is sent when those before it are done. Returns its number."""
        ...

    def edit(self, number: int, text: str) -> bool:
        """Changes a prompt that still waits; false if it does not wait any more."""
        ...

    def take_back(self, number: int) -> str | None:
        """Removes a prompt that still waits and returns its text; `None` if it does not wait any more."""
        ...

    def answer(self, number: int, allowed: Allowed, words: str = "") -> bool:
        """A person's decision; `words` go to the model with a refusal. False if it is not asked any more."""
        ...

    def cancel(self) -> tuple[Queued, ...]:
        """Ends the run that is going and keeps what happened.

        It covers the prompts that wait as well: they never begin, and are given back here, for the person to send again.
        """
        ...

    def to_background(self) -> bool:
        """Moves the command that is running to the background as a job; false if there is none that can be."""
        ...

    async def compact(self) -> tuple[int, int]:
        """Shrinks the context now; bytes before and after. Refused while a run is going."""
        ...

    def set_model(self, model: str) -> None:
        """Uses another model (a model string as for `--model`): from the next prompt on, if a run is going."""
        ...

    def models(self) -> tuple[str, ...]:
        """Model strings worth offering: those of the config and of providers whose key is set."""
        ...

    def tools(self) -> Sequence[tuple[str, str, str]]:
        """Name, category and what happens to it now ("allowed", "asked", "blocked") of every offered tool."""
        ...

    def policy_lines(self) -> tuple[str, ...]:
        """The policy in force in plain words: mode, rules with their origin, grants of this session, sandbox."""
        ...

    def sessions(self) -> tuple[SessionRow, ...]:
        """This workspace's sessions, the one used last first."""
        ...

    async def open_session(self, session: str | None) -> None:
        """Goes on with a stored session; `None` begins a new one. Refused while a run is going."""
        ...

    async def fork(self, upto: int | None = None) -> str:
        """Goes on with a copy of this session (up to a message number from 1); returns the copy's id."""
        ...

    async def undo(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Takes back the last run's file changes, and when asked again those of the run before: files restored, and lines
        about those that were not touched.

        The model is told of it with the next prompt.
        """
        ...

    async def export(self, form: Literal["json", "md"], path: str) -> str:
        """Writes the session to a new file (never over an old one), with what its store refused to keep; returns the
        absolute path. If the store cannot be read, what is in memory is written, and a warning says so."""
        ...

    def cost_lines(self) -> tuple[str, ...]:
        """Usage and money by turn, run and session; unknown prices say so."""
        ...

    async def doctor(self) -> tuple[str, ...]:
        """What `sluice doctor` prints, as lines."""
        ...

    def settings_shown(self) -> dict[str, Any]:
        """Every setting that may be shown, as `sluice config show` does."""
        ...

    async def close(self) -> None:
        """Ends what runs, stores it, and ends `events`. Being called twice is fine."""
        ...
