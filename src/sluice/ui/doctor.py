"""The command `sluice doctor`."""

from __future__ import annotations

from typing import Any

import click

from sluice.ui.invocation import show_json
from sluice.ui.options import GroupedCommand


@click.command("doctor", cls=GroupedCommand, short_help="Try which protections commands have here.")
@click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Form.")
@click.pass_obj
def doctor(invocation: Any, /, output: str) -> int:
    """Show which protections this machine gives to commands, by trying them, and how much Sluice keeps on the disk.

    Exit code 0 if commands can be run in a sandbox, 1 if not.
    """
    from sluice.run.doctor import examine, lines, with_kept
    from sluice.ui.visible import one_line

    report = with_kept(examine(), invocation.load().settings.kept_bytes)
    if output == "json":
        show_json(report)
    else:
        for line in lines(report):
            click.echo(one_line(line, 1000))
    return 1 if report.sandbox == "none" else 0
