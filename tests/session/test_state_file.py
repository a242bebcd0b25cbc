"""Whatever a state file holds, and whatever stands in its place, is read as nothing: no reader fails or waits for it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from sluice.session.audit import AuditLog
from sluice.session.audit_reading import records, verify
from sluice.session.blobs import BlobJournal, prune
from sluice.session.kept import Kept, note, noted
from sluice.session.state_file import opened, parsed

DEEP = b'{"x":' + b"[" * 20_000
HOSTILE = [DEEP, DEEP + b"]" * 20_000 + b"}", b"\xff", b"", b"[]", b'{"at":1e999}', b'{"at":"\\ud800"}']
NOT_OURS = "no regular file|symbolic links"


class Stamp(msgspec.Struct):
    at: float


@pytest.mark.parametrize("raw", HOSTILE)
def test_what_is_no_record_is_none(raw: bytes) -> None:
    assert parsed(raw, Stamp) is None
    assert parsed(b'{"at":1}', Stamp) == Stamp(1.0)


def test_a_deep_line_in_the_audit_log_is_found_and_the_log_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    log = AuditLog(str(path))
    log.record("x")
    with path.open("ab") as file:
        file.write(b'{"n":2,"at":1,"event":"x","prev":"","fields":' + b"[" * 20_000 + b"\n")
    log.record("x")
    log.close()
    assert [record["event"] for record in records(str(path))] == ["x", "unreadable", "audit_torn", "x"]
    assert verify(str(path)).whole


def test_a_deep_line_in_the_index_of_changes_goes_with_what_is_torn(tmp_path: Path) -> None:
    BlobJournal(str(tmp_path)).keep("a", b"old", 0o644)
    index = tmp_path / "changes.jsonl"
    before = index.read_bytes()
    index.write_bytes(before + b'{"id":"1","x":' + b"[" * 20_000 + b"\n")
    prune(str(tmp_path), ())
    assert index.read_bytes() == before


@pytest.mark.parametrize("raw", HOSTILE)
def test_noted_figures_that_are_none_are_not_believed(raw: bytes, tmp_path: Path) -> None:
    (tmp_path / "kept.json").write_bytes(raw)
    assert noted(tmp_path, time.time(), 60) is None


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: os.symlink("elsewhere", path)])
def test_nobody_waits_for_what_stands_in_a_files_place(make: Callable[[Path], None], tmp_path: Path) -> None:
    for name in ("kept.json", "audit.jsonl", "changes.jsonl"):
        make(tmp_path / name)
        with pytest.raises(OSError, match=NOT_OURS):
            opened(str(tmp_path / name))
    assert noted(tmp_path, time.time(), 60) is None
    with pytest.raises(OSError, match=NOT_OURS):
        verify(str(tmp_path / "audit.jsonl"))
    with pytest.raises(OSError, match=NOT_OURS):
        prune(str(tmp_path), ())


def test_a_pipe_makes_way_for_the_figures(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "kept.json")
    note(tmp_path, Kept(audit=5), 10.0)
    assert noted(tmp_path, 11.0, 60) == Kept(audit=5)
