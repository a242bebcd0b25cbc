"""A text made shorter in its middle, with a line that says how much is gone."""

from __future__ import annotations

import re

_GONE = re.compile(r"\n\[(\d+) characters left out\]\n")
_LONGEST = 40  # characters that such a line takes at most


def cut_middle(text: str, kept: int) -> str:
    """At most `kept` characters of `text`, its beginning and its end, and between them the line. A text that was cut so
    before is not cut again for that line's own length, and where it is, what was gone before counts too."""
    if len(text) <= kept or (len(text) <= kept + _LONGEST and _GONE.search(text)):
        return text
    half = kept // 2
    middle = text[half : len(text) - half]
    gone = len(middle) + sum(int(line[1]) - len(line[0]) for line in _GONE.finditer(middle))
    return f"{text[:half]}\n[{gone} characters left out]\n{text[len(text) - half :]}"
