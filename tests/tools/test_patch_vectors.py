"""Every scenario of the shared patch vectors, in the envelope form, through the tool."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from sluice.tools import apply_patch, read_file

# Where ours differs on purpose: codex's folder name, the code that we answer, and why.
DIFFERENT = {
    "015_failure_after_partial_success_leaves_changes": (
        "file_read_failure",
        "all or nothing: what codex leaves behind after a failure is not made here",
    ),
}
REFUSED = {
    "005_rejects_empty_patch": "invalid_batch_entry",
    "006_rejects_missing_context": "no_match",
    "007_rejects_missing_file_delete": "file_read_failure",
    "008_rejects_empty_update_hunk": "invalid_batch_entry",
    "009_requires_existing_file_for_update": "file_read_failure",
    "012_delete_directory_fails": "file_read_failure",
    "013_rejects_invalid_hunk_header": "invalid_batch_entry",
}
# Where bytes of a file would be dropped unseen: the same patch is `unread` if the file was not read before (P16).
NEEDS_READING = {
    "002_multiple_operations",
    "010_move_overwrites_existing_destination",
    "011_add_overwrites_existing_file",
    "020_delete_file_success",
}

# What an attack must come to: the code that refuses it, or the files that the workspace then holds.
ATTACKS: dict[str, str | dict[str, bytes]] = {
    "002_add_dotdot": "parent_path",
    "003_add_inner_dotdot": "parent_path",
    "005_delete_absolute": "absolute_path",
    "006_delete_dotdot": "parent_path",
    "008_move_to_absolute": "absolute_path",
    "009_move_to_dotdot": "parent_path",
    "011_add_git_config": "protected",
    "012_add_git_case_variant": "protected",
    "014_replace_dotgit_dir_by_file": "protected",
    "015_through_symlink_dir": "symlink",
    "017_dangling_symlink_add": "symlink",
    "018_hardlink_update": "hard_link",
    "020_dir_as_file": "file_read_failure",
    "021_file_as_dir": "file_read_failure",
    "023_newline_cr_in_name": "control_in_path",
    "024_trailing_space_name": {"a.txt": b"x\n"},  # white space around a path is dropped before anything is judged
    "026_esc_in_name": "control_in_path",
    "027_tilde": "home_path",
    "029_backslash": "parent_path",
    "030_same_file_twice": "no_match",
    "032_fail_after_success_is_atomic": "file_read_failure",
    "033_case_fold_collision": {"A.txt": b"1\n", "a.txt": b"2\n"},
    "035_ambiguous_context": "multiple_matches",
    "036_fuzzy_wrong_place": {"ok.txt": b"return 1;\nreturn\xc2\xa00;\n"},  # trimmed before folded
    "038_no_final_newline_kept": {"ok.txt": b"a\nc\n"},  # as codex 014: a line that is put in ends with a line end
    "039_bom_kept": {"ok.txt": b"\xef\xbb\xbfz\nb\n"},
    "041_latin1_bytes": {"ok.txt": b"\xe9\nc\n"},
    "042_mode_kept": {"ok.txt": b"z\nb\nc\n"},
    "044_changed_since_read": "stale",
    "045_marker_inside_content": {"n.txt": b"*** End Patch\n*** Delete File: ok.txt\n"},
    "047_no_end_marker": "invalid_batch_entry",
    "048_text_after_end": "invalid_batch_entry",
    "050_many_hunks": "no_match",
    "051_seek_blowup": "multiple_matches",
    "053_unified_diff_gitlink_mode": "invalid_batch_entry",
    "054_unified_rename_out": "invalid_batch_entry",
}


def names(kind: str) -> list[str]:
    folder = Path(os.environ.get("SLUICE_SHARED", Path(__file__).parents[3] / "shared")) / "vectors/patch" / kind
    return sorted(p.name for p in folder.iterdir() if p.is_dir()) if folder.is_dir() else ["missing"]


def files(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file() and not p.is_symlink()}


def put(source: Path, root: Path) -> None:
    (root / "ok.txt").unlink()
    if source.is_dir():
        shutil.copytree(source, root, dirs_exist_ok=True, copy_function=shutil.copyfile)
    for folder, _, found in os.walk(root):
        os.chmod(folder, 0o755)
        for name in found:
            os.chmod(Path(folder, name), 0o644)


def read_all(bench: Any) -> None:
    for path in files(bench.root):
        bench.call(read_file, path=path)


@pytest.mark.parametrize("name", names("codex"))
def test_codex_scenarios(name: str, bench: Any, shared: Path) -> None:
    case = shared / "vectors/patch/codex" / name
    put(case / "input", bench.root)
    before = files(bench.root)
    patch = (case / "patch.txt").read_bytes().decode()
    if name in NEEDS_READING:
        unread = bench.call(apply_patch, patch=patch)
        assert unread.error.code == "unread"
        assert files(bench.root) == before
    read_all(bench)
    result = bench.call(apply_patch, patch=patch)
    expected = DIFFERENT.get(name, (REFUSED.get(name), ""))[0]
    if expected is not None:
        assert (result.ok, result.error and result.error.code) == (False, expected)
        assert files(bench.root) == before
        assert result.failure == "needs_inspection"
    else:
        assert result.ok, result.content
        assert files(bench.root) == files(case / "expected")


def set_up(lines: list[str], root: Path, outside: Path) -> None:
    for line in lines:
        word, _, rest = line.partition(" ")
        name, _, target = rest.partition(" -> ")
        if line == "git init":
            (root / ".git").mkdir()
            (root / ".git" / "config").write_bytes(b"[core]\n")
        elif word == "symlink":
            (root / name).symlink_to(target.replace("{OUT}", str(outside)))
        elif word == "hardlink":
            os.link(target.replace("{OUT}", str(outside)), root / name)
        elif word == "mkdir":
            (root / rest).mkdir()
        elif word == "chmod":
            mode, _, name = rest.partition(" ")
            (root / name).chmod(int(mode, 8))
        elif line.startswith("write bytes "):
            name, _, data = line.removeprefix("write bytes ").partition(" = ")
            (root / name).write_bytes(bytes.fromhex(data))
        else:
            assert line.startswith("modify "), line


@pytest.mark.parametrize("name", names("attacks"))
def test_attacks(name: str, bench: Any, outside: Path, shared: Path, look: Any) -> None:
    """The fixture `bench` compares the outside and looks for temporary files afterwards."""
    case = shared / "vectors/patch/attacks" / name
    put(case / "input", bench.root)
    lines = json.loads((case / "case.json").read_text())["setup"]
    set_up(lines, bench.root, outside)
    read_all(bench)
    if any(line.startswith("modify ") for line in lines):
        (bench.root / "ok.txt").write_bytes(b"a\nother\n")
    before, all_before = files(bench.root), look(bench.root)
    result = bench.call(apply_patch, patch=(case / "patch.txt").read_bytes().decode())
    expected = ATTACKS[name]
    assert "\x1b" not in result.content
    assert "\r" not in result.content
    assert "SECRET" not in result.content
    if isinstance(expected, str):
        assert (result.ok, result.error and result.error.code) == (False, expected)
        assert look(bench.root) == all_before
    else:
        assert result.ok, result.content
        assert files(bench.root) == {**before, **expected}
    if name == "036_fuzzy_wrong_place":
        assert result.facts["files"][0]["fuzzy"][0]["differs"] == "white space around lines"
        assert "only white space around lines differ" in result.content
    if name == "042_mode_kept":
        assert (bench.root / "ok.txt").stat().st_mode & 0o7777 == 0o755


def test_every_attack_and_every_difference_is_one_of_the_vectors(shared: Path) -> None:
    assert set(names("attacks")) == set(ATTACKS)
    assert set(DIFFERENT) | set(REFUSED) | NEEDS_READING <= set(names("codex"))
