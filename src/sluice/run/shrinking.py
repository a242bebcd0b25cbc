"""Makes the conversation that is sent smaller (L10). What is stored stays as it is.

In order, until it fits: old tool results that can be read again from files are dropped, old ones are shortened, recent
ones are shortened if they alone are too large (and if that is not enough, recent words, but for the last prompt), and then
everything but the last exchanges is replaced by the model's own summary and the user's own words, within a bound. A call
is never parted from its result, and a summary that is empty, failed or no smaller is refused. A very short one is not: a
conversation may come to one line, a run that is refused one ends, and what the user wants is told beside it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable

import msgspec

from sluice.errors import StoreError
from sluice.run.conversation import Talk
from sluice.run.parts import Parts
from sluice.run.scope import RunScope
from sluice.run.shortening import SHORTER, dropped, short_results, short_words
from sluice.run.stand_in import MOST_WORDS, StandIn, chosen, words_of
from sluice.run.summarising import MayAsk, anything, summary
from sluice.values.messages import AssistantMessage, Conversation, Usage
from sluice.values.notices import Warned

_KEPT_RESULT = 1024  # characters of an old result that stay
_KEPT_EXCHANGES = 2  # the last replies, with their results, that are left alone as long as they fit

# Of the bytes that fit, one part in eight is for the user's words: more would soon leave no room again. Where even that
# is too much, a half of it, and so on.
_WORDS_PART = 8
_FEWER = (1, 2, 4, 16)

_Step = Callable[[Conversation, slice], Conversation]
# The same of recent results, step by step, where they alone are too large; then of recent words.
_RECENT_RESULTS = tuple(functools.partial(short_results, kept=kept) for kept in SHORTER)
_RECENT_WORDS = tuple(functools.partial(short_words, kept=kept) for kept in SHORTER)


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
    for step in (dropped, functools.partial(short_results, kept=_KEPT_RESULT)):
        talk.messages = step(talk.messages, old)
        if measure() <= goal and not wanted:
            return Shrunk(True)
    steps = _RECENT_RESULTS if max_bytes is None else (*_RECENT_RESULTS, *_RECENT_WORDS)
    alone = _shorten_recent(talk, cut, measure, goal, steps)
    if measure() <= goal and not wanted:
        return Shrunk(True)
    if cut == 0:  # nothing stands before what must stay, so a summary could only add to it
        return Shrunk(measure() <= goal)
    if alone > goal:
        return Shrunk(False, "what was said last is alone too large")
    short = measure()
    room = before if max_bytes is None else max_bytes
    text, why = await summary(talk, parts, room, used, may_ask)
    if text is None:
        return Shrunk(measure() <= goal, why)
    shortened = talk.messages
    _stand_in(talk, cut, text, min(MOST_WORDS, room // _WORDS_PART), lambda: measure() <= min(goal, short - 1))
    if measure() >= short:
        talk.messages = shortened
        return Shrunk(short <= goal, "the model's summary was no smaller than what it would replace")
    for step in steps:  # what is recent may leave no room for the summary
        if measure() <= goal:
            break
        talk.messages = step(talk.messages, slice(1, None))
    return Shrunk(measure() <= goal)


def _stand_in(talk: Talk, cut: int, summary: str, most: int, fits: Callable[[], bool]) -> None:
    """Puts the summary and the user's words in place of what stands before `cut`: at most about `most` characters of them,
    and fewer where so many do not fit."""
    words, recent = words_of(talk.messages[:cut]), talk.messages[cut:]
    for part in _FEWER:
        talk.messages = (StandIn(chosen(words, most // part), summary).message(), *recent)
        if fits():
            break


def _shorten_recent(talk: Talk, cut: int, measure: Callable[[], int], goal: int, steps: Iterable[_Step]) -> int:
    """Shortens what is recent until it alone fits, if it does not; returns the size of it alone.

    One result, or one prompt, may be larger than all that the model can read, and then no summary of the rest would help.
    """

    def alone() -> int:
        everything = talk.messages
        talk.messages = everything[cut:]
        size = measure()
        talk.messages = everything
        return size

    for step in steps:
        if alone() <= goal:
            break
        talk.messages = step(talk.messages, slice(cut, None))
    return alone()


def _last_exchanges(messages: Conversation) -> int:
    """Where the part that no summary replaces begins: always at a reply or a user's message, so no result loses its call."""
    replies = [i for i, m in enumerate(messages) if isinstance(m, AssistantMessage)]
    return replies[-_KEPT_EXCHANGES] if len(replies) >= _KEPT_EXCHANGES else 0
