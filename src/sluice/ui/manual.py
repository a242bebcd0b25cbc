"""The manual page `sluice(1)`, made from the commands themselves, so that it cannot say anything else than `--help`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import click

from sluice import __version__
from sluice.ui.options import ENVIRONMENT, EXAMPLES, EXIT_CODES, FILES, headed_records

_LITERAL = "\b\n"  # click's mark of a paragraph that is not filled


def manual(command: click.Command) -> str:
    """The page as roff (man macros), ASCII only. `command` is the main command."""
    context = click.Context(command, info_name="sluice", **command.context_settings)
    lines = [
        f'.TH SLUICE 1 "" "sluice {__version__}" "Sluice"',
        ".SH NAME",
        r"sluice \- a local coding agent whose host stays in control",
        ".SH SYNOPSIS",
        r".B sluice",
        r"[\fIOPTIONS\fR] [\fB\-e\fR \fIPROMPT\fR]",
        ".br",
        r".B sluice",
        r"[\fIOPTIONS\fR] \fICOMMAND\fR [\fIARGUMENTS\fR]",
        ".SH DESCRIPTION",
        *_prose((command.help or "").split(_LITERAL)[0]),
        ".SH OPTIONS",
    ]
    for heading, rows in headed_records(command, context).items():
        lines += [f".SS {_escaped(heading)}", *_rows(rows)]
    lines.append(".SH COMMANDS")
    for name, one, inner in _commands(command, context, ()):
        usage = " ".join(["sluice", name, *one.collect_usage_pieces(inner)])
        lines += [f".SS {_escaped(usage)}", *_prose(one.help or "")]
        lines += _rows(row for rows in headed_records(one, inner).values() for row in rows if "--help" not in row[0])
    for title, table in (("ENVIRONMENT", ENVIRONMENT), ("FILES", FILES), ("EXIT STATUS", EXIT_CODES)):
        lines += [f".SH {title}", *_rows(table)]
    lines.append(".SH EXAMPLES")
    for words, line in EXAMPLES:
        lines += [".TP", _escaped(words), r"\fB" + _escaped(line) + r"\fR"]
    return "\n".join(lines) + "\n"


def _commands(
    command: click.Command, context: click.Context, above: tuple[str, ...]
) -> Iterator[tuple[str, click.Command, click.Context]]:
    """Every command below this one that does something, with its whole name, in order."""
    if not isinstance(command, click.Group):
        return
    for name in command.list_commands(context):
        one = command.get_command(context, name)
        if one is None or one.hidden:
            continue
        inner = click.Context(one, info_name=name, parent=context)
        if isinstance(one, click.Group):
            yield from _commands(one, inner, (*above, name))
        else:
            yield " ".join((*above, name)), one, inner


def _rows(rows: Iterable[tuple[str, str]]) -> list[str]:
    return [line for name, words in rows for line in (".TP", r"\fB" + _escaped(name) + r"\fR", _escaped(words))]


def _prose(text: str) -> list[str]:
    lines: list[str] = []
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        if paragraph.startswith(_LITERAL):
            lines += [".PP", ".nf", *(_escaped(line) for line in paragraph.removeprefix(_LITERAL).split("\n")), ".fi"]
        else:
            lines += [".PP", _escaped(" ".join(paragraph.split()))]
    return lines


def _escaped(text: str) -> str:
    """Text that roff prints as it is: no macro, no escape, no character that it may not know."""
    text = text.replace("\\", r"\e").replace("-", r"\-").replace("'", r"\(aq").replace("`", r"\(ga")
    text = "".join(c if c.isascii() else rf"\[u{ord(c):04X}]" for c in text)
    return r"\&" + text if text.startswith((".", "'")) else text
