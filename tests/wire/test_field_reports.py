"""Every row of the field report, and every file of vectors, is answered by a test that exists."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
TABLE = (TESTS / "wire" / "FIELD_REPORTS.md").read_text("utf-8")
ROWS = {row[1]: row[2] for row in re.finditer(r"^\| ([A-E]\d+) \|(.*)$", TABLE, re.MULTILINE)}
VECTORS = {row[1]: row[2] for row in re.finditer(r"^\| ((?:stream|json)/\S+) \|(.*)$", TABLE, re.MULTILINE)}


def test_every_row_of_the_report_is_answered(shared: Path) -> None:
    report = (shared / "field-reports" / "streaming.md").read_text("utf-8")
    wanted = re.findall(r"^\| ([A-E]\d+) \|", report, re.MULTILINE)
    assert len(wanted) > 80
    assert set(ROWS) == set(wanted)


def test_every_file_of_vectors_is_read(shared: Path) -> None:
    folder = shared / "vectors"
    assert set(VECTORS) == {
        f"{kind}/{path.name}" for kind in ("stream", "json") for path in (folder / kind).glob("*.jsonl")
    }
    for name, cell in VECTORS.items():
        for module, _test in named(cell):
            source = (TESTS / module).read_text("utf-8")
            assert Path(name).stem in source or f'glob("{Path(name).stem.partition("_")[0]}_*' in source


def named(cell: str) -> list[tuple[str, str]]:
    return re.findall(r"`([\w/]+\.py)::(\w+)`", cell)


def test_every_named_test_exists() -> None:
    for row, cell in {**ROWS, **VECTORS}.items():
        tests = named(cell)
        assert tests, f"{row} names no test"
        for module, test in tests:
            assert re.search(rf"^def {test}\(", (TESTS / module).read_text("utf-8"), re.MULTILINE), f"{row}: {test}"
