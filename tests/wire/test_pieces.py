"""Pieces of a text: folding keeps the text, keeps the list short, and copies each character once."""

from __future__ import annotations

from sluice.wire.pieces import Pieces


def test_folding_keeps_the_text_and_the_last_piece() -> None:
    pieces = Pieces()
    copied = 0
    for n in range(100_000):
        pieces.append(f"{n},")
        if n % 500 == 0:
            before = set(map(id, pieces))
            pieces.fold()
            copied += sum(len(p) for p in pieces if id(p) not in before)
            assert pieces[-1] == f"{n},"
    text = "".join(pieces)
    assert text == "".join(f"{n}," for n in range(100_000))
    assert len(pieces) < 3000
    assert copied <= len(text)


def test_few_pieces_stay_as_they_are() -> None:
    pieces = Pieces()
    pieces += ["a", "b"]
    pieces.fold()
    assert pieces == ["a", "b"]


def test_one_piece_in_place_of_all() -> None:
    pieces = Pieces()
    pieces += ["a"] * 5000
    pieces.fold()
    assert pieces.folded == 1
    pieces.replace("b")
    assert pieces.folded == 0
    pieces.append("c")
    pieces.fold()
    assert pieces == ["b", "c"]
