"""Markdown as it arrives: the same blocks however it was cut, finished ones never again, and never much work in a frame."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.ui.tui import markdown_stream as module
from sluice.ui.tui.block import Block
from sluice.ui.tui.markdown_stream import MAX_STEP, MarkdownStream

PIECES = [
    "# Title\n\n", "Words and **more** words\nsecond line\n\n", "- one\n- two\n  - three\n\n", "1. a\n2. b\n\n",
    "    indented code\n\n",
    "```py\nx = 1\n\n\ny = 2\n```\n", "~~~~\n```\nraw\n~~~~\n", "> quote\n> - in it\n\n",
    "| a | b |\n|--|--|\n| 1 | 2 |\n\n",
    "中文，字符 👨‍👩‍👧 \r\n\r\n", "---\n\n", "a\x1b[31m\u202eb\n\n", "[x](file:///etc/passwd) ![y](http://z/)\n\n",
    "<script>alert(1)</script>\n\n", "````md\n```\n````\n", "*open **never closed `x\n\n", "- ```sh\n  ls\n  ```\n\n",
]  # fmt: skip


def rows(blocks: list[Block], width: int = 40) -> list[str]:
    return [row.text for block in blocks for row in block.rows(width)]


def streamed(text: str, cuts: list[int]) -> list[str]:
    """The rows of the text, fed in pieces that end at `cuts`."""
    stream = MarkdownStream()
    finished: list[Block] = []
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        stream.feed(text[start:end])
        step = stream.step()
        finished += step.finished
    stream.end()
    more = True
    while more:
        made, still_open, more = stream.step()
        finished += made
    assert not still_open
    return rows(finished)


@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=8), st.randoms(use_true_random=False))
@settings(max_examples=150, deadline=None)
def test_it_is_the_same_however_it_was_cut(pieces: list[str], chance: random.Random) -> None:
    text = "".join(pieces)
    whole = streamed(text, [])
    cuts = sorted(chance.sample(range(1, len(text)), min(12, len(text) - 1)))
    assert streamed(text, cuts) == whole


@pytest.mark.parametrize("text", ["".join(PIECES), "1. a\n2. b\n\n1. c\n\n10. d\n"], ids=["all", "numbers"])
def test_it_is_the_same_character_by_character(text: str) -> None:
    assert streamed(text, list(range(1, len(text)))) == streamed(text, [])


def test_what_is_finished_is_not_made_again_and_the_rest_is_shown_as_it_comes() -> None:
    stream = MarkdownStream()
    stream.feed("first paragraph\n\nsecond")
    step = stream.step()
    assert rows(step.finished) == ["first paragraph"]
    assert rows(step.open) == ["", "second"]
    stream.feed(" goes on")
    step = stream.step()
    assert step.finished == []
    assert rows(step.open) == ["", "second goes on"]


def test_lines_of_a_fence_are_shown_as_they_come() -> None:
    stream = MarkdownStream()
    stream.feed("```\none\ntw")
    assert rows(stream.step().open) == ["│ one", "│ tw"]


@pytest.mark.parametrize(
    "text",
    ["x" * 60_000, "- item\n" * 4_000, "```\n" + "x = 1\n" * 10_000, "|a|\n|-|\n" + "|1|\n" * 3_000, "word " * 12_000],
    ids=["one word", "a list", "a fence", "a table", "one line"],
)
def test_what_is_open_stays_small(text: str) -> None:
    """However long a block grows, a frame makes a bounded part of it anew."""
    stream = MarkdownStream()
    shown = 0
    for at in range(0, len(text), 1000):
        stream.feed(text[at : at + 1000])
        step = stream.step()
        shown += sum(block.weight for block in step.finished)
        assert sum(block.weight for block in step.open) <= module.MAX_OPEN + 1000
    assert shown > len(text) // 6  # of a table its cells count


def test_a_step_takes_a_bounded_part_of_what_waits() -> None:
    stream = MarkdownStream()
    stream.feed("word " * 20_000)
    step = stream.step()
    assert step.more
    assert sum(block.weight for block in [*step.finished, *step.open]) <= module.MAX_STEP


def test_of_too_much_the_end_is_shown_and_a_line_says_so() -> None:
    shown = streamed("lost " * 100_000 + "kept", [])
    assert shown[0].startswith("… 237,") or "characters of this message are not" in " ".join(shown[:2])
    assert shown[-1].endswith("kept")


def test_addresses_are_shown_and_nothing_can_be_followed() -> None:
    stream = MarkdownStream()
    stream.feed("[a](https://x.example) [click](file:///etc/passwd) ![i](http://evil/p.png) <http://auto.example>\n\n")
    stream.end()
    finished = stream.step().finished
    assert rows(finished, 200) == [
        "a (https://x.example) [click](file:///etc/passwd) [image: i] (http://evil/p.png) http://auto.example"
    ]
    styles = [segment.style for block in finished for row in block.rows(200) for segment in row]
    assert all(style is None or (style.link is None and not style.meta) for style in styles)


def test_sequences_torn_between_pieces_are_marks() -> None:
    shown = "\n".join(streamed("a\x1b]8;;http://x\x07b\u202ec\r\nd", [2, 3, 9, 20]))
    assert "\x1b" not in shown
    assert "␛]8;;http://x␇b<U+202E>c\nd" in shown


@pytest.mark.parametrize("step", [50, 1000, 100_000])
@pytest.mark.parametrize("edge", ["| ", ""], ids=["with edges", "without"])
def test_a_long_table_keeps_its_heading_in_every_part(step: int, edge: str) -> None:
    rows_of_it = [f"{edge}row {number} | a value" for number in range(600)]
    text = "\n".join([f"{edge}left | right", f"{edge}--- | ---", *rows_of_it, "", "After it.", ""])
    shown = streamed(text, list(range(step, len(text), step)))
    assert not [row for row in shown if "|" in row]
    headings = [at for at, row in enumerate(shown) if row.startswith("left")]
    assert len(headings) > (1 if step < MAX_STEP else 0)
    assert all(shown[at + 1].startswith("──") and shown[at + 2].startswith("row ") for at in headings)
    assert [row.split(" │")[0].strip() for row in shown if row.startswith("row ")] == [f"row {n}" for n in range(600)]
    assert shown[-1] == "After it."


@pytest.mark.parametrize("after", ["# Title\n", "\nwords\n", "> quoted\n"])
def test_nothing_but_rows_comes_below_the_heading_of_a_cut_table(after: str) -> None:
    stream = MarkdownStream()
    stream.feed("| a |\n| - |\n" + "| row of it |\n" * 400)
    stream.step()
    while stream.step().more:
        pass
    stream._open = ""  # as where the cut is just at its end
    assert stream._heading
    stream.feed(after)
    stream.end()
    assert rows(stream.step().finished)[-1].strip("▎ ") in ("Title", "words", "quoted")
    assert not stream._heading
