"""The message that is sent in place of a conversation that became too long: what the user said, and the model's summary.

A model may leave out of a summary what it likes, and any answer of it counts as one. So the user's own words go beside it,
as they were written: the first of them, which are the task, and then the newest, within a bound. What Sluice and hooks
have said is not carried: the summary covers it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from sluice.run.cut_middle import cut_middle
from sluice.values.messages import Conversation, ImagePart, UserMessage, plain_text

MOST_WORDS = 20_000  # characters of the user's words that are carried, at most
_LEAST = 200  # characters of one prompt; where there is not even room for them, it and what is older are left out
_HEADING = 48  # characters that a heading takes, about

_OPENING = (
    "[What stands here in place of the conversation so far, which became too long: the user's own words, numbered in their "
    "order, where a missing number is one that was left out; then a summary by the model]\n"
)
_WORDS = re.compile(r"\[Words of the user, number ([0-9]{1,9}), ([0-9]{1,9}) characters\]\n")
_SUMMARY = "[Summary of the conversation so far, written by the model because it became too long]\n"

Words = tuple[int, str]
"""What the user said at once, and its number in the session, from 1."""


class StandIn(msgspec.Struct, frozen=True):
    """The user's words that are carried, in order, and the model's summary."""

    words: tuple[Words, ...]
    summary: str

    def message(self) -> UserMessage:
        """It as a message; `read` reads it again."""
        said = "".join(
            f"[Words of the user, number {number}, {len(text)} characters]\n{text}\n\n" for number, text in self.words
        )
        return UserMessage((_OPENING + said if said else "") + _SUMMARY + self.summary, origin="host")

    def shorter(self, kept: int) -> StandIn:
        """With at most about `kept` characters of the user's words, and of the summary."""
        return StandIn(chosen(self.words, kept), cut_middle(self.summary, kept))


def read(message: object) -> StandIn | None:
    """What a message carries that stands for a past; `None` if it is no such message. Nothing in a user's words is taken
    for a heading: each has its length before it."""
    if not isinstance(message, UserMessage) or message.origin != "host" or not isinstance(message.content, str):
        return None
    content, words = message.content, []
    at = len(_OPENING) if content.startswith(_OPENING) else 0
    while at and (heading := _WORDS.match(content, at)):
        end = heading.end() + int(heading[2])
        words.append((int(heading[1]), content[heading.end() : end]))
        at = end + len("\n\n")
    if not content.startswith(_SUMMARY, at):
        return None
    return StandIn(tuple(words), content[at + len(_SUMMARY) :])


def words_of(messages: Conversation) -> tuple[Words, ...]:
    """All that the user said in these messages, in order, with what a message among them carries. Images are only told."""
    found: list[Words] = []
    for message in messages:
        if (earlier := read(message)) is not None:
            found += earlier.words
        elif isinstance(message, UserMessage) and message.origin == "user":
            found.append((found[-1][0] + 1 if found else 1, _text(message)))
    return tuple(found)


def chosen(words: Sequence[Words], most: int) -> tuple[Words, ...]:
    """About `most` characters of them: of the first at least half of that, then the newest first; long ones cut in the
    middle. The first and the last are always among them."""
    if not words:
        return ()
    (number, task), later = words[0], words[1:]
    task = cut_middle(task, max(most - _size(later), most // 2))
    room, left = most - len(task), _size(later)
    kept: list[Words] = []
    for one, text in reversed(later):
        if kept and room < min(len(text), _LEAST) + _HEADING:
            break
        short = text if left <= room else cut_middle(text, max(room // 2, _LEAST))  # none takes the place of all others
        kept.append((one, short))
        room -= len(short) + _HEADING
        left -= len(text) + _HEADING
    return ((number, task), *reversed(kept))


def _size(words: Iterable[Words]) -> int:
    return sum(len(text) + _HEADING for _number, text in words)


def _text(message: UserMessage) -> str:
    images = 0 if isinstance(message.content, str) else sum(isinstance(one, ImagePart) for one in message.content)
    told = "[an image left out]" if images == 1 else f"[{images} images left out]" if images else ""
    return "\n".join(filter(None, (told, plain_text(message))))
