"""The tools that come with Sluice, in the order in which they are offered.

A module of its own, because the tools import the registry; whoever needs no tools does not import this.
"""

from __future__ import annotations

from sluice.tools import apply_patch, bash, list_files, read_file, rg_search, write_file
from sluice.tools.registry import Tool


def default_tools() -> tuple[Tool, ...]:
    """All built-in tools: reading first, then writing, then running."""
    modules = (read_file, list_files, rg_search, write_file, apply_patch, bash)
    return tuple(module.TOOL for module in modules)
