"""Where benchmarks write their figures: between two marks of `bench/README.md`, each in a place of its own."""

from __future__ import annotations

import os
from pathlib import Path

README = Path(__file__).with_name("README.md")
END = "<!-- end of figures -->"


def write(program: str, figures: str) -> None:
    """Puts the figures of this program into the README, in place of the last ones. Raises `ValueError` without its mark."""
    mark = f"<!-- figures: written by bench/{program}.py --write -->"
    before, found, rest = README.read_text("utf-8").partition(mark)
    _, ended, after = rest.partition(END)
    if not found or not ended:
        raise ValueError(f"bench/README.md has no place for the figures of {program}")
    README.write_text(f"{before}{mark}\n\n{figures}\n\n{END}{after}", "utf-8")


def noise() -> str:
    """How busy the machine is while it is measured."""
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    return f"{cores} cores, load {load:.1f} while it was measured"
