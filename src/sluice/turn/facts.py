"""The words of the turn machine: facts that go in, commands that come out.

All of them are plain JSON: `msgspec.json.decode(msgspec.json.encode(fact), type=Fact) == fact`, so a session can keep the
facts and `Machine.replay` can make the same state of them. Every fact carries `at`, monotonic nanoseconds given by the
run; the machine has no clock of its own.

How a run carries commands out: in the order given, one list after the other. A command that says "answered by" is out
until one of those facts was fed. `Release` and `Finish` are answered by nothing.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from sluice.values.calls import CallKey, Category, Decision
from sluice.values.healed import HealedArguments, HealedCall
from sluice.values.messages import Reply
from sluice.values.results import ToolResult
from sluice.values.waiting import WaitingCalls

# -- facts


class _Fact(msgspec.Struct, frozen=True, kw_only=True, tag_field="fact"):
    at: int


class Asked(_Fact, frozen=True, kw_only=True, tag="asked"):
    """The prompt is stored; the run begins, and its time is counted from here. It also answers `KeepPrompt`."""


class Reopened(_Fact, frozen=True, kw_only=True, tag="reopened"):
    """The run begins with calls that an earlier run left open, which keep their keys; its time is counted from here.

    `can_ask`: a person can be asked about them. With `prompt` the run has one, to be kept once they are settled.
    """

    waiting: WaitingCalls
    can_ask: bool
    prompt: bool


class Prepared(_Fact, frozen=True, kw_only=True, tag="prepared"):
    """The request of turn `turn` is made: notes are appended and what `prepare_turn` adds is there.

    `context_bytes` is the size of the whole conversation that would be sent, those additions included.
    """

    turn: int
    context_bytes: int


class Summarised(_Fact, frozen=True, kw_only=True, tag="summarised"):
    """The context was shrunk (`ok`) or could not be; `context_bytes` is its size now, as in `Prepared`.

    `tokens`, `cost` and `estimated` are what a summary used, as in `Replied`.
    """

    ok: bool
    context_bytes: int
    tokens: int = 0
    cost: float | None = None
    estimated: bool = False


class Replied(_Fact, frozen=True, kw_only=True, tag="replied"):
    """The model's reply came whole and is stored in the conversation.

    `tokens` is what its request and it had together, counted or `estimated`; `cost` is in US dollars, `None` if unknown.
    `healed` are calls that were cut and may be tried with closed arguments: only if the user switched it on (W9).
    """

    turn: int
    reply: Reply
    tokens: int = 0
    cost: float | None = None
    estimated: bool = False
    healed: tuple[HealedCall, ...] = ()


class ModelFailed(_Fact, frozen=True, kw_only=True, tag="model_failed"):
    """The model call failed and no further attempt is made at it.

    `kind` is a `StreamFault` or a `TransportFault`. `partial` is what had arrived, *if it was stored in the
    conversation* (so its calls need results), else `None`. `bound` names the limit for kind `limit`, `code` is the
    provider's own word or `context_overflow`. `tokens`, `cost` and `estimated` as in `Replied`.
    """

    turn: int
    kind: str
    message: str
    partial: Reply | None = None
    bound: str | None = None
    code: str | None = None
    tokens: int = 0
    cost: float | None = None
    estimated: bool = False


class Checked(_Fact, frozen=True, kw_only=True, tag="checked"):
    """The tool is known and the arguments fit its schema."""

    key: CallKey
    digest: str
    category: Category


class Rejected(_Fact, frozen=True, kw_only=True, tag="rejected"):
    """Unknown tool or invalid arguments; `result` tells the model."""

    key: CallKey
    result: ToolResult


class Judged(_Fact, frozen=True, kw_only=True, tag="judged"):
    """The policy's verdict, or a guarding hook's refusal (decision `deny`).

    `result` is the blocked result for the model; wanted with `deny`, and with `ask` for when nobody can be asked. Its
    `end_turn` is set where the refusal comes without a word for the model.
    """

    key: CallKey
    digest: str
    decision: Decision
    rule: str
    result: ToolResult | None = None


class Answered(_Fact, frozen=True, kw_only=True, tag="answered"):
    """A person's yes or no to this very call. `words` is what they add for the model, may be empty."""

    key: CallKey
    digest: str
    granted: bool
    words: str = ""


class Started(_Fact, frozen=True, kw_only=True, tag="started"):
    """The start of the call is recorded (S3); it begins now."""

    key: CallKey


class Ran(_Fact, frozen=True, kw_only=True, tag="ran"):
    """The call ended with `result`. Without `Started` before it: it could not be recorded and did not start.

    `tokens`, `cost` and `estimated`, as in `Replied`, are what agents used that worked inside calls and hooks since this
    was last told.
    """

    key: CallKey
    result: ToolResult
    tokens: int = 0
    cost: float | None = None
    estimated: bool = False


class Refused(_Fact, frozen=True, kw_only=True, tag="refused"):
    """The refusal of the call is recorded."""

    key: CallKey


class JobsEnded(_Fact, frozen=True, kw_only=True, tag="jobs_ended"):
    """No background job of the run lives."""


class Cancelled(_Fact, frozen=True, kw_only=True, tag="cancelled"):
    """A person (`cancelled`) or the system (`terminated`) wants the run to end. May come at any time, and again."""

    reason: Literal["cancelled", "terminated"] = "cancelled"


class HostStopped(_Fact, frozen=True, kw_only=True, tag="host_stopped"):
    """The host ends the run: `stop_when` said so (`completed`), a hook, the store or our own code failed (`failed`), or
    a limit of a run around this one was met (`limit:<name>`).

    May come at any time; in place of `Prepared` it answers `Prepare`.
    """

    outcome: str
    message: str


class Tick(_Fact, frozen=True, kw_only=True, tag="tick"):
    """Time has passed; wanted at `Machine.deadline()`, harmless at any other time."""


CallFact = Checked | Rejected | Judged | Answered | Started | Ran | Refused
Fact = (
    Asked
    | Reopened
    | Prepared
    | Summarised
    | Replied
    | ModelFailed
    | Checked
    | Rejected
    | Judged
    | Answered
    | Started
    | Ran
    | Refused
    | JobsEnded
    | Cancelled
    | HostStopped
    | Tick
)

# -- commands


class _Command(msgspec.Struct, frozen=True, tag_field="command"):
    pass


class KeepPrompt(_Command, frozen=True, tag="keep_prompt"):
    """The calls of `Reopened` are settled: store the prompt; answered by `Asked` or `HostStopped`."""


class Prepare(_Command, frozen=True, tag="prepare"):
    """Make ready for turn `turn`; answered by `Prepared` or `HostStopped`.

    In order: from the second turn on ask the `stop_when` hook; append each of `notes` to the conversation as
    `UserMessage(origin="host")`; run `prepare_turn`; measure the conversation.
    """

    turn: int
    notes: tuple[str, ...] = ()


class Summarise(_Command, frozen=True, tag="summarise"):
    """Shrink the context (L10) to at most `max_bytes`, if that is known; answered by `Summarised`."""

    max_bytes: int | None = None


class CallModel(_Command, frozen=True, tag="call_model"):
    """Ask the model for reply number `turn`; answered by `Replied` or `ModelFailed`."""

    turn: int


class StopModel(_Command, frozen=True, tag="stop_model"):
    """Stop the open model call (or summary); its own answer still comes: `Replied`, `ModelFailed`, `Summarised`."""


class Check(_Command, frozen=True, tag="check"):
    """Look the tool up and check its arguments; answered by `Checked` or `Rejected`.

    With `healed` the call was cut, and it is these arguments that are to be checked, judged and perhaps run.
    """

    key: CallKey
    name: str
    arguments: str
    healed: HealedArguments | None = None


class Judge(_Command, frozen=True, tag="judge"):
    """Ask the policy (before the first verdict the `call` hook, too); answered by `Judged`.

    `granted`: a person said yes to exactly this key and digest; give the policy a `Grant` for it.
    """

    key: CallKey
    digest: str
    granted: bool = False


class Ask(_Command, frozen=True, tag="ask"):
    """Ask the person; answered by `Answered`. At most one is out at a time."""

    key: CallKey
    digest: str


class RunTools(_Command, frozen=True, tag="run_tools"):
    """Run these allowed calls, side by side if there are several (all are read-only then).

    Each is answered by `Started`, then `Ran`; or by `Ran` alone if its start could not be recorded.
    """

    keys: tuple[CallKey, ...]


class StopTool(_Command, frozen=True, tag="stop_tool"):
    """Set the call's cancel; its `Ran` still comes."""

    key: CallKey


class Refuse(_Command, frozen=True, tag="refuse"):
    """Record that the call is not run; answered by `Refused`. The result goes out by `Release`, not here."""

    key: CallKey
    result: ToolResult


class Release(_Command, frozen=True, tag="release"):
    """Append the one result of a call to the conversation and tell the watchers. Comes in call order, once for each call."""

    key: CallKey
    result: ToolResult


class EndJobs(_Command, frozen=True, tag="end_jobs"):
    """End every background job of the run; answered by `JobsEnded`."""


class Finish(_Command, frozen=True, tag="finish"):
    """The run is over, exactly once and last. `outcome` is a word of `outcomes`, `message` one line or empty."""

    outcome: str
    message: str = ""


Command = (
    KeepPrompt
    | Prepare
    | Summarise
    | CallModel
    | StopModel
    | Check
    | Judge
    | Ask
    | RunTools
    | StopTool
    | Refuse
    | Release
    | EndJobs
    | Finish
)
