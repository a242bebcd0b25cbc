"""What one invocation of `sluice` carries from the main command to its subcommand, and how a command shows JSON."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from sluice.run.config import Loaded


class Invocation:
    """The flags given so far; made once for each invocation."""

    def __init__(self) -> None:
        self.flags: dict[str, Any] = {}
        self.pairs: tuple[str, ...] = ()
        self.debug = False

    def add(self, flags: dict[str, Any], pairs: Sequence[str]) -> None:
        """Takes flags over; those of a subcommand win over those before it."""
        self.flags.update({name: value for name, value in flags.items() if value is not None and value != ()})
        self.pairs = (*self.pairs, *pairs)
        self.debug = self.debug or bool(self.flags.get("debug"))

    def load(self) -> Loaded:
        """The configuration, its warnings said. Raises `ConfigurationError`."""
        from pathlib import Path

        import platformdirs  # found only when a configuration is wanted

        from sluice.run.config import load
        from sluice.ui.visible import visible

        user_config = platformdirs.user_config_path("sluice", appauthor=False) / "config.toml"
        loaded = load(self.flags, os.environ, cwd=Path.cwd(), user_config=user_config, pairs=self.pairs)
        self.debug = self.debug or loaded.settings.debug
        for warning in loaded.warnings:
            click.echo(f"warning: {visible(warning)}", err=True)
        return loaded


def show_json(value: object) -> None:
    """Writes the value to standard output as one line of JSON."""
    from sluice.ui.json_stream import as_json

    sys.stdout.buffer.write(as_json(value) + b"\n")
    sys.stdout.buffer.flush()
