"""The command `sluice`.

Importing this module brings in click and nothing heavy: what a command needs is imported inside it, so that `--help` and
`--version` stay quick.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from sluice import __version__
from sluice.errors import ConfigurationError, SluiceError
from sluice.ui.audit import audit
from sluice.ui.completion import completion, man
from sluice.ui.config import config
from sluice.ui.doctor import doctor
from sluice.ui.init import init
from sluice.ui.interrupts import INTERRUPTED, Interrupts
from sluice.ui.invocation import Invocation
from sluice.ui.models import models
from sluice.ui.one_call import tool
from sluice.ui.one_run import illustrated, prompt_of, run_and_show, show_request, with_session
from sluice.ui.options import SluiceGroup, UnreadError, run_options
from sluice.ui.output_schema import schema
from sluice.ui.sessions import sessions
from sluice.ui.streams import decode, replay_server
from sluice.ui.terminal import can_show_face, run_terminal


@click.group(
    cls=SluiceGroup,
    commands=[sessions, audit, completion, config, decode, doctor, init, man, models, replay_server, schema, tool],
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@run_options
@click.version_option(__version__, "-v", "--version", message="sluice %(version)s")
@click.pass_context
def sluice(
    ctx: click.Context, /, execute: str | None, images: tuple[str, ...], pairs: tuple[str, ...], **flags: Any
) -> int:
    """Sluice is a local coding agent whose host stays in control.

    Gives PROMPT to a model, lets it read the workspace, and shows its answer as it arrives. Changing files and running
    commands are blocked unless you allow them. With no prompt, on a terminal, it opens its interactive face.
    """
    invocation = ctx.ensure_object(Invocation)
    wishes = {how: flags.pop(how, None) for how in ("continue_", "resume", "fork")}
    invocation.add(flags, pairs)
    if ctx.invoked_subcommand is not None:
        for flag in ("-e",) if execute is not None else ("--image",) if images else ():
            raise click.UsageError(f"{flag} goes with no command, and {ctx.invoked_subcommand} is one.")
        return 0
    settings = with_session(invocation.load().settings, wishes)
    if execute is None and not images and "output" not in invocation.flags and not settings.dry_run and can_show_face():
        return run_terminal(settings, invocation.debug)
    prompt = illustrated(prompt_of(execute, flags.get("output") is not None), images, settings)
    return show_request(settings, prompt) if settings.dry_run else run_and_show(settings, prompt, invocation.debug)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit code. Never lets an exception out, and no traceback unless asked.

    Without `argv` it is the whole process: no Ctrl-C that comes after the first, or at the end, breaks its exit code.
    """
    interrupts = Interrupts()
    try:
        if argv is None:
            interrupts.begin()
        code = _flushed(_called(argv))
        interrupts.end()
    except KeyboardInterrupt:
        code = INTERRUPTED
    return code


def _called(argv: Sequence[str] | None) -> int:
    invocation = Invocation()
    _open_standard_streams()
    try:
        return _call(invocation, argv)
    except UnreadError:
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED


def _flushed(code: int) -> int:
    """The exit code, after what was written to standard output has gone out."""
    try:
        sys.stdout.flush()
    except OSError as error:
        if not isinstance(error, BrokenPipeError):
            code = code or _complain(f"standard output: {error.strerror or error}", 1)
        # The interpreter flushes once more when it ends: give it a place that takes it.
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
    return code


def _open_standard_streams() -> None:
    """Fills descriptors 0 to 2 where our starter closed them, so that no file of ours gets one of these numbers."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)
    if hasattr(sys.stdout, "reconfigure"):
        # A terminal that cannot show a character gets an escape instead of our failure.
        sys.stdout.reconfigure(errors="backslashreplace")


def _call(invocation: Invocation, argv: Sequence[str] | None) -> int:
    args = None if argv is None else list(argv)
    try:
        code = sluice.main(args, prog_name="sluice", standalone_mode=False, obj=invocation)
        return code if isinstance(code, int) else 0
    except click.exceptions.Abort:  # click's word for Ctrl-C
        return 130
    except click.exceptions.NoArgsIsHelpError as error:  # a group of commands without one: its message is its help
        click.echo(error.format_message(), err=True)
        return error.exit_code
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx is not None else "sluice"
        words = " ".join(error.format_message().split())  # click lists choices one a line
        return _complain(f"{words.rstrip('.')}; see {command} --help", error.exit_code)
    except click.ClickException as error:
        return _complain(error.format_message(), error.exit_code)
    except ConfigurationError as error:
        return _complain(str(error), 2)
    except UnreadError:
        raise
    except SluiceError as error:
        return _complain(str(error), 1, invocation.debug)
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        return _complain(f"{error.strerror or error}{where}", 1, invocation.debug)
    except Exception as error:
        words = f"this is a fault of Sluice: {type(error).__name__}: {error}"
        return _complain(words + ("" if invocation.debug else " (--debug shows more)"), 1, invocation.debug)


def _complain(words: str, code: int, trace: bool = False) -> int:
    from sluice.ui.visible import one_line, visible

    if trace:
        import traceback

        click.echo(visible(traceback.format_exc()), err=True)
    click.echo(f"error: {one_line(words, 1000)}", err=True)
    return code
