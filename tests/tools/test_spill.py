"""Spill files are private, numbered, and gone with the session."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from sluice.tools.spill import Spill, spill_number


def test_files_are_private_and_go_with_the_session(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "spill"
    spill = Spill(str(folder))
    assert not folder.exists()
    handle, file = spill.new()
    with file:
        file.write(b"all of it")
    assert handle == "spill:1"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "1").stat().st_mode) == 0o600
    with spill.open(1) as again:
        assert again.read() == b"all of it"
    spill.close()
    spill.close()
    assert not folder.exists()
    with pytest.raises(ValueError, match="closed"):
        spill.new()


def test_without_a_folder_a_temporary_one_is_made_and_removed() -> None:
    with Spill() as spill:
        _, file = spill.new()
        file.close()
        folder = os.path.dirname(str(spill._path(1)))
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    assert not os.path.exists(folder)


def test_an_unused_spill_makes_nothing(tmp_path: Path) -> None:
    Spill(str(tmp_path / "never")).close()
    assert list(tmp_path.iterdir()) == []


def test_a_wide_folder_is_narrowed_and_older_files_are_left_alone(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "1").write_bytes(b"older")
    spill = Spill(str(tmp_path))
    handle, file = spill.new()
    file.close()
    assert handle == "spill:2"
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700
    with spill.open(1) as older:
        assert older.read() == b"older"
    spill.close()
    assert [p.name for p in tmp_path.iterdir()] == ["1"]


def test_a_planted_link_is_neither_written_nor_read(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_bytes(b"kept")
    folder = tmp_path / "spill"
    folder.mkdir()
    (folder / "1").symlink_to(outside)
    with Spill(str(folder)) as spill:
        handle, file = spill.new()
        file.close()
        assert handle == "spill:2"
        with pytest.raises(OSError, match=r"Too many|symbolic"):
            spill.open(1)
    assert outside.read_bytes() == b"kept"


def test_unknown_numbers_are_not_found(tmp_path: Path) -> None:
    with Spill(str(tmp_path)) as spill:
        for number in (0, -1, 1, 99):
            with pytest.raises(FileNotFoundError):
                spill.open(number)
    with pytest.raises(FileNotFoundError):
        Spill().open(1)


@pytest.mark.parametrize(
    ("path", "number"),
    [("spill:1", 1), ("spill:42", 42), ("spill:0", None), ("spill:-1", None), ("spill:01", None), ("spill:1\n", None),
     ("spill:", None), ("spill:1/..", None), ("spill:../x", None), (" spill:1", None), ("spill:٣", None)],
)  # fmt: skip
def test_a_handle_is_a_number_and_nothing_else(path: str, number: int | None) -> None:
    assert spill_number(path) == number
