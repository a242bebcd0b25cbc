"""The Chinese pages say what the English ones say: a page that changes in one language fails until the other follows."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CHINESE = ROOT / "docs" / "zh"
PAIRS = [
    (ROOT / "README.md", ROOT / "README.zh.md"),
    *((ROOT / "docs" / page.relative_to(CHINESE), page) for page in sorted(CHINESE.rglob("*.md"))),
]
WANTED = [ROOT / "docs" / "index.md", *sorted((ROOT / "docs" / "pipeline").glob("*.md"))]


def digest(page: Path) -> str:
    return hashlib.sha256(page.read_bytes()).hexdigest()[:16]


def shape(text: str) -> dict[str, object]:
    """What must be the same in both languages: headings by level, rows of tables, commands, quotes, and code."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    outside = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return {
        "headings": [len(mark) for mark in re.findall(r"^(#+) ", outside, re.MULTILINE)],
        "rows of tables": len(re.findall(r"^\|", outside, re.MULTILINE)),
        "quotes": re.findall(r"^::: (.*)$", outside, re.MULTILINE),
        "made": re.findall(r"^<!-- made: (.*) -->$", outside, re.MULTILINE),
        "blocks": [language for language, _body in blocks],
        "commands": [body for language, body in blocks if language == "bash"],
        "flags": sorted(set(re.findall(r"`(--[\w-]+)", outside))),
    }


def test_start_here_and_the_whole_book_are_there_in_chinese() -> None:
    assert [page for page in WANTED if not (CHINESE / page.relative_to(ROOT / "docs")).is_file()] == []


@pytest.mark.parametrize(("english", "chinese"), PAIRS, ids=lambda page: page.name)
def test_a_chinese_page_is_of_the_present_english_one(english: Path, chinese: Path) -> None:
    text = chinese.read_text("utf-8")
    found = re.search(r"\n<!-- english: (\w+) -->\n$", text)
    assert found is not None
    assert found[1] == digest(english), (
        f"{english.name} has changed: bring {chinese.relative_to(ROOT)} in step, then write english: {digest(english)}"
    )
    assert shape(text) == shape(english.read_text("utf-8"))
