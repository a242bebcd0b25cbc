"""Names of files for completion: those a person could type, bounded, and never an error."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from sluice.run import workspace_files as module
from sluice.run.config import Settings
from sluice.run.workspace_files import FileNames, workspace_files


def names(folder: Path) -> FileNames:
    return asyncio.run(workspace_files(Settings(workspace=str(folder))))


def test_names_are_relative_and_ignored_files_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    for name in ("a.txt", "src/b c.py", "src/ü.md", "built.o"):
        (tmp_path / name).touch()
    (tmp_path / ".gitignore").write_text("*.o\n")
    found = names(tmp_path)
    assert sorted(found.paths) == [".gitignore", "a.txt", "src/b c.py", "src/ü.md"]
    assert found.complete


def test_names_that_nobody_can_see_are_left_out(tmp_path: Path) -> None:
    for name in ("good", "esc\x1b[2J", "two\nlines", "right\u202eleft", "zero\u200bwidth"):
        (tmp_path / name).touch()
    (Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))).touch()
    assert names(tmp_path).paths == ("good",)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret").touch()
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "link").symlink_to(tmp_path / "outside")
    assert names(tmp_path / "inside").paths == ()


def test_the_number_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_FILES", 10)
    for number in range(30):
        (tmp_path / f"f{number}").touch()
    found = names(tmp_path)
    assert len(found.paths) == 10
    assert not found.complete


def test_a_folder_that_is_gone_gives_nothing(tmp_path: Path) -> None:
    assert names(tmp_path / "gone") == FileNames(paths=(), complete=False)


def test_being_cancelled_leaves_nothing(tmp_path: Path) -> None:
    async def work() -> None:
        task = asyncio.create_task(workspace_files(Settings(workspace=str(tmp_path))))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(work())
