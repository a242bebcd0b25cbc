"""Output and diffs as rows: head and tail of what is long, and a line that says how much is between."""

from __future__ import annotations

from textual.strip import Strip

from sluice.ui.tui.styles import DIFF, DIM, PLAIN
from sluice.ui.tui.wrapping import cut_row, plain_rows, wrap

EDGE = "  │ "


def head_and_tail(text: str, width: int, head: int, tail: int, left_out: int = 0) -> list[Strip]:
    """At most about `head + tail + 1` rows of visible text. `left_out` characters are missing in its middle already."""
    lines = text.split("\n")
    if len(lines) <= head + tail + 1 and not left_out:
        rows = plain_rows(text, width, DIM, EDGE)
        if len(rows) <= 2 * (head + tail):
            return rows
    first = plain_rows("\n".join(lines[:head]), width, DIM, EDGE)
    last = plain_rows("\n".join(lines[max(len(lines) - tail, head) :]), width, DIM, EDGE) if lines[head:] else []
    between = max(len(lines) - head - tail, 0)
    cut = len(first) > 2 * head or len(last) > 2 * tail
    first, last = first[: 2 * head], last[-2 * tail :]
    if left_out:
        words = f"… {left_out:,} characters and {between:,} lines more"
    elif between:
        words = f"… {between:,} more lines"
    else:
        words = "… more of these lines" if cut else ""
    middle = [cut_row(((f"{EDGE}{words}", DIM),), width)] if words else []
    return [*first, *middle, *last]


def diff_rows(diff: str, width: int, limit: int, cut: bool) -> list[Strip]:
    """At most about `limit` rows of a visible unified diff, each coloured and marked by its first character."""
    rows: list[Strip] = []
    lines = diff.split("\n")
    if len(lines) > 2 and lines[0].startswith("--- ") and diff.count("\n--- ") == 0:
        lines = lines[2:]  # one file, which the call names
    for number, line in enumerate(lines):
        if len(rows) >= limit:
            rows.append(cut_row(((f"{EDGE}… {len(lines) - number:,} more lines of the diff", DIM),), width))
            return rows
        style = DIFF.get(line[:1], PLAIN) if not line.startswith(("+++", "---")) else DIM
        edge = ((EDGE, DIM),)
        rows += wrap(((line.expandtabs(4), style),), width, edge, edge, fold=True)[:limit]
    if cut:
        rows.append(cut_row(((f"{EDGE}… more of the diff is not shown", DIM),), width))
    return rows


def changed_lines(diff: str) -> str:
    """How many lines a unified diff adds and takes away, as `+3 −1`."""
    lines = diff.split("\n")
    added = sum(line.startswith("+") and not line.startswith("+++ ") for line in lines)
    removed = sum(line.startswith("-") and not line.startswith("--- ") for line in lines)
    return f"+{added} −{removed}"
