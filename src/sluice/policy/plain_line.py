"""A second, narrow reader of command lines, for the one case that counts: before a line is allowed unasked.

It knows bare words, quotes without substitutions, `;`, `&&`, `||`, `|`, new lines, and the redirections that write no
file. Whatever else is there makes it `None`. A line is only held to be understood if this reader and the grammar of
`command_words` found the same words, so that an error in one of them is not enough.
"""

from __future__ import annotations

_BARE = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-^")
_GLOB = frozenset("*?[]")
_QUIET = ("2>/dev/null", "1>/dev/null", ">/dev/null", "2>&1", "1>&2", ">&2")
_QUIET_SPACED = ("2> /dev/null", "1> /dev/null", "> /dev/null")

PlainWord = tuple[str, bool]
"""A word's value, and whether it holds a pattern for file names."""


def plain_line(text: str) -> list[list[PlainWord]] | None:
    """The commands of the line in order, each as its words; `None` if the line is not of the plain kind."""
    commands: list[list[PlainWord]] = []
    words: list[PlainWord] = []
    at, needed = 0, False  # `needed`: the operator before must be followed by a command
    while at < len(text):
        char = text[at]
        if char in " \t":
            at += 1
            continue
        if char in ";|&\n":
            operator = text[at : at + 2] if text[at : at + 2] in ("&&", "||") else char
            if operator == "&" or (not words and (operator != "\n" or needed)):
                if not (operator == "\n" and needed):
                    return None
                at += 1  # a new line may follow an operator
                continue
            if words:
                commands.append(words)
                words = []
            needed = operator in ("&&", "||", "|")
            at += len(operator)
            continue
        quiet = _quiet(text, at)
        if quiet:
            if not words:
                return None
            at += quiet
            continue
        word = _word(text, at)
        if word is None or (not words and not _is_name(word[0][0], text[at])):
            return None
        words.append(word[0])
        at, needed = word[1], False
    if words:
        commands.append(words)
    return None if needed else commands


def _quiet(text: str, at: int) -> int:
    """The length of a redirection to nowhere at this place, or 0."""
    for form in (*_QUIET, *_QUIET_SPACED):
        if text.startswith(form, at) and text[at + len(form) : at + len(form) + 1] in ("", " ", "\t", "\n", ";", "|"):
            return len(form)
    return 0


def _is_name(word: str, first: str) -> bool:
    """Whether a command may begin with this word: bare, and no assignment."""
    return first in _BARE and "=" not in word


def _word(text: str, at: int) -> tuple[PlainWord, int] | None:
    value: list[str] = []
    globs = False
    while at < len(text):
        char = text[at]
        if char in "'\"":
            end = text.find(char, at + 1)
            inner = text[at + 1 : end]
            if end < 0 or not all(one.isprintable() or one in "\n\t" for one in inner):
                return None
            if char == '"' and any(one in "$`\\!" for one in inner):
                return None
            value.append(inner)
            at = end + 1
        elif char in _BARE or char in _GLOB:
            globs = globs or char in "*?["
            value.append(char)
            at += 1
        elif char in " \t\n;|&":
            break
        else:
            return None
    return ("".join(value), globs), at
