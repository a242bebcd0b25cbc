"""What a reader lets out while a reply arrives.

A delta tells a watcher what is known by this byte. Raw argument fragments are never a delta: what may be half-written
does not leave the reader. Structs without cycles opt out of garbage collection tracking: one is made for each event.
"""

from __future__ import annotations

from typing import Any

import msgspec

from sluice.values.messages import CallStatus


class TextDelta(msgspec.Struct, frozen=True, gc=False):
    """The next piece of the reply's text, never empty."""

    text: str


class ReasoningDelta(msgspec.Struct, frozen=True, gc=False):
    """The next piece of the reply's reasoning, never empty."""

    text: str


class CallOpened(msgspec.Struct, frozen=True, gc=False):
    """A call was asked for and its name is known. It has not run and may never run.

    `position` is the place of the call by arrival, from 0; the same in all of its deltas, and in `Reply.arrivals`. `id`
    is empty if the provider has given none yet.
    """

    position: int
    id: str
    name: str


class CallClosed(msgspec.Struct, frozen=True, gc=False):
    """A call came to its end in the stream. Whether it may run is decided later, by policy, on its status and more."""

    position: int
    id: str
    name: str
    status: CallStatus


class CallArgument(msgspec.Struct, frozen=True, gc=False):
    """One finished member of a call's arguments, told once. Only with `intent=True`.

    The call has not come to its end, has not run, and may end differently. `value` is of JSON and must not be changed.
    """

    position: int
    name: str
    value: Any


class CallProgress(msgspec.Struct, frozen=True, gc=False):
    """A call's arguments grew to `size` bytes. Only with `intent=True`; to be shown, never to be run.

    `tail` is what the string that is being written gained, unescaped, if it is the value of the member `name` of the
    arguments (or the whole free text of a call that has no members: then `name` is empty). All tails of a member,
    joined, are the beginning of its value.
    """

    position: int
    size: int
    tail: str
    name: str = ""


Delta = TextDelta | ReasoningDelta | CallOpened | CallClosed | CallArgument | CallProgress
