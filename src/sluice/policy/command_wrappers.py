"""Programs that run other programs, and what they would run: `sudo`, `timeout`, `xargs`, `sh -c`, `find -exec`, `eval`, …

Each is a row of a table: its options, which of them take a value, and what stands before the command. An option that is
not in the table makes the line doubtful, because the words after it may then mean something else.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

WordKind = Literal["literal", "glob", "dynamic"]


class Word(NamedTuple):
    """One word of a command: its value if `literal`; with a pattern in it if `glob`; as written if `dynamic`."""

    text: str
    kind: WordKind


class Program(NamedTuple):
    """A program with its words (the first is its name) and the assignments before it. No words: assignments alone.

    `inner`: it does not stand in the line itself; another program would start it, or a shell reads it from a text.
    """

    words: tuple[Word, ...]
    assignments: tuple[str, ...] = ()
    inner: bool = False

    @property
    def name(self) -> str:
        """The last part of the program's name; empty if it has none or it is not known."""
        if not self.words or self.words[0].kind != "literal":
            return ""
        return self.words[0].text.rpartition("/")[2]


class Redirection(NamedTuple):
    """Where input or output goes: the operator as written (`>`, `2>&1` is `>&`), and the target."""

    operator: str
    target: Word


@dataclass
class Inside:
    """What a program would start: programs, texts for a shell, and why that is not known for certain."""

    programs: list[Program] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)


class _Wrapper(NamedTuple):
    """`values` are options with a value, `flags` those without (single letters, or long names); `skip` the words before
    the command; `sets`: assignments may stand before it; `feeds`: words that are not known are added to the command."""

    values: str = ""
    flags: str = ""
    skip: int = 0
    sets: bool = False
    feeds: bool = False


_WRAPPERS: dict[str, _Wrapper] = {
    "env": _Wrapper("u C unset chdir", "i 0 v ignore-environment null debug", sets=True),
    "sudo": _Wrapper(
        "u g h p C r t T U D R user group host prompt close-from role type chdir chroot",
        "n E H S k b A P non-interactive preserve-env set-home stdin background",
        sets=True,
    ),
    "doas": _Wrapper("u C", "n", sets=True),
    "xargs": _Wrapper(
        "n P I L s d E a max-args max-procs max-lines max-chars delimiter arg-file replace",
        "0 r t x p o null no-run-if-empty verbose exit interactive",
        feeds=True,
    ),
    "timeout": _Wrapper("s k signal kill-after", "v f p foreground preserve-status verbose", skip=1),
    "nice": _Wrapper("n adjustment", "0 1 2 3 4 5 6 7 8 9"),
    "ionice": _Wrapper("c n class classdata", "t ignore"),
    "nohup": _Wrapper(),
    "setsid": _Wrapper("", "c f w ctty fork wait"),
    "stdbuf": _Wrapper("i o e input output error"),
    "time": _Wrapper("f o format output", "p v a portability verbose append"),
    "command": _Wrapper("", "p"),
    "builtin": _Wrapper(),
    "exec": _Wrapper("a", "c l"),
    "coproc": _Wrapper(),
    "chroot": _Wrapper("userspec groups", "skip-chdir", skip=1),
    "taskset": _Wrapper("", "", skip=1),
    "chrt": _Wrapper("", "b f i o r", skip=1),
    "flock": _Wrapper("w E wait timeout conflict-exit-code", "s x e n u o F shared exclusive nonblock unlock close", skip=1),
    "unshare": _Wrapper("", "m u i n p U C f r"),
    "caffeinate": _Wrapper("t w", "d i m s u"),
    "busybox": _Wrapper(),
    "toybox": _Wrapper(),
    "pkexec": _Wrapper("user"),
    "fakeroot": _Wrapper(),
}  # fmt: skip
# These leave what the command does as it is, so that a rule for the command is enough.
_TRANSPARENT = frozenset({"timeout", "nice", "time", "command"})
# These also run commands, in ways that are not looked into.
_OPAQUE = frozenset(
    """
    parallel watch script strace ltrace gdb su runuser nsenter systemd-run start-stop-daemon entr expect screen
    tmux ssh at batch crontab rush unbuffer proot firejail bwrap docker podman dbus-run-session xvfb-run
    catchsegv
    """.split()  # noqa: SIM905 - a table to be read
)
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "rbash", "fish", "csh", "tcsh"})
_SHELL_VALUES = frozenset({"-o", "+o", "-O", "+O", "--rcfile", "--init-file"})
_FIND_RUNS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
# Builtins after which a later word may mean something else, or that run what is in their arguments.
_CHANGES_MEANING = frozenset(
    """
    alias unalias hash enable shopt set export declare typeset readonly local mapfile readarray read let bind
    complete compopt getopts unset
    """.split()  # noqa: SIM905 - a table to be read
)
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")


def literal(text: str) -> Word:
    """A word of known value."""
    return Word(text, "literal")


def transparent(program: Program) -> bool:
    """Whether this program only starts the one it is given, so that what is said of that one is enough."""
    first, *rest = program.words
    writes = first.text == "time" and bool(rest) and rest[0].text.startswith("-")  # a file, with `-o`
    return first.kind == "literal" and first.text in _TRANSPARENT and not writes


def inside(program: Program) -> Inside:
    """What `program` would start itself, one step deep. Bounded by its own words."""
    found = Inside()
    if not program.words:
        return found
    first = program.words[0]
    if first.kind != "literal":
        found.doubts.append(f"which program is run is decided only then ({first.text[:60]})")
        return found
    name = program.name
    if name in _SHELLS:
        _shell(program, found)
    elif name in _WRAPPERS:
        _wrapped(program, _WRAPPERS[name], found)
    elif name in _OPAQUE:
        found.doubts.append(f"{name} runs commands in a way that is not looked into")
    elif name in _CHANGES_MEANING:
        found.doubts.append(f"{name} can change what later words mean")
    elif name in _BY_NAME:
        _BY_NAME[name](program, found)
    return found


def _wrapped(program: Program, row: _Wrapper, found: Inside) -> None:
    name, words, at = program.name, program.words, 1
    values, flags = row.values.split(), row.flags.split()
    while at < len(words):
        word = words[at]
        if word.kind != "literal":
            break
        if word.text == "--":
            at += 1
            break
        if not word.text.startswith("-") or word.text == "-":
            break
        taken = _option(word.text, values, flags)
        if taken is None:
            found.doubts.append(f"{name} has an option that is not known here ({word.text[:40]})")
            return
        at += taken
    while row.sets and at < len(words) and _ASSIGNMENT.match(words[at].text):
        at += 1
        found.doubts.append(f"{name} sets variables that the program may obey")
    if any(word.kind == "dynamic" for word in words[1:at]) or at + row.skip > len(words):
        found.doubts.append(f"what {name} would run is not clear")
        return
    at += row.skip
    rest = words[at:]
    if row.feeds:
        rest = (*(rest or (literal("echo"),)), Word("…", "dynamic"))  # what it reads is added to the words
    if rest:
        found.programs.append(Program(rest, inner=True))


def _option(text: str, values: list[str], flags: list[str]) -> int | None:
    """How many words this option takes with its value; `None` if it is not known."""
    if text.startswith("--"):
        long, equals, _value = text[2:].partition("=")
        if len(long) < 2:
            return None
        if long in values:
            return 1 if equals else 2
        return 1 if long in flags else None
    for position, letter in enumerate(text[1:], 1):
        if letter in values:
            return 1 if position < len(text) - 1 else 2
        if letter not in flags:
            return None
    return 1


def _shell(program: Program, found: Inside) -> None:
    name, at, runs = program.name, 1, False
    words = program.words
    while at < len(words):
        text = words[at].text
        if words[at].kind != "literal":
            found.doubts.append(f"what {name} would run is not clear")
            return
        if text in _SHELL_VALUES:
            at += 2
            continue
        if text in ("--", "-"):
            at += 1
            break
        if text[:1] not in "-+" or len(text) < 2:
            break
        if not text.startswith("--") and text[0] == "-":
            runs = runs or "c" in text
            if any(letter in text for letter in "lis"):
                found.doubts.append(f"{name} reads files of its own first, or its standard input")
        elif text.startswith("--") and text not in ("--norc", "--noprofile", "--posix"):
            found.doubts.append(f"{name} has an option that is not known here ({text[:40]})")
        at += 1
    if at >= len(words):
        found.doubts.append(f"{name} takes its commands from its standard input")
    elif runs:
        _text(name, words[at], found)
    elif words[at].kind != "literal":
        found.doubts.append(f"what {name} would run is not clear")


def _text(name: str, word: Word, found: Inside) -> None:
    if word.kind == "literal":
        found.texts.append(word.text)
    else:
        found.doubts.append(f"what {name} would run is decided only then")


def _find(program: Program, found: Inside) -> None:
    start: int | None = None
    for at, word in enumerate(program.words):
        if start is None and word.text in _FIND_RUNS:
            start = at + 1
        elif start is not None and (word.text == ";" or (word.text == "+" and program.words[at - 1].text == "{}")):
            _found_by_find(program.words[start:at], found)
            start = None
    if start is not None:
        _found_by_find(program.words[start:], found)


def _found_by_find(words: tuple[Word, ...], found: Inside) -> None:
    if words:
        filled = tuple(Word(w.text, "dynamic") if "{}" in w.text else w for w in words)
        found.programs.append(Program(filled, inner=True))


def _eval(program: Program, found: Inside) -> None:
    words = program.words[1:]
    if all(word.kind == "literal" for word in words):
        found.texts.append(" ".join(word.text for word in words))
    else:
        found.doubts.append("what eval would run is decided only then")


def _trap(program: Program, found: Inside) -> None:
    words = [word for word in program.words[1:] if word.text != "--"]
    found.doubts.append("trap runs a command later")
    if len(words) > 1:
        _text("trap", words[0], found)


def _source(program: Program, found: Inside) -> None:
    found.doubts.append(f"{program.name} runs the commands of a file in this shell")


_BY_NAME: dict[str, Callable[[Program, Inside], None]] = {
    "find": _find,
    "eval": _eval,
    "trap": _trap,
    ".": _source,
    "source": _source,
}
