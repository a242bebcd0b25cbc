"""The commands for the shell and the manual: `sluice completion` and `sluice man`."""

from __future__ import annotations

import click

from sluice.ui.options import GroupedCommand

SHELLS = ("bash", "zsh", "fish")


@click.command("completion", cls=GroupedCommand, short_help="Print the completion script of a shell.")
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> int:
    """Print the script that completes commands, flags, files and fixed words of `sluice` in SHELL.

    \b
      bash   eval "$(sluice completion bash)"     in ~/.bashrc
      zsh    eval "$(sluice completion zsh)"      in ~/.zshrc, after compinit
      fish   sluice completion fish > ~/.config/fish/completions/sluice.fish
    """
    from click.shell_completion import get_completion_class

    made = get_completion_class(shell)
    assert made is not None
    script = made(ctx.find_root().command, {}, "sluice", "_SLUICE_COMPLETE")
    # Not `source()`: for bash it starts a bash to ask its version.
    click.echo(script.source_template % script.source_vars(), nl=False)
    return 0


@click.command("man", short_help="Print the manual page, for man -l -.")
@click.pass_context
def man(ctx: click.Context) -> int:
    """Print the manual page of `sluice`, with all of its commands, as roff.

    \b
      sluice man | man -l -
      sluice man > ~/.local/share/man/man1/sluice.1
    """
    from sluice.ui.manual import manual

    click.echo(manual(ctx.find_root().command), nl=False)
    return 0
