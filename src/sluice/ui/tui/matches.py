"""What completes the word at the cursor: a command, a command's argument, or a file behind `@`."""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from sluice.ui.tui.slash_commands import COMMANDS
from sluice.ui.visible import visible

MOST_SHOWN = 50
_FILE = re.compile(r'(?:^|(?<=[\s(]))@("[^"\n]*|[^\s"]*)$')
_NAME = re.compile(r"/(\w*)$")
_ARGUMENT = re.compile(r"/(model)\s+(\S*)$")


class Wanted(NamedTuple):
    """What is looked for: its kind, what was typed of it, and at which column of the line that begins."""

    kind: Literal["command", "model", "file"]
    typed: str
    start: int


class Match(NamedTuple):
    """`insert` takes the place of what was typed; `shown` is its line in the list, `words` say more."""

    insert: str
    shown: str
    words: str = ""


def wanted(line: str, *, first_line: bool) -> Wanted | None:
    """What the end of `line` (the cursor's line up to the cursor) asks to complete."""
    if first_line:
        if found := _NAME.match(line):
            return Wanted("command", found[1], 0)
        if found := _ARGUMENT.match(line):
            return Wanted("model", found[2], found.start(2))
    if found := _FILE.search(line):
        return Wanted("file", found[1].removeprefix('"'), found.start())
    return None


def command_matches(typed: str) -> list[Match]:
    """The commands that begin so."""
    return [
        Match(f"/{command.name}" + (" " if command.argument else ""), f"/{command.name}", command.words)
        for command in COMMANDS
        if command.name.startswith(typed.lower())
    ]


def word_matches(typed: str, words: Iterable[str]) -> list[Match]:
    """The words that hold what was typed; those that begin so first."""
    low = typed.lower()
    found = [word for word in words if low in word.lower() and visible(word) == word]
    return [Match(word, word) for word in sorted(found, key=lambda word: not word.lower().startswith(low))][:MOST_SHOWN]


def file_matches(typed: str, paths: Sequence[str]) -> list[Match]:
    """The paths that fit best: by the beginning of path or name, then by a part, then by letters in this order."""
    low = typed.lower()
    ranked: list[tuple[int, int, str]] = []
    scattered: list[tuple[int, int, str]] = []
    letters = re.compile(".*?".join(map(re.escape, low[:64])))
    for path in paths:
        lower = path.lower()
        if low in lower:
            name = lower.rpartition("/")[2]
            rank = 0 if name.startswith(low) else 1 if lower.startswith(low) else 2 if low in name else 3
            ranked.append((rank, len(path), path))
        elif len(ranked) < MOST_SHOWN and letters.search(lower):
            scattered.append((4, len(path), path))
    best = heapq.nsmallest(MOST_SHOWN, ranked)
    best += heapq.nsmallest(MOST_SHOWN - len(best), scattered)
    return [Match(f'@"{path}" ' if " " in path else f"@{path} ", path) for _rank, _size, path in best if _plain(path)]


def _plain(path: str) -> bool:
    return '"' not in path and visible(path) == path
