"""The model's own summary of a conversation that has become too long: one request, and what of its answer counts as one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from sluice.run.conversation import Talk
from sluice.run.images import overweight
from sluice.run.metering import usage_of
from sluice.run.model_call import ModelCall
from sluice.run.parts import Parts
from sluice.run.shortening import SHORTER, short_results, short_words
from sluice.values.deltas import Delta
from sluice.values.messages import AssistantMessage, Conversation, Reply, Usage, UserMessage
from sluice.values.requests import Request

_ASK = (
    "The conversation is about to be cut because it is too long. Write down what is needed to go on without it: the "
    "user's task in full, what was done and found so far with the names of files and functions, what is still to do. "
    "Write nothing else and call no tool."
)

MayAsk = Callable[[int], str]
"""Given the bytes of a request for a summary: why it may not be sent, empty if it may."""


def anything(_bytes: int) -> str:
    """Every request may be sent."""
    return ""


class _Unwatched:
    async def deltas(self, deltas: list[Delta]) -> None:
        return None

    async def sizes(self, sizes: dict[int, int]) -> None:
        return None

    async def waiting(self, attempt: int, seconds: float, reason: str) -> None:
        return None


async def summary(talk: Talk, parts: Parts, most: int, used: list[Usage], may_ask: MayAsk) -> tuple[str | None, str]:
    """The model's summary; or `None` for any reply that is not one, and why.

    The request for it has at most `most` bytes. `used` gets what each attempt used, whatever came of it, and also when
    this is cancelled.
    """
    made = None
    for kept in (None, *SHORTER):  # the words of it are shortened only where no request could be made of them
        made = made or _request(talk, parts, most, kept)
    if made is None:
        return None, "no part of it is small enough to be summarised"
    request, sent = made
    if refusal := may_ask(sent):
        return None, refusal
    call = ModelCall(
        parts.transport,
        parts.dialect,
        request,
        _Unwatched(),
        limits=parts.limits,
        clock=parts.clock,
        random=parts.random,
        sleep=parts.sleep,
        inline=parts.inline,
    )
    answer = await call.run()
    used += [usage_of(Reply(usage=one), sent, whole=False) for one in call.lost]
    if isinstance(answer, Reply):
        used.append(usage_of(answer, sent))
        why = _no_summary(answer)
        return (None, why) if why else (answer.text.strip(), "")
    if answer.partial is not None:
        used.append(usage_of(answer.partial, sent, whole=False))
    if answer.kind == "aborted":
        raise asyncio.CancelledError  # a model call that is cancelled answers all the same
    return None, f"the model's summary failed: {answer.message}"


def _no_summary(reply: Reply) -> str:
    """Why a whole reply is no summary; empty if it is one."""
    if reply.tool_calls:
        return "the model asked for a call in place of a summary"
    if reply.stop_reason == "max_tokens":
        return "the model's summary was cut at its length limit"
    if reply.stop_reason != "end_turn":
        return f"the model's summary ended with {reply.stop_reason}"
    return "" if reply.text.strip() else "the model's summary was empty"


def _request(talk: Talk, parts: Parts, most: int, kept: int | None) -> tuple[Request, int] | None:
    """The request for a summary of as much of the conversation as fits, and its size in bytes, images at what they take.

    It holds the first message, and the newest exchanges; with `kept` at most so many characters of each. A summary must
    not fail by what made it needed. `None` if nothing fits.
    """
    everything = talk.messages
    if kept is not None:
        everything = short_words(short_results(everything, slice(None), kept), slice(None), kept, spare_last=False)
    starts = [i for i, m in enumerate(everything) if i and isinstance(m, AssistantMessage)]

    def made(at: int) -> tuple[Request, int]:
        part: Conversation = everything if at == 0 else (everything[0], *everything[starts[at - 1] :])
        conversation = (*talk.to_send(extra=False, messages=part), UserMessage(_ASK, origin="host"))
        request = parts.dialect.request(conversation, (), parts.options)
        return request, len(request.body) - overweight(conversation)

    low, high = 0, len(starts)  # the fewest exchanges left out; the more are, the smaller it is
    while low < high:
        middle = (low + high) // 2
        if made(middle)[1] <= most:
            high = middle
        else:
            low = middle + 1
    request, size = made(low)
    return (request, size) if size <= most else None
