"""Asks the person at the terminal (P3). What is asked about is shown escaped and complete, with its length.

A line of what is shown never begins where a line of ours begins: all of it stands behind a gutter, wrapped by us and not
by the terminal, so that no text can look like a question or an answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import unicodedata
from collections.abc import Callable, Iterator, Sequence

from sluice.run.question import GUTTER, counted, in_one_line, shown_arguments, why_asked
from sluice.values.calls import ToolSpec

TERMINAL = "/dev/tty"
MAX_ANSWER_BYTES = 4096  # what a terminal takes as one line
_MAX_WORDS = 1000  # characters of a person's word to the model
_GUTTER = f"  {GUTTER}"
_YES, _NO = ("y", "yes"), ("n", "no", "")


def has_terminal(path: str = TERMINAL, *, in_front: bool = False) -> bool:
    """Whether this process has a terminal where somebody can be asked; with `in_front` only if it has it for itself now: one
    that a shell runs in the background is stopped where it reads."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        return os.isatty(fd) and (not in_front or os.tcgetpgrp(fd) == os.getpgrp())
    except OSError:
        return False
    finally:
        os.close(fd)


Details = Callable[[str, str], Sequence[str]]


def no_details(tool: str, arguments: str) -> Sequence[str]:
    """Nothing stands behind a call."""
    return ()


class TerminalApprover:
    """Implements `values.ports.Approver` with the terminal of this process.

    `escaped` makes text safe to show; `folder` is where calls run; `details` says in lines, which need not be safe, what
    stands behind a call (of its tool and arguments). The answer is one line: `y` is yes; `n` or nothing is
    no; other words are no, and are told to the model. The end of input, bytes that are no text, and a terminal that cannot
    be used are no. What was typed before the question does not count. Being cancelled closes the terminal and asks no more.
    """

    def __init__(
        self, escaped: Callable[[str], str], *, folder: str, path: str = TERMINAL, details: Details = no_details
    ) -> None:
        self._escaped = escaped
        self._details = details
        self._folder = folder
        self._path = path

    async def ask(self, spec: ToolSpec, arguments: str, reason: str) -> tuple[bool, str]:
        """See `Approver.ask`."""
        try:
            fd = os.open(self._path, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            return False, ""
        try:
            question = self.question(spec, arguments, reason, _columns(fd)).encode("utf-8", "backslashreplace")
            above, newline, last = question.rpartition(b"\n")
            await _write(fd, above)
            # After all but the last line: what is typed while a long question is being shown is no answer to it.
            _drop_typed(fd)
            await _write(fd, newline + last)
            return answer(await _line(fd))
        except OSError:
            return False, ""
        finally:
            os.close(fd)

    def question(self, spec: ToolSpec, arguments: str, reason: str, columns: int = 80) -> str:
        """The whole text of the question; apart from newlines it holds no control character."""
        lines = ["", f"The model wants to use {self._one_line(spec.name)} ({spec.category})"]
        lines += [f"  in {self._one_line(self._folder)}", f"  asked because {self._one_line(why_asked(reason))}"]
        total = 0
        for shown in shown_arguments(arguments, self._escaped):
            total += shown.characters
            lines.append(f"  {shown.heading}")
            lines += [f"{_GUTTER}{piece}" for piece in wrapped(shown.text, columns - len(_GUTTER) - 1)]
            if shown.odd:
                lines.append(f"  {shown.odd}")
        behind = self._details(spec.name, arguments)
        if behind:
            lines.append("  as the project stands now, it runs:")
            for line in behind:
                lines += [f"{_GUTTER}{piece}" for piece in wrapped(self._one_line(line), columns - len(_GUTTER) - 1)]
        lines.append(
            f"Allow this one call of {self._one_line(spec.name)} ({counted(total, 'character')} shown above)? "
            "y, n, or a word to the model: "
        )
        return "\n".join(lines)

    def _one_line(self, text: str) -> str:
        return in_one_line(text, self._escaped)


def answer(line: bytes | None) -> tuple[bool, str]:
    """What one line of answer means; `None` is the end of input, and no."""
    if line is None:
        return False, ""
    try:
        text = line.decode("utf-8").strip()
    except UnicodeDecodeError:
        return False, ""
    if text.lower() in _YES:
        return True, ""
    if text.lower() in _NO or not text.isprintable():
        return False, ""
    return False, text[:_MAX_WORDS]


def wrapped(text: str, columns: int) -> Iterator[str]:
    """The text in pieces that fit into `columns`, one for each line on the screen. Joined they are all of it."""
    columns = max(columns, 10)
    for line in text.split("\n"):
        piece: list[str] = []
        width = 0
        for char in line.replace("\t", "␉"):
            wide = 2 if unicodedata.east_asian_width(char) in "WF" else 1
            if width + wide > columns:
                yield "".join(piece)
                piece, width = [], 0
            piece.append(char)
            width += wide
        yield "".join(piece)


def _columns(fd: int) -> int:
    try:
        return os.get_terminal_size(fd).columns or 80
    except OSError:
        return 80


def _drop_typed(fd: int) -> None:
    import termios  # not on every system

    with contextlib.suppress(termios.error):
        termios.tcflush(fd, termios.TCIFLUSH)


async def _write(fd: int, data: bytes) -> None:
    loop = asyncio.get_running_loop()
    left = memoryview(data)
    while left:
        try:
            left = left[os.write(fd, left) :]
        except BlockingIOError:
            ready = loop.create_future()
            loop.add_writer(fd, _set, ready)
            try:
                await ready
            finally:
                loop.remove_writer(fd)


async def _line(fd: int) -> bytes | None:
    """One line, without its end; `None` at the end of input, or if it is too long for an answer."""
    loop = asyncio.get_running_loop()
    line = bytearray()
    while b"\n" not in line:
        try:
            piece = os.read(fd, MAX_ANSWER_BYTES)
        except BlockingIOError:
            ready = loop.create_future()
            loop.add_reader(fd, _set, ready)
            try:
                await ready
            finally:
                loop.remove_reader(fd)
            continue
        line += piece
        if not piece or len(line) > MAX_ANSWER_BYTES:
            return None
    first, _end, more = bytes(line).partition(b"\n")
    return first if not more else None  # more than one line was pasted, not answered


def _set(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
