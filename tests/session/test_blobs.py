"""The journal of pre-images: durable before it returns, bounded, and a change that cannot be kept is refused."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import stat
import time
from pathlib import Path
from typing import Any

import pytest

from sluice.session import blobs
from sluice.session.blobs import BlobJournal, prune
from sluice.tools.workspace import PathError, Workspace

OLD = b"what it held\n"
NAME = hashlib.sha256(OLD).hexdigest()


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "above" / "state"


def lines(state: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (state / "changes.jsonl").read_bytes().splitlines() if line]


def test_nothing_is_made_before_the_first_change(state: Path) -> None:
    BlobJournal(str(state))
    assert not state.exists()


def test_bytes_and_a_line_are_kept_privately(state: Path) -> None:
    journal = BlobJournal(str(state), "/w", now=lambda: 1.5)
    handle = journal.keep("a/b.txt", OLD, 0o755)
    assert (state / "blobs" / NAME).read_bytes() == OLD
    assert lines(state) == [
        {"id": handle, "at": 1.5, "workspace": "/w", "path": "a/b.txt", "sha256": NAME, "bytes": 13, "mode": 0o755}
    ]
    for path, mode in ((state, 0o700), (state / "blobs", 0o700), (state / "blobs" / NAME, 0o600)):
        assert stat.S_IMODE(path.stat().st_mode) == mode
    assert stat.S_IMODE((state / "changes.jsonl").stat().st_mode) == 0o600


def test_a_file_that_was_not_there_has_a_line_and_no_blob(state: Path) -> None:
    first, second = (BlobJournal(str(state)).keep("new", None, None) for _ in range(2))
    assert first != second
    assert [(line["sha256"], line["bytes"], line["mode"]) for line in lines(state)] == [(None, None, None)] * 2
    assert not (state / "blobs").exists()


def test_equal_bytes_are_kept_once_and_damaged_ones_anew(state: Path) -> None:
    journal = BlobJournal(str(state))
    journal.keep("a", OLD, 0o644)
    inode = (state / "blobs" / NAME).stat().st_ino
    journal.keep("b", OLD, 0o600)
    assert (state / "blobs" / NAME).stat().st_ino == inode
    (state / "blobs" / NAME).write_bytes(b"x" * len(OLD))
    journal.keep("a", OLD, 0o644)
    assert (state / "blobs" / NAME).read_bytes() == OLD
    assert [line["path"] for line in lines(state)] == ["a", "b", "a"]


def test_it_is_synced_in_order_before_it_returns(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    did: list[str] = []

    def noting(name: str) -> None:
        real = getattr(os, name)

        def note(*arguments: Any, **named: Any) -> Any:
            did.append(name)
            return real(*arguments, **named)

        monkeypatch.setattr(os, name, note)

    journal = BlobJournal(str(state))
    journal.keep("warm", b"", 0o644)
    for name in ("write", "fsync", "rename", "fdatasync"):
        noting(name)
    journal.keep("a", OLD, 0o644)
    assert did == ["write", "fsync", "rename", "fsync", "write", "fdatasync"]


@pytest.mark.parametrize("step", ["write", "fsync", "rename", "fdatasync", "open", "mkdir"])
def test_a_full_disk_at_any_step_is_an_error_and_leaves_no_half_blob(
    state: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: Any, **named: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    journal = BlobJournal(str(state))
    with monkeypatch.context() as patched:
        patched.setattr(os, step, full)
        with pytest.raises(OSError, match="No space left"):
            journal.keep("a", OLD, 0o644)
    if (state / "blobs").exists():
        assert {p.name for p in (state / "blobs").iterdir()} <= {NAME}
    journal.keep("a", OLD, 0o644)
    assert (state / "blobs" / NAME).read_bytes() == OLD


def test_a_line_that_was_written_in_part_does_not_spoil_the_next(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = BlobJournal(str(state))
    real = os.write
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", lambda fd, data: real(fd, bytes(data)[:9]))
        with pytest.raises(OSError, match="space"):
            journal.keep("new", None, None)
    journal.keep("second", None, None)
    torn, whole = (state / "changes.jsonl").read_bytes().splitlines()
    assert len(torn) == 9
    assert json.loads(whole)["path"] == "second"


def test_the_cap_counts_what_is_there_already_and_its_message_says_where(state: Path) -> None:
    BlobJournal(str(state)).keep("a", b"x" * 5000, 0o644)
    journal = BlobJournal(str(state), max_bytes=14_000)
    with pytest.raises(OSError, match=rf"{state}/blobs have reached 14000 bytes; `sluice sessions rm") as caught:
        journal.keep("b", b"y" * 5000, 0o644)
    assert caught.value.errno == errno.ENOSPC
    journal.keep("c", b"x" * 5000, 0o644)  # the same bytes take no more room
    journal.keep("d", b"z", 0o644)
    assert [line["path"] for line in lines(state)] == ["a", "c", "d"]


def test_links_and_odd_things_in_its_place_are_not_followed(state: Path, tmp_path: Path) -> None:
    journal = BlobJournal(str(state))
    journal.keep("a", OLD, 0o644)
    outside = tmp_path / "outside"
    outside.write_bytes(b"theirs")
    (state / "blobs" / NAME).unlink()
    (state / "blobs" / NAME).symlink_to(outside)
    journal.keep("a", OLD, 0o644)
    assert (state / "blobs" / NAME).read_bytes() == OLD
    (state / "changes.jsonl").unlink()
    (state / "changes.jsonl").symlink_to(outside)
    with pytest.raises(OSError, match=r"."):
        journal.keep("a", OLD, 0o644)
    (state / "changes.jsonl").unlink()
    os.mkfifo(state / "changes.jsonl")
    with pytest.raises(OSError, match="no regular file"):
        journal.keep("a", OLD, 0o644)
    assert outside.read_bytes() == b"theirs"


@pytest.mark.parametrize("fault", ["a file in the folder's place", "read-only"])
def test_without_a_journal_the_change_is_refused(
    state: Path, tmp_path: Path, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "f").write_bytes(OLD)
    state.parent.mkdir()
    if fault == "read-only":
        state.mkdir()
        real = os.open

        def read_only(path: Any, flags: int, *rest: Any, **named: Any) -> int:
            if flags & os.O_CREAT and str(path).endswith((".jsonl", ".tmp")) and not str(path).startswith(".sluice"):
                raise OSError(errno.EROFS, "Read-only file system")
            return real(path, flags, *rest, **named)

        monkeypatch.setattr(os, "open", read_only)
    else:
        state.write_bytes(b"")
    with Workspace(str(tmp_path / "work")) as workspace, pytest.raises(PathError) as caught:
        workspace.replace("f", b"new", expected=NAME, max_bytes=100, journal=BlobJournal(str(state)))
    assert caught.value.code == "journal"
    assert (tmp_path / "work" / "f").read_bytes() == OLD
    assert [p.name for p in (tmp_path / "work").iterdir()] == ["f"]


def test_what_no_session_refers_to_is_pruned_when_it_is_old(tmp_path: Path) -> None:
    journal = BlobJournal(str(tmp_path))
    contents = {name: name.encode() for name in ("referred", "old", "new", "again")}
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    for name, content in contents.items():
        journal.keep(name, content, 0o600)
    (tmp_path / "blobs" / ".dead.tmp").write_bytes(b"half")
    past = time.time() - 31 * 86_400
    for name in ("referred", "old", "again"):
        os.utime(tmp_path / "blobs" / digests[name], (past, past))
    os.utime(tmp_path / "blobs" / ".dead.tmp", (past, past))
    journal.keep("again", contents["again"], 0o600)  # a run in progress: its row is not written yet
    assert prune(str(tmp_path), {digests["referred"]}) == (2, len(b"old") + len(b"half"))
    assert set(os.listdir(tmp_path / "blobs")) == {digests[name] for name in ("referred", "new", "again")}
    assert prune(str(tmp_path), set(), now=lambda: past) == (0, 0)
    assert prune(str(tmp_path / "absent"), set()) == (0, 0)


def test_nothing_is_pruned_while_somebody_keeps_a_pre_image(tmp_path: Path) -> None:
    BlobJournal(str(tmp_path)).keep("a", b"a", 0o600)
    held = os.open(tmp_path / "blobs", os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_SH)
        assert prune(str(tmp_path), set(), now=lambda: time.time() + 99 * 86_400) == (0, 0)
    finally:
        os.close(held)
    assert prune(str(tmp_path), set(), now=lambda: time.time() + 99 * 86_400) == (1, 1)


def test_the_index_keeps_what_is_new_or_has_a_blob(tmp_path: Path) -> None:
    past = time.time() - 31 * 86_400
    old = BlobJournal(str(tmp_path), now=lambda: past)
    for name, content in (("referred", b"r"), ("unwanted", b"u"), ("made", None)):
        old.keep(name, content, 0o600)
    for name in os.listdir(tmp_path / "blobs"):
        os.utime(tmp_path / "blobs" / name, (past, past))
    with open(tmp_path / "changes.jsonl", "ab") as index:
        index.write(b"torn")
    journal = BlobJournal(str(tmp_path))
    journal.keep("new", None, None)
    assert prune(str(tmp_path), {hashlib.sha256(b"r").hexdigest()}) == (1, 1)
    assert [line["path"] for line in lines(tmp_path)] == ["referred", "new"]
    assert stat.S_IMODE((tmp_path / "changes.jsonl").stat().st_mode) == 0o600
    journal.keep("after", None, None)
    inode = (tmp_path / "changes.jsonl").stat().st_ino
    prune(str(tmp_path), {hashlib.sha256(b"r").hexdigest()})
    assert (tmp_path / "changes.jsonl").stat().st_ino == inode  # nothing to do, so nothing is written anew
    assert [line["path"] for line in lines(tmp_path)] == ["referred", "new", "after"]
    assert not (tmp_path / ".changes.jsonl.new").exists()


def test_an_index_that_is_exchanged_while_it_is_opened_loses_no_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    past = time.time() - 31 * 86_400
    BlobJournal(str(tmp_path), now=lambda: past).keep("old", None, None)
    lock = fcntl.flock

    def meanwhile(fd: int, kind: int) -> None:
        monkeypatch.setattr(fcntl, "flock", lock)
        prune(str(tmp_path), set())  # by another process, between the opening and the lock
        lock(fd, kind)

    monkeypatch.setattr(fcntl, "flock", meanwhile)
    BlobJournal(str(tmp_path)).keep("new", None, None)
    assert [line["path"] for line in lines(tmp_path)] == ["new"]


@pytest.mark.parametrize("step", ["open", "fsync", "rename"])
def test_an_index_that_a_full_disk_does_not_let_grow_smaller_waits(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    BlobJournal(str(tmp_path)).keep("a", b"x", 0o644)
    index, real = tmp_path / "changes.jsonl", getattr(os, step)
    before = index.read_bytes()

    def full(what: Any, *more: Any, **named: Any) -> Any:
        if step == "open" and not str(what).endswith(".new"):
            return real(what, *more, **named)
        raise OSError(errno.ENOSPC, "No space left on device")

    later = time.time() + 99 * 86_400
    with monkeypatch.context() as patched:
        patched.setattr(os, step, full)
        assert prune(str(tmp_path), set(), now=lambda: later) == (1, 1)
    assert {path.name for path in tmp_path.iterdir()} == {"blobs", "changes.jsonl"}
    assert index.read_bytes() == before
    prune(str(tmp_path), set(), now=lambda: later)
    assert index.read_bytes() == b""


def test_two_that_prune_at_once_lose_no_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    past = time.time() - 31 * 86_400
    BlobJournal(str(tmp_path), now=lambda: past).keep("old", None, None)
    alone = blobs._alone

    def meanwhile(fd: int) -> bool:
        monkeypatch.setattr(blobs, "_alone", alone)
        prune(str(tmp_path), set())
        BlobJournal(str(tmp_path)).keep("new", None, None)
        return alone(fd)

    monkeypatch.setattr(blobs, "_alone", meanwhile)
    prune(str(tmp_path), set())
    assert [line["path"] for line in lines(tmp_path)] == ["new"]
