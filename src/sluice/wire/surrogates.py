"""Halves of surrogate pairs: JSON escapes can carry one alone, and servers tear pairs apart between two events.

A text with half a pair cannot be encoded, so it can be neither stored nor shown nor sent. Here halves that meet are put
together, and a half that stays alone becomes U+FFFD.
"""

from __future__ import annotations


def is_torn(text: str) -> bool:
    """True if `text` holds a surrogate, alone or in a pair that was not put together."""
    if text.isascii():
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def rejoined(text: str) -> str:
    """The text with halves that stand side by side made into one character; other halves stay."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def storable(text: str) -> str:
    """The text with pairs put together and every half that is alone as U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


class Halves:
    """One channel of text in pieces: a first half at the end of a piece waits for the next piece."""

    __slots__ = ("held",)

    def __init__(self) -> None:
        self.held = ""

    def join(self, text: str) -> str:
        """What can be handed out now, perhaps nothing."""
        text = self.held + text
        self.held = ""
        if "\ud800" <= text[-1:] <= "\udbff":
            self.held = text[-1]
            text = text[:-1]
        return storable(text)

    def rest(self) -> str:
        """End of input: the half that nothing followed, as U+FFFD."""
        held, self.held = self.held, ""
        return storable(held)
