"""Labels for long and odd pastes: what is sent is what was pasted, what is shown is safe."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.ui.tui.pastes import SHORT_CHARACTERS, Pastes
from sluice.ui.visible import visible

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


def test_short_plain_text_is_shown_as_it_is() -> None:
    pastes = Pastes()
    assert pastes.take("def f():\r\n\treturn '漢字 👩‍👩‍👧'\r") == "def f():\n\treturn '漢字 👩‍👩‍👧'\n"
    assert pastes.expanded("x") == "x"


def test_long_text_is_a_label_and_sent_whole() -> None:
    pastes = Pastes()
    label = pastes.take("x" * 12_345)
    assert label == "[pasted 12,345 characters]"
    assert pastes.expanded(f"look: {label}!") == "look: " + "x" * 12_345 + "!"


def test_many_lines_are_a_label() -> None:
    assert Pastes().take("line\n" * 10) == "[pasted 50 characters]"


def test_two_texts_of_one_length_are_told_apart() -> None:
    pastes = Pastes()
    first, second, again = pastes.take("a" * 2000), pastes.take("b" * 2000), pastes.take("a" * 2000)
    assert first == again != second
    assert pastes.expanded(first + second) == "a" * 2000 + "b" * 2000


def test_a_label_inside_a_pasted_text_stands_for_nothing() -> None:
    pastes = Pastes()
    label = pastes.take("y" * 2000)
    inner = pastes.take(f"text with {label}")
    assert inner != f"text with {label}"
    assert pastes.expanded(inner) == f"text with {label}"


def test_spans_say_where_labels_stand() -> None:
    pastes = Pastes()
    label = pastes.take("z" * 2000)
    assert pastes.spans(f"ab{label}c{label}") == [(2, 2 + len(label)), (3 + len(label), 3 + 2 * len(label))]
    pastes.clear()
    assert pastes.spans(label) == []


@given(st.lists(st.one_of(TEXTS, TEXTS.map(lambda text: text * 300)), max_size=5))
def test_what_is_shown_can_be_seen_and_what_is_sent_is_the_paste(texts: list[str]) -> None:
    pastes = Pastes()
    shown = [pastes.take(text) for text in texts]
    for piece in shown:
        assert visible(piece) == piece
        assert len(piece) <= SHORT_CHARACTERS
    sent = "\x00".join(text.replace("\r\n", "\n").replace("\r", "\n") for text in texts)
    assert pastes.expanded("\x00".join(shown)) == sent


def test_strings_that_attack_terminals_never_reach_one(shared: Path) -> None:
    for line in (shared / "vectors" / "terminal" / "strings.jsonl").read_text().splitlines():
        text = base64.b64decode(json.loads(line)["data_b64"]).decode("utf-8", "replace")
        pastes = Pastes()
        label = pastes.take(text)
        assert visible(label) == label
        assert pastes.expanded(label) == text.replace("\r\n", "\n").replace("\r", "\n")


@pytest.mark.parametrize("text", ["", "\n"])
def test_nothing_is_nothing(text: str) -> None:
    assert Pastes().take(text) == text
