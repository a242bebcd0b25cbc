"""A log of several files is one chain: nothing forks it, loses a line, or takes a lost file for a removed one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.errors import AuditError
from sluice.session import audit, audit_reading
from sluice.session.audit import AuditLog
from sluice.session.audit_files import CLOSED, CONTINUED, REMOVED, ClosedFile, closed_files, digest
from sluice.session.audit_reading import records, verify

BOUND = 400  # bytes: two or three records a file


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "audit.jsonl"


def written(path: Path, count: int, *, bound: int = BOUND, at: Callable[[], float] = time.time) -> None:
    log = AuditLog(str(path), max_bytes=bound, now=at)
    for n in range(count):
        log.record("x", n=n)
    log.close()


def numbers(path: Path) -> list[int]:
    return [record["fields"]["n"] for record in records(str(path)) if record["event"] == "x"]


def whole(path: Path) -> bool:
    found = verify(str(path))
    assert found.whole, found
    return True


def test_a_full_file_is_closed_and_the_next_one_goes_on(path: Path) -> None:
    written(path, 12)
    closed = closed_files(str(path))
    assert [one.name for one in closed] == [f"audit-{n:06d}.jsonl" for n in range(1, len(closed) + 1)]
    assert len(closed) > 2
    for one in closed:
        assert BOUND <= os.stat(one.path).st_size < BOUND + 500
        assert os.stat(one.path).st_mode & 0o777 == 0o600
    kept = list(records(str(path)))
    assert [record["n"] for record in kept] == list(range(1, len(kept) + 1))
    assert [record["fields"]["follows"] for record in kept if record["event"] == CONTINUED] == [c.name for c in closed]
    assert sum(record["event"] == CLOSED for record in kept) == len(closed)
    assert numbers(path) == list(range(12))
    found = verify(str(path))
    assert (found.whole, found.good, found.files, found.removed) == (True, len(kept), len(closed) + 1, 0)


def test_the_last_records_are_read_across_files(path: Path) -> None:
    written(path, 9)
    everything = list(records(str(path)))
    for last in (1, 2, 5, len(everything), 1000):
        assert list(records(str(path), last)) == everything[-last:]


def test_a_log_of_one_file_goes_on_when_it_has_reached_the_bound(path: Path) -> None:
    written(path, 20, bound=10**6)
    assert closed_files(str(path)) == []
    written(path, 1)
    assert len(closed_files(str(path))) == 1
    assert len(numbers(path)) == 21
    assert whole(path)


def test_each_file_takes_a_record_whatever_the_bound(path: Path) -> None:
    written(path, 5, bound=1)
    assert numbers(path) == list(range(5))
    assert len(closed_files(str(path))) == 4
    assert whole(path)


def test_who_has_an_old_file_open_goes_on_in_the_new_one(path: Path) -> None:
    first, second = (AuditLog(str(path), max_bytes=BOUND) for _ in range(2))
    first.record("x", n=0)
    second.record("x", n=1)
    for n in range(2, 8):
        second.record("x", n=n)
    first.record("x", n=8)
    for log in (first, second):
        log.close()
    assert numbers(path) == list(range(9))
    assert whole(path)


def test_a_log_that_was_moved_away_is_begun_anew(path: Path) -> None:
    log = AuditLog(str(path))
    log.record("x", n=0)
    path.rename(path.with_name("old.jsonl"))
    log.record("x", n=1)
    log.close()
    assert numbers(path) == [1]
    assert whole(path)


# -- what is noticed


@pytest.mark.parametrize("index", [0, 1, 2])
def test_a_missing_file_is_noticed_and_named(index: int, path: Path) -> None:
    written(path, 12)
    closed = closed_files(str(path))
    os.unlink(closed[index].path)
    found = verify(str(path))
    assert not found.whole
    assert closed[index].name in found.fault
    assert "missing" in found.fault
    assert found.good == sum(len(Path(one.path).read_bytes().splitlines()) for one in closed[:index])


def test_the_newest_closed_file_and_all_of_them_are_missed_too(path: Path) -> None:
    written(path, 12)
    closed = closed_files(str(path))
    kept = Path(closed[-1].path).read_bytes()
    os.unlink(closed[-1].path)
    assert closed[-1].name in verify(str(path)).fault
    Path(closed[-1].path).write_bytes(kept)
    assert whole(path)
    for one in closed:
        os.unlink(one.path)
    assert "no line says that it was removed" in verify(str(path)).fault


@pytest.mark.parametrize("linked", [True, False])
def test_what_an_older_program_wrote_on_is_told_from_what_does_not_link(linked: bool, path: Path) -> None:
    written(path, 12)
    closed = Path(closed_files(str(path))[0].path)
    last = closed.read_bytes().splitlines()[-1]
    line = {"n": json.loads(last)["n"] + 1, "at": 1.0, "event": "x", "prev": digest(last if linked else b"")}
    closed.write_bytes(closed.read_bytes() + json.dumps({**line, "fields": {}}).encode() + b"\n")
    found = verify(str(path))
    assert not found.whole
    assert found.file == str(closed)
    assert "behind the line that closed the file" in found.fault
    assert ("older version" in found.fault) is linked


def test_files_that_changed_places_are_noticed(path: Path) -> None:
    written(path, 12)
    one, other, *_ = closed_files(str(path))
    os.rename(one.path, f"{one.path}.away")
    os.rename(other.path, one.path)
    os.rename(f"{one.path}.away", other.path)
    assert not verify(str(path)).whole
    assert verify(str(path)).good == 0


@pytest.mark.parametrize("lines", [1, 2])
def test_lines_cut_off_a_closed_file_are_noticed(lines: int, path: Path) -> None:
    written(path, 12)
    one = Path(closed_files(str(path))[1].path)
    kept = one.read_bytes().splitlines(keepends=True)
    one.write_bytes(b"".join(kept[:-lines]))
    found = verify(str(path))
    assert found.file == str(one)
    assert "missing" in found.fault
    one.write_bytes(b"".join(kept)[:-9])
    assert "not written to its end" in verify(str(path)).fault


def test_files_of_other_numbers_are_noticed(path: Path) -> None:
    written(path, 12)
    for one in reversed(closed_files(str(path))):
        os.rename(one.path, one.path.replace(f"{one.number:06d}", f"{one.number + 1:06d}"))
    assert "does not go on from audit-000002.jsonl" in verify(str(path)).fault


def test_lines_behind_the_closing_line_are_noticed(path: Path) -> None:
    written(path, 12)
    one, other, *_ = (Path(found.path) for found in closed_files(str(path)))
    one.write_bytes(one.read_bytes() + other.read_bytes())
    assert "closed the file" in verify(str(path)).fault


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_changed_byte_is_noticed(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("audit") / "log"
    written(path, 7, at=lambda: 1.0)
    files = [Path(one.path) for one in closed_files(str(path))]
    file = data.draw(st.sampled_from(files))
    raw = file.read_bytes()
    at = data.draw(st.integers(0, len(raw) - 1))
    value = data.draw(st.integers(0, 255).filter(lambda value: value != raw[at]))
    file.write_bytes(raw[:at] + bytes([value]) + raw[at + 1 :])
    assert not verify(str(path)).whole


def test_a_link_in_a_files_place_is_not_read(path: Path, tmp_path: Path) -> None:
    written(path, 6)
    one = Path(closed_files(str(path))[0].path)
    one.rename(tmp_path / "elsewhere")
    one.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic"):
        verify(str(path))


# -- removing old files


def test_removed_files_are_told_from_lost_ones(path: Path) -> None:
    times = iter(range(1000))
    written(path, 12, at=lambda: float(next(times)))
    closed = closed_files(str(path))
    log = AuditLog(str(path), max_bytes=10**6, now=lambda: 2000.0)
    third = next(iter(records(closed[2].path)))["at"]  # when the first two were closed already
    removed, size = log.remove_closed(third)
    assert removed == 2
    assert size > 2 * BOUND
    found = verify(str(path))
    assert (found.whole, found.removed) == (True, 2)
    kept = numbers(path)
    assert kept == list(range(kept[0], 12))
    assert log.remove_closed(third) == (0, 0)
    os.unlink(closed[2].path)
    assert closed[2].name in verify(str(path)).fault
    log.close()


def test_numbers_go_on_where_no_closed_file_is_left(path: Path) -> None:
    written(path, 12)
    count = len(closed_files(str(path)))
    log = AuditLog(str(path), max_bytes=10**6)
    assert log.remove_closed(time.time() + 1)[0] == count
    log.close()
    assert closed_files(str(path)) == []
    written(path, 1)
    assert [one.number for one in closed_files(str(path))] == [count + 1]
    assert verify(str(path)).removed == count
    assert whole(path)


def test_a_file_that_was_cut_before_it_was_removed_is_noticed(path: Path) -> None:
    written(path, 12)
    cut, second, *_ = (Path(one.path) for one in closed_files(str(path)))
    cut.write_bytes(b"".join(cut.read_bytes().splitlines(keepends=True)[:-1]))
    log = AuditLog(str(path), max_bytes=10**6)
    assert log.remove_closed(next(iter(records(str(second))))["at"])[0] == 1
    log.close()
    assert "no line says that it was removed" in verify(str(path)).fault


def test_a_log_that_goes_on_while_it_is_read_is_looked_at_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(path, 12)
    listed = audit_reading.closed_files
    log = AuditLog(str(path), max_bytes=BOUND)

    def meanwhile(name: str) -> list[ClosedFile]:
        monkeypatch.setattr(audit_reading, "closed_files", listed)
        for n in range(6):
            log.record("x", n=n)
        log.remove_closed(time.time() + 1)
        return listed(name)

    monkeypatch.setattr(audit_reading, "closed_files", meanwhile)
    assert whole(path)
    log.close()


def test_all_closed_files_may_go_and_numbers_are_not_used_again(path: Path) -> None:
    written(path, 12)
    before = closed_files(str(path))
    log = AuditLog(str(path), max_bytes=BOUND)
    assert log.remove_closed(time.time() + 1)[0] >= len(before)
    for n in range(12, 20):
        log.record("x", n=n)
    log.close()
    left = closed_files(str(path))
    assert left[0].number > len(before)
    assert verify(str(path)).removed == left[0].number - 1
    assert whole(path)


def test_a_removal_that_was_recorded_and_not_done_leaves_a_whole_chain(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(path, 12)
    log = AuditLog(str(path), max_bytes=10**6)
    unlink, gone = os.unlink, []

    def second_fails(name: str) -> None:
        if gone:
            raise OSError(5, "Input/output error")
        gone.append(name)
        unlink(name)

    monkeypatch.setattr(os, "unlink", second_fails)
    with pytest.raises(AuditError, match="cannot be removed"):
        log.remove_closed(time.time() + 1)
    assert verify(str(path)).removed == 1
    assert whole(path)
    monkeypatch.undo()
    log.remove_closed(time.time() + 1)
    log.close()
    assert closed_files(str(path)) == []
    assert whole(path)


# -- dying, and failing, at every step


class Died(BaseException):
    pass


CALLS = ("open", "write", "fdatasync", "fsync", "rename", "unlink", "truncate", "ftruncate")


def _count_down(monkeypatch: pytest.MonkeyPatch, left: int, how: str) -> Callable[[], bool]:
    """At the `left`th system call (from 1) the process dies before it, behind it, or halfway through a write.

    Returns what says whether it came to that.
    """
    seen = 0

    def patched(name: str, real: Any) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            nonlocal seen
            seen += 1
            if seen == left:
                if how == "behind":
                    made = real(*arguments, **named)
                    if name == "open":
                        os.close(made)
                if how == "halfway" and name == "write":
                    real(arguments[0], arguments[1][: len(arguments[1]) // 2])
                raise Died if how != "fails" else OSError(28, "No space left on device")
            return real(*arguments, **named)

        return call

    monkeypatch.setattr(audit, "sync_upwards", lambda _folder: os.fsync(-1))  # one point each
    for name in CALLS:
        real = (lambda _fd: None) if name.endswith("sync") else getattr(os, name)  # what is written outlives a process
        monkeypatch.setattr(os, name, patched(name, real))
    return lambda: seen >= left


@pytest.mark.parametrize("how", ["before", "behind", "halfway", "fails"])
def test_a_death_or_a_failure_at_any_step_leaves_a_whole_chain(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A script of records and a removal, ended at its 1st, 2nd, … system call; then another process goes on."""
    points = 0
    for left in range(1, 500):
        path = tmp_path / f"{how}{left}" / "audit.jsonl"
        acknowledged, removable = list[int](), list[int]()
        log = AuditLog(str(path), max_bytes=BOUND)
        with monkeypatch.context() as patching:
            reached = _count_down(patching, left, how)
            ended = _script(log, acknowledged, removable)
        log.close()
        if path.exists() or closed_files(str(path)):
            found = verify(str(path))  # as it was left; a line cut in the middle waits for the next writer
            assert found.whole or (how == "halfway" and "not written to its end" in found.fault), (left, found)
        written(path, 1)
        assert whole(path)
        kept = numbers(path)
        lost = [n for n in acknowledged if n not in kept]
        assert [n for n in kept if n in acknowledged] == acknowledged[len(lost) :]
        assert set(lost) <= set(removable)
        assert not lost or verify(str(path)).removed
        points += 1
        if not reached():
            assert ended
            assert lost == removable
            break
    assert points > 40


def _script(log: AuditLog, acknowledged: list[int], removable: list[int]) -> bool:
    try:
        for n in range(100, 106):
            log.record("x", n=n)
            acknowledged.append(n)
        for one in closed_files(log.path):
            kept = [json.loads(line) for line in Path(one.path).read_bytes().splitlines()]
            removable += [line["fields"]["n"] for line in kept if line["event"] == "x"]
        log.remove_closed(time.time() + 1)
        for n in range(106, 109):
            log.record("x", n=n)
            acknowledged.append(n)
    except (Died, AuditError):
        return False
    return True


def test_a_file_that_cannot_be_given_its_name_stops_the_log_and_nothing_is_lost(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = AuditLog(str(path), max_bytes=BOUND)

    def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    told = 0
    with monkeypatch.context() as patching:
        patching.setattr(os, "rename", refused)
        for n in range(10):
            try:
                log.record("x", n=n)
                told += 1
            except AuditError:
                continue
        with pytest.raises(AuditError, match=r"full.*audit-000001\.jsonl: Permission denied"):
            log.record("x", n=99)
    assert 0 < told < 10
    log.record("x", n=10)
    log.close()
    assert numbers(path) == [*range(told), 10]
    assert whole(path)


# -- several processes

WRITER = """
import os, sys
from sluice.session.audit import AuditLog
path, ledger, name, count = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
log = AuditLog(path, max_bytes=1500)
fd = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
for n in range(count):
    log.record("x", n=f"{name}-{n}")
    os.write(fd, f"{name}-{n}\\n".encode())
"""


def _writer(path: Path, ledger: Path, name: str, count: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", WRITER, str(path), str(ledger), name, str(count)])


def test_four_processes_write_one_chain_and_lose_no_line(path: Path, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    writers = [_writer(path, ledger, str(name), 80) for name in range(4)]
    looks = 0
    while any(writer.poll() is None for writer in writers):
        if path.exists():
            assert whole(path)  # what a reader sees at any moment
            looks += 1
    assert [writer.wait() for writer in writers] == [0] * 4
    found = [str(n) for n in numbers(path)]
    assert len(found) == 320
    assert set(found) == set(ledger.read_text().split())
    for name in range(4):  # each process's own lines in its own order
        assert [n for n in found if n.startswith(f"{name}-")] == [f"{name}-{n}" for n in range(80)]
    assert len(closed_files(str(path))) > 15
    assert looks
    assert whole(path)


def test_killed_writers_lose_nothing_that_was_acknowledged(path: Path, tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    writers = [_writer(path, ledger, f"first{name}", 100_000) for name in range(4)]
    for number, writer in enumerate(writers):
        while not ledger.exists() or ledger.read_bytes().count(b"\n") < 40 * (number + 1):
            assert writer.poll() is None
        writer.send_signal(signal.SIGKILL)
        writer.wait()
    last = _writer(path, ledger, "last", 20)
    assert last.wait() == 0
    found = [str(n) for n in numbers(path)]
    acknowledged = ledger.read_text().split()
    assert len(found) == len(set(found))
    assert set(acknowledged) <= set(found)
    assert len(found) <= len(acknowledged) + 4  # a line may be on disk and its writer killed before it said so
    assert whole(path)


def test_files_removed_while_others_write_leave_a_whole_chain(path: Path, tmp_path: Path) -> None:
    writers = [_writer(path, tmp_path / "ledger", str(name), 60) for name in range(2)]
    log = AuditLog(str(path), max_bytes=1500)
    removed = 0
    while any(writer.poll() is None for writer in writers):
        if path.exists():
            removed += log.remove_closed(time.time())[0]
            assert whole(path)
    log.close()
    assert [writer.wait() for writer in writers] == [0, 0]
    assert removed > 5
    assert verify(str(path)).removed == removed
    assert sum(record["event"] == REMOVED for record in records(str(path))) > 0
    kept = [str(n) for n in numbers(path)]
    for name in range(2):
        own = [n for n in kept if n.startswith(f"{name}-")]
        assert own == [f"{name}-{n}" for n in range(60)][len(own) * -1 or 60 :]
