"""Halves of surrogate pairs: put together where they meet, replaced where they stay alone, and never let through."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.wire.surrogates import Halves, is_torn, rejoined, storable

torn_texts = st.text(st.sampled_from("aé🍸\ud83c\udf78\ud800\udfff"), max_size=12)


def test_what_is_torn() -> None:
    assert not is_torn("plain")
    assert not is_torn("é🍸")
    assert is_torn("a\ud83c")
    assert is_torn("\ud83c\udf78")
    assert rejoined("\ud83c\udf78 \ud83c") == "🍸 \ud83c"
    assert storable("\ud83c\udf78 \ud83c") == "🍸 \ufffd"


@given(torn_texts)
@settings(deadline=None)
def test_storable_text_can_be_encoded_and_sound_text_stays(text: str) -> None:
    storable(text).encode()
    assert is_torn(text) or storable(text) == text


@given(torn_texts, st.lists(st.integers(0, 12)))
@settings(deadline=None)
def test_any_cut_of_a_text_comes_out_as_the_whole_would(text: str, cuts: list[int]) -> None:
    places = [0, *sorted(min(c, len(text)) for c in cuts), len(text)]
    halves = Halves()
    pieces = [halves.join(text[a:b]) for a, b in pairwise(places) if a < b]
    assert "".join([*pieces, halves.rest()]) == storable(text)
    assert halves.rest() == ""
