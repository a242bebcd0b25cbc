"""The command `sluice tool`."""

from __future__ import annotations

import sys
from typing import Any

import click

from sluice.ui.invocation import Invocation, show_json
from sluice.ui.options import GroupedCommand, tool_options


@click.command("tool", cls=GroupedCommand, short_help="Run one tool call and print its result.")
@click.argument("name")
@click.option("--args", "arguments", metavar="JSON", default="{}", help="Arguments; - reads them from standard input.")
@click.option("--seen", metavar="PATH", multiple=True, help="A file that counts as read, so that it may be changed.")
@tool_options
@click.pass_obj
def tool(
    invocation: Invocation, /, name: str, arguments: str, seen: tuple[str, ...], pairs: tuple[str, ...], **flags: Any
) -> int:
    """Run one call of the tool NAME through schema, policy and executor, and print its result as JSON.

    Exit codes: 0 ok, 1 failed, 2 unusable arguments, 4 blocked.
    """
    from pathlib import Path

    from sluice.run.config import open_workspace
    from sluice.run.one_call import one_call
    from sluice.ui.headless import start_logging

    invocation.add(flags, pairs)
    settings = invocation.load().settings
    if arguments == "-":
        arguments = sys.stdin.buffer.read().decode("utf-8", "surrogateescape")
    stop_logging = start_logging(sys.stderr, invocation.debug)
    try:
        settings = open_workspace(settings, Path.cwd())
        code, result = one_call(settings, name, arguments, list(seen))
    finally:
        stop_logging()
    show_json(result)
    return code
