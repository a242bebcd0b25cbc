"""Every way to tear bytes into reads that a parser has to survive.

Each function gives lists of pieces whose join is the body. A parser of streams is right only if all give one answer.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence


def in_pieces(body: bytes, size: int) -> list[bytes]:
    """The body in pieces of `size` bytes, the last one perhaps shorter. Raises `ValueError` for a size below 1."""
    if size < 1:
        raise ValueError("a piece has at least one byte")
    return [body[i : i + size] for i in range(0, len(body), size)]


def two_way_splits(body: bytes) -> Iterator[list[bytes]]:
    """The body in two pieces, once for each place at which it can be cut; a piece may be empty. Quadratic in its length."""
    for cut in range(len(body) + 1):
        yield [body[:cut], body[cut:]]


def random_splits(body: bytes, *, seed: int, rounds: int = 20, longest: int = 64) -> Iterator[list[bytes]]:
    """The body in pieces of 0 to `longest` bytes, `rounds` times, the same for the same seed. Short pieces are favoured."""
    dice = random.Random(seed)  # noqa: S311 — a test's dice, not a secret
    for _ in range(rounds):
        pieces = []
        at = 0
        while at < len(body):
            step = min(dice.randint(0, longest), dice.randint(0, longest))
            pieces.append(body[at : at + step])
            at += step
        yield pieces


def every_split(
    body: bytes, *, sizes: Sequence[int] = (1, 2, 3, 7, 64, 1460), seed: int = 0, rounds: int = 20
) -> Iterator[list[bytes]]:
    """Whole, in fixed sizes, at every single cut, and at random: the splits that a test of a short body wants."""
    yield [body]
    for size in sizes:
        yield in_pieces(body, size)
    yield from two_way_splits(body)
    yield from random_splits(body, seed=seed, rounds=rounds)
