"""The shipped splits: nothing is lost, nothing is invented, every cut is there, and a seed always means the same."""

from __future__ import annotations

import pytest

from sluice.testing.splits import every_split, in_pieces, random_splits, two_way_splits

BODY = bytes(range(50))


def test_every_split_joins_to_the_body() -> None:
    for pieces in every_split(BODY):
        assert b"".join(pieces) == BODY


def test_a_fixed_size_is_kept_up_to_the_last_piece() -> None:
    assert [len(p) for p in in_pieces(BODY, 7)] == [7] * 7 + [1]
    assert in_pieces(b"", 3) == []


def test_a_size_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one byte"):
        in_pieces(BODY, 0)


def test_two_way_splits_cut_everywhere_once() -> None:
    assert [len(first) for first, _ in two_way_splits(BODY)] == list(range(51))


def test_random_splits_depend_on_the_seed_alone() -> None:
    assert list(random_splits(BODY, seed=3)) == list(random_splits(BODY, seed=3))
    assert list(random_splits(BODY, seed=3)) != list(random_splits(BODY, seed=4))
    assert any(b"" in pieces for pieces in random_splits(BODY, seed=3)), "an empty read is a read too"
