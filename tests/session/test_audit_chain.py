"""P10, P14: on disk before it returns, chained, private, and honest about what it could not write."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.errors import AuditError
from sluice.session import audit_files
from sluice.session.audit import AuditLog
from sluice.session.audit_reading import verify
from sluice.values.calls import Risk


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "audit.jsonl"


@pytest.fixture
def log(path: Path) -> Iterator[AuditLog]:
    made = AuditLog(str(path), now=lambda: 12.5)
    yield made
    made.close()


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def followed(path: str) -> tuple[bool, int, int | None]:
    """Whether the chain holds, how many lines do, and the number of the first that does not."""
    found = verify(path)
    return found.whole, found.good, found.line or None


def test_lines_are_chained_and_private(log: AuditLog, path: Path) -> None:
    assert not path.parent.exists()
    log.record("judged", tool="bash", decision="deny", missing=("execution",))
    log.record("started", risk=Risk(changes_repository=True), digest="d", path=Path("/x"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    raw = path.read_bytes().splitlines()
    first, second = records(path)
    assert first == {
        "n": 1, "at": 12.5, "event": "judged", "prev": "0" * 64,
        "fields": {"tool": "bash", "decision": "deny", "missing": ["execution"]},
    }  # fmt: skip
    assert second["prev"] == hashlib.sha256(raw[0]).hexdigest()
    assert second["fields"]["risk"]["changes_repository"] is True
    assert followed(str(path)) == (True, 2, None)


def test_every_line_is_synced_before_record_returns(log: AuditLog, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[tuple[str, int]] = []
    write, sync = os.write, os.fdatasync
    monkeypatch.setattr(os, "write", lambda fd, data: done.append(("write", data.count(b"\n"))) or write(fd, data))
    monkeypatch.setattr(os, "fdatasync", lambda fd: done.append(("sync", 0)) or sync(fd))
    log.record("one")
    log.record("two", text="a\nb")
    assert done == [("write", 1), ("sync", 0), ("write", 1), ("sync", 0)]


def test_the_chain_goes_on_after_reopening(log: AuditLog, path: Path) -> None:
    log.record("one")
    log.close()
    log.record("two")
    with_other = AuditLog(str(path))
    with_other.record("three")
    with_other.close()
    assert [line["n"] for line in records(path)] == [1, 2, 3]
    assert followed(str(path)) == (True, 3, None)


def test_two_writers_share_one_chain(log: AuditLog, path: Path) -> None:
    other = AuditLog(str(path))
    for n in range(10):
        (log if n % 2 else other).record("turn", n=n)
    other.close()
    assert followed(str(path)) == (True, 10, None)


def test_writers_in_other_processes_share_one_chain(path: Path) -> None:
    script = """
import sys
from sluice.session.audit import AuditLog
log = AuditLog(sys.argv[1])
for n in range(50):
    log.record("x", n=n)
"""
    writers = [subprocess.Popen([sys.executable, "-c", script, str(path)]) for _ in range(2)]
    assert [writer.wait() for writer in writers] == [0, 0]
    assert followed(str(path)) == (True, 100, None)


@pytest.mark.parametrize("cut", [1, 5, 60])
def test_a_torn_line_stays_and_is_noted(cut: int, log: AuditLog, path: Path) -> None:
    log.record("one")
    log.record("two", text="some words")
    log.close()
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    log.record("three")
    assert path.read_bytes().startswith(whole[:-cut] + b"\n")
    events = [json.loads(line)["event"] for line in path.read_bytes().splitlines()[2:]]
    assert events == ["audit_torn", "three"]
    assert followed(str(path)) == (True, 4, None)


def test_a_torn_end_without_a_note_is_not_ok(log: AuditLog, path: Path) -> None:
    log.record("one")
    log.record("two")
    path.write_bytes(path.read_bytes()[:-4])
    assert followed(str(path)) == (False, 1, 2)


def test_junk_in_the_chain_is_only_excused_by_a_note(log: AuditLog, path: Path) -> None:
    log.record("one")
    line = records(path)[0]
    forged = {**line, "n": 3, "prev": hashlib.sha256(b"junk").hexdigest()}
    path.write_bytes(path.read_bytes() + b"junk\n" + json.dumps(forged).encode() + b"\n")
    assert followed(str(path)) == (False, 1, 2)
    forged["event"] = audit_files.TORN
    path.write_bytes(path.read_bytes().rsplit(b"\n", 2)[0] + b"\n" + json.dumps(forged).encode() + b"\n")
    assert followed(str(path)) == (True, 3, None)


def test_an_empty_log_is_whole(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"")
    assert followed(str(tmp_path / "log")) == (True, 0, None)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_change_before_the_last_line_is_seen(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("audit") / "log"
    log = AuditLog(str(path), now=lambda: 1.0)
    for n in range(5):
        log.record("event", n=n, text="words")
    log.close()
    lines = path.read_bytes().splitlines(keepends=True)
    how = data.draw(st.sampled_from(["change", "drop", "double", "swap", "junk"]))
    at = data.draw(st.integers(0, 3))
    if how == "change":
        place = data.draw(st.integers(0, len(lines[at]) - 2))
        value = data.draw(st.integers(0, 255).filter(lambda value: value not in (lines[at][place], 10)))
        lines[at] = lines[at][:place] + bytes([value]) + lines[at][place + 1 :]
    elif how == "drop":
        del lines[at]
    elif how == "double":
        lines.insert(at, lines[at])
    elif how == "junk":
        lines.insert(at, b"junk\n")
    else:
        lines[at], lines[at + 1] = lines[at + 1], lines[at]
    path.write_bytes(b"".join(lines))
    ok, count, bad = followed(str(path))
    assert not ok
    assert bad is not None
    assert count == bad - 1
    assert at <= bad <= at + 2


def test_long_texts_are_cut_and_their_digest_kept(log: AuditLog, path: Path) -> None:
    text = "é" * 10_000_000
    log.record("started", arguments=text, inner=[{"deep": "y" * 5000}], short="x" * 4096)
    fields = records(path)[0]["fields"]
    assert len(fields["arguments"].encode()) < 4096 + 120
    assert hashlib.sha256(text.encode()).hexdigest() in fields["arguments"]
    assert len(fields["inner"][0]["deep"]) < 4300
    assert fields["short"] == "x" * 4096


def test_many_texts_do_not_make_an_endless_line(log: AuditLog, path: Path) -> None:
    log.record("started", many=["x" * 4000] * 1000)
    log.record("next")
    assert path.stat().st_size < 2 * audit_files.MAX_LINE_BYTES
    assert "bytes" in records(path)[0]["fields"]["left_out"]
    assert followed(str(path)) == (True, 2, None)


def test_values_that_json_cannot_hold_are_written_all_the_same(log: AuditLog, path: Path) -> None:
    nested: list[Any] = []
    for _ in range(5000):
        nested = [nested]
    log.record("odd", a="\ud800\0\n", b=2**70, c=nested, d={1: b"x"}, e=float("nan"), f={3}, g=object)
    assert path.read_bytes().count(b"\n") == 1
    assert followed(str(path)) == (True, 1, None)


def test_a_log_that_cannot_be_opened_is_an_audit_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "file")
    os.mkfifo(tmp_path / "pipe")
    for wrong in ("file/log", "folder", "link", "pipe"):
        log = AuditLog(str(tmp_path / wrong))
        with pytest.raises(AuditError, match="cannot be written"):
            log.record("x")
    assert (tmp_path / "file").read_text() == "in the way"


def test_a_full_disk_is_an_audit_error_and_the_next_record_mends(
    log: AuditLog, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log.record("one")
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[: len(data) // 2]))
    with pytest.raises(AuditError, match="No space"):
        log.record("two")
    monkeypatch.setattr(os, "write", write)
    log.record("three")
    assert followed(str(path)) == (True, 4, None)


def test_a_sync_that_fails_is_an_audit_error(log: AuditLog, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(fd: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", broken)
    with pytest.raises(AuditError, match="Input/output error"):
        log.record("one")


def test_a_lock_that_is_held_ends_in_an_audit_error(log: AuditLog, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log.record("one")
    monkeypatch.setattr(audit_files, "LOCK_SECONDS", 0.01)
    holder = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(holder, fcntl.LOCK_EX)
        with pytest.raises(AuditError, match="another process"):
            log.record("two")
    finally:
        os.close(holder)
    log.record("three")
    assert followed(str(path)) == (True, 2, None)


def test_a_wide_file_is_narrowed(tmp_path: Path) -> None:
    (tmp_path / "log").touch(mode=0o644)
    log = AuditLog(str(tmp_path / "log"))
    log.record("one")
    log.close()
    assert stat.S_IMODE((tmp_path / "log").stat().st_mode) == 0o600
