"""Every recorded body of up to 8 KB, cut in two at every place: one answer (W2).

All of it is `make conformance`, about three million readings in five minutes; the suite takes a sample, the same for the
same seed (`SLUICE_SPLIT_SEED`).
"""

from __future__ import annotations

import os
import random
import zlib
from pathlib import Path

import pytest
from chat_streams import Reading

from sluice.wire import DIALECTS

pytestmark = pytest.mark.corpus

FOLDERS = {
    "openai-chat": "openai_chat",
    "anthropic-messages": "anthropic_messages",
    "openai-responses": "openai_responses",
    "gemini": "gemini",
    "ollama-ndjson": "ollama",
}
LONGEST = 8 * 1024  # bytes of a body whose every cut is tried
BODIES, CUTS = 150, 40  # of a dialect, and of a body, in a sample
ALL = os.environ.get("SLUICE_CONFORMANCE") == "all"
SEED = int(os.environ.get("SLUICE_SPLIT_SEED", "1"))


def result(pieces: list[bytes], dialect: str) -> tuple[object, ...]:
    """All that a split must not change: the reply or the partial one, the kind of error, the deltas' texts joined."""
    got = Reading(pieces, dialect=dialect)
    told = [delta for delta in got.deltas if not hasattr(delta, "text")]
    return got.kind, got.reply, got.shown_text, got.shown_reasoning, told, got.error and got.error.bound


def cuts_of(path: Path, size: int) -> list[int]:
    if ALL:
        return list(range(1, size))
    dice = random.Random(SEED * 1_000_003 + zlib.crc32(path.name.encode()))
    return sorted(dice.sample(range(1, size), min(CUTS, size - 1))) if size > 1 else []


def test_every_dialect_is_here() -> None:
    assert set(FOLDERS.values()) == set(DIALECTS)


@pytest.mark.timeout(0 if ALL else 60)
@pytest.mark.parametrize("folder", FOLDERS)
def test_a_cut_anywhere_changes_nothing(shared: Path, folder: str) -> None:
    paths = [p for p in sorted((shared / "corpus" / folder).iterdir()) if p.stat().st_size <= LONGEST]
    assert paths, "a dialect with no record checked is a failure"
    if not ALL:
        paths = random.Random(SEED).sample(paths, min(BODIES, len(paths)))
    for path in paths:
        body = path.read_bytes()
        right = result([body], FOLDERS[folder])
        for cut in cuts_of(path, len(body)):
            assert result([body[:cut], body[cut:]], FOLDERS[folder]) == right, f"{path.name} cut at {cut}"
