"""All or nothing over several files, with a fault at every step."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from sluice.errors import PathError
from sluice.tools.changing import Change

MIB = 1024 * 1024


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def work(bench: Any) -> Any:
    (bench.root / "two.txt").write_bytes(b"2")
    (bench.root / "run.sh").write_bytes(b"#!")
    (bench.root / "run.sh").chmod(0o751)
    (bench.root / "ok.txt").chmod(0o644)  # whatever the umask
    return bench


OK = digest(b"one\ntwo\nthree\n")
CHANGES = (
    Change(path="ok.txt", data=b"changed", expected=OK),
    Change(path="new/deep/file.txt", data=b"added", expected=None),
    Change(path="two.txt", data=None, expected=digest(b"2")),
    Change(path="run.sh", data=None, expected=digest(b"#!")),
    Change(path="bin/run.sh", data=b"#!!", expected=None, moved_from="run.sh"),
)


class Keeping:
    def __init__(self) -> None:
        self.kept: list[tuple[str, bytes | None, int | None]] = []
        self.names: list[list[str]] = []
        self.root: Path | None = None

    def keep(self, path: str, content: bytes | None, mode: int | None) -> str | None:
        self.kept.append((path, content, mode))
        return f"kept:{len(self.kept)}"


def test_all_are_made(work: Any) -> None:
    journal = Keeping()
    done = work.workspace.change_all(CHANGES, max_bytes=MIB, journal=journal)
    root = work.root
    assert sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file()) == [
        "bin/run.sh",
        "new/deep/file.txt",
        "ok.txt",
    ]
    assert (root / "ok.txt").read_bytes() == b"changed"
    assert stat.S_IMODE((root / "bin/run.sh").stat().st_mode) == 0o751
    assert [one.created for one in done] == [False, True, False, False, True]
    assert [one.undo for one in done] == [f"kept:{n}" for n in range(1, 6)]
    assert journal.kept[0] == ("ok.txt", b"one\ntwo\nthree\n", 0o644)
    assert journal.kept[1] == ("new/deep/file.txt", None, None)


STEPS = ("open", "write", "fsync", "link", "rename", "fchmod", "stat", "mkdir")


@pytest.mark.parametrize("step", STEPS)
def test_a_fault_at_any_call_of_any_step_leaves_everything(
    work: Any, look: Any, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = look(work.root)
    inodes = {name: (work.root / name).stat().st_ino for name in ("ok.txt", "two.txt", "run.sh")}
    real = getattr(os, step)
    faults, codes = 0, set()
    for nth in range(100):
        calls = 0

        def failing(*arguments: Any, nth: int = nth, **named: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == nth + 1:
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(*arguments, **named)

        with monkeypatch.context() as patched:
            patched.setattr(os, step, failing)
            try:
                work.workspace.change_all(CHANGES, max_bytes=MIB)
            except PathError as error:
                codes.add(error.code)
            else:
                break
        faults += 1
        assert look(work.root) == before
        assert {name: (work.root / name).stat().st_ino for name in inodes} == inodes
    assert faults >= 1
    assert codes == {"no_space"}
    assert (work.root / "bin/run.sh").exists()


def test_an_interrupt_in_the_middle_gives_everything_back(
    work: Any, look: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = look(work.root)
    real, calls = os.rename, 0

    def interrupted(*arguments: Any, **named: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise KeyboardInterrupt
        real(*arguments, **named)

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", interrupted)
        with pytest.raises(KeyboardInterrupt):
            work.workspace.change_all(CHANGES, max_bytes=MIB)
    assert look(work.root) == before


def test_a_file_that_changed_while_the_others_were_written_stops_all(
    work: Any, look: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, once = os.link, []

    def meanwhile(*arguments: Any, **named: Any) -> None:
        if not once:
            once.append(1)
            (work.root / "two.txt").write_bytes(b"theirs")
        real(*arguments, **named)

    with monkeypatch.context() as patched:
        patched.setattr(os, "link", meanwhile)
        with pytest.raises(PathError) as caught:
            work.workspace.change_all(CHANGES, max_bytes=MIB)
    assert caught.value.code == "stale"
    assert (work.root / "ok.txt").read_bytes() == b"one\ntwo\nthree\n"
    assert (work.root / "two.txt").read_bytes() == b"theirs"
    assert not (work.root / "new").exists()


def test_without_hard_links_it_is_all_or_nothing_too(work: Any, look: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_here(*arguments: Any, **named: Any) -> None:
        raise OSError(errno.EPERM, "not supported")

    monkeypatch.setattr(os, "link", none_here)
    before = look(work.root)
    wrong = (*CHANGES[:3], Change(path="run.sh", data=b"x", expected=digest(b"other")))
    with pytest.raises(PathError):
        work.workspace.change_all(wrong, max_bytes=MIB)
    assert look(work.root) == before
    work.workspace.change_all(CHANGES, max_bytes=MIB)
    assert (work.root / "ok.txt").read_bytes() == b"changed"


def test_what_cannot_be_given_back_is_named(work: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    real, calls = os.rename, 0

    def broken(*arguments: Any, **named: Any) -> None:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise OSError(errno.EIO, "Input/output error")
        real(*arguments, **named)

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", broken)
        with pytest.raises(
            PathError, match=r"ok\.txt \(Input/output error\); what it held stands beside it as"
        ) as caught:
            work.workspace.change_all(CHANGES, max_bytes=MIB)
    assert caught.value.code == "io_error"
    (kept,) = work.root.glob(".sluice-*.tmp")
    assert kept.read_bytes() == b"one\ntwo\nthree\n"
    kept.unlink()


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (Change(path=".git/config", data=b"x", expected=None), "protected"),
        (Change(path=".git/config", data=None, expected="0"), "protected"),
        (Change(path="../x", data=b"x", expected=None), "parent_path"),
        (Change(path="ok.txt", data=b"x" * (MIB + 1), expected=OK), "too_large"),
        (Change(path="a\x1b", data=b"x", expected=None), "control_in_path"),
        (Change(path="ok.txt", data=None, expected=digest(b"other")), "stale"),
        (Change(path="missing", data=None, expected=digest(b"other")), "stale"),
        (Change(path="no/missing", data=None, expected=digest(b"other")), "stale"),
    ],
)
def test_one_refusal_refuses_all(work: Any, look: Any, change: Change, code: str) -> None:
    before = look(work.root)
    with pytest.raises(PathError) as caught:
        work.workspace.change_all((CHANGES[1], change), max_bytes=MIB)
    assert caught.value.code == code
    assert look(work.root) == before
