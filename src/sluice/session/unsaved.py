"""What a store refused to keep of a conversation and is still in memory, with its place in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from sluice.values.messages import Conversation, Message


class Unsaved(msgspec.Struct, frozen=True, kw_only=True):
    """A message that is not in the store.

    It belongs to `run`, and came behind `behind` in the conversation as it was sent (`None`: it was the first). `before`
    is the next run of this process that the store took; empty where none came since.
    """

    run: str
    message: Message
    behind: Message | None
    before: str = ""


def placed(messages: Conversation, unsaved: Sequence[Unsaved]) -> Iterator[tuple[Message, Unsaved | None]]:
    """The conversation with what is in memory only in its place, marked by its `Unsaved`. What came behind a message that
    is not sent any more (the context was shrunk) comes first."""
    here = {id(message) for message in messages}
    marks = {id(one.message): one for one in unsaved}
    missing = [one for one in unsaved if id(one.message) not in here]
    yield from ((one.message, one) for one in missing if one.behind is None or id(one.behind) not in here)
    for message in messages:
        yield message, marks.get(id(message))
        yield from ((one.message, one) for one in missing if one.behind is message)
