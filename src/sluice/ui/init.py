"""The command `sluice init`."""

from __future__ import annotations

import click

from sluice.ui.options import GroupedCommand


@click.command("init", cls=GroupedCommand, short_help="Write a commented config file.")
@click.argument("file", required=False)
def init(file: str | None) -> int:
    """Write a config file with every key in it, commented out, to FILE (- for standard output).

    Without FILE it is your own config file, in the platform's config folder. Never written over one that is there; only
    you can read it.
    """
    from pathlib import Path

    import platformdirs

    from sluice.run.config_template import config_template, write_config
    from sluice.ui.visible import visible

    if file == "-":
        click.echo(config_template(), nl=False)
        return 0
    own = platformdirs.user_config_path("sluice", appauthor=False) / "config.toml"
    path = own if file is None else Path(file)
    write_config(path)
    click.echo(visible(f"wrote {path}"))
    if file is not None and path.absolute() != own:
        click.echo(visible(f"it is read with --config {path}, or from {own} without"), err=True)
    return 0
