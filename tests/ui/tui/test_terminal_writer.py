"""A terminal that takes nothing, or has gone, holds up nobody; one that takes again is drawn anew."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sluice.ui.tui import terminal_writer
from sluice.ui.tui.terminal_writer import END_SYNC, TerminalWriter


@contextmanager
def writing() -> Iterator[tuple[TerminalWriter, int, threading.Event]]:
    """A writer to a pipe, the end from which it is read, and what is set when it has caught up."""
    read_end, write_end = os.pipe()
    caught_up = threading.Event()
    with open(write_end, "w", encoding="utf-8") as file:
        writer = TerminalWriter(file, caught_up.set)
        writer.start()
        try:
            yield writer, read_end, caught_up
        finally:
            if writer.is_alive():
                os.set_blocking(read_end, False)
                while writer.is_alive():
                    _drained(read_end)
                    writer.stop()
    os.close(read_end)


def _drained(fd: int) -> bytes:
    try:
        return os.read(fd, 1 << 20)
    except BlockingIOError:
        return b""


def test_what_is_written_arrives_in_order() -> None:
    with writing() as (writer, end, caught_up):
        for number in range(100):
            writer.write(f"{number}é\n")
        writer.stop()
        assert os.read(end, 1 << 20).decode().split() == [f"{number}é" for number in range(100)]
        assert not caught_up.is_set()


def test_a_terminal_that_takes_nothing_holds_up_nobody_and_is_drawn_anew_later() -> None:
    with writing() as (writer, end, caught_up):
        piece = "x" * 4096
        for _ in range(10 * terminal_writer.MOST_WAITING):
            writer.write(piece)  # would wait for ever
        got = b""
        while not caught_up.is_set():
            os.set_blocking(end, False)
            got += _drained(end)
        writer.write("again")
        writer.stop()
        got += _drained(end)
        assert len(got) < 2 * terminal_writer.MOST_WAITING * len(piece)
        assert got.endswith((END_SYNC + "again").encode())


def test_the_end_of_one_that_takes_nothing_is_waited_for_shortly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal_writer, "STOP_SECONDS", 0.05)
    with writing() as (writer, _end, _caught_up):
        writer.write("x" * 1_000_000)
        writer.stop()  # would wait for ever


def test_what_gives_the_terminal_back_is_never_left_out() -> None:
    with writing() as (writer, end, _caught_up):
        for _ in range(2 * terminal_writer.MOST_WAITING):
            writer.write("x" * 4096)
        writer.whole = True
        writer.write("the last words")
        os.set_blocking(end, False)
        got = b""
        while b"the last words" not in got:
            got = got[-100:] + _drained(end)


def test_a_terminal_that_has_gone_is_no_fault() -> None:
    with writing() as (writer, end, _caught_up):
        os.close(os.dup(end))
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, end)  # the reading end of the pipe is closed, and its number is not free
        os.close(null)
        for _ in range(3 * terminal_writer.MOST_WAITING):
            writer.write("x")
        writer.stop()
        assert not writer.is_alive()


def test_what_is_left_out_when_all_is_just_written_is_drawn_anew_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal_writer, "MOST_WAITING", 0)  # too much waits, and yet the thread has nothing left
    with writing() as (writer, _end, caught_up):
        writer.write("left out")
        assert caught_up.wait(20)
