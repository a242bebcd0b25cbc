"""What a run tells its watchers, in order. `stream-json` is these structs, one a line.

Every notice carries `v` (the schema's version, now 1) and `type`. The last one of a run is `run_finished`, exactly once.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from sluice.values.messages import CallStatus, Usage
from sluice.values.results import ToolResult


class _Notice(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=False):
    v: int = 1


class RunStarted(_Notice, frozen=True, tag="run_started", kw_only=True):
    """A run begins. `blocked` names the offered categories that this run does not allow.

    `sandbox` says in words what commands run in; it is empty where none can run.
    """

    run: str
    model: str
    mode: str
    workspace: str
    tools: tuple[str, ...]
    blocked: tuple[str, ...] = ()
    sandbox: str = ""


class TurnStarted(_Notice, frozen=True, tag="turn_started", kw_only=True):
    """The model is asked for its reply number `turn` (from 1).

    With `continues` it goes on with the text of the reply before it, which was cut at its length.
    """

    run: str
    turn: int
    continues: bool = False


class TextNotice(_Notice, frozen=True, tag="text", kw_only=True):
    """The next piece of the reply's text."""

    turn: int
    text: str


class ReasoningNotice(_Notice, frozen=True, tag="reasoning", kw_only=True):
    """The next piece of the reply's reasoning."""

    turn: int
    text: str


class ReasoningEnded(_Notice, frozen=True, tag="reasoning_ended", kw_only=True):
    """The reasoning before this point is over; text or a call follows."""

    turn: int


class CallIntended(_Notice, frozen=True, tag="call_intended", kw_only=True):
    """The model is asking for a call; its name is known. It has not run.

    `arrival` numbers the calls of a reply from 0 as they come in; the same in every other notice of the call. (Its
    `position` is known only when the reply is: calls may come in another order than they are numbered by the provider.)
    `id` is `None` where the provider gives none, or gives it later.
    """

    turn: int
    arrival: int
    id: str | None
    tool: str


class CallIntent(_Notice, frozen=True, tag="call_intent", kw_only=True):
    """What a call will touch is known while the rest of it is still being written. It has not run and may never run.

    Only where intent is wanted. `subject` is the argument that the tool names as its subject, `category` the tool's.
    """

    turn: int
    arrival: int
    tool: str
    subject: str
    category: str


class CallProgressed(_Notice, frozen=True, tag="call_progress", kw_only=True):
    """A call's arguments have grown to `size` bytes. To be shown, never to be run.

    Only where intent is wanted, and at most about twenty times a second for each call. `tail` is what the value of the
    argument `name` has gained since the last such notice (`name` is empty, and `tail` too, between two values).
    """

    turn: int
    arrival: int
    tool: str
    size: int
    tail: str
    name: str


class CallWithdrawn(_Notice, frozen=True, tag="call_withdrawn", kw_only=True):
    """An intended call will not run as shown: its reply was cut, failed, or is tried again.

    `position` is `None` if nothing of the reply is kept.
    """

    turn: int
    arrival: int
    tool: str
    reason: str
    position: int | None = None


class CallArrived(_Notice, frozen=True, tag="call_arrived", kw_only=True):
    """A call stands in the stored reply. `arguments` is the raw text, `subject` what it will touch.

    `position` is its place in the reply, from 0, and what later notices name it by; `arrival` is as in `call_intended`.
    With turn 0 it stands in a reply of an earlier run, and waited for a person when that died.
    """

    turn: int
    position: int
    arrival: int
    id: str
    tool: str
    arguments: str
    status: CallStatus
    subject: str | None = None


class CallJudged(_Notice, frozen=True, tag="call_judged", kw_only=True):
    """The policy's verdict on a call."""

    turn: int
    position: int
    tool: str
    decision: str
    rule: str


class CallStarted(_Notice, frozen=True, tag="call_started", kw_only=True):
    """A call is recorded as started and begins now.

    `healed`: the call had been cut, it only reads, and it runs with these arguments, closed by us (W9).
    """

    turn: int
    position: int
    tool: str
    healed: str | None = None


class CallFinished(_Notice, frozen=True, tag="call_finished", kw_only=True):
    """The one result of a call, whether it ran or was refused. `seconds` is the time it ran."""

    turn: int
    position: int
    id: str
    tool: str
    result: ToolResult
    seconds: float = 0.0


class Waiting(_Notice, frozen=True, tag="waiting", kw_only=True):
    """A model call failed before anything was shown, and will be tried again after `seconds`."""

    turn: int
    attempt: int
    seconds: float
    reason: str


class Warned(_Notice, frozen=True, tag="warning", kw_only=True):
    """Something a person should know that stops nothing. `expected` is what the person agreed to before."""

    message: str
    expected: bool = False


class Failed(_Notice, frozen=True, tag="error", kw_only=True):
    """Something went wrong; what follows (a new turn or the end of the run) says what was done about it."""

    kind: str
    message: str


class TurnFinished(_Notice, frozen=True, tag="turn_finished", kw_only=True):
    """A reply is stored. `stop_reason` is its own; `cost` in US dollars if known."""

    turn: int
    stop_reason: str | None
    usage: Usage | None
    cost: float | None = None
    tolerances: dict[str, int] = {}


class Summarised(_Notice, frozen=True, tag="summarised", kw_only=True):
    """The context was shrunk from `before` to `after` bytes; stored rows stay.

    With `ok` false it could not be, and is as it was. `usage` is what a summary by the model took (`None`: none was asked
    for), `cost` that in US dollars if known; both count in the run's and the session's, but are no turn's. `message` says
    why no summary is part of it, where one was wanted.
    """

    before: int
    after: int
    ok: bool = True
    usage: Usage | None = None
    cost: float | None = None
    message: str = ""


class AlsoUsed(_Notice, frozen=True, tag="also_used", kw_only=True):
    """Tokens that count in the run and in the session, beside those of stored replies and of summaries.

    `by` says what used them: `attempt`, a reply that broke off before anything of it was shown; `stopped`, a reply or a
    summary that was stopped, of which nothing is kept; `agent`, a run of another agent inside a call or a hook. `turn` is
    the turn in hand, `cost` in US dollars if known.
    """

    turn: int
    by: Literal["attempt", "stopped", "agent"]
    usage: Usage
    cost: float | None = None


class Steered(_Notice, frozen=True, tag="steered", kw_only=True):
    """Words that a person gave while the run was going are stored, and go to the model with turn `turn`.

    `text` is without attachments; `message_id` names the stored message.
    """

    turn: int
    text: str
    message_id: str


class RunFinished(_Notice, frozen=True, tag="run_finished", kw_only=True):
    """The end of a run, exactly once and last. `outcome` is `completed`, `failed`, `incomplete`,
    `provider_error`, `limit:<name>`, `loop`, `blocked`, `cancelled` or `terminated`, and `exit_code` goes with it.

    `text` is the last reply's text, joined with that of the replies that it continues. `saved` is false when the last
    store failed, and `unsaved` then says what is lost.
    `extra` may hold `session` (its id), `unsent` (texts given during the run that the model never got),
    `unsaved_messages` (how many of its messages are in memory only) and `copy` (the file that they were then written to).
    """

    run: str
    outcome: str
    exit_code: int
    message: str
    text: str
    message_id: str
    turns: int
    tool_calls: int
    usage: Usage
    cost: float | None = None
    seconds: float = 0.0
    saved: bool = True
    unsaved: str | None = None
    extra: dict[str, Any] = {}


Notice = (
    RunStarted
    | TurnStarted
    | TextNotice
    | ReasoningNotice
    | ReasoningEnded
    | CallIntended
    | CallIntent
    | CallProgressed
    | CallWithdrawn
    | CallArrived
    | CallJudged
    | CallStarted
    | CallFinished
    | Waiting
    | Warned
    | Failed
    | TurnFinished
    | Summarised
    | AlsoUsed
    | Steered
    | RunFinished
)
