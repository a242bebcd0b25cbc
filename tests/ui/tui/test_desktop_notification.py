"""A notice is written only where the terminal is known, and never holds anything but words."""

from __future__ import annotations

import pytest

from sluice.ui.tui.desktop_notification import notification_sequence


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}, "\x1b]9;hi\x1b\\"),
        ({"TERM": "xterm-ghostty", "TERM_PROGRAM": "ghostty"}, "\x1b]9;hi\x1b\\"),
        ({"TERM": "xterm-kitty"}, "\x1b]9;hi\x1b\\"),
        ({"TERM": "foot"}, "\x1b]777;notify;Sluice;hi\x1b\\"),
        ({"TERM": "xterm-256color"}, ""),
        ({"TERM": "tmux-256color", "TERM_PROGRAM": "tmux"}, ""),
        ({"TERM": "xterm-kitty", "TMUX": "/tmp/x"}, ""),
        ({}, ""),
    ],
)
def test_by_terminal(environment: dict[str, str], expected: str) -> None:
    assert notification_sequence("hi", environment) == expected


def test_words_cannot_break_out() -> None:
    assert notification_sequence("a\x1b\\b;c\x07", {"TERM": "foot"}) == "\x1b]777;notify;Sluice;a\\bc\x1b\\"
