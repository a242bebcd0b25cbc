"""How a run ends by a reply that asks for nothing, and by one that did not come whole."""

from __future__ import annotations

from sluice.turn import outcomes
from sluice.turn.context import CONTEXT_OVERFLOW
from sluice.turn.facts import ModelFailed
from sluice.turn.outcomes import End
from sluice.values.messages import Reply

_UNANSWERED = frozenset({outcomes.PROVIDER_ERROR, outcomes.INCOMPLETE})
_BROKEN_OFF = frozenset({"incomplete", "broken", "idle_timeout", "total_timeout"})


def _with_words(end: End | None, words: str) -> End | None:
    """The end of a run, with what the provider said about why it stopped."""
    if end is None or not words:
        return end
    said = f"the provider says: {words[:300]}"
    return end[0], f"{end[1]}; {said}" if end[1] else said


def _end(reply: Reply, repeated: bool) -> End | None:
    match reply.stop_reason:
        case "pause":
            return None
        case "max_tokens":
            also = " and repeats itself" if repeated else ""
            return outcomes.limit("max_output_tokens"), f"the answer was cut at its length limit{also}"
        case "content_filter":
            return outcomes.FAILED, "the provider's content filter ended the answer"
        case "refusal":
            return outcomes.FAILED, "the model refused to answer"
    if reply.refusal and not reply.text:  # dialects that keep a refusal apart stop as usual
        return outcomes.FAILED, "the model refused to answer"
    if reply.kept and not reply.text:
        also = " but reasoning" if reply.reasoning or reply.blocks else " at all"
        return outcomes.COMPLETED, f"the model returned nothing{also}"
    return outcomes.COMPLETED, "the answer repeats itself" if repeated else ""


def end_of_reply(reply: Reply, repeated: bool) -> End | None:
    """How the run ends by a reply without calls; `None` if the model only paused. `repeated`: its text repeats itself."""
    return _with_words(_end(reply, repeated), reply.stop_words)


def end_of_failure(fact: ModelFailed, *, again: bool, continued: bool) -> End | None:
    """How the run ends by a model call that failed; `None` if the model may go on from what had arrived.

    `again`: the reply before it broke off, too. `continued`: it was to go on with an answer that was cut at its length.
    """
    end = _end_of_failure(fact, again)
    if continued and fact.partial is None and end is not None and end[0] in _UNANSWERED:
        cut = outcomes.limit("max_output_tokens")  # what stands is an answer that was cut
        return cut, f"the answer was cut at its length limit, and going on with it failed: {fact.message}"
    return end


def _end_of_failure(fact: ModelFailed, again: bool) -> End | None:
    if fact.kind == "aborted":
        return outcomes.CANCELLED, fact.message
    if fact.code == CONTEXT_OVERFLOW and fact.partial is None:
        return outcomes.limit("max_context"), fact.message
    if fact.kind in ("limit", "too_large"):
        return outcomes.limit(fact.bound or "max_stream_bytes"), fact.message
    if fact.kind not in _BROKEN_OFF or (fact.partial is None and fact.kind != "incomplete"):
        return outcomes.PROVIDER_ERROR, fact.message
    return (outcomes.INCOMPLETE, fact.message) if fact.partial is None or again else None
