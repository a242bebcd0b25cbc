"""The command `sluice doctor`."""

from __future__ import annotations

import click

from sluice.ui.invocation import show_json
from sluice.ui.options import GroupedCommand


@click.command("doctor", cls=GroupedCommand)
@click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Form.")
def doctor(output: str) -> int:
    """Show which protections this machine gives to commands, by trying them.

    Exit code 0 if commands can be run in a sandbox, 1 if not.
    """
    from sluice.run.doctor import examine

    report = examine()
    if output == "json":
        show_json(report)
    else:
        click.echo(f"sandbox: {report.sandbox}  (bubblewrap: {report.bubblewrap or 'not found'}; Landlock: "
                   f"{'version ' + str(report.landlock) if report.landlock else 'not here'})")  # fmt: skip
        for one in report.protections:
            mark = {True: "yes", False: "NO", None: "not known"}[one.holds]
            click.echo(f"  {mark:<9}  {one.name}" + (f"  ({one.note})" if one.note else ""))
        if report.sandbox == "none":
            click.echo("No sandbox works here: commands are refused unless you give --allow-unsandboxed.")
    return 1 if report.sandbox == "none" else 0
