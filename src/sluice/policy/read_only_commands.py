"""Commands known to read only, by tables of their options (P3).

The list spares a person questions and does nothing else. What is not in a table is not known: a new option of some
program's next version is asked about. Not in it, though they look like it: `awk`, `jq`, `less`, `man`, `tar`, `xxd`, and
nearly all of `git`, because the configuration of a repository can name programs that `git status`, `git diff` and
`git log` then start (`core.fsmonitor`, `diff.*.textconv`, `gpg.program`). The git tools answer these without a shell.

Paths out of the workspace are not spared either: reading is harmless only where reading is allowed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from sluice.policy.command_words import Reading
from sluice.policy.command_wrappers import Program, Word, transparent
from sluice.policy.plain_line import plain_line

_FOLDERS = ("/bin/", "/usr/bin/")


class _Options(NamedTuple):
    """What a program may be given. `values` take one; `long` names may have a value after `=` only; `most` operands."""

    flags: str = ""
    values: str = ""
    long: str = ""
    most: int | None = None
    numbers: bool = False  # `-20`


_LS = "color sort time time-style format all almost-all human-readable directory recursive reverse classify size inode"
_GREP = (
    "color colour include exclude exclude-dir extended-regexp fixed-strings perl-regexp basic-regexp ignore-case "
    "no-ignore-case word-regexp line-regexp count files-with-matches files-without-match max-count only-matching quiet "
    "silent no-messages byte-offset with-filename no-filename line-number null after-context before-context context text "
    "binary-files recursive dereference-recursive invert-match line-buffered"
)
_RG = (
    "color colors type type-not glob iglob max-count max-depth context after-context before-context ignore-case "
    "smart-case case-sensitive fixed-strings word-regexp line-regexp count count-matches files files-with-matches "
    "files-without-match line-number no-line-number hidden no-ignore no-ignore-vcs only-matching invert-match multiline "
    "heading no-heading with-filename no-filename column vimgrep json stats sort sortr type-list quiet pcre2 text "
    "trim max-columns null version no-config"
)
_SUMS = _Options("btz", "", "binary text zero tag")
_ANY_TEXT = _Options("neE")

_TABLES: dict[str, _Options] = {
    "arch": _Options(most=0),
    "base64": _Options("di", "w", "decode wrap ignore-garbage", most=1),
    "basename": _Options("az", "s", "multiple suffix zero"),
    "cat": _Options("AbeEnstTuv", "", "number show-all number-nonblank squeeze-blank show-ends show-tabs"),
    "cksum": _Options(),
    "cmp": _Options("bls", "n", "silent quiet verbose print-bytes bytes", most=2),
    "column": _Options("tx", "sco", "table separator output-separator"),
    "comm": _Options("123", "", "check-order nocheck-order output-delimiter total", most=2),
    "cut": _Options("snz", "bcdf", "bytes characters fields delimiter only-delimited output-delimiter complement"),
    "df": _Options("ahHiklPT", "", "human-readable all total", most=0),
    "diff": _Options(
        "abBcdEiNpqrstuwyZ",
        "UCWxIL",
        "unified context brief recursive ignore-case ignore-all-space ignore-blank-lines ignore-space-change "
        "side-by-side width suppress-common-lines new-file report-identical-files color exclude stat minimal label",
        most=2,
    ),
    "dirname": _Options("z", "", "zero"),
    "du": _Options("0abcDhHklLmPsSx", "d", "human-readable summarize max-depth all total apparent-size exclude"),
    "echo": _ANY_TEXT,
    "egrep": _Options("abcEFGhHiILlnoPqrRsTUvwxyZz", "ABCem", _GREP, numbers=True),
    "expand": _Options("i", "t", "initial tabs"),
    "expr": _Options(),
    "false": _Options(),
    "fgrep": _Options("abcEFGhHiILlnoPqrRsTUvwxyZz", "ABCem", _GREP, numbers=True),
    "file": _Options("bhiLkNrs0", "", "brief mime mime-type mime-encoding dereference no-dereference keep-going"),
    "fmt": _Options("cstu", "wg", "width"),
    "fold": _Options("bs", "w", "bytes spaces width"),
    "free": _Options("bkmghwtl", "", "human", most=0),
    "grep": _Options("abcEFGhHiILlnoPqrRsTUvwxyZz", "ABCem", _GREP, numbers=True),
    "head": _Options("qvz", "nc", "lines bytes quiet silent verbose", numbers=True),
    "hexdump": _Options("bcCdovx", "ns"),
    "hostname": _Options("fs", most=0),
    "id": _Options("Ggnruz", most=0),
    "join": _Options("iz", "aejotv12"),
    "ls": _Options("1aAbBcCdDfFgGhHiIklLmnNopqQrRsStTuUvwxXZ", "", _LS),
    "md5sum": _SUMS,
    "nl": _Options("p", "bdfhilnsvw"),
    "nproc": _Options("", "", "all ignore", most=0),
    "numfmt": _Options("z", "d", "from to suffix padding field format header round delimiter grouping"),
    "od": _Options("abcdfiloshvx", "AjNtw", "address-radix format read-bytes skip-bytes width"),
    "paste": _Options("sz", "d", "serial delimiters"),
    "pwd": _Options("LP", most=0),
    "readlink": _Options("efmnqsvz", "", "canonicalize canonicalize-existing canonicalize-missing no-newline"),
    "realpath": _Options("eLmPqsz", "", "relative-to relative-base canonicalize-existing canonicalize-missing"),
    "rev": _Options(),
    "rg": _Options("abcFhHiIlLnNoPpqsSUuvVwx0.", "ABCegmtTMjE", _RG, numbers=False),
    "seq": _Options("w", "fs", "equal-width format separator", most=3),
    "sha1sum": _SUMS,
    "sha224sum": _SUMS,
    "sha256sum": _SUMS,
    "sha384sum": _SUMS,
    "sha512sum": _SUMS,
    "sleep": _Options(most=1),
    "sort": _Options(
        "bcCdfghiMnrRsuVz",
        "kt",
        "reverse numeric-sort unique key field-separator ignore-case human-numeric-sort version-sort stable check "
        "general-numeric-sort dictionary-order month-sort zero-terminated ignore-leading-blanks",
    ),
    "stat": _Options("fLt", "c", "format printf dereference terse file-system"),
    "strings": _Options("afw", "net", "all bytes radix encoding"),
    "sum": _Options("rs"),
    "tac": _Options("br", "s", "before regex separator"),
    "tail": _Options("qvz", "nc", "lines bytes quiet silent verbose", numbers=True),
    "tr": _Options("cCdst", "", "complement delete squeeze-repeats truncate-set1", most=2),
    "tree": _Options("adfFhilLnpqrstuDgCNQS", "LPI", "dirsfirst noreport du prune gitignore filesfirst", most=None),
    "true": _Options(),
    "tty": _Options("s", most=0),
    "uname": _Options("amnoprsvip", most=0),
    "unexpand": _Options("a", "t", "all tabs first-only"),
    "uniq": _Options("cdDiuz", "fsw", "count repeated unique ignore-case skip-fields skip-chars check-chars", most=1),
    "uptime": _Options("ps", most=0),
    "wc": _Options("clmLw", "", "bytes chars lines words max-line-length"),
    "which": _Options("a"),
    "whoami": _Options(most=0),
}  # fmt: skip
# Their operands are text, not paths.
_TEXT_OPERANDS = frozenset(
    {"echo", "expr", "seq", "tr", "basename", "dirname", "sleep", "true", "false", "numfmt", "printf"}
)

_FIND_ALONE = frozenset(
    """
    -print -print0 -ls -prune -empty -not -a -and -o -or -true -false -depth -xdev -mount -daystart -quit
    -readable -writable -executable -nouser -nogroup -P -L -H ! ( )
    """.split()  # noqa: SIM905 - a table to be read
)
_FIND_VALUE = frozenset(
    """
    -name -iname -path -ipath -wholename -regex -iregex -type -xtype -size -mtime -mmin -atime -amin -ctime
    -cmin -newer -maxdepth -mindepth -perm -user -group -links -inum -regextype -printf -lname -ilname -fstype
    -uid -gid -samefile -anewer -cnewer
    """.split()  # noqa: SIM905 - a table to be read
)
_SED_PRINT = re.compile(r"(\d{1,9}|\$)(,(\d{1,9}|\$))?p")
_DATE = frozenset({"-u", "-R", "-I", "--utc", "--iso-8601", "--iso-8601=seconds", "--rfc-email"})
_GIT = frozenset(
    {
        ("--version",),
        ("version",),
        ("branch", "--show-current"),
        ("rev-parse", "--show-toplevel"),
        ("rev-parse", "--show-prefix"),
        ("rev-parse", "--git-dir"),
        ("rev-parse", "--is-inside-work-tree"),
    }
)


def known_read_only(text: str, reading: Reading) -> bool:
    """Whether the whole line is known to read only, and only in the workspace. `reading` is of this very text.

    Both readers must have found the same words. Never raises for words it does not know; they make it false.
    """
    if reading.doubts or reading.background or reading.heredoc or not reading.programs:
        return False
    if not all(_goes_nowhere(one.operator, one.target) for one in reading.redirections):
        return False
    return same_words(text, reading) and all(_program(one) for one in reading.programs)


def same_words(text: str, reading: Reading) -> bool:
    """Whether the narrow second reader finds the same commands with the same words."""
    plain = plain_line(text)
    if plain is None:
        return False
    written = [program for program in reading.programs if program.words and not program.inner]
    found = [[(word.text, word.kind == "glob") for word in program.words] for program in written]
    return found == plain and all(word.kind != "dynamic" for program in written for word in program.words)


def _goes_nowhere(operator: str, target: Word) -> bool:
    if target.kind != "literal":
        return False
    return (
        target.text == "/dev/null" if operator in (">", ">>", "<") else operator == ">&" and target.text in ("1", "2")
    )


def _program(program: Program) -> bool:
    if program.assignments or not program.words or any(word.kind == "dynamic" for word in program.words):
        return False
    name = program.words[0].text
    for folder in _FOLDERS:
        name = name.removeprefix(folder)
    if program.words[0].kind != "literal" or "/" in name:
        return False
    if transparent(program):
        return True  # what it runs stands beside it, and is looked at too
    words = program.words[1:]
    if name in _SPECIAL:
        return _SPECIAL[name]([word.text for word in words]) and not any(word.kind == "glob" for word in words)
    table = _TABLES.get(name)
    return table is not None and _fits(table, words, paths=name not in _TEXT_OPERANDS)


def _fits(table: _Options, words: Sequence[Word], *, paths: bool) -> bool:
    operands, options, at = 0, True, 0
    long = table.long.split()
    while at < len(words):
        word, text = words[at], words[at].text
        at += 1
        if word.kind == "glob" and (text[:1] in "*?[-" or table.most is not None):
            return False  # names of files could be options, or more operands than seen
        if not options or not text.startswith("-") or text == "-":
            operands += 1
            if paths and not _inside(text):
                return False
            continue
        if text == "--":
            options = False
        elif text.startswith("--"):
            name, _equals, value = text[2:].partition("=")
            if name not in long or not _inside(value):
                return False
        elif not (table.numbers and text[1:].isascii() and text[1:].isdigit()):
            taken = _letters(table, text)
            if taken is None or at + taken > len(words) or not all(_inside(w.text) for w in words[at : at + taken]):
                return False
            at += taken
    return table.most is None or operands <= table.most


def _letters(table: _Options, text: str) -> int | None:
    """How many of the next words belong to these single-letter options; `None` if one is not known."""
    for position, letter in enumerate(text[1:], 1):
        if letter in table.values:
            return 1 if position == len(text) - 1 else (0 if _inside(text[position + 1 :]) else None)
        if letter not in table.flags:
            return None
    return 0


def _inside(path: str) -> bool:
    """Whether a word, should it be a path, stays in the workspace (links aside: the sandbox holds those)."""
    return not path.startswith(("/", "~")) and ".." not in path.split("/")


def _cd(words: list[str]) -> bool:
    return len(words) == 1 and not words[0].startswith("-") and _inside(words[0])


def _find(words: list[str]) -> bool:
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word in _FIND_VALUE:
            if at >= len(words) or not (_inside(words[at]) or word in ("-size", "-perm")):
                return False
            at += 1
        elif word not in _FIND_ALONE and (word.startswith("-") or not _inside(word)):
            return False
    return True


def _sed(words: list[str]) -> bool:
    return (
        len(words) >= 2
        and words[0] == "-n"
        and _SED_PRINT.fullmatch(words[1]) is not None
        and all(not word.startswith("-") and _inside(word) for word in words[2:])
    )


def _date(words: list[str]) -> bool:
    return all(word in _DATE or word.startswith("+") for word in words)


def _printf(words: list[str]) -> bool:
    return bool(words) and not words[0].startswith("-")


def _git(words: list[str]) -> bool:
    return tuple(words) in _GIT


_SPECIAL: dict[str, Callable[[list[str]], bool]] = {
    "cd": _cd,
    "date": _date,
    "find": _find,
    "git": _git,
    "printf": _printf,
    "sed": _sed,
}
