"""On a full disk old files of the audit log can be removed all the same, and whatever ends that, the chain holds."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sluice.errors import AuditError
from sluice.session import audit
from sluice.session.audit import AuditLog
from sluice.session.audit_files import REMOVED, begun_removals, closed_files
from sluice.session.audit_reading import records, verify

BOUND = 1000  # bytes
STEPS = ("write", "rename", "truncate", "unlink")


class Died(BaseException):
    pass


@pytest.fixture
def full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A log of several files on a disk that has no byte left. Room comes only from what goes."""
    path = tmp_path / "state" / "audit.jsonl"
    log = AuditLog(str(path), max_bytes=BOUND)
    for n in range(60):
        log.record("x", n=n)
    log.close()
    size, real = _held(path), os.write

    def write(fd: int, data: bytes) -> int:
        room = size - _held(path)
        if room <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(fd, data[:room])

    monkeypatch.setattr(os, "write", write)
    with pytest.raises(AuditError, match="No space left"):
        log.record("x", n=60)
    return path


def _held(path: Path) -> int:
    return sum(one.stat().st_size for one in path.parent.iterdir())


def whole(path: Path) -> bool:
    found = verify(str(path))
    assert found.whole, found
    return True


def test_removing_makes_its_own_room_and_is_recorded(full: Path) -> None:
    before = closed_files(str(full))
    log = AuditLog(str(full), max_bytes=10**6)
    count, freed = log.remove_closed(time.time() + 1)
    assert count == len(before) > 3
    assert freed > count * BOUND
    assert closed_files(str(full)) == begun_removals(str(full)) == []
    told = [record["fields"]["file"] for record in records(str(full)) if record["event"] == REMOVED]
    assert sorted(told) == [one.name for one in before]
    assert whole(full)
    assert verify(str(full)).removed == count
    log.record("x", n=60)
    log.close()
    assert whole(full)


@pytest.mark.parametrize("behind", [False, True])
def test_a_death_at_any_step_leaves_a_whole_chain_and_the_next_removal_ends_it(
    behind: bool, full: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_it_was = {one.name: one.read_bytes() for one in full.parent.iterdir()}
    for left in range(1, 100):
        for one in full.parent.iterdir():
            one.unlink()
        for name, content in as_it_was.items():
            (full.parent / name).write_bytes(content)
        log = AuditLog(str(full), max_bytes=10**6)
        with monkeypatch.context() as patching:
            reached = _dying(patching, left, behind)
            try:
                log.remove_closed(time.time() + 1)
            except Died:
                assert whole(full)
        log.close()
        log.remove_closed(time.time() + 1)
        log.record("x", n=60)
        log.close()
        assert closed_files(str(full)) == begun_removals(str(full)) == []
        assert whole(full)
        if not reached():
            break
    assert left > 10


def _dying(monkeypatch: pytest.MonkeyPatch, left: int, behind: bool) -> Callable[[], bool]:
    seen = 0

    def patched(real: Any) -> Any:
        def call(*arguments: Any) -> Any:
            nonlocal seen
            seen += 1
            if seen == left and not behind:
                raise Died
            made = real(*arguments)
            if seen == left:
                raise Died
            return made

        return call

    for name in STEPS:
        monkeypatch.setattr(os, name, patched(getattr(os, name)))
    return lambda: seen >= left


def test_a_file_stays_whose_end_the_next_one_has_not_told_yet(full: Path) -> None:
    full.unlink()  # it was about to be begun
    for one in closed_files(str(full))[:-1]:
        os.unlink(one.path)
    full.with_name("other").write_bytes(b"x" * 10_000)  # and others took the room
    log = AuditLog(str(full))
    with pytest.raises(AuditError, match="cannot be removed: No space left"):
        log.remove_closed(time.time() + 1)
    log.close()
    assert len(closed_files(str(full))) == 1


def test_a_name_alone_does_not_stand_for_a_file_with_another_end(full: Path) -> None:
    first = closed_files(str(full))[0]
    Path(f"{first.path}.removed-{'0' * 64}").touch()
    os.unlink(first.path)
    assert "no line says that it was removed" in verify(str(full)).fault


def test_another_failure_removes_nothing(full: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_fd: int, _before: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(audit, "put_on_disk", fails)
    monkeypatch.setattr(os, "write", lambda _fd, data: len(data))
    before = closed_files(str(full))
    log = AuditLog(str(full))
    with pytest.raises(AuditError, match="Input/output"):
        log.remove_closed(time.time() + 1)
    log.close()
    assert closed_files(str(full)) == before
