"""Makes the conversation that is sent smaller (L10). What is stored stays as it is.

In order, until it fits: old tool results that can be read again from files are dropped, old ones are shortened, recent
ones are shortened if they alone are too large, and then everything but the last exchanges is replaced by the model's own
summary. A call is never parted from its result, and a summary that is empty, failed or no smaller is refused.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

import msgspec

from sluice.errors import StoreError
from sluice.run.conversation import Talk
from sluice.run.images import overweight
from sluice.run.model_call import BrokenReply, ModelCall
from sluice.run.parts import Parts
from sluice.run.scope import RunScope
from sluice.values.deltas import Delta
from sluice.values.messages import AssistantMessage, Conversation, Reply, ToolMessage, Usage, UserMessage
from sluice.values.notices import Warned
from sluice.values.requests import Request

_KEPT_RESULT = 1024  # characters of an old result that stay
_RECENT_RESULT = (8192, 2048, 512)  # the same of recent ones, step by step, where they alone are too large
# A first line that says where the whole can be read again; before it the line that names what went wrong, if it did.
_SPILLED = re.compile(r"(?:\[[a-z_]+.{0,300}\n)?.{0,300}\bspill:\d+.*")
_KEPT_EXCHANGES = 2  # the last replies, with their results, that are never touched

_ASK = (
    "The conversation is about to be cut because it is too long. Write down what is needed to go on without it: the "
    "user's task in full, what was done and found so far with the names of files and functions, what is still to do. "
    "Write nothing else and call no tool."
)
_MARK = "[Summary of the conversation so far, written by the model because it became too long]\n"


class _Unwatched:
    async def deltas(self, deltas: list[Delta]) -> None:
        return None

    async def waiting(self, attempt: int, seconds: float, reason: str) -> None:
        return None


async def shrink(
    talk: Talk, parts: Parts, measure: Callable[[], int], max_bytes: int | None, *, wanted: bool = False
) -> tuple[bool, Usage]:
    """Shrinks what `talk` sends; returns whether it got smaller (and fits, if `max_bytes` is known) and what it cost.

    `measure` returns the size in bytes of the request as it would be sent now. `wanted`: a person asked for it, so that
    every step is taken whether it is needed or not. On failure, and when cancelled, the conversation is as before.
    """
    original = talk.messages
    try:
        ok, usage = await _shrunk(talk, parts, measure, max_bytes, wanted)
    except BaseException:
        talk.messages = original
        raise
    if not ok:
        talk.messages = original
    return ok, usage


async def keep_shrunk(scope: RunScope) -> None:
    """Stores what is sent from here on, so that a resumed session sends the same. A store that cannot is told: then the
    whole is sent, and shrunk, again."""
    try:
        await scope.parts.store.shrank(scope.talk.messages)
    except StoreError as error:
        await scope.emit(Warned(message=f"the shrunk context was not stored: {error}"))


async def _shrunk(
    talk: Talk, parts: Parts, measure: Callable[[], int], max_bytes: int | None, wanted: bool
) -> tuple[bool, Usage]:
    before = measure()
    goal = before - 1 if max_bytes is None else max_bytes
    cut = _last_exchanges(talk.messages)
    old = slice(0, cut)
    for step in (_dropped, _short):
        talk.messages = _each_result(talk.messages, old, step)
        if measure() <= goal and not wanted:
            return True, Usage()
    if _recent_fit(talk, cut, measure, goal) and not wanted:
        return True, Usage()
    if cut == 0:  # nothing stands before what must stay, so a summary could only add to it
        return measure() <= goal, Usage()
    short = measure()
    summary, usage = await _summary(talk, parts, before if max_bytes is None else max_bytes)
    if summary:
        shortened = talk.messages
        talk.messages = (UserMessage(_MARK + summary, origin="host"), *talk.messages[cut:])
        if measure() > short:
            talk.messages = shortened
    return measure() <= goal, usage


def _recent_fit(talk: Talk, cut: int, measure: Callable[[], int], goal: int) -> bool:
    """Shortens the recent results until they alone fit, if they do not; whether the whole fits then.

    One result may be larger than all that the model can read, and then no summary of the rest would help.
    """
    for kept in _RECENT_RESULT:
        everything = talk.messages
        talk.messages = everything[cut:]
        alone = measure()
        talk.messages = everything
        if alone <= goal:
            return False
        talk.messages = _each_result(everything, slice(cut, None), lambda text, kept=kept: _short(text, kept))  # type: ignore[misc]
        if measure() <= goal:
            return True
    return False


def _each_result(messages: Conversation, part: slice, change: Callable[[str], str]) -> Conversation:
    """The conversation with the text of each result in this part of it changed."""
    within = range(*part.indices(len(messages)))
    return tuple(
        msgspec.structs.replace(m, content=change(m.content)) if i in within and isinstance(m, ToolMessage) else m
        for i, m in enumerate(messages)
    )


def _dropped(content: str) -> str:
    """Of a result that was kept in a file as a whole, only the line that says so."""
    found = _SPILLED.match(content)
    return content if found is None else f"{found[0]}\n[left out here; it can be read again]"


def _short(content: str, kept: int = _KEPT_RESULT) -> str:
    if len(content) <= kept:
        return content
    half = kept // 2
    return f"{content[:half]}\n[{len(content) - kept} characters left out]\n{content[-half:]}"


def _last_exchanges(messages: Conversation) -> int:
    """Where the part that is never touched begins: always at a reply or a user's message, so no result loses its call."""
    replies = [i for i, m in enumerate(messages) if isinstance(m, AssistantMessage)]
    return replies[-_KEPT_EXCHANGES] if len(replies) >= _KEPT_EXCHANGES else 0


async def _summary(talk: Talk, parts: Parts, most: int) -> tuple[str, Usage]:
    """The model's summary, or `""` for any reply that is not one. The request for it has at most `most` bytes."""
    request = _request(talk, parts, most)
    if request is None:
        return "", Usage()
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
    if isinstance(answer, BrokenReply) and answer.kind == "aborted":
        raise asyncio.CancelledError  # a model call that is cancelled answers all the same
    if not isinstance(answer, Reply):
        return "", Usage()
    usage = answer.usage or Usage(
        input_tokens=len(request.body) // 4, output_tokens=len(answer.text) // 4, estimated=True
    )
    return (answer.text.strip() if answer.stop_reason == "end_turn" and not answer.tool_calls else ""), usage


def _request(talk: Talk, parts: Parts, most: int) -> Request | None:
    """The request for a summary of as much of the conversation as fits: the first message, and the newest exchanges.

    A summary must not fail by what made it needed. `None` if nothing fits.
    """
    everything = talk.messages
    starts = [i for i, m in enumerate(everything) if i and isinstance(m, AssistantMessage)]

    def made(at: int) -> tuple[Request, bool]:
        part = everything if at == 0 else (everything[0], *everything[starts[at - 1] :])
        conversation = (*talk.to_send(extra=False, messages=part), UserMessage(_ASK, origin="host"))
        request = parts.dialect.request(conversation, (), parts.options)
        return request, len(request.body) - overweight(conversation) <= most

    low, high = 0, len(starts)  # the fewest exchanges left out; the more are, the smaller it is
    while low < high:
        middle = (low + high) // 2
        if made(middle)[1]:
            high = middle
        else:
            low = middle + 1
    request, fits = made(low)
    return request if fits else None
