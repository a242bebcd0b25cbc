"""Which settings git may see, and that their file says what was meant."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from git_repositories import GIT
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.tools import git_settings
from sluice.tools.git_place import GitProblem


def test_only_listed_names_with_plain_values_are_kept() -> None:
    repository = {
        "core.fsmonitor": ["evil"],
        "core.autocrlf": ["!evil"],
        "core.filemode": ["true", "False"],
        "core.excludesfile": ["/etc/passwd"],
        "filter.x.clean": ["evil"],
        "branch.main.remote": ["origin"],
        "branch.main.merge": ["refs/heads/main"],
        "branch.main.rebase": ["evil"],
        "remote.origin.fetch": ["+refs/heads/*:refs/remotes/origin/*", "two"],
        "remote.origin.url": ["ext::evil"],
        "remote.origin.uploadpack": ["evil"],
        "user.name": ["Ann"],
        "user.email": ["a@b\nc"],
    }
    user = {"user.email": ["u@v"], "user.name": ["Ulf"], "core.excludesfile": ["~/ignored"], "core.fsmonitor": ["evil"]}
    kept = git_settings.kept(repository, user)
    assert "evil" not in git_settings.text(kept)
    assert kept["core.filemode"] == ["False"]
    assert kept["remote.origin.fetch"] == ["+refs/heads/*:refs/remotes/origin/*", "two"]
    assert kept["branch.main.merge"] == ["refs/heads/main"]
    assert (kept["user.name"], kept["user.email"]) == (["Ann"], ["u@v"])
    assert kept["core.excludesfile"][0].endswith("/ignored")
    assert kept["core.excludesfile"][0].startswith("/")
    assert "core.autocrlf" not in kept
    assert "remote.origin.url" not in kept
    assert git_settings.filters(repository) == ("x",)
    assert git_settings.identity(kept) == ("Ann", "u@v")
    assert git_settings.identity({}) is None


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("core.bare", "True", "bare_repository"),
        ("core.worktree", "/etc", "unsupported_repository"),
        ("extensions.refstorage", "reftable", "unsupported_repository"),
        ("extensions.tomorrow", "x", "unsupported_repository"),
    ],
)
def test_forms_that_would_be_misread_are_refused(name: str, value: str, code: str) -> None:
    with pytest.raises(GitProblem) as caught:
        git_settings.kept({name: [value]}, {})
    assert caught.value.code == code


def test_known_extensions_are_fine() -> None:
    kept = git_settings.kept({"extensions.refstorage": ["files"], "extensions.objectformat": ["sha256"]}, {})
    assert kept["extensions.objectformat"] == ["sha256"]
    assert kept["core.bare"] == ["false"]


_TEXT = st.text(st.characters(blacklist_categories=["Cs", "Cc"]), min_size=1, max_size=30)


@settings(max_examples=40, deadline=None)
@given(_TEXT, _TEXT)
def test_git_reads_back_what_was_written(tmp_path_factory: pytest.TempPathFactory, name: str, value: str) -> None:
    path = tmp_path_factory.mktemp("settings") / "config"
    wanted = {f"branch.{name}.remote": [value, "second"], "core.eol": ["lf"]}
    path.write_bytes(git_settings.text(wanted).encode())
    read = subprocess.run([GIT, "config", "--file", path, "--list", "-z"], capture_output=True, check=True, timeout=20)
    assert git_settings.parse(read.stdout) == wanted


def test_many_branches_do_not_grow_without_bound(tmp_path: Path) -> None:
    repository = {f"branch.b{n}.remote": ["origin"] for n in range(5000)}
    assert len(git_settings.kept(repository, {})) <= 2010
