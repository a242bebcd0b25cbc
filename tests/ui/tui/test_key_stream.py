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


def typed_at(*reads: tuple[float, bytes]) -> str:
    """What reads at these seconds give, with `!` for Enter and `/` for a newline."""
    now = [0.0]
    keys = KeyStream(clock=lambda: now[0])
    found: list[Message] = []
    for seconds, data in reads:
        now[0] = seconds
        found += keys.feed(data)
    marks = {"enter": "!", "ctrl+j": "/", "ctrl+c": "^"}
    return "".join(marks.get(key.key, key.character or "") for key in found if isinstance(key, events.Key))


@pytest.mark.parametrize(
    ("reads", "expected"),
    [
        ([(1.0, b"first line\rsecond line\rthird line\r")], "first line/second line/third line/"),
        ([(1.0, b"first line\r\r"), (1.002, b"second\r"), (1.004, b"x\r")], "first line!!second/x/"),
        ([(1.0, b"def work():\r    ret"), (1.005, b"urn 1\r"), (1.5, b"\r")], "def work():/    return 1/!"),
        ([(1.0, b"what a program types\r")], "what a program types!"),
        ([(1.0, b"what a program types\r"), (1.5, b"and then\r")], "what a program types!and then!"),
        ([(1.0, b"y\ry\ry\r")], "y!y!y!"),
        ([(1.0, b"go\rand on")], "go!and on"),
        ([(1.0, b"\x1b[<35;10;10M\x1b[<35;10;11M\rok")], "!ok"),
        ([(1 + at * 0.03, bytes([byte])) for at, byte in enumerate(b"typed by hand\rvery fast\r")],
         "typed by hand!very fast!"),
        ([(1 + at * 0.001, bytes([byte])) for at, byte in enumerate(b"a serial line\rmore of it\rend\r")],
         "a serial line!more of it/end/"),
    ],
)  # fmt: skip
def test_a_burst_without_marks_of_a_paste_is_at_most_one_prompt(
    reads: list[tuple[float, bytes]], expected: str
) -> None:
    assert typed_at(*reads) == expected


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
