"""What a person is asked about a call, in words: complete, escaped, with its length (P3). Every face that asks shows this.

A line of what is shown never begins where a line of ours begins: it stands behind a gutter, so that no text can look like
a question or an answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import msgspec

GUTTER = "│ "
_ODD_SHOWN = 8  # characters that are no ASCII and are named
# Rules that no person wrote; their names say less than their words.
_BUILT_IN = ("not_approved", "unread_command", "waited")

Escaped = Callable[[str], str]
"""Makes text safe to show. Newlines stay, and nothing is left out."""


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """One argument of a call: `heading` is a line of ours, `text` all of it, escaped. `odd`, if not empty, is a warning."""

    heading: str
    text: str
    characters: int
    odd: str


def shown_arguments(arguments: str, escaped: Escaped) -> Iterator[Shown]:
    """All arguments of a call, in order: text as it is, other values as JSON. Or the raw arguments in one piece."""
    for name, text in _by_name(arguments):
        shown = escaped(text)
        size = f"{counted(len(text), 'character')}, {counted(shown.count(chr(10)) + 1, 'line')}"
        odd = sorted({char for char in text if ord(char) > 127})
        named = " ".join(f"U+{ord(char):04X}" for char in odd[:_ODD_SHOWN])
        yield Shown(
            heading=f"{in_one_line(name, escaped)}: {size}",
            text=shown,
            characters=len(text),
            odd=f"it holds letters that are no ASCII and may look like others: {named}" if odd else "",
        )


def in_one_line(text: str, escaped: Escaped) -> str:
    """The text, escaped, in one line, whole."""
    return escaped(text).replace("\n", "␊").replace("\t", "␉")


def why_asked(reason: str) -> str:
    """A verdict's `rule: words` for a person: only the words of a built-in rule; a rule of one's own stays named."""
    rule, _colon, words = reason.partition(": ")
    return words if words and rule in _BUILT_IN else reason


def counted(number: int, noun: str) -> str:
    """`1 line`, `2,000 lines`."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def _by_name(arguments: str) -> list[tuple[str, str]]:
    try:
        found = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, UnicodeError):
        return [("arguments", arguments)]
    if not isinstance(found, dict) or not found:
        return [("arguments", arguments)]
    return [(name, value if isinstance(value, str) else json.dumps(value)) for name, value in found.items()]
