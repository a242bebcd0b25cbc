"""Makes the conversation that is sent smaller (L10). What is stored stays as it is.

In order, until it fits: old tool results that can be read again from files are dropped, old ones are shortened, recent
ones are shortened if they alone are too large, and then everything but the last exchanges is replaced by the model's own
summary. A call is never parted from its result, and a summary that is empty, failed or no smaller is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from sluice.errors import StoreError
from sluice.run.conversation import Talk
from sluice.run.parts import Parts
from sluice.run.scope import RunScope
from sluice.run.summarising import MayAsk, anything, summary
from sluice.values.messages import AssistantMessage, Conversation, ToolMessage, Usage
from sluice.values.notices import Warned

_KEPT_RESULT = 1024  # characters of an old result that stay
_RECENT_RESULT = (8192, 2048, 512)  # the same of recent ones, step by step, where they alone are too large
# A first line that says where the whole can be read again; before it the line that names what went wrong, if it did.
_SPILLED = re.compile(r"(?:\[[a-z_]+.{0,300}\n)?.{0,300}\bspill:\d+.*")
_KEPT_EXCHANGES = 2  # the last replies, with their results, that are never touched


class Shrunk(msgspec.Struct, frozen=True):
    """`ok`: the conversation got smaller, and fits where it is known what fits. `message` says why no summary is part of
    it, where one was wanted."""

    ok: bool
    message: str = ""


async def shrink(
    talk: Talk,
    parts: Parts,
    measure: Callable[[], int],
    max_bytes: int | None,
    used: list[Usage],
    *,
    wanted: bool = False,
    may_ask: MayAsk = anything,
) -> Shrunk:
    """Shrinks what `talk` sends. On failure, and when cancelled, the conversation is as before.

    `measure` returns the size in bytes of the request as it would be sent now. `used` gets what each model call of it used,
    also when this fails or is cancelled. `wanted`: a person asked for it, so that every step is taken whether it is needed
    or not. `may_ask` is asked before the model is.
    """
    original = talk.messages
    try:
        shrunk = await _shrunk(talk, parts, measure, max_bytes, used, wanted, may_ask)
    except BaseException:
        talk.messages = original
        raise
    if not shrunk.ok:
        talk.messages = original
    return shrunk


async def keep_shrunk(scope: RunScope) -> None:
    """Stores what is sent from here on, so that a resumed session sends the same. A store that cannot is told: then the
    whole is sent, and shrunk, again."""
    try:
        await scope.parts.store.shrank(scope.talk.messages)
    except StoreError as error:
        await scope.emit(Warned(message=f"the shrunk context was not stored: {error}"))


async def _shrunk(
    talk: Talk,
    parts: Parts,
    measure: Callable[[], int],
    max_bytes: int | None,
    used: list[Usage],
    wanted: bool,
    may_ask: MayAsk,
) -> Shrunk:
    before = measure()
    goal = before - 1 if max_bytes is None else max_bytes
    cut = _last_exchanges(talk.messages)
    old = slice(0, cut)
    for step in (_dropped, _short):
        talk.messages = _each_result(talk.messages, old, step)
        if measure() <= goal and not wanted:
            return Shrunk(True)
    if _recent_fit(talk, cut, measure, goal) and not wanted:
        return Shrunk(True)
    if cut == 0:  # nothing stands before what must stay, so a summary could only add to it
        return Shrunk(measure() <= goal)
    short = measure()
    words, why = await summary(talk, parts, before if max_bytes is None else max_bytes, used, may_ask)
    if words is not None:
        shortened = talk.messages
        talk.messages = (words, *talk.messages[cut:])
        if measure() >= short:
            talk.messages = shortened
            why = "the model's summary was no smaller than what it would replace"
    return Shrunk(measure() <= goal, why)


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
