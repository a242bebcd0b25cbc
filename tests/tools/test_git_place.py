"""Which repository is taken, and which forms are refused by name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from git_repositories import make_repository, plain_git

from sluice.tools.git_place import GitProblem, find_place, refuse_links


def code(workspace: Path) -> str:
    with pytest.raises(GitProblem) as caught:
        find_place(str(workspace))
    return caught.value.code


def test_the_repository_at_the_workspace_and_above_it(tmp_path: Path) -> None:
    make_repository(tmp_path / "r")
    (tmp_path / "r/a/b").mkdir(parents=True)
    place = find_place(str(tmp_path / "r"))
    assert (place.top, place.git, place.prefix) == (str(tmp_path / "r"), str(tmp_path / "r/.git"), b"")
    place = find_place(str(tmp_path / "r/a/b"))
    assert (place.top, place.prefix) == (str(tmp_path / "r"), b"a/b/")
    refuse_links(place)


def test_no_repository(tmp_path: Path) -> None:
    assert code(tmp_path) == "not_a_repository"
    assert code(tmp_path / "missing") == "broken_repository"


def test_a_git_file_or_link_that_names_another_folder(tmp_path: Path) -> None:
    make_repository(tmp_path / "r")
    plain_git(tmp_path / "r", "worktree", "add", "--quiet", str(tmp_path / "linked"))
    assert code(tmp_path / "linked") == "linked_repository"
    (tmp_path / "w").mkdir()
    (tmp_path / "w/.git").symlink_to(tmp_path / "r/.git")
    assert code(tmp_path / "w") == "linked_repository"
    (tmp_path / "r/.git/commondir").write_text("../../other\n")
    assert code(tmp_path / "r") == "linked_repository"


def test_bare_and_incomplete_repositories(tmp_path: Path) -> None:
    (tmp_path / "bare").mkdir()
    plain_git(tmp_path / "bare", "init", "--quiet", "--bare", ".")
    assert code(tmp_path / "bare") == "bare_repository"
    assert code(tmp_path / "bare/refs") == "bare_repository"
    (tmp_path / "w/.git").mkdir(parents=True)
    assert code(tmp_path / "w") == "broken_repository"


def test_above_the_workspace_only_a_repository_of_this_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_repository(tmp_path / "r")
    (tmp_path / "r/a").mkdir()
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert code(tmp_path / "r/a") == "foreign_repository"
    assert find_place(str(tmp_path / "r")).prefix == b""


def test_links_inside_are_found_at_any_depth(tmp_path: Path) -> None:
    make_repository(tmp_path / "r")
    place = find_place(str(tmp_path / "r"))
    for name in ("refs/heads/x", "logs/refs/heads/y", "objects/0a", "index"):
        path = tmp_path / "r/.git" / name
        path.unlink(missing_ok=True)
        path.symlink_to(tmp_path)
        with pytest.raises(GitProblem) as caught:
            refuse_links(place)
        assert (caught.value.code, caught.value.path) == ("link_in_repository", f".git/{name}")
        path.unlink()
    refuse_links(place)
