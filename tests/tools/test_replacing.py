from __future__ import annotations

import errno
import hashlib
import os
import resource
import stat
from pathlib import Path
from typing import Any

import pytest

from sluice.errors import PathError
from sluice.tools import replacing
from sluice.tools.workspace import Workspace

MIB = 1024 * 1024
OLD = b"one\ntwo\nthree\n"


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Keeping:
    """A journal that remembers, or that cannot."""

    def __init__(self, fault: OSError | None = None) -> None:
        self.kept: list[tuple[str, bytes | None, int | None]] = []
        self.fault = fault

    def keep(self, path: str, content: bytes | None, mode: int | None) -> str | None:
        if self.fault is not None:
            raise self.fault
        self.kept.append((path, content, mode))
        return f"kept:{len(self.kept)}"


def write(workspace: Workspace, data: bytes, expected: bytes | None = OLD, path: str = "ok.txt", **named: Any) -> Any:
    known = None if expected is None else digest(expected)
    return workspace.replace(path, data, expected=known, max_bytes=MIB, **named)


def refusal(workspace: Workspace, *arguments: Any, **named: Any) -> str:
    with pytest.raises(PathError) as caught:
        write(workspace, *arguments, **named)
    return caught.value.code


def test_a_file_is_replaced_with_its_mode(bench: Any) -> None:
    for mode in (0o644, 0o755, 0o600, 0o4755):
        (bench.root / "ok.txt").chmod(mode)
        (bench.root / "ok.txt").write_bytes(OLD)
        (bench.root / "ok.txt").chmod(mode)
        written = write(bench.workspace, b"new\x00\xff")
        assert (written.created, written.size, written.digest) == (False, 5, digest(b"new\x00\xff"))
        assert (bench.root / "ok.txt").read_bytes() == b"new\x00\xff"
        assert stat.S_IMODE((bench.root / "ok.txt").stat().st_mode) == mode


def test_a_new_file_gets_the_mode_that_the_umask_leaves(bench: Any) -> None:
    old = os.umask(0o027)
    try:
        assert write(bench.workspace, b"x", None, "new.txt").created
    finally:
        os.umask(old)
    status = (bench.root / "new.txt").stat()
    assert stat.S_IMODE(status.st_mode) == 0o640
    assert status.st_nlink == 1


@pytest.mark.skipif(not hasattr(os, "setxattr"), reason="extended attributes are Linux's")
def test_extended_attributes_are_kept(bench: Any) -> None:
    try:
        os.setxattr(bench.root / "ok.txt", "user.note", b"kept")
    except OSError:
        pytest.skip("this file system has no extended attributes")
    write(bench.workspace, b"new")
    assert os.getxattr(bench.root / "ok.txt", "user.note") == b"kept"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_the_owner_is_kept_and_a_foreign_setuid_is_not_taken_over(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    os.chown(bench.root / "ok.txt", 12345, 23456)
    write(bench.workspace, b"new")
    status = (bench.root / "ok.txt").stat()
    assert (status.st_uid, status.st_gid) == (12345, 23456)
    (bench.root / "ok.txt").chmod(0o6755)

    def not_allowed(*arguments: object) -> None:
        raise PermissionError(errno.EPERM, "not allowed")

    monkeypatch.setattr(os, "fchown", not_allowed)
    write(bench.workspace, b"newer", b"new")
    assert stat.S_IMODE((bench.root / "ok.txt").stat().st_mode) == 0o755


def test_what_is_there_must_be_what_was_expected(bench: Any) -> None:
    assert refusal(bench.workspace, b"new", b"other") == "stale"
    assert refusal(bench.workspace, b"new", None) == "exists"
    assert refusal(bench.workspace, b"new", b"x", "missing.txt") == "stale"
    assert (bench.root / "ok.txt").read_bytes() == OLD


@pytest.mark.parametrize("happening", ["changed", "removed", "replaced by a link", "linked"])
def test_a_change_while_the_new_file_is_written_is_noticed(
    bench: Any, outside: Path, happening: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = bench.root / "ok.txt"

    def meanwhile(fd: int) -> None:
        if happening == "changed":
            target.write_bytes(b"theirs")
        elif happening == "linked":
            os.link(target, bench.root / "second")
        else:
            target.unlink(missing_ok=True)
            if happening == "replaced by a link" and not target.is_symlink():
                target.symlink_to(outside / "secret.txt")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", meanwhile)
        code = refusal(bench.workspace, b"new")
    assert code == {"linked": "hard_link", "replaced by a link": "symlink"}.get(happening, "stale")
    if happening == "changed":
        assert target.read_bytes() == b"theirs"


def test_a_link_that_takes_the_files_place_after_the_look_is_not_read(
    bench: Any, outside: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    regular = (bench.root / "ok.txt").stat()
    (bench.root / "link").symlink_to(outside / "secret.txt")
    monkeypatch.setattr(os, "stat", lambda *arguments, **named: regular)
    assert refusal(bench.workspace, b"new", b"SECRET canary\n", "link") == "symlink"


def test_a_file_that_appears_meanwhile_is_not_replaced(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.link

    def late(*arguments: Any, **named: Any) -> None:
        (bench.root / "new.txt").write_bytes(b"theirs")
        real(*arguments, **named)

    monkeypatch.setattr(os, "link", late)
    assert refusal(bench.workspace, b"ours", None, "new.txt") == "exists"
    assert (bench.root / "new.txt").read_bytes() == b"theirs"


def test_a_file_system_without_hard_links_still_takes_new_files(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_here(*arguments: Any, **named: Any) -> None:
        raise OSError(errno.EPERM, "not supported")

    monkeypatch.setattr(os, "link", none_here)
    assert write(bench.workspace, b"x", None, "new.txt").created
    assert (bench.root / "new.txt").read_bytes() == b"x"


@pytest.mark.parametrize("step", ["write", "fsync", "rename", "fchmod", "open"])
def test_a_fault_at_any_step_leaves_the_old_file_and_nothing_else(
    bench: Any, step: str, look: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = look(bench.root)
    real = os.open

    def fails(*arguments: Any, **named: Any) -> Any:
        if step == "open" and not arguments[1] & os.O_CREAT:
            return real(*arguments, **named)
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, step, fails)
        assert refusal(bench.workspace, b"new") == "no_space"
    assert look(bench.root) == before


def test_a_cut_write_goes_on_and_a_real_size_limit_leaves_the_old_file(
    bench: Any, look: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.write
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", lambda fd, data: real(fd, bytes(data[:3])))
        write(bench.workspace, b"0123456789")
    assert (bench.root / "ok.txt").read_bytes() == b"0123456789"
    before = look(bench.root)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        code = refusal(bench.workspace, b"x" * 5000, b"0123456789")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert code == "no_space"
    assert look(bench.root) == before


def test_an_interrupt_leaves_no_temporary_file(bench: Any, look: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    before = look(bench.root)

    def interrupted(*arguments: Any, **named: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", interrupted)
        with pytest.raises(KeyboardInterrupt):
            write(bench.workspace, b"new")
    assert look(bench.root) == before


def test_a_read_only_file_is_not_replaced(bench: Any) -> None:
    (bench.root / "ok.txt").chmod(0o444)
    assert refusal(bench.workspace, b"new") == "permission"
    assert (bench.root / "ok.txt").read_bytes() == OLD


def test_the_pre_image_is_kept_before_the_rename(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Keeping()
    real = os.rename

    def checked(*arguments: Any, **named: Any) -> None:
        assert journal.kept
        real(*arguments, **named)

    monkeypatch.setattr(os, "rename", checked)
    (bench.root / "ok.txt").chmod(0o751)
    assert write(bench.workspace, b"new", journal=journal).undo == "kept:1"
    write(bench.workspace, b"x", None, "./a/new.txt", journal=journal)
    assert journal.kept == [("ok.txt", OLD, 0o751), ("a/new.txt", None, None)]


def test_what_cannot_be_kept_is_not_changed(bench: Any, look: Any) -> None:
    before = look(bench.root)
    journal = Keeping(OSError(errno.ENOSPC, "No space left on device"))
    assert refusal(bench.workspace, b"new", journal=journal) == "journal"
    assert refusal(bench.workspace, b"new", None, "a/b/new.txt", journal=journal) == "journal"
    assert look(bench.root) == before


def test_the_folder_is_synced_after_the_rename(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    real_rename, real_fsync = os.rename, os.fsync

    def rename(*arguments: Any, **named: Any) -> None:
        steps.append("rename")
        real_rename(*arguments, **named)

    def fsync(fd: int) -> None:
        steps.append("folder" if stat.S_ISDIR(os.fstat(fd).st_mode) else "file")
        real_fsync(fd)

    monkeypatch.setattr(os, "rename", rename)
    monkeypatch.setattr(os, "fsync", fsync)
    write(bench.workspace, b"new")
    assert steps == ["file", "rename", "folder"]


def test_a_file_that_grows_while_it_is_read_is_too_large(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x" * 100)
    fd = os.open(tmp_path / "f", os.O_RDONLY)
    try:
        assert replacing.read_at_most(fd, 10, 50) is None
        os.lseek(fd, 0, os.SEEK_SET)
        assert replacing.read_at_most(fd, 0, 100) == b"x" * 100
    finally:
        os.close(fd)
