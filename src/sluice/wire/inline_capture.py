"""Text that may be a call, and how a body reader takes it: piece by piece, with a way back (W10).

Until the name of a call is certain everything taken is also held, so that it can come out again as text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping

from sluice.values.calls import ToolSpec
from sluice.values.deltas import Delta
from sluice.wire.assembler import Bound, CallAssembler, PartialCall
from sluice.wire.surrogates import storable

_MAX_NAME = 128
_space = re.compile(r"[ \t\r\n]*+").match
_name = re.compile(r"[\w.:/-]*+", re.ASCII).match

Body = Generator[None, None, None]
"""A reader of one form: it waits for more text with a bare `yield`."""


class NotACall(Exception):
    """What was captured is text after all."""


class Ended(Exception):
    """The reply ended inside a body."""


class Capture:
    """Text from a marker on, and the call that it makes. `specs` say which values of a tagged form are strings.

    Raises `Bound` if one capture holds more than `max_size` characters.
    """

    def __init__(
        self, calls: CallAssembler, specs: Mapping[str, ToolSpec], max_size: int, tolerate: Callable[[str], None]
    ) -> None:
        self.calls = calls
        self.specs = specs
        self.tolerate = tolerate
        self.text = ""  # what was not taken yet
        self.pos = 0
        self.ended = False
        self.held: list[str] = []  # what was taken and may still turn out to be text
        self.trace: list[tuple[str, str]] | None = None  # where every character went, for tests
        self.out: list[Delta] = []
        self.call: PartialCall | None = None
        self.taken = 0
        self._max_size = max_size

    def push(self, text: str) -> None:
        """More text came."""
        self.text = self.text[self.pos :] + text
        self.pos = 0

    def take(self, end: int) -> str:
        """Takes the text up to a position."""
        piece = self.text[self.pos : end]
        self.pos = end
        if piece:
            self.taken += len(piece)
            if self.taken > self._max_size:
                raise Bound("max_arguments_bytes", self._max_size, self.taken, "characters of a call in text")
            if self.call is None:
                self.held.append(piece)
            elif self.trace is not None:
                self.trace.append(("call", piece))
        return piece

    def keep(self) -> None:
        """What was held is certainly no text."""
        if self.trace is not None:
            self.trace.append(("call", "".join(self.held)))
        self.held.clear()

    def open(self, name: str) -> None:
        """The name of a call is certain: from here on it is a call."""
        if self.call is not None:
            return
        index = max((call.index for call in self.calls.calls), default=-1) + 1
        call = self.calls.open_call(index, None, name, self.out)
        call.announced = True  # its end is told from here, not by the dialect's terminal mark
        self.call = call
        self.keep()

    def write(self, arguments: str) -> None:
        """A piece of the call's arguments."""
        if self.call is not None and arguments:
            self.calls.add(self.call.index, None, None, arguments, self.out)

    def spoil(self, problem: str) -> None:
        """The call cannot be used, and why."""
        if self.call is not None:
            self.call.problem = problem
            self.call.verdict = None

    def close(self) -> None:
        """The call's own end was seen."""
        call, self.call = self.call, None
        self.taken = 0
        if call is not None:
            call.announced = False
            self.calls.close_call(call, self.out)

    def cut(self) -> None:
        """The reply ended inside the call."""
        call, self.call = self.call, None
        if call is not None:
            call.announced = False
            if call.problem is None:
                call.verdict = (storable("".join(call.fragments)), "cut", "the reply ended inside this call")


def blank(cap: Capture) -> Body:
    """Skips white space; ends at another character or with the reply."""
    while True:
        found = _space(cap.text, cap.pos)
        cap.take(found.end() if found else cap.pos)
        if cap.pos < len(cap.text) or cap.ended:
            return
        yield


def peek(cap: Capture) -> Generator[None, None, str]:
    """The next character that is no white space, not taken."""
    yield from blank(cap)
    if cap.pos == len(cap.text):
        raise Ended
    return cap.text[cap.pos]


def literal(cap: Capture, *options: str) -> Generator[None, None, str | None]:
    """Takes one of these literals; `None` if none of them is next."""
    longest = max(map(len, options))
    while True:
        there = cap.text[cap.pos : cap.pos + longest]
        for option in options:
            if there.startswith(option):
                return cap.take(cap.pos + len(option))
        if not any(option.startswith(there) for option in options):
            return None
        if cap.ended:
            raise Ended
        yield


def named(cap: Capture) -> Generator[None, None, str]:
    """Takes a tool's name; raises `NotACall` if there is none."""
    while True:
        found = _name(cap.text, cap.pos)
        end = found.end() if found else cap.pos
        if end - cap.pos > _MAX_NAME or (end == cap.pos and end < len(cap.text)):
            raise NotACall
        if end < len(cap.text):
            return cap.take(end)
        if cap.ended:
            raise Ended
        yield


def until(cap: Capture, stop: str, sink: Callable[[str], None]) -> Body:
    """Takes text up to and with `stop`, handing on what is before it."""
    while True:
        found = cap.text.find(stop, cap.pos)
        end = found if found >= 0 else begun(cap.text, cap.pos, stop)
        if end > cap.pos:
            sink(cap.take(end))
        if found >= 0:
            cap.take(found + len(stop))
            return
        if cap.ended:
            sink(cap.take(len(cap.text)))
            raise Ended
        yield


def begun(text: str, pos: int, marker: str) -> int:
    """Where, at the end of `text`, `marker` may have begun; the length of `text` if nowhere."""
    at = text.find(marker[0], max(pos, len(text) - len(marker) + 1))
    while at >= 0:
        if marker.startswith(text[at:]):
            return at
        at = text.find(marker[0], at + 1)
    return len(text)


def nothing(piece: str) -> None:
    """Takes text that no one needs."""
