"""The command `sluice models`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from sluice.ui.invocation import Invocation, show_json
from sluice.ui.options import GroupedCommand, models_options

if TYPE_CHECKING:
    from sluice.run.model_list import ProviderModels

SHOWN = 12  # models of one provider that are shown where several providers are


@click.command("models", cls=GroupedCommand, short_help="List the models that can be asked.")
@click.argument("provider", required=False)
@models_options
@click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Form.")
@click.pass_obj
def models(invocation: Invocation, /, provider: str | None, output: str, pairs: tuple[str, ...], **flags: Any) -> int:
    """Ask each provider that has a key, or needs none, which models it offers; with PROVIDER only that one.

    Takes at most about ten seconds. Keys are not shown, and each goes to its own provider only. Exit code 0 if one of
    them answered, 1 if none did.
    """
    import asyncio
    import os

    from sluice.run.model_list import list_models

    invocation.add(flags, pairs)
    settings = invocation.load().settings
    found = asyncio.run(list_models(settings, os.environ, provider))
    if output == "json":
        show_json(found)
    else:
        for one in found:
            _show(one, settings.route().model, whole=provider is not None)
    return 0 if any(one.reachable for one in found) else 1


def _show(one: ProviderModels, model: str, *, whole: bool) -> None:
    from sluice.ui.visible import one_line

    key = "no key needed" if one.key == "not needed" else "no key" if one.key == "none" else f"key: {one.key}"
    state = f"{len(one.models)} models" if one.reachable else one.problem
    click.echo(one_line(f"{one.provider}  {one.base_url}  ({one.dialect}, {key})  {state}", 500))
    names = sorted(one.models)
    for name in names if whole else names[:SHOWN]:
        mark = "*" if one.chosen and name == model else " "
        click.echo(one_line(f" {mark} {one.provider}:{name}", 200))
    if not whole and len(names) > SHOWN:
        click.echo(one_line(f"   … {len(names) - SHOWN} more: sluice models {one.provider}", 200))
    if one.chosen and one.reachable and model not in one.models:
        click.echo(one_line(f"   note: {model}, the model of your settings, is not in this list", 300))
