"""Writes the JSON Schemas of our output from the structs that are written: `make schemas`."""

from __future__ import annotations

import sys
from pathlib import Path

from sluice.ui.output_schema import FORMS, VERSION, as_file, made

FOLDER = Path(__file__).resolve().parents[1] / "src" / "sluice" / "ui" / "schema"


def main() -> int:
    """Writes every form, and says which."""
    FOLDER.mkdir(exist_ok=True)
    for form in FORMS:
        (FOLDER / f"{form}.v{VERSION}.json").write_bytes(as_file(made(form)))
        print(f"wrote the schema of {form}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
