"""The commands `sluice config …`."""

from __future__ import annotations

from typing import Any

import click

from sluice.ui.invocation import Invocation, show_json
from sluice.ui.options import GroupedCommand, show_options


@click.group("config")
def config() -> None:
    """Look at the configuration."""


@config.command("show", cls=GroupedCommand)
@show_options
@click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Form.")
@click.pass_obj
def show(invocation: Invocation, /, output: str, pairs: tuple[str, ...], **flags: Any) -> int:
    """Show every key, its value, and where the value came from. Keys and passwords are not shown."""
    invocation.add(flags, pairs)
    loaded = invocation.load()
    values = loaded.settings.shown()
    if output == "json":
        show_json({key: {"value": value, "from": loaded.origins[key]} for key, value in values.items()})
        return 0
    from sluice.ui.visible import visible

    rows = [(key, _plain(key, value), loaded.origins[key]) for key, value in values.items()]
    wide = max(len(key) for key, _value, _origin in rows)
    broad = min(48, max(len(value) for _key, value, _origin in rows))
    for key, value, origin in rows:
        click.echo(visible(f"{key:<{wide}}  {value:<{broad}}  {origin}"))
    return 0


def _plain(key: str, value: Any) -> str:
    if value is None:
        return "not set" if key == "api_key" else "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple | dict):
        return ", ".join(value) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)
