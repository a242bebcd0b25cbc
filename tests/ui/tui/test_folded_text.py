"""What a person decides about is shown whole, whatever it holds."""

from __future__ import annotations

import base64
import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from sluice.run.question import GUTTER
from sluice.ui.tui.folded_text import FoldedText, Line
from sluice.ui.visible import visible

TEXTS = st.text(st.characters(), max_size=80)
WIDTHS = st.integers(min_value=1, max_value=100)


def whole(folded: FoldedText) -> list[str]:
    """The lines, put together again from the rows."""
    lines: dict[int, list[str]] = {}
    for number, piece in folded.pieces():
        lines.setdefault(number, []).append(piece)
    return ["".join(lines[number]) for number in sorted(lines)]


def shown(text: str) -> str:
    return visible(text, strict=True).replace("\n", "␊").replace("\t", "␉")


@given(st.lists(st.one_of(TEXTS, TEXTS.map(lambda text: GUTTER + text)), max_size=6), WIDTHS)
def test_rows_joined_are_the_whole_text(texts: list[str], width: int) -> None:
    folded = FoldedText([Line(text) for text in texts], width)
    assert whole(folded) == [shown(text) for text in texts]
    assert len(folded) == len(list(folded.pieces()))


@given(TEXTS, WIDTHS)
def test_prose_is_cut_between_words_and_whole_too(text: str, width: int) -> None:
    assert whole(FoldedText([Line(text, prose=True)], width)) == [shown(text)]


def test_prose_by_words() -> None:
    rows = FoldedText([Line("one two three four", prose=True)], 9)
    assert ["".join(piece for piece, _style in row) for row in rows] == ["one two", "three", "four"]


@given(TEXTS, st.integers(min_value=8, max_value=100))
def test_no_row_is_wider_than_the_screen_and_none_can_be_obeyed(text: str, width: int) -> None:
    for row in FoldedText([Line(GUTTER + text), Line(text, before="  ")], width):
        joined = "".join(piece for piece, _style in row)
        assert cell_len(joined) <= width
        assert visible(joined, strict=True) == joined
        assert "\t" not in joined


def test_every_row_of_a_models_text_stands_behind_the_gutter() -> None:
    folded = FoldedText([Line(GUTTER + "x" * 500), Line(GUTTER + "漢" * 100)], 40)
    for row in folded:
        assert "".join(piece for piece, _style in row).startswith(GUTTER)


def test_attacks_are_marks(shared: Path) -> None:
    for line in (shared / "vectors" / "terminal" / "strings.jsonl").read_text().splitlines():
        text = base64.b64decode(json.loads(line)["data_b64"]).decode("utf-8", "replace")
        folded = FoldedText([Line(text)], 30)
        assert whole(folded) == [shown(text)]
        assert not any(char in "".join(whole(folded)) for char in "\x1b\x07\x9b\u202e")


def test_four_thousand_lines_and_one_of_ten_megabytes() -> None:
    many = FoldedText([Line(f"line {number}") for number in range(4000)], 80)
    assert len(many) == 4000
    long = FoldedText([Line("x" * 10_000_000)], 80)
    assert len(long) == 125_000
    assert whole(long) == ["x" * 10_000_000]
