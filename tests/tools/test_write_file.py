from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from sluice.tools import read_file, write_file


def test_a_new_file_is_made_with_its_folders(bench: Any) -> None:
    result = bench.call(write_file, path="a/b/new.txt", content="x\r\né")
    assert result.ok
    assert "5 bytes" in result.content
    assert (bench.root / "a/b/new.txt").read_bytes() == "x\r\né".encode()
    facts = result.facts
    assert (facts["created"], facts["bytes"]) == (True, 5)
    assert facts["diff"].startswith("--- /dev/null\n+++ b/a/b/new.txt\n")


@pytest.mark.parametrize("mode", [None, "replace", "append"])
def test_a_file_never_read_or_changed_since_is_not_written(bench: Any, mode: str | None) -> None:
    assert bench.call(write_file, path="ok.txt", content="x", mode=mode).error.code == "unread"
    bench.call(read_file, path="ok.txt")
    (bench.root / "ok.txt").write_bytes(b"theirs")
    assert bench.call(write_file, path="ok.txt", content="x", mode=mode).error.code == "stale"
    assert (bench.root / "ok.txt").read_bytes() == b"theirs"
    bench.call(read_file, path="./ok.txt")
    assert bench.call(write_file, path="ok.txt", content="x", mode=mode).ok


def test_modes_say_what_must_be_there(bench: Any) -> None:
    bench.call(read_file, path="ok.txt")
    assert bench.call(write_file, path="ok.txt", content="x", mode="create").error.code == "exists"
    assert bench.call(write_file, path="none.txt", content="x", mode="replace").error.code == "not_found"
    assert not (bench.root / "none.txt").exists()
    replaced = bench.call(write_file, path="ok.txt", content="x", mode="replace")
    assert replaced.content == "replaced ok.txt: 1 bytes written in place of 14"


def test_a_long_file_is_written_in_pieces(bench: Any) -> None:
    for piece in ("first ", "second", " third"):
        assert bench.call(write_file, path="long.txt", content=piece, mode="append").ok
    assert (bench.root / "long.txt").read_bytes() == b"first second third"


def test_appending_speaks_the_files_own_encoding(bench: Any) -> None:
    (bench.root / "u16").write_bytes("a\n".encode("utf-16"))
    (bench.root / "latin").write_bytes(b"caf\xe9\n")
    for path in ("u16", "latin"):
        bench.call(read_file, path=path)
    assert bench.call(write_file, path="u16", content="文", mode="append").ok
    assert (bench.root / "u16").read_bytes() == "a\n文".encode("utf-16")
    assert bench.call(write_file, path="latin", content="é", mode="append").ok
    assert (bench.root / "latin").read_bytes() == b"caf\xe9\n\xe9"
    assert bench.call(write_file, path="latin", content="文", mode="append").error.code == "not_encodable"


def test_writing_what_is_there_writes_nothing(bench: Any) -> None:
    bench.call(read_file, path="ok.txt")
    before = (bench.root / "ok.txt").stat()
    result = bench.call(write_file, path="ok.txt", content="one\ntwo\nthree\n")
    assert result.ok
    assert "nothing was written" in result.content
    assert (bench.root / "ok.txt").stat().st_ino == before.st_ino


def test_sizes_are_bounded(bench: Any) -> None:
    bench.limits(max_file_bytes=20)
    assert bench.call(write_file, path="big", content="x" * 21).error.code == "too_large"
    assert not (bench.root / "big").exists()
    bench.call(read_file, path="ok.txt")
    assert bench.call(write_file, path="ok.txt", content="x" * 7, mode="append").error.code == "too_large"


def test_half_a_surrogate_is_refused(bench: Any) -> None:
    result = bench.call(write_file, path="new", content="a\ud800")
    assert result.error.code == "not_encodable"
    assert not (bench.root / "new").exists()


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("../outside/new", "parent_path"),
        ("link/new", "symlink"),
        ("dangling", "symlink"),
        ("pipe", "not_regular"),
        ("hard", "hard_link"),
        (".GIT/config", "protected"),
        (".bashrc", "protected"),
        ("spill:1", "spill_handle"),
        ("a\nb", "control_in_path"),
        ("", "empty_path"),
    ],
)
@pytest.mark.parametrize("mode", [None, "append", "create"])
def test_the_wall_refuses_and_the_outside_stays(
    bench: Any, outside: Path, look: Any, path: str, code: str, mode: str | None
) -> None:
    (bench.root / "link").symlink_to(outside)
    (bench.root / "dangling").symlink_to(outside / "new")
    os.mkfifo(bench.root / "pipe")
    os.link(outside / "secret.txt", bench.root / "hard")
    before = look(bench.root)
    result = bench.call(write_file, path=path, content="x", mode=mode)
    assert (result.ok, result.error.code) == (False, code)
    assert look(bench.root) == before
    assert bench.call(write_file, path="good.txt", content="x", mode=mode).ok


def test_the_pre_images_handle_is_a_fact(bench: Any) -> None:
    class Journal:
        def keep(self, path: str, content: bytes | None, mode: int | None) -> str | None:
            return f"kept {path} {content!r}"

    bench.context.journal = Journal()
    assert bench.call(write_file, path="new", content="x").facts["undo"] == "kept new None"


def test_the_diff_of_a_large_file_is_bounded(bench: Any) -> None:
    result = bench.call(write_file, path="big", content="x\n" * 100_000)
    assert result.facts["diff"].count("\n") <= 200
