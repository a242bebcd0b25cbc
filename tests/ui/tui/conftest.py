"""Pictures of the terminal face: kept as SVG beside the tests, compared as text, viewable in any browser.

`make snapshots` writes them anew; look at what changed before committing it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from textual.app import App

RENEW = os.environ.get("SLUICE_SNAPSHOTS") == "renew"  # each test loses what the environment says of Sluice
FOLDER = Path(__file__).with_name("snapshots")


def picture(app: App[object]) -> str:
    """The screen as SVG without what differs from run to run, or says nothing."""
    svg = app.export_screenshot(simplify=True, title="sluice")
    svg = re.sub(r"terminal-\d+-", "t-", svg)
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<clipPath.*?</clipPath>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r' clip-path="[^"]*"', "", svg)
    svg = re.sub(r"<text [^>]*>\s*</text>", "", svg)  # the ends of rows
    svg = re.sub(r"<!--.*?-->", "", svg)
    return "\n".join(line.rstrip() for line in svg.split("\n") if line.strip()) + "\n"


@pytest.fixture(autouse=True)
def plain_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the terminal that the tests are run from is seen."""
    for name in list(os.environ):
        if name.startswith(("TEXTUAL", "COLORTERM", "NO_COLOR", "TERM_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("TERM", "xterm-256color")


@pytest.fixture
def matches_picture(tmp_path: Path) -> Callable[[App[object], str], None]:
    """Compares the screen with the picture of that name; with SLUICE_SNAPSHOTS=renew it writes the picture instead."""

    def check(app: App[object], name: str) -> None:
        path = FOLDER / f"{name}.svg"
        made = picture(app)
        if RENEW:
            path.write_text(made, encoding="utf-8")
            return
        assert path.exists(), f"there is no picture {name}: look at the screen, then run `make snapshots`"
        kept = path.read_text(encoding="utf-8")
        if made != kept:
            other = tmp_path / f"{name}.svg"
            other.write_text(made, encoding="utf-8")
            was, now = words(kept), words(made)
            assert was == now, f"the screen reads otherwise than picture {name}; it is at {other}"
            pytest.fail(f"the screen reads as in picture {name} and is painted otherwise; it is at {other}")

    return check


def words(svg: str) -> list[str]:
    """The rows of a picture as plain text."""
    rows: dict[float, list[tuple[float, str]]] = {}
    for x, y, text in re.findall(r'<text class="t-r\d+" x="([\d.]+)" y="([\d.]+)"[^>]*>([^<]*)</text>', svg):
        rows.setdefault(float(y), []).append((float(x), text.replace("&#160;", " ")))
    return ["".join(text for _x, text in sorted(row)) for _y, row in sorted(rows.items())]
