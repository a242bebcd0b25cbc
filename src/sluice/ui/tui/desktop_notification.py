"""The escape sequence that shows a notification on the desktop, for the terminals that are known to have one."""

from __future__ import annotations

from collections.abc import Mapping

_OSC_9 = ("iTerm.app", "WezTerm", "ghostty")  # by TERM_PROGRAM
_OSC_777 = ("foot", "rxvt-unicode")  # by how TERM begins


def notification_sequence(words: str, environment: Mapping[str, str]) -> str:
    """What to write to show `words` of our own; empty where the terminal is not known, or another stands between."""
    term = environment.get("TERM", "")
    if environment.get("TMUX") or environment.get("STY") or term.startswith(("screen", "tmux")):
        return ""  # they would show it as text, or swallow it
    plain = "".join(char for char in words if char.isprintable() and char != ";")
    if environment.get("TERM_PROGRAM") in _OSC_9 or term.startswith("xterm-kitty"):
        return f"\x1b]9;{plain}\x1b\\"
    if term.startswith(_OSC_777):
        return f"\x1b]777;notify;Sluice;{plain}\x1b\\"
    return ""
