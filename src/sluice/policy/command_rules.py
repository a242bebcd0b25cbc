"""What rules with a `command` say of a command line: deny and ask if any program matches, allow only if all are covered.

A pattern is a shell pattern over the words of one program, joined by single spaces, words with odd characters in single
quotes: `git status*`, `rm *`. A pattern that ends in ` *` also covers the program without more words. For deny and ask the
program's name also counts without its folder and in lower case; for allow it counts as it is written.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from sluice.policy.command_words import Reading
from sluice.policy.command_wrappers import Program, transparent
from sluice.policy.read_only_commands import same_words
from sluice.policy.rules import Rule

_HEAD = re.compile(r"[^*?\[]*")
MAX_SHOWN = 200  # characters of a program's words in a verdict


class Match(NamedTuple):
    """The rule that counts, the words it rests on, and whether these words are certain to fall under it."""

    rule: Rule
    words: str
    certain: bool = True


def strongest_no(rules: Sequence[Rule], reading: Reading) -> Match | None:
    """The first deny that matches any program, else the first ask; a deny that only might match counts as an ask."""
    asks: Match | None = None
    for rule in sorted(rules, key=lambda rule: rule.effect != "deny"):
        if rule.effect == "allow" or rule.command is None:
            continue
        for program in reading.programs:
            certain = _matches(rule.command, program)
            if certain and rule.effect == "deny":
                return Match(rule, shown(program))
            if asks is None and (certain or _might_match(rule.command, program)):
                asks = Match(rule, shown(program), certain)
    return asks


def covering(rules: Sequence[Rule], text: str, reading: Reading) -> Match | None:
    """The allowing rule that the line rests on (that of its first program), if every program of it is covered.

    Nothing is covered that is doubtful, runs in the background, has a variable set or a file written, or holds a word that
    is only known when the line runs.
    """
    if reading.doubts or reading.background or reading.heredoc or not reading.programs:
        return None
    if any(one.target.text not in ("/dev/null", "1", "2") for one in reading.redirections) or not same_words(
        text, reading
    ):
        return None
    allowing = [rule for rule in rules if rule.effect == "allow" and rule.command is not None]
    first: Match | None = None
    for program in reading.programs:
        if program.assignments or any(word.kind == "dynamic" for word in program.words):
            return None
        found = next((rule for rule in allowing if _covers(rule.command or "", joined(program))), None)
        if found is None and not transparent(program):
            return None
        if found is not None and first is None:
            first = Match(found, shown(program))
    return first


def joined(program: Program) -> str:
    """The words of a program as a pattern sees them. Words that are only known later stand as they are written."""
    return " ".join(word.text if word.kind != "literal" else _quoted(word.text) for word in program.words)


def shown(program: Program) -> str:
    """The same, cut to a length for people."""
    text = joined(program)
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 1] + "…"


def _quoted(text: str) -> str:
    return text if text and not any(char in text for char in " \t\n'\"\\;|&<>()$`") else shlex.quote(text)


def _covers(pattern: str, text: str) -> bool:
    return fnmatchcase(text, pattern) or (pattern.endswith(" *") and text == pattern[:-2])


def _forms(program: Program) -> set[str]:
    text = joined(program)
    if not program.name:
        return {text}
    rest = text[len(_quoted(program.words[0].text)) :]
    return {text, program.name + rest, program.name.lower() + rest}


def _matches(pattern: str, program: Program) -> bool:
    return any(_covers(pattern, text) for text in _forms(program))


def _might_match(pattern: str, program: Program) -> bool:
    """Whether words that are only known later could make the pattern match."""
    known = 0
    while known < len(program.words) and program.words[known].kind == "literal":
        known += 1
    if known == len(program.words) or known == 0:
        return False  # nothing is unknown; or the program is, and then the whole line is doubtful
    found = _HEAD.match(pattern)
    head = found[0] if found else ""
    starts = (text + " " for text in _forms(program._replace(words=program.words[:known])))
    return any(start.startswith(head) or head.startswith(start) for start in starts)
