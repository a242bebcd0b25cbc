"""How the transcript is painted: the terminal's own sixteen colours, right on a dark and on a light background.

Nothing is told by colour alone: each style that carries a meaning goes with a word, a mark or an attribute.
"""

from __future__ import annotations

from rich.style import Style

PLAIN = Style()
BOLD = Style(bold=True)
ITALIC = Style(italic=True)
STRIKE = Style(strike=True)
DIM = Style(dim=True)
DIM_ITALIC = Style(dim=True, italic=True)
HEADING = Style(bold=True, underline=True)
CODE = Style(color="cyan")
LINK = Style(underline=True)
PROMPT = Style(bold=True, color="blue")
GOOD = Style(color="green")
BAD = Style(color="red")
CAUTION = Style(color="yellow")
ADDED = Style(color="green")
REMOVED = Style(color="red")
PLACE = Style(color="cyan")
SELECTED = Style(reverse=True)

DIFF = {"+": ADDED, "-": REMOVED, "@": PLACE}
"""By the first character of a line of a unified diff."""
