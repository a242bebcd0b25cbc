"""From a terminal's bytes to keys and pastes: at every split, with damage, and large."""

from __future__ import annotations

import time

import pytest
from textual import events
from textual.message import Message

from sluice.ui.tui import key_stream
from sluice.ui.tui.key_stream import KeyStream
from sluice.ui.tui.messages import PasteRefused

START, END = b"\x1b[200~", b"\x1b[201~"


def shown(messages: list[Message]) -> list[str]:
    """Each message in a word; pieces of typed text joined."""
    words: list[str] = []
    for message in messages:
        if isinstance(message, events.Key):
            words.append(message.key)
        elif isinstance(message, events.Paste):
            words.append(f"paste {message.text}")
        elif isinstance(message, PasteRefused):
            words.append(f"refused {message.characters}")
        else:
            words.append(type(message).__name__)
    return words


def fed(*pieces: bytes, max_paste: int = 100) -> list[str]:
    keys = KeyStream(max_paste=max_paste)
    found: list[Message] = []
    for piece in pieces:
        found += keys.feed(piece)
        found += keys.tick()
    found += keys.end()
    return shown(found)


SCENE = b"a\x1b\r" + START + "b\x1b[2J\r\nü\x1b[201".encode() + END + b"\rc\n\x1b[A\x03"
WORDS = ["a", "alt+enter", "paste b\x1b[2J\r\nü\x1b[201", "enter", "c", "ctrl+j", "up", "ctrl+c"]


def test_keys_and_pastes_are_told_apart() -> None:
    assert fed(SCENE) == WORDS


def test_every_split_gives_the_same() -> None:
    for at in range(1, len(SCENE)):
        assert fed(SCENE[:at], SCENE[at:]) == WORDS, at
    assert fed(*(SCENE[at : at + 1] for at in range(len(SCENE)))) == WORDS


def test_an_escape_that_was_a_key_is_no_part_of_the_enter_after_it() -> None:
    keys = KeyStream()
    found = list(keys.feed(b"\x1b"))
    deadline = time.monotonic() + 5
    while not found and time.monotonic() < deadline:
        found += keys.tick()
    found += keys.feed(b"\r")
    assert shown(found) == ["escape", "enter"]


def test_bytes_that_are_no_text_are_marks_and_no_crash() -> None:
    assert fed(b"a\xff\xfeb")[0] == "a"
    assert fed(b"a\xff\xfeb")[-1] == "b"
    assert fed(START + b"\xff" + END) == ["paste \N{REPLACEMENT CHARACTER}"]
    assert fed(b"\xc3", b"\xbc") == ["ü"]


@pytest.mark.parametrize("size", [0, 1, 100, 101, 5000])
def test_a_paste_is_whole_or_refused(size: int) -> None:
    text = b"x" * size
    expected = [] if not size else ["paste " + "x" * size] if size <= 100 else [f"refused {size}"]
    assert fed(START + text + END + b"y") == [*expected, "y"]
    assert fed(START, *(text[at : at + 7] for at in range(0, size, 7)), END, b"y") == [*expected, "y"]


def test_a_paste_without_an_end_is_ended_by_ctrl_c() -> None:
    assert fed(START + b"abc", b"\r", b"\x03", b"\x03") == ["paste abc\r", "ctrl+c"]


def test_an_end_without_a_start_is_nothing() -> None:
    assert fed(b"a" + END + b"b") == ["a", "b"]


def test_a_paste_of_ten_megabytes_is_refused_without_keeping_it() -> None:
    keys = KeyStream()
    found = list(keys.feed(START))
    piece = b"\x1b[31mline\r\n" * 6400
    for _ in range(10 * 1024 * 1024 // len(piece)):
        found += keys.feed(piece)
        assert keys._paste is not None
        assert sum(map(len, keys._paste)) <= key_stream.MAX_PASTE_CHARACTERS
    found += keys.feed(END)
    assert shown(found)[0].startswith("refused 10")
