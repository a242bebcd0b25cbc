"""The command `sluice doctor`."""

from __future__ import annotations

import click

from sluice.ui.invocation import show_json
from sluice.ui.options import GroupedCommand


@click.command("doctor", cls=GroupedCommand, short_help="Try which protections commands have here.")
@click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Form.")
def doctor(output: str) -> int:
    """Show which protections this machine gives to commands, by trying them.

    Exit code 0 if commands can be run in a sandbox, 1 if not.
    """
    from sluice.run.doctor import examine, lines

    report = examine()
    if output == "json":
        show_json(report)
    else:
        for line in lines(report):
            click.echo(line)
    return 1 if report.sandbox == "none" else 0
