"""The table of the turn machine, and nothing else.

Two machines run nested: one for the run, one for each tool call of the reply in hand. Both tables map
(state, event) to the next state. An event is a fact that came in or a step the machine takes with a command; a pair that
is not in the table cannot happen, and the machine raises `InternalError` before it changes anything.

The one edge to `STARTING` leaves `ALLOWED`, and `ALLOWED` is reached only by an allowing verdict. So "no tool without a
verdict" is a property of `CALL_TABLE`, and a test walks it. So is "a call that is taken up from a run that was broken off
runs only by a person's yes": whatever the first verdict, no way from `REOPENED` to `ALLOWED` goes round `ASKING`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType


class CallState(Enum):
    """Where one call of the reply in hand stands."""

    NEW = "new"  # in the reply; nothing was asked about it
    REOPENED = "reopened"  # in a reply of a run that was broken off before the call started; a person is to be asked
    RECHECKING = "rechecking"  # the same, and Check is out
    RECHECKED = "rechecked"  # the same; tool and arguments are valid; waits for its group
    REJUDGING = "rejudging"  # the same, and Judge is out
    CHECKING = "checking"  # Check is out
    CHECKED = "checked"  # tool and arguments are valid; waits for its group
    REJECTED = "rejected"  # unknown tool or invalid arguments; waits for its place to be refused
    JUDGING = "judging"  # Judge is out
    TO_ASK = "to_ask"  # the verdict was ask; waits until the calls before it are settled
    ASKING = "asking"  # Ask is out
    GRANTED = "granted"  # a person said yes, which allows nothing by itself
    JUDGING_AGAIN = "judging_again"  # Judge is out, with the grant
    DENIED = "denied"  # policy or a person said no; waits for its place to be refused
    ALLOWED = "allowed"  # an allowing verdict for this key and digest
    STARTING = "starting"  # RunTools is out
    RUNNING = "running"  # recorded as started
    STOPPING = "stopping"  # StopTool is out
    REFUSING = "refusing"  # Refuse is out
    WITHDRAWING = "withdrawing"  # Refuse is out, and an answer about the call may still come
    DONE = "done"  # has its one result
    WITHDRAWN = "withdrawn"  # the same, and an answer about the call may still come


class CallEvent(Enum):
    """What can happen to one call: steps of the machine (named by their command) and facts."""

    CHECK = "check"
    CHECKED = "checked"
    REJECTED = "rejected"
    JUDGE = "judge"
    JUDGED_ALLOW = "judged_allow"
    JUDGED_ASK = "judged_ask"
    JUDGED_DENY = "judged_deny"
    ASK = "ask"
    ASK_NOBODY = "ask_nobody"
    ANSWERED_YES = "answered_yes"
    ANSWERED_NO = "answered_no"
    RUN = "run"
    STARTED = "started"
    RAN = "ran"
    STOP = "stop"
    REFUSE = "refuse"
    WITHDRAW = "withdraw"
    REFUSED = "refused"


class RunState(Enum):
    """Where the run stands. `SETTLED`, `READY` and `ENDED` are passed through, never rested in."""

    IDLE = "idle"  # no prompt yet
    SETTLED = "settled"  # every call so far has its result; either a further turn or the end
    PREPARING = "preparing"  # Prepare is out
    READY = "ready"  # the size of the next request is known
    SUMMARISING = "summarising"  # Summarise is out
    CALLING = "calling"  # CallModel is out
    ACTING = "acting"  # a reply is in hand and its calls are worked through
    PROMPTING = "prompting"  # KeepPrompt is out: what had waited is settled
    STOPPING_SUMMARY = "stopping_summary"  # StopModel is out while the context was being shrunk
    STOPPING_MODEL = "stopping_model"  # StopModel is out
    STOPPING_CALLS = "stopping_calls"  # the run is to end; what has started is waited for, nothing starts
    CLOSING = "closing"  # EndJobs is out
    ENDED = "ended"  # all is over but the word
    FINISHED = "finished"  # Finish is out; nothing follows


class RunEvent(Enum):
    """What can happen to the run: steps of the machine (named by their command) and facts."""

    ASKED = "asked"
    REOPENED = "reopened"
    KEEP_PROMPT = "keep_prompt"
    PREPARE = "prepare"
    PREPARED = "prepared"
    SUMMARISE = "summarise"
    SUMMARISED = "summarised"
    CALL_MODEL = "call_model"
    REPLIED = "replied"
    MODEL_FAILED = "model_failed"
    OVERFLOWED = "overflowed"  # the model call failed because the request was longer than the model can read
    CALL_FACT = "call_fact"  # any fact about one call; the call's own table says whether it fits
    RELEASED = "released"  # the last result of the reply is out
    STOP = "stop"  # cancelled, stopped by the host, or out of time
    END_JOBS = "end_jobs"
    JOBS_ENDED = "jobs_ended"
    FINISH = "finish"


_S, _E = CallState, CallEvent

_LATE = (  # answers that were on their way when the call was withdrawn
    _E.CHECKED,
    _E.REJECTED,
    _E.JUDGED_ALLOW,
    _E.JUDGED_ASK,
    _E.JUDGED_DENY,
    _E.ANSWERED_YES,
    _E.ANSWERED_NO,
)

CALL_TABLE: Mapping[tuple[CallState, CallEvent], CallState] = MappingProxyType(
    {
        (_S.NEW, _E.CHECK): _S.CHECKING,
        (_S.NEW, _E.REFUSE): _S.REFUSING,  # cut, malformed, past a limit, or the run ends
        (_S.REOPENED, _E.CHECK): _S.RECHECKING,
        (_S.REOPENED, _E.REFUSE): _S.REFUSING,  # the same, or nobody can be asked
        (_S.RECHECKING, _E.CHECKED): _S.RECHECKED,
        (_S.RECHECKING, _E.REJECTED): _S.REJECTED,
        (_S.RECHECKING, _E.WITHDRAW): _S.WITHDRAWING,
        (_S.RECHECKED, _E.JUDGE): _S.REJUDGING,
        (_S.RECHECKED, _E.REFUSE): _S.REFUSING,
        (_S.REJUDGING, _E.JUDGED_ALLOW): _S.TO_ASK,  # what would be allowed now was not when it was asked for
        (_S.REJUDGING, _E.JUDGED_ASK): _S.TO_ASK,
        (_S.REJUDGING, _E.JUDGED_DENY): _S.DENIED,
        (_S.REJUDGING, _E.WITHDRAW): _S.WITHDRAWING,
        (_S.CHECKING, _E.CHECKED): _S.CHECKED,
        (_S.CHECKING, _E.REJECTED): _S.REJECTED,
        (_S.CHECKING, _E.WITHDRAW): _S.WITHDRAWING,
        (_S.CHECKED, _E.JUDGE): _S.JUDGING,
        (_S.CHECKED, _E.REFUSE): _S.REFUSING,
        (_S.REJECTED, _E.REFUSE): _S.REFUSING,
        (_S.JUDGING, _E.JUDGED_ALLOW): _S.ALLOWED,
        (_S.JUDGING, _E.JUDGED_ASK): _S.TO_ASK,
        (_S.JUDGING, _E.JUDGED_DENY): _S.DENIED,
        (_S.JUDGING, _E.WITHDRAW): _S.WITHDRAWING,
        (_S.TO_ASK, _E.ASK): _S.ASKING,
        (_S.TO_ASK, _E.ASK_NOBODY): _S.DENIED,
        (_S.TO_ASK, _E.REFUSE): _S.REFUSING,
        (_S.ASKING, _E.ANSWERED_YES): _S.GRANTED,
        (_S.ASKING, _E.ANSWERED_NO): _S.DENIED,
        (_S.ASKING, _E.WITHDRAW): _S.WITHDRAWING,
        (_S.GRANTED, _E.JUDGE): _S.JUDGING_AGAIN,
        (_S.JUDGING_AGAIN, _E.JUDGED_ALLOW): _S.ALLOWED,
        (_S.JUDGING_AGAIN, _E.JUDGED_ASK): _S.DENIED,  # nobody is asked twice about one call
        (_S.JUDGING_AGAIN, _E.JUDGED_DENY): _S.DENIED,
        (_S.JUDGING_AGAIN, _E.WITHDRAW): _S.WITHDRAWING,
        (_S.DENIED, _E.REFUSE): _S.REFUSING,
        (_S.ALLOWED, _E.RUN): _S.STARTING,
        (_S.ALLOWED, _E.REFUSE): _S.REFUSING,
        (_S.STARTING, _E.STARTED): _S.RUNNING,
        (_S.STARTING, _E.RAN): _S.DONE,  # it could not be recorded, so it never started; the result says so
        (_S.STARTING, _E.STOP): _S.STOPPING,
        (_S.RUNNING, _E.RAN): _S.DONE,
        (_S.RUNNING, _E.STOP): _S.STOPPING,
        (_S.STOPPING, _E.STARTED): _S.STOPPING,
        (_S.STOPPING, _E.RAN): _S.DONE,
        (_S.REFUSING, _E.REFUSED): _S.DONE,
        (_S.WITHDRAWING, _E.REFUSED): _S.WITHDRAWN,
        **{(state, event): state for state in (_S.WITHDRAWING, _S.WITHDRAWN) for event in _LATE},
    }
)

_R, _F = RunState, RunEvent

RUN_TABLE: Mapping[tuple[RunState, RunEvent], RunState] = MappingProxyType(
    {
        (_R.IDLE, _F.ASKED): _R.SETTLED,
        (_R.IDLE, _F.REOPENED): _R.ACTING,
        (_R.IDLE, _F.STOP): _R.SETTLED,
        (_R.SETTLED, _F.KEEP_PROMPT): _R.PROMPTING,
        (_R.PROMPTING, _F.ASKED): _R.SETTLED,
        (_R.PROMPTING, _F.STOP): _R.SETTLED,
        (_R.SETTLED, _F.PREPARE): _R.PREPARING,
        (_R.SETTLED, _F.END_JOBS): _R.CLOSING,
        (_R.PREPARING, _F.PREPARED): _R.READY,
        (_R.PREPARING, _F.STOP): _R.SETTLED,
        (_R.READY, _F.SUMMARISE): _R.SUMMARISING,
        (_R.READY, _F.CALL_MODEL): _R.CALLING,
        (_R.READY, _F.END_JOBS): _R.CLOSING,
        (_R.SUMMARISING, _F.SUMMARISED): _R.READY,
        (_R.SUMMARISING, _F.STOP): _R.STOPPING_SUMMARY,
        (_R.STOPPING_SUMMARY, _F.SUMMARISED): _R.SETTLED,
        (_R.STOPPING_SUMMARY, _F.STOP): _R.STOPPING_SUMMARY,
        (_R.CALLING, _F.REPLIED): _R.ACTING,
        (_R.CALLING, _F.MODEL_FAILED): _R.ACTING,
        (_R.CALLING, _F.OVERFLOWED): _R.READY,  # once in a turn: it is shrunk and asked again
        (_R.CALLING, _F.STOP): _R.STOPPING_MODEL,
        (_R.STOPPING_MODEL, _F.REPLIED): _R.STOPPING_CALLS,
        (_R.STOPPING_MODEL, _F.MODEL_FAILED): _R.STOPPING_CALLS,
        (_R.STOPPING_MODEL, _F.STOP): _R.STOPPING_MODEL,
        (_R.ACTING, _F.CALL_FACT): _R.ACTING,
        (_R.ACTING, _F.RELEASED): _R.SETTLED,
        (_R.ACTING, _F.STOP): _R.STOPPING_CALLS,
        (_R.STOPPING_CALLS, _F.CALL_FACT): _R.STOPPING_CALLS,
        (_R.STOPPING_CALLS, _F.RELEASED): _R.SETTLED,
        (_R.STOPPING_CALLS, _F.STOP): _R.STOPPING_CALLS,
        (_R.CLOSING, _F.JOBS_ENDED): _R.ENDED,
        (_R.CLOSING, _F.CALL_FACT): _R.CLOSING,  # late answers about withdrawn calls
        (_R.CLOSING, _F.PREPARED): _R.CLOSING,  # was on its way when the run was stopped
        (_R.CLOSING, _F.ASKED): _R.CLOSING,  # the same, of a prompt that was being kept
        (_R.CLOSING, _F.STOP): _R.CLOSING,
        (_R.ENDED, _F.FINISH): _R.FINISHED,
        (_R.FINISHED, _F.CALL_FACT): _R.FINISHED,
        (_R.FINISHED, _F.PREPARED): _R.FINISHED,
        (_R.FINISHED, _F.ASKED): _R.FINISHED,
        (_R.FINISHED, _F.STOP): _R.FINISHED,
    }
)
