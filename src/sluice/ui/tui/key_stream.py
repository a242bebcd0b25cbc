"""What a terminal sends, as keys and pastes. Textual's parser does the keys; this does what it cannot.

A paste is taken whole and fast up to a bound, bytes that are no UTF-8 do not end the program, and Alt-Enter of terminals
without a newer keyboard protocol (an escape and a carriage return) is told from Enter. Where a terminal sends a paste as
if it were typed, its line ends are newlines and send nothing.
"""

from __future__ import annotations

import codecs
import re
import time
from collections.abc import Callable, Iterator

from textual import events
from textual._xterm_parser import BRACKETED_PASTE_END, BRACKETED_PASTE_START, XTermParser
from textual.message import Message

from sluice.ui.tui.messages import PasteRefused

MAX_PASTE_CHARACTERS = 4 * 1024 * 1024  # what a prompt may hold; of a longer paste nothing is kept
_ALT_ENTER = "\x1b\r"
_ALT_ENTER_NEW = "\x1b[13;3u"  # the same key in the newer protocol, which the parser knows
_GIVE_UP = (b"\x03", b"\x1b[99;5u")  # Ctrl-C, typed alone while the end of a paste does not come
_SEQUENCE = re.compile(r"\x1b(?:\[[0-9;<=>?:]*[@-~]|O.|[^\[O])?", re.DOTALL)  # a key or the mouse, and no text
BURST_CHARACTERS = 12  # so many, each right behind the other, are not typed by hand, not even over a slow line
BURST_SECONDS = 0.01  # between two reads of one burst


class KeyStream:
    """Bytes in, messages out: `feed` as they come, `tick` when nothing came for a while. For one thread."""

    def __init__(
        self,
        *,
        max_paste: int = MAX_PASTE_CHARACTERS,
        debug: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._parser = XTermParser(debug)
        self._max_paste = max_paste
        self._escaping = False  # the parser waits for what follows an escape
        self._typed = ""  # the end of what went to the parser, in which a start mark may have begun
        self._paste: list[str] | None = None
        self._kept = 0
        self._size = 0
        self._burst = _Burst()
        self._end = ""  # the last of the paste, in which its end mark may have begun

    def feed(self, data: bytes, *, final: bool = False) -> Iterator[Message]:
        """The messages that these bytes complete."""
        text = self._decoder.decode(data, final)
        if self._paste is not None and data in _GIVE_UP:
            self._keep(self._end)
            yield from self._pasted()
            return
        while text:
            if self._paste is None:
                text, messages = self._keys(text)
                yield from messages
            else:
                text, ended = self._more(text)
                if ended:
                    yield from self._pasted()

    def tick(self) -> Iterator[Message]:
        """What only time tells: an escape that was the key and no sequence."""
        for message in self._parser.tick():
            self._escaping = False
            yield message

    def end(self) -> Iterator[Message]:
        """The end of input."""
        return iter(self._parser.feed(""))

    def _keys(self, text: str) -> tuple[str, list[Message]]:
        """Gives text up to the end of a start mark to the parser; the rest, and what it said."""
        seen = self._typed + text
        at = seen.find(BRACKETED_PASTE_START)
        if at < 0:
            upto = len(text)
            self._typed = seen[-len(BRACKETED_PASTE_START) + 1 :]
        else:
            upto = at + len(BRACKETED_PASTE_START) - len(self._typed)
            self._typed, self._paste, self._kept, self._size, self._end = "", [], 0, 0, ""
        typed = text[:upto]
        if self._escaping and typed.startswith("\r"):
            typed = _ALT_ENTER_NEW[1:] + typed[1:]
        self._escaping = typed.endswith("\x1b")
        typed = self._burst.without_enters(typed.replace(_ALT_ENTER, _ALT_ENTER_NEW), self._clock())
        return text[upto:], list(self._parser.feed(typed))

    def _more(self, text: str) -> tuple[str, bool]:
        """Takes text of a paste; what comes after its end mark, and whether there was one."""
        seen = self._end + text
        at = seen.find(BRACKETED_PASTE_END)
        if at >= 0:
            self._keep(seen[:at])
            return seen[at + len(BRACKETED_PASTE_END) :], True
        hold = len(BRACKETED_PASTE_END) - 1
        self._keep(seen[:-hold])
        self._end = seen[-hold:]
        return "", False

    def _keep(self, text: str) -> None:
        assert self._paste is not None  # both callers know
        self._size += len(text)
        if self._size <= self._max_paste:
            self._paste.append(text)
        else:
            self._paste.clear()

    def _pasted(self) -> Iterator[Message]:
        text, size = "".join(self._paste or ()), self._size
        self._paste = None
        for _empty in self._parser.feed(BRACKETED_PASTE_END):
            pass  # the parser saw the start, and must see the end
        if size > self._max_paste:
            yield PasteRefused(size)
        elif text:
            yield events.Paste(text)


class _Burst:
    """Text that comes faster than it can be typed, perhaps in several reads."""

    def __init__(self) -> None:
        self._last = 0.0  # when something came
        self._size = 0  # characters of the burst that were no keys of their own
        self._lines = 0  # line ends among them

    def without_enters(self, typed: str, now: float) -> str:
        """What was read at `now`, with newlines for the line ends of a burst.

        One line and its Enter in a single read stay a line that is sent: programs that type for a person do that. Of all
        later ones none is sent, so that a burst is at most one prompt.
        """
        if now - self._last > BURST_SECONDS:
            self._size = self._lines = 0
        self._last = now
        plain = _SEQUENCE.sub("", typed)
        self._size += len(plain)
        inside = self._lines > 0 or "\r" in plain.rstrip("\r")
        self._lines += plain.count("\r")
        return typed.replace("\r", "\n") if inside and self._size >= BURST_CHARACTERS else typed
