"""A text made shorter in its middle, with a line that says how much is gone."""

from __future__ import annotations

import re

_GONE = re.compile(r"\n\[(?:at least )?[0-9]{1,15} characters left out\]\n")
_LONGEST = 48  # characters that such a line takes at most


def cut_middle(text: str, kept: int) -> str:
    """At most `kept` characters of `text`, its beginning and its end, and between them the line. A text that was cut so
    before is not cut again for that line's own length.

    Anybody may have written such a line, so its number counts for nothing: where one is left out, the new line says only
    how much is gone at least.
    """
    if len(text) <= kept or (len(text) <= kept + _LONGEST and _GONE.search(text)):
        return text
    half = kept // 2
    middle = text[half : len(text) - half]
    lines = _GONE.findall(middle)
    gone = f"{'at least ' if lines else ''}{len(middle) - sum(map(len, lines))}"
    return f"{text[:half]}\n[{gone} characters left out]\n{text[len(text) - half :]}"
