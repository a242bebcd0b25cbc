"""How git is run: bounds, what goes wrong, and that nothing is left."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from git_repositories import make_repository, plain_git

from sluice.tools import git, git_add, git_commit, git_diff, git_show, git_status
from sluice.tools.git_place import GitProblem

pytestmark = pytest.mark.parametrize("bench", ["openat2"], indirect=True)

READERS: list[tuple[Any, dict[str, Any]]] = [(git_status, {}), (git_diff, {}), (git_show, {"rev": "HEAD"})]
WRITERS: list[tuple[Any, dict[str, Any]]] = [(git_add, {"pathspecs": ["."]}), (git_commit, {"message": "x"})]


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(("module", "arguments"), READERS + WRITERS)
def test_what_is_no_usable_repository_is_told(bench: Any, module: Any, arguments: dict[str, Any]) -> None:
    assert bench.call(module, **arguments).error.code == "not_a_repository"
    plain_git(bench.root, "init", "--quiet", ".")
    config = (bench.root / ".git/config").read_text()
    (bench.root / ".git/config").write_text("[core\nnonsense")
    assert bench.call(module, **arguments).error.code == "broken_repository"
    (bench.root / ".git/config").write_text("x" * 2_000_000)
    assert bench.call(module, **arguments).error.code == "broken_repository"
    (bench.root / ".git/config").unlink()
    os.mkfifo(bench.root / ".git/config")
    assert bench.call(module, **arguments).error.code == "broken_repository"
    (bench.root / ".git/config").unlink()
    (bench.root / ".git/config").symlink_to("/etc/passwd")
    assert bench.call(module, **arguments).error.code == "broken_repository"
    (bench.root / ".git/config").unlink()
    (bench.root / ".git/config").write_text(config)
    (bench.root / ".git/HEAD").write_text("nonsense")
    result = bench.call(module, **arguments)
    assert (result.ok, result.failure) == (False, "needs_inspection")
    (bench.root / ".git/HEAD").unlink()
    assert bench.call(module, **arguments).error.code == "broken_repository"


@pytest.mark.parametrize(("module", "arguments"), READERS + WRITERS)
def test_a_machine_without_git_is_told(
    bench: Any, module: Any, arguments: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_repository(bench.root)
    monkeypatch.setattr(git, "_SYSTEM", ("/no/such/git",))
    monkeypatch.setenv("PATH", "/no/such")
    result = bench.call(module, **arguments)
    assert (result.ok, result.error.code) == (False, "no_git")


@pytest.mark.parametrize(("module", "arguments"), READERS + WRITERS)
def test_time_is_bounded(
    bench: Any, module: Any, arguments: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_repository(bench.root)
    slow = script(tmp_path / "slow", "exec sleep 1000")
    monkeypatch.setattr(git, "_SYSTEM", (slow,))
    bench.limits(git_seconds=0.1)
    result = bench.call(module, **arguments)
    assert (result.ok, result.status, result.failure, result.timed_out) == (False, "timed_out", "retryable", True)


def test_a_cancelled_call_is_told(bench: Any) -> None:
    class Cancelled:
        def is_set(self) -> bool:
            return True

        async def wait(self) -> bool:
            return True

    make_repository(bench.root)
    bench.context.cancel = Cancelled()
    for module, arguments in READERS + WRITERS:
        result = bench.call(module, **arguments)
        assert (result.status, result.error.code, result.failure) == ("cancelled", "cancelled", "none")


def test_a_git_that_cannot_be_started_is_told(bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_repository(bench.root)
    broken = tmp_path / "git"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    monkeypatch.setattr(git, "_SYSTEM", (str(broken),))
    assert bench.call(git_status).error.code == "not_started"


def test_what_is_collected_is_bounded(bench: Any, tmp_path: Path) -> None:
    make_repository(bench.root, a_txt="x" * 100_000)

    async def main() -> git.Answer:
        async with git.opened(bench.context) as repository:
            return await repository.run("cat-file", "blob", "HEAD:a.txt", max_bytes=1000)

    answer = asyncio.run(main())
    assert (len(answer.out), answer.cut) == (1000, True)


def test_complaints_are_bounded(bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_repository(bench.root)
    loud = script(tmp_path / "loud", "[ $1 = config ] && exit 0; head -c 1000000 /dev/zero | tr '\\0' x >&2; exit 3")
    monkeypatch.setattr(git, "_SYSTEM", (loud,))
    result = bench.call(git_status)
    assert result.error.code == "git_failed"
    assert len(result.content) <= 500


def test_reading_changes_nothing_in_the_repository(bench: Any, look: Any) -> None:
    make_repository(bench.root)
    (bench.root / "f.txt").write_text("changed\n")
    os.utime(bench.root / "ok.txt", (1, 1))
    before = look(bench.root)
    for module, arguments in READERS:
        assert bench.call(module, **arguments).ok
    assert look(bench.root) == before


def test_the_private_folder_goes_in_every_case(bench: Any) -> None:
    make_repository(bench.root)

    async def main() -> None:
        async with git.opened(bench.context) as repository:
            assert os.path.isdir(repository._private)
            assert os.stat(repository._private).st_mode & 0o777 == 0o700
            await repository.run("no-such-command")

    with pytest.raises(GitProblem):
        asyncio.run(main())
    assert [name for name in os.listdir(tempfile.gettempdir()) if name.startswith("sluice-git-")] == []


def test_what_the_user_ignores_is_ignored(bench: Any, own_home: Path) -> None:
    make_repository(bench.root)
    (bench.root / ".git/info/exclude").write_text("ok.txt\n")
    (bench.root / "x.swp").write_text("x")
    (bench.root / "y.log").write_text("x")
    assert {file["path"] for file in bench.call(git_status).facts["files"]} == {"x.swp", "y.log"}
    (own_home / "config/git").mkdir(parents=True)
    (own_home / "config/git/ignore").write_text("*.swp\n")
    assert {file["path"] for file in bench.call(git_status).facts["files"]} == {"y.log"}
    (own_home / ".gitconfig").write_text("[core]\n\texcludesFile = ~/mine\n")
    (own_home / "mine").write_text("*.log\n")
    assert {file["path"] for file in bench.call(git_status).facts["files"]} == {"x.swp"}
