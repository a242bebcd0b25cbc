"""One prompt of the command line: where it comes from, which session it goes on with, which face shows the run."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from sluice.ui.invocation import show_json

if TYPE_CHECKING:
    from sluice.run.config import Settings
    from sluice.ui.headless import Face
    from sluice.values.messages import UserMessage
    from sluice.values.ports import Approver

_MOST_DIGITS = 18  # of a message's number: no session comes near
MAX_PROMPT_BYTES = 4 * 1024 * 1024  # bytes of a prompt on standard input; the largest file a tool reads


def with_session(settings: Settings, wishes: dict[str, Any]) -> Settings:
    """The settings with the session that the flags wish for. Raises `click.UsageError`."""
    given = [how for how, value in wishes.items() if value not in (None, False)]
    if not given:
        return settings
    if len(given) > 1:
        raise click.UsageError("give one of --continue, --resume and --fork")
    import msgspec

    from sluice.run.config import Wish

    how, id, upto = given[0].rstrip("_"), "", None
    if how != "continue":
        id = str(wishes[how])
        if how == "fork" and "@" in id:
            id, _, number = id.rpartition("@")
            if not number.isdecimal() or len(number) > _MOST_DIGITS:
                raise click.UsageError(f"--fork ID@MESSAGE: {number[:40]!r} is no number of a message")
            upto = int(number)
        if not id.strip():  # as an unset variable of a script gives it
            raise click.UsageError(f"--{how}: an empty ID names no session; --continue goes on with the last one")
    return msgspec.structs.replace(settings, session=Wish(how=how, id=id, upto=upto))  # type: ignore[arg-type]


def prompt_of(execute: str | None, output_given: bool) -> str:
    """The prompt: that of the flag, or standard input if it is no terminal. Raises `click.UsageError`."""
    if execute is None:
        if sys.stdin is None or sys.stdin.isatty():
            hint = 'no prompt: write sluice -e "…", or give it on standard input'
            more = (
                "" if output_given else " (the interactive face needs a terminal, here there is none that can show it)"
            )
            raise click.UsageError(hint + more)
        raw = sys.stdin.buffer.read(MAX_PROMPT_BYTES + 1)
        if len(raw) > MAX_PROMPT_BYTES:
            raise click.UsageError(f"the prompt on standard input is larger than {MAX_PROMPT_BYTES} bytes")
        try:
            execute = raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise click.UsageError(f"the prompt on standard input is not UTF-8 (byte {error.start})") from None
    if not execute.strip():
        raise click.UsageError("the prompt is empty")
    try:
        execute.encode("utf-8")
    except UnicodeEncodeError:  # bytes of an argument that are no text in this locale
        raise click.UsageError("the prompt is not UTF-8 text") from None
    return execute


def illustrated(prompt: str, images: Sequence[str], settings: Settings) -> str | UserMessage:
    """The prompt with the images of these files. Raises `ConfigurationError` for one that cannot be shown."""
    if not images:
        return prompt
    from sluice.run.images import with_images

    return with_images(prompt, images, settings.limits)


def show_request(settings: Settings, prompt: str | UserMessage) -> int:
    """Shows the configuration and the request; sends nothing."""
    from pathlib import Path

    from sluice.run.config import absolute_workspace, require_provider
    from sluice.run.instructions import instructions_for
    from sluice.run.wiring import dry_run

    settings = absolute_workspace(settings, Path.cwd())
    require_provider(settings)
    show_json(dry_run(settings, prompt, instructions_for(settings)))
    return 0


def run_and_show(settings: Settings, prompt: str | UserMessage, debug: bool) -> int:
    """Answers one prompt, in the order of U6, and returns the exit code."""
    from functools import partial
    from pathlib import Path

    from sluice.run.config import open_workspace, require_key
    from sluice.run.instructions import instructions_for
    from sluice.run.memory_copy import open_rescued
    from sluice.ui.headless import run_prompt, start_logging

    check(settings)
    stop_logging = start_logging(sys.stderr, debug)
    try:
        settings = open_workspace(settings, Path.cwd())
        require_key(settings)
        wanted: dict[str, Any] = {"instructions": instructions_for(settings)}
        if settings.ask:
            wanted["approver"] = _approver(settings)
        elif settings.session.how in ("continue", "resume"):
            wanted["ask_waiting"] = _at_terminal(settings, in_front=True)
        if settings.output == "stream-json" or (settings.output == "text" and _is_live()):
            wanted["intent"] = True
        return run_prompt(partial(open_rescued, **wanted), settings, prompt, _face(settings))
    finally:
        stop_logging()


def _approver(settings: Settings) -> Approver | None:
    """Who is asked: the person at the terminal, where the text face is. Nobody, and a warning, anywhere else."""
    found = _at_terminal(settings)
    if found is None:
        click.echo("warning: --ask has nobody to ask here; what is not allowed is denied", err=True)
    return found


def _at_terminal(settings: Settings, *, in_front: bool = False) -> Approver | None:
    from functools import partial

    from sluice.run.approvals import TerminalApprover, has_terminal
    from sluice.run.call_details import call_details
    from sluice.ui.visible import visible

    if settings.output != "text" or not has_terminal(in_front=in_front):
        return None
    return TerminalApprover(
        partial(visible, strict=True), folder=settings.workspace, details=partial(call_details, settings.workspace)
    )


def check(settings: Settings) -> None:
    """Raises `ConfigurationError` for names and files that cannot be used, before a workspace is made (U6)."""
    import msgspec

    from sluice.run.wiring import find_dialect, find_inline, make_registry, make_transport

    find_dialect(settings)
    find_inline(settings)
    make_registry(settings)
    if settings.mode == "mock" or settings.replay is not None:
        make_transport(msgspec.structs.replace(settings, record=None))  # reads the file and opens nothing


def _face(settings: Settings) -> Face:
    from sluice.ui.json_stream import JsonFace, StreamJsonFace
    from sluice.ui.text import TextFace

    if settings.output == "json":
        return JsonFace(sys.stdout.buffer)
    if settings.output == "stream-json":
        return StreamJsonFace(sys.stdout.buffer)
    colour = _is_live() and not os.environ.get("NO_COLOR")
    return TextFace(sys.stdout, sys.stderr, debug=settings.debug, colour=colour, live=_is_live())


def _is_live() -> bool:
    """Whether standard error is a terminal on which a line can be written over."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
