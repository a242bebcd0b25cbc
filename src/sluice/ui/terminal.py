"""The interactive face of the command line: whether there is a terminal for it, and the steps before it.

Imports nothing heavy: what shows the face is imported when it is wanted.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from sluice.run.settings import Settings


def can_show_face() -> bool:
    """Whether a face can be shown: all three standard streams are a terminal, and one that can move its cursor."""
    streams = (sys.__stdin__, sys.__stdout__, sys.__stderr__)
    if os.environ.get("TERM", "") in ("", "dumb", "unknown"):
        return False
    try:
        return all(stream is not None and stream.isatty() for stream in streams)
    except ValueError:  # closed
        return False


def run_terminal(settings: Settings, debug: bool) -> int:
    """Lets a person work until they leave; returns the exit code. In the order of U6, as for a single prompt.

    The terminal is as before when it returns or raises. SIGTERM, SIGHUP and a SIGINT from elsewhere end it as leaving does.
    """
    import asyncio
    from pathlib import Path

    from sluice.run.config import open_workspace, require_key
    from sluice.ui.headless import start_logging
    from sluice.ui.one_run import check
    from sluice.ui.tui.showing import LogLines, open_and_show

    check(settings)
    settings = open_workspace(settings, Path.cwd())
    require_key(settings)
    lines = LogLines()
    stop_logging = start_logging(lines, debug)  # type: ignore[arg-type]
    try:
        return asyncio.run(open_and_show(settings, lines))
    finally:
        stop_logging()
        with contextlib.suppress(OSError):  # the terminal may be what has gone
            for line in lines.late:
                click.echo(line, err=True)
