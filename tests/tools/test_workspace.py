from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import socket
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from sluice.errors import ConfigurationError, PathError
from sluice.tools.workspace import Workspace

MIB = 1024 * 1024


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def code_of(call: Any, *arguments: Any, **named: Any) -> str:
    with pytest.raises(PathError) as caught:
        call(*arguments, **named)
    assert str(caught.value).isprintable()
    return caught.value.code


def code_of_write(workspace: Workspace, path: str, expected: str | None = None) -> str:
    return code_of(workspace.replace, path, b"new", expected=expected, max_bytes=MIB)


@pytest.mark.parametrize("root", ["missing", "file", "a\0b", ""])
def test_a_root_that_cannot_be_used_is_one_clear_line(tmp_path: Path, root: str) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ConfigurationError) as caught:
        Workspace(str(tmp_path / root) if root else "")
    assert str(caught.value).isprintable()


def test_links_in_the_root_itself_are_the_persons(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "f").write_bytes(b"x")
    (tmp_path / "link").symlink_to("real")
    with Workspace(str(tmp_path / "link")) as workspace:
        assert workspace.root == str(tmp_path / "real")
        assert workspace.read("f", 10).data == b"x"


def test_a_renamed_root_is_still_the_same_folder(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "f").write_bytes(b"x")
    with Workspace(str(tmp_path / "a")) as workspace:
        (tmp_path / "a").rename(tmp_path / "b")
        (tmp_path / "a").mkdir()
        assert workspace.read("f", 10).data == b"x"


def test_closing_twice_is_fine_and_nothing_opens_afterwards(tmp_path: Path) -> None:
    workspace = Workspace(str(tmp_path))
    workspace.close()
    workspace.close()
    with pytest.raises(PathError):
        workspace.open_directory()


def test_a_file_is_read_whole_with_its_facts(bench: Any) -> None:
    (bench.root / "ok.txt").chmod(0o640)
    found = bench.workspace.read("./ok.txt", 14)
    assert (found.data, found.mode, found.links) == (b"one\ntwo\nthree\n", 0o640, 1)
    assert found.digest == digest(found.data)


def test_reading_is_bounded_whatever_the_size_says(bench: Any) -> None:
    assert code_of(bench.workspace.read, "ok.txt", 13) == "too_large"
    os.truncate(bench.root / "ok.txt", 1 << 40)
    assert code_of(bench.workspace.read, "ok.txt", 4 * MIB) == "too_large"


@pytest.mark.parametrize(
    "path",
    ["link/secret.txt", "l1/l2/secret.txt", "dangling", "loop/x", "file-link", "sub/up/secret.txt"],
)
def test_links_are_refused_for_reading_and_writing(bench: Any, outside: Path, path: str) -> None:
    root = bench.root
    (root / "link").symlink_to(outside)
    (root / "l1").symlink_to("l1b")
    (root / "l1b").symlink_to(outside.parent)
    (root / "dangling").symlink_to(outside / "new.txt")
    (root / "loop").symlink_to("loop")
    (root / "file-link").symlink_to(outside / "secret.txt")
    (root / "sub").mkdir()
    (root / "sub" / "up").symlink_to("../../outside")
    assert code_of(bench.workspace.read, path, MIB) == "symlink"
    assert code_of_write(bench.workspace, path) == "symlink"
    assert code_of_write(bench.workspace, path, digest(b"SECRET canary\n")) == "symlink"
    assert code_of(bench.workspace.open_directory, path) == "symlink"
    assert not (outside / "new.txt").exists()


def test_pipes_sockets_and_devices_are_refused_at_once_and_untouched(bench: Any) -> None:
    os.mkfifo(bench.root / "pipe")
    listening = socket.socket(socket.AF_UNIX)
    here = os.getcwd()
    os.chdir(bench.root)  # a socket's path is short
    try:
        listening.bind("sock")
    finally:
        os.chdir(here)
        listening.close()
    names = ["pipe", "sock"]
    if os.geteuid() == 0:
        try:
            os.mknod(bench.root / "device", 0o666 | 0o020000, os.makedev(1, 5))
            names.append("device")
        except OSError:
            pass
    for name in names:
        assert code_of(bench.workspace.read, name, MIB) == "not_regular"
        assert code_of(bench.workspace.open_read, name) == "not_regular"
        assert code_of_write(bench.workspace, name) == "not_regular"
        assert code_of_write(bench.workspace, name, "0" * 64) == "not_regular"


@pytest.mark.skipif(not hasattr(os, "O_PATH"), reason="looking without opening needs O_PATH")
def test_a_pipe_is_not_even_opened_so_its_writer_does_not_notice(bench: Any) -> None:
    os.mkfifo(bench.root / "pipe")
    opened: list[int] = []
    real = bench.workspace._open

    def recorded(root: int, parts: tuple[str, ...], flags: int) -> int:
        opened.append(flags)
        return real(root, parts, flags)

    bench.workspace._open = recorded
    assert code_of(bench.workspace.read, "pipe", MIB) == "not_regular"
    assert all(flags & os.O_PATH for flags in opened)


def test_a_pipe_that_takes_a_files_place_after_the_look_does_not_hang(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(bench.root / "pipe")
    monkeypatch.setattr(Workspace, "_refuse_other_kinds", lambda *arguments: None)
    assert code_of(bench.workspace.open_read, "pipe") == "not_regular"


def test_folders_and_files_are_told_apart(bench: Any) -> None:
    (bench.root / "d").mkdir()
    assert code_of(bench.workspace.read, "d", MIB) == "is_directory"
    assert code_of(bench.workspace.read, "ok.txt/x", MIB) == "not_directory"
    assert code_of(bench.workspace.open_directory, "ok.txt") == "not_directory"
    assert code_of(bench.workspace.read, "missing/x", MIB) == "not_found"
    assert code_of_write(bench.workspace, "d") == "is_directory"
    assert code_of_write(bench.workspace, "ok.txt/x") == "not_directory"
    fd = bench.workspace.open_directory("d")
    assert os.listdir(fd) == []
    os.close(fd)


def test_a_hard_link_is_read_but_never_written_through(bench: Any, outside: Path) -> None:
    os.link(outside / "secret.txt", bench.root / "hard.txt")
    data = bench.workspace.read("hard.txt", MIB).data
    assert code_of_write(bench.workspace, "hard.txt", digest(data)) == "hard_link"
    assert code_of(bench.workspace.read_to_change, "hard.txt", MIB) == "hard_link"
    assert (bench.root / "hard.txt").read_bytes() == data


@pytest.mark.parametrize(
    "path", [".git/config", ".GIT/hooks/x", "a/.git", ".git./config", ".sluice/x", ".vscode/t.json"]
)
def test_protected_files_are_readable_and_not_writable(bench: Any, path: str) -> None:
    assert code_of_write(bench.workspace, path) == "protected"
    target = bench.root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(b"old")
    assert code_of_write(bench.workspace, path, digest(b"old")) == "protected"
    assert code_of(bench.workspace.read_to_change, path, MIB) == "protected"
    assert bench.workspace.read(path, MIB).data == b"old"


def test_a_persons_rule_opens_a_group_but_never_git_or_ours(tmp_path: Path) -> None:
    with Workspace(str(tmp_path), allowed=("ci", "git", "sluice")) as workspace:
        workspace.replace(".github/workflows/ci.yml", b"x", expected=None, max_bytes=MIB)
        for path in (".git/config", ".sluice/x", ".vscode/x"):
            assert code_of_write(workspace, path) == "protected"


def test_our_own_folders_inside_the_workspace_are_not_written(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "alias").symlink_to("real")
    private = (str(tmp_path / "state"), str(tmp_path / "alias" / "conf.toml"), "/elsewhere/conf.toml")
    with Workspace(str(tmp_path), private=private) as workspace:
        for path in ("state/db", "STATE/db", "state", "real/conf.toml"):
            assert code_of_write(workspace, path) == "protected"
        workspace.replace("real/other", b"x", expected=None, max_bytes=MIB)


def test_names_that_control_a_terminal_are_not_made_but_may_be_changed(bench: Any) -> None:
    for name in ("a\nb", "\x1b]52;c;ZXZpbA==\x07", "x\u202etxt.exe"):
        assert code_of_write(bench.workspace, name) == "control_in_path"
        (bench.root / name).write_bytes(b"old")
        bench.workspace.replace(name, b"new", expected=digest(b"old"), max_bytes=MIB)
        assert (bench.root / name).read_bytes() == b"new"


def test_a_spill_handle_is_no_place_to_write(bench: Any) -> None:
    assert code_of_write(bench.workspace, "spill:1") == "spill_handle"


def test_missing_folders_are_made_and_gone_again_after_a_failure(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.workspace.replace("a/b/c.txt", b"x", expected=None, max_bytes=MIB)
    assert (bench.root / "a/b/c.txt").read_bytes() == b"x"
    assert code_of(bench.workspace.replace, "n/m/big", b"xx", expected=None, max_bytes=1) == "too_large"
    assert not (bench.root / "n").exists()

    def full(fd: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        assert code_of_write(bench.workspace, "a/n/m/new") == "no_space"
    assert sorted(os.listdir(bench.root / "a")) == ["b"]


def test_a_vanished_folder_is_stale_and_nothing_is_made(bench: Any) -> None:
    assert code_of_write(bench.workspace, "gone/f", digest(b"x")) == "stale"
    assert not (bench.root / "gone").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="exchanging two names at once is Linux's")
@pytest.mark.parametrize("kernel", [True, False])
def test_reads_and_writes_racing_a_folder_exchanged_for_a_link_never_reach_outside(
    tmp_path: Path, outside: Path, kernel: bool, look: Any
) -> None:
    work = tmp_path / "work"
    (work / "d").mkdir(parents=True)
    (work / "d" / "secret.txt").write_bytes(b"inside")
    (work / "l").symlink_to(outside)
    before = look(outside)
    stop = threading.Event()
    exchange = ctypes.CDLL(None, use_errno=True).renameat2
    here, there = os.fsencode(work / "d"), os.fsencode(work / "l")

    def swap() -> None:
        while not stop.is_set():
            exchange(-100, here, -100, there, 2)

    attacker = threading.Thread(target=swap)
    attacker.start()
    written, read = 0, set()
    try:
        with Workspace(str(work), kernel=kernel) as workspace:
            for number in range(50_000):
                if number > 2_000 and read and written:
                    break
                with contextlib.suppress(PathError):
                    read.add(workspace.read("d/secret.txt", MIB).data)
                if number % 5 == 0:
                    with contextlib.suppress(PathError):
                        workspace.replace(f"d/f{number}", b"x", expected=None, max_bytes=MIB)
                        written += 1
    finally:
        stop.set()
        attacker.join()
    assert look(outside) == before
    assert read == {b"inside"}
    assert written


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")
def test_nothing_outside_is_reached_by_a_path(bench: Any) -> None:
    for path in ("/proc/self/environ", "/etc/passwd", "../outside/secret.txt", "~/x", "file:///etc/passwd"):
        assert code_of(bench.workspace.read, path, MIB) in {"absolute_path", "parent_path", "home_path", "uri_path"}
        assert code_of_write(bench.workspace, path) in {"absolute_path", "parent_path", "home_path", "uri_path"}
