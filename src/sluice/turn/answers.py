"""The results that the machine gives itself, for calls that no tool ran."""

from __future__ import annotations

from sluice.values.calls import Category
from sluice.values.messages import KNOWN_STOP_REASONS, ToolCall
from sluice.values.results import Blocked, ErrorInfo, ToolResult, failed

TAIL = 64  # characters of malformed arguments that are quoted

BROKEN = "broken"
"""The word, in place of a stop reason, for a reply whose stream ended or failed before its end."""

_IN_PIECES = "Write large content in pieces: first one call with the beginning, then calls with mode append."

_CUT_ADVICE = {
    "max_tokens": f"the reply reached its length limit inside this call. {_IN_PIECES}",
    "content_filter": "a content filter ended the reply. Do not repeat it unchanged: say or write it otherwise.",
    "refusal": "the reply ended in a refusal. Do not repeat it unchanged: say or write it otherwise.",
    BROKEN: f"the connection broke before the reply was whole. Ask for the call again. {_IN_PIECES}",
}

_SKIPPED = {
    "failed": "an earlier call of this turn did not succeed. Ask for this one again if it is still wanted.",
    "ended": "the run ends here.",
}

_BY_A_YES = "by the user's yes alone, and that takes a reason which the user did not know"

FAILED_BEFORE = "failed"
RUN_ENDS = "ended"


def unfit(call: ToolCall, stop_reason: str | None) -> ToolResult | None:
    """Why this call of a reply with this stop reason cannot run, as its result; `None` if it is fit to be checked.

    `BROKEN` and any reason outside `KNOWN_STOP_REASONS` make no call fit, however whole it looks (W7).
    """
    if is_cut(call, stop_reason):
        return _cut(call, stop_reason)
    if call.status != "whole":
        return _malformed(call)
    if stop_reason is None or stop_reason not in KNOWN_STOP_REASONS or stop_reason == "aborted":
        word = "without a reason" if stop_reason is None else f"for a reason that is not known ({stop_reason[:80]!r})"
        return _not_run(call, "untrusted_reply", f"Not run: the reply stopped {word}. Ask for the call again.")
    return None


def is_cut(call: ToolCall, stop_reason: str | None) -> bool:
    """Whether the call counts as cut: it is, or its reply was."""
    return stop_reason == BROKEN or call.status == "cut"


def may_be_healed(call: ToolCall, stop_reason: str | None) -> bool:
    """Whether this call is of the kind that closed arguments may stand in for: a function call that was cut because its
    reply reached its length limit. Nothing of a reply that broke, was filtered or was aborted is (W7, W9)."""
    return stop_reason == "max_tokens" and call.status == "cut" and call.kind == "function"


def _not_run(call: ToolCall, code: str, message: str) -> ToolResult:
    return failed(call.name, code, message, status="invalid")


def _cut(call: ToolCall, stop_reason: str | None) -> ToolResult:
    advice = _CUT_ADVICE.get(stop_reason or "", f"the call did not arrive whole. {_IN_PIECES}")
    return _not_run(call, "cut_call", f"Not run: {advice}")


def _malformed(call: ToolCall) -> ToolResult:
    tail = call.arguments[-TAIL:]
    problem = call.problem or "its name or arguments cannot be used"
    message = (
        f"Not run: call {call.index} is malformed: {problem}. "
        f"It has {len(call.arguments)} characters of arguments, the last of them {tail!r}. Correct it and ask again."
    )
    return _not_run(call, "malformed_call", message)


def skipped(call: ToolCall, why: str) -> ToolResult:
    """The result of a call that was not reached: `FAILED_BEFORE`, `RUN_ENDS`, or the outcome of the limit met."""
    reason = _SKIPPED.get(why) or f"a limit of the run was met ({why.removeprefix('limit:')}), so no call of it runs."
    return ToolResult(ok=False, status="skipped", tool=call.name, error=ErrorInfo("skipped", f"Not run: {reason}"))


def not_started(call: ToolCall) -> ToolResult:
    """The result of a call that had not started when the run was stopped."""
    error = ErrorInfo("not_started", "Not started: the run was stopped before it.")
    return ToolResult(ok=False, status="cancelled", tool=call.name, error=error)


def nobody_to_ask(call: ToolCall) -> ToolResult:
    """The result of a call that waited for a person when its process ended, where nobody can be asked any more."""
    words = (
        "Not started: the process ended while a person was asked about this call, and nobody can be asked now. "
        "Ask for it again if it is still wanted."
    )
    return ToolResult(ok=False, status="skipped", tool=call.name, error=ErrorInfo("not_started", words))


def refused_by_person(call: ToolCall, words: str, category: Category) -> ToolResult:
    """The result of a call that a person said no to. Without a word for the model it asks to end the turn.

    For a face the fact `refused` holds the person's words, empty where there are none.
    """
    message = f"The user refused this call and said: {words}" if words else "The user refused this call."
    return ToolResult(
        ok=False,
        status="blocked",
        tool=call.name,
        end_turn=not words,
        error=ErrorInfo("refused", message),
        blocked=Blocked(category=category, missing=(), how_to_allow=_BY_A_YES),
        facts={"refused": words},
        failure="blocked",
    )


def denied(call: ToolCall, given: ToolResult | None, rule: str, category: Category) -> ToolResult:
    """The result of a call that the policy denied: the one given with the verdict, if it says blocked, else our own."""
    if given is not None and given.status == "blocked" and not given.ok:
        return given
    return ToolResult(
        ok=False,
        status="blocked",
        tool=call.name,
        error=ErrorInfo("blocked", f"Not allowed in this run (rule {rule})."),
        blocked=Blocked(category=category, missing=(), how_to_allow="not known"),
        failure="blocked",
    )
