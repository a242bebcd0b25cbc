from __future__ import annotations

import ctypes
import errno
import os
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sluice.tools import beneath
from sluice.tools.beneath import OpenBeneath, by_openat2, kind_error, opener, path_error, walk

Read = Callable[[tuple[str, ...]], bytes]


def ways() -> list[str]:
    return ["openat2", "walk"] if sys.platform == "linux" else ["walk"]


@pytest.fixture(params=ways())
def way(request: pytest.FixtureRequest) -> OpenBeneath:
    if request.param == "walk":
        return walk
    found = by_openat2()
    assert found is not None
    return found


@pytest.fixture
def root(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "f").write_bytes(b"SECRET")
    work = tmp_path / "work"
    (work / "d" / "e").mkdir(parents=True)
    (work / "d" / "f").write_bytes(b"inside")
    (work / "d" / "e" / "f").write_bytes(b"deep")
    (work / "abs").symlink_to(tmp_path / "out")
    (work / "up").symlink_to("../out")
    (work / "inner").symlink_to("d")
    (work / "d" / "link").symlink_to("f")
    (work / "dangling").symlink_to(tmp_path / "out" / "new")
    (work / "loop").symlink_to("loop")
    fd = os.open(work, beneath.PATH_ONLY | os.O_DIRECTORY)
    yield fd
    os.close(fd)


def read(way: OpenBeneath, root: int, *parts: str) -> bytes:
    fd = way(root, parts, os.O_RDONLY | os.O_NONBLOCK)
    try:
        return os.read(fd, 100)
    finally:
        os.close(fd)


def test_files_beneath_are_opened(way: OpenBeneath, root: int) -> None:
    assert read(way, root, "d", "f") == b"inside"
    assert read(way, root, "d", "e", "f") == b"deep"


@pytest.mark.parametrize(
    "parts",
    [("abs", "f"), ("up", "f"), ("inner", "f"), ("d", "link"), ("dangling",), ("loop", "x"), ("loop",), ("abs",)],
)
def test_no_link_is_followed_at_any_component(way: OpenBeneath, root: int, parts: tuple[str, ...]) -> None:
    with pytest.raises(OSError) as caught:  # noqa: PT011 - the code is what is checked
        way(root, parts, os.O_RDONLY)
    assert path_error(caught.value, "x").code == "symlink"


@pytest.mark.parametrize("parts", [("..",), ("..", "outside", "secret.txt"), ("d", "..", "..", "outside")])
def test_no_way_leads_above_the_root(way: OpenBeneath, root: int, parts: tuple[str, ...]) -> None:
    """The words are refused long before; the open must not depend on that."""
    with pytest.raises(OSError) as caught:  # noqa: PT011 - the code is what is checked
        os.close(way(root, parts, os.O_RDONLY))
    assert caught.value.errno == errno.EXDEV


def test_a_file_is_no_folder(way: OpenBeneath, root: int) -> None:
    for parts, flags in ((("d", "f", "x"), os.O_RDONLY), (("d", "f"), os.O_RDONLY | os.O_DIRECTORY)):
        with pytest.raises(NotADirectoryError):
            way(root, parts, flags)


def test_no_parts_is_the_folder_itself(way: OpenBeneath, root: int) -> None:
    fd = way(root, (), os.O_RDONLY | os.O_DIRECTORY)
    assert "d" in os.listdir(fd)
    os.close(fd)


def test_descriptors_are_closed_in_every_case_and_not_inherited(way: OpenBeneath, root: int) -> None:
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    for parts in (("d", "e", "f"), ("abs", "f"), ("d", "none", "x"), ("d", "f", "x")):
        try:
            fd = way(root, parts, os.O_RDONLY)
        except OSError:
            continue
        assert not os.get_inheritable(fd)
        os.close(fd)
    if before:
        assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.skipif(sys.platform != "linux", reason="openat2 is Linux's")
def test_openat2_is_used_where_it_is_there(root: int) -> None:
    assert opener(root) is not walk
    assert opener(root, kernel=False) is walk


@pytest.mark.parametrize("fault", [errno.ENOSYS, errno.EPERM])
def test_without_openat2_the_walk_takes_over(root: int, fault: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def refusing(folder: int, parts: tuple[str, ...], flags: int) -> int:
        raise OSError(fault, os.strerror(fault))

    monkeypatch.setattr(beneath, "by_openat2", lambda: refusing)
    assert opener(root) is walk
    monkeypatch.setattr(beneath, "by_openat2", lambda: None)
    assert opener(root) is walk


@pytest.mark.skipif(sys.platform != "linux", reason="exchanging two names at once is Linux's")
def test_a_folder_exchanged_for_a_link_never_leads_outside(way: OpenBeneath, root: int, tmp_path: Path) -> None:
    """The race that check-then-open loses: `d` is now a folder, now a link to the outside."""
    exchange = ctypes.CDLL(None, use_errno=True).renameat2
    here, there = os.fsencode(tmp_path / "work" / "d"), os.fsencode(tmp_path / "work" / "abs")
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            exchange(-100, here, -100, there, 2)

    attacker = threading.Thread(target=swap)
    attacker.start()
    seen: set[bytes | str] = set()
    try:
        for number in range(100_000):
            if number > 5_000 and {b"inside", "symlink"} <= seen:
                break
            try:
                seen.add(read(way, root, "d", "f"))
            except OSError as error:
                seen.add(path_error(error, "d/f").code)
    finally:
        stop.set()
        attacker.join()
    assert b"SECRET" not in seen
    assert b"inside" in seen
    assert "symlink" in seen


def test_an_interrupted_walk_of_the_kernel_is_tried_again(
    root: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if sys.platform != "linux":
        pytest.skip("openat2 is Linux's")
    answers = [errno.EAGAIN, errno.EAGAIN, 0]

    class Library:
        class syscall:
            restype: object = None

            def __new__(cls, *arguments: object) -> int:  # type: ignore[misc]
                return -1 if answers[0] else 7

    monkeypatch.setattr(beneath.ctypes, "CDLL", lambda *a, **k: Library)
    monkeypatch.setattr(beneath.ctypes, "get_errno", lambda: answers.pop(0))
    found = by_openat2()
    assert found is not None
    assert found(root, ("d",), os.O_RDONLY) == 7


def test_every_fault_has_a_word_and_a_printable_line() -> None:
    for number in errno.errorcode:
        found = path_error(OSError(number, os.strerror(number)), "a\x1b{b}")
        assert found.code
        assert str(found).isprintable()
        assert "{b}" in str(found)


def test_only_regular_files_pass(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "link").symlink_to("file")
    assert kind_error((tmp_path / "file").lstat(), "file") is None
    codes = {name: getattr(kind_error((tmp_path / name).lstat(), name), "code", None) for name in ("pipe", "link", ".")}
    assert codes == {"pipe": "not_regular", "link": "symlink", ".": "is_directory"}
    device = kind_error(os.stat("/dev/null"), "null")
    assert device is not None
    assert device.code == "not_regular"
