"""A growing text as a list of pieces, without the memory that a million short strings cost.

A string of four characters takes fifty-three bytes. Folding joins full runs of pieces into blocks, so that each
character is copied once more and no more, and the list costs little beside the text itself.
"""

from __future__ import annotations

_RUN = 2048  # pieces; under the default bound, arguments that are sent again as they grow never get so many


class Pieces(list[str]):
    """Pieces of one text in order. `folded` of them, at the front, are blocks."""

    __slots__ = ("folded",)

    def __init__(self) -> None:
        super().__init__()
        self.folded = 0

    def fold(self) -> None:
        """Joins the pieces after the last block into another block, if they are many. The last piece stays apart."""
        if len(self) - self.folded > _RUN:
            self[self.folded : -1] = ["".join(self[self.folded : -1])]
            self.folded += 1

    def replace(self, piece: str) -> None:
        """Puts one piece in place of all."""
        self[:] = [piece]
        self.folded = 0
