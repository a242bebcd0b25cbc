"""How a run ends by a reply that asks for nothing."""

from __future__ import annotations

from sluice.turn import outcomes
from sluice.turn.outcomes import End
from sluice.values.messages import Reply


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
