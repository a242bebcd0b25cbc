"""Disks as they may be after the power failed, in short; that they follow the rules; and that what is amiss is noticed."""

from __future__ import annotations

import contextlib
import random
import shutil
import sys
from pathlib import Path

import pytest

from sluice.testing import faults
from sluice.testing.fault_images import NEVER, Disk
from sluice.testing.fault_power import WAYS, Power, only_synced
from sluice.testing.fault_provider import Provider
from sluice.testing.fault_recording import Event, events
from sluice.testing.fault_strace import missing

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="forks")
needs_strace = pytest.mark.skipif(bool(missing()), reason=f"losses of power were not tried: {missing()}")


@needs_strace
@pytest.mark.timeout(120)
def test_a_loss_of_power_costs_nothing_that_was_told_as_synced() -> None:
    figures = faults.drive(30, seed=5, only="power")
    assert figures.good(), "\n".join(figures.lines())
    assert figures.survived["power"] == figures.injected["power"] == 30
    assert len(figures.power) >= 5


@needs_strace
def test_a_sync_that_is_left_out_is_noticed(tmp_path) -> None:
    with Provider() as provider, contextlib.closing(faults.Driver(tmp_path, provider)) as driver:
        power = Power(driver, driver.scripts)
        goes, begins = power.record("change"), power.record("begin")
        power.judge(goes, max(goes.disk.told), "least")
        assert not power.figures.faults, power.figures.faults
        for tape, what, words in (
            (goes, "sessions.db-wal", "was told to have begun"),
            (goes, ".audit", "the audit log does not say so"),
            (goes, "/blobs", "is gone"),
            (goes, "changes.jsonl", "has no line in the index"),
            (goes, ".work", "does not hold"),
            (begins, "", "the store is gone"),
        ):
            synced = [change.synced for change in tape.disk.changes]
            for change in tape.disk.changes:
                if what in change.path:
                    change.synced = NEVER
            power.figures.faults.clear()
            power.judge(tape, max(tape.disk.told), "least")
            assert any(words in line for line in power.figures.faults), (what, power.figures.faults)
            for change, before in zip(tape.disk.changes, synced, strict=True):
                change.synced = before


# -- the disk


def made(folder: Path, *told: tuple[str, ...]) -> Disk:
    """A disk with the folder `s`, in which things were done one after another."""
    disk = Disk(folder, ("s", "acks"), ("acks",))
    whole = []
    for at, (kind, name, *more) in enumerate(told):
        data = more[0].encode() if kind == "write" else b""
        to = f"{folder}/{more[0]}" if kind in ("rename", "link") else ""
        place = int(more[0]) if kind == "cut" else None
        whole.append(Event(10 * at, 10 * at + 5, kind, f"{folder}/{name}".rstrip("/"), to, place, data))
    disk.apply(whole)
    return disk


def held(disk: Disk, to: Path, moment: float = 10_000, way: str = "least", seed: int = 0) -> dict[str, bytes]:
    """What an image holds: names and bytes."""
    to.mkdir(exist_ok=True)
    dice = random.Random(seed)
    disk.write(to, moment, WAYS[way](disk.unsynced(moment), dice), dice, lambda name: name)
    found = {str(path.relative_to(to)): b"" if path.is_dir() else path.read_bytes() for path in sorted(to.rglob("*"))}
    shutil.rmtree(to)
    return found


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "one" / "s").mkdir(parents=True)
    (tmp_path / "one" / "s" / "old").write_bytes(b"before")
    return tmp_path / "one"


def test_what_is_not_synced_may_be_missing_and_a_name_needs_its_folder_synced(folder, tmp_path) -> None:
    to = tmp_path / "image"
    done = [("make", "s/a"), ("write", "s/a", "12345")]
    assert held(made(folder, *done), to) == {"s": b"", "s/old": b"before"}
    assert held(made(folder, *done, ("sync", "s/a")), to) == {"s": b"", "s/old": b"before"}
    assert held(made(folder, *done, ("sync", "s")), to) == {"s": b"", "s/a": b"", "s/old": b"before"}
    both = made(folder, *done, ("sync", "s/a"), ("sync", "s"))
    assert held(both, to)["s/a"] == b"12345"
    assert held(both, to, moment=10) == {"s": b"", "s/old": b"before"}
    assert held(made(folder, *done), to, way="all")["s/a"] == b"12345"
    assert held(made(folder, *done), to, way="names and lengths")["s/a"] == bytes(5)


def test_a_folder_whose_name_is_not_on_disk_takes_all_in_it_along(folder, tmp_path) -> None:
    done = [("folder", "s/d"), ("make", "s/d/a"), ("write", "s/d/a", "1"), ("sync", "s/d/a"), ("sync", "s/d")]
    assert held(made(folder, *done), tmp_path / "image") == {"s": b"", "s/old": b"before"}
    assert held(made(folder, *done, ("sync", "s")), tmp_path / "image")["s/d/a"] == b"1"


def test_a_renaming_is_there_or_not_and_what_is_outside_is_always_there(folder, tmp_path) -> None:
    done = [("make", "s/a"), ("write", "s/a", "new"), ("sync", "s/a"), ("sync", "s"), ("rename", "s/a", "s/old")]
    done += [("make", "acks"), ("write", "acks", "told")]
    disk, to = made(folder, *done), tmp_path / "image"
    assert held(disk, to) == {"s": b"", "s/a": b"new", "s/old": b"before", "acks": b"told"}
    assert held(disk, to, way="names") == {"s": b"", "s/old": b"new", "acks": b"told"}
    assert len(disk.told) == 2


def test_a_write_that_is_not_synced_may_be_torn(folder, tmp_path) -> None:
    disk = made(folder, ("make", "s/a"), ("sync", "s"), ("write", "s/a", "x" * 10_000))
    found = {held(disk, tmp_path / "image", way="some", seed=seed)["s/a"] for seed in range(60)}
    assert b"" in found
    assert b"x" * 10_000 in found
    torn = [data for data in found if 0 < data.count(b"x") < 10_000]
    assert torn
    assert {len(data) for data in torn} == {10_000}
    assert {data.count(b"x") % 512 for data in torn} <= {0, 10_000 % 512}


def test_a_file_that_was_cut_and_a_removal_count_when_they_are_synced(folder, tmp_path) -> None:
    to = tmp_path / "image"
    disk = made(folder, ("cut", "s/old", "2"), ("remove", "s/old"))
    assert held(disk, to)["s/old"] == b"before"
    assert held(disk, to, moment=5, way="all")["s/old"] == b"be"
    assert "s/old" not in held(disk, to, way="all")


def test_what_cannot_be_followed_is_no_gap(folder) -> None:
    for event in (("write", "s/strange", "1"), ("rename", "s/old", "elsewhere/x"), ("make", "s/no/file")):
        with pytest.raises(ValueError, match="s/"):
            made(folder, event)


# -- the recording


def hexed(text: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in text.encode())


def test_a_log_of_system_calls_is_read(tmp_path) -> None:
    log = tmp_path / "log"
    a, b, there = hexed("/w/a"), hexed("/w/b"), hexed("/w")
    log.write_text(
        f'1 1.000000001 openat(AT_FDCWD<{hexed("/")}>, "{a}", O_WRONLY|O_CREAT|O_CLOEXEC, 0600) = 7<{a}>\n'
        f'1 1.000000002 write(7<{a}>, "{hexed("one")}", 3) = 3\n'
        f'1 1.000000003 write(7<{a}>, "{hexed("two, (")}", 6 <unfinished ...>\n'
        f'2 1.000000004 pwrite64(8<{b}>, "{hexed("at")}", 2, 4096) = 2\n'
        f"1 1.000000005 <... write resumed>) = 2\n"
        f"1 1.000000006 fdatasync(7<{a}>) = 0\n"
        f'1 1.000000007 renameat(5<{there}>, "{hexed("a")}", 5<{there}>, "{hexed("b")}") = 0\n'
        f'1 1.000000008 unlink("{hexed("/w/none")}") = -1 ENOENT (No such file or directory)\n'
        f'1 1.000000009 write(1<{hexed("/else")}>, "", 0) = 0\n'
        f"1 1.000000010 fsync(5<{there}>) = 0\n"
        f'1 1.000000011 write(7<{a}>(deleted), "{hexed("x")}", 1) = 1\n'
        f'2 1.000000012 pwrite64(8<{b}>, "{hexed("half")}", 4, 0) = ?\n'
        "2 1.000000013 +++ killed by SIGKILL +++\n",
        "ascii",
    )
    found = [(e.kind, e.path, e.to, e.at, e.data, e.ended - 10**9) for e in events(log, "/w")]
    assert found == [
        ("make", "/w/a", "", None, b"", 1),
        ("write", "/w/a", "", 0, b"one", 2),
        ("write", "/w/a", "", 3, b"tw", 5),
        ("write", "/w/b", "", 4096, b"at", 4),
        ("sync", "/w/a", "", None, b"", 6),
        ("rename", "/w/a", "/w/b", None, b"", 7),
        ("sync", "/w", "", None, b"", 10),
        ("write", "/w/b", "", 0, b"half", NEVER),
    ]


def test_a_call_that_changes_files_and_cannot_be_read_is_an_error(tmp_path) -> None:
    log = tmp_path / "log"
    log.write_text(f"1 1.000000001 fallocate(7<{hexed('/w/a')}>, 0, 0, 4096) = 0\n", "ascii")
    with pytest.raises(ValueError, match="fallocate"):
        events(log, "/w")
    assert events(log, "/elsewhere") == []


# -- what was told


def test_deltas_that_no_sync_came_after_may_be_lost_and_others_may_not(tmp_path) -> None:
    acks, ledger = tmp_path / "acks", tmp_path / "ledger"
    acks.write_text("r1 began\nr1 1 10\nr1 1 20\nr1 2 5\nr2 began\nr2 1 7\nr2 2 8\nr2 called 1 0\nr2 2 9\n")
    ledger.write_text("r2 1 0 {}\n")
    only_synced(acks, ledger)
    assert acks.read_text() == "r1 began\nr1 1 10\nr1 1 20\nr1 2 5\nr2 began\nr2 1 7\nr2 called 1 0\n"
