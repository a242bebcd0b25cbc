"""Hostile repositories: whatever their settings ask for, no program of theirs runs (P9).

Each attack is first shown to work: plain git runs the program. Then every tool is called, and nothing has run.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from git_repositories import Evil, git_at_a_terminal, make_repository, plain_git, touch

from sluice.tools import git, git_add, git_commit, git_diff, git_show, git_status, list_files, rg_search

pytestmark = pytest.mark.parametrize("bench", ["openat2"], indirect=True)

Attack = Callable[[Path, Evil], None]


def setting(name: str, value: str = "{evil}", *, attributes: str = "") -> Attack:
    def prepare(root: Path, evil: Evil) -> None:
        plain_git(root, "config", name, value.format(evil=evil))
        if attributes:
            (root / ".gitattributes").write_text(attributes)

    return prepare


def info_attributes(root: Path, evil: Evil) -> None:
    plain_git(root, "config", "filter.x.clean", str(evil))
    (root / ".git/info/attributes").write_text("*.txt filter=x\n")


def included(root: Path, evil: Evil) -> None:
    (root / "inc").write_text(f"[core]\n\tfsmonitor = {evil}\n")
    plain_git(root, "config", "include.path", "../inc")


def included_if(root: Path, evil: Evil) -> None:
    (root / "inc").write_text(f"[core]\n\tfsmonitor = {evil}\n")
    plain_git(root, "config", "includeIf.onbranch:main.path", "../inc")


def worktree_settings(root: Path, evil: Evil) -> None:
    plain_git(root, "config", "extensions.worktreeConfig", "true")
    plain_git(root, "config", "--worktree", "core.fsmonitor", str(evil))


def hooks(root: Path, evil: Evil) -> None:
    names = "pre-commit commit-msg prepare-commit-msg post-commit post-index-change post-checkout reference-transaction"
    for name in (*names.split(), "pre-auto-gc", "pre-merge-commit", "fsmonitor-watchman", "post-rewrite"):
        evil.copy_to(root / ".git/hooks" / name)


def hooks_elsewhere(root: Path, evil: Evil) -> None:
    for name in ("pre-commit", "post-index-change", "reference-transaction"):
        evil.copy_to(root / "hooks" / name)
    plain_git(root, "config", "core.hooksPath", "hooks")


def signing(root: Path, evil: Evil) -> None:
    plain_git(root, "config", "gpg.program", str(evil))
    plain_git(root, "config", "commit.gpgSign", "true")


def shown_signature(root: Path, evil: Evil) -> None:
    commit = plain_git(root, "cat-file", "commit", "HEAD")
    head, _, body = commit.partition("\n\n")
    signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n x\n -----END PGP SIGNATURE-----"
    (root / ".git/signed").write_text(f"{head}\n{signature}\n\n{body}")
    name = plain_git(root, "hash-object", "-t", "commit", "-w", ".git/signed").strip()
    plain_git(root, "update-ref", "refs/heads/main", name)
    plain_git(root, "config", "gpg.program", str(evil))
    plain_git(root, "config", "log.showSignature", "true")


def missing_object_fetched(root: Path, evil: Evil) -> None:
    plain_git(root, "config", "extensions.partialClone", "origin")
    plain_git(root, "config", "core.repositoryFormatVersion", "1")
    plain_git(root, "config", "remote.origin.promisor", "true")
    plain_git(root, "config", "remote.origin.url", f"ext::{evil} %S")
    plain_git(root, "config", "protocol.ext.allow", "always")
    blob = plain_git(root, "rev-parse", "HEAD:f.txt").strip()
    (root / ".git/objects" / blob[:2] / blob[2:]).unlink()


def submodule(name: str, value: str, *, ignore: str = "") -> Attack:
    def prepare(root: Path, evil: Evil) -> None:
        inner = root / "sub"
        make_repository(inner)
        (inner / ".gitattributes").write_text("*.txt filter=x\n")
        plain_git(root, "-c", "advice.addEmbeddedRepo=false", "add", "sub")
        (root / ".gitmodules").write_text(f'[submodule "sub"]\n\tpath = sub\n\turl = ./sub\n{ignore}')
        plain_git(root, "add", ".gitmodules")
        plain_git(root, "commit", "--quiet", "--message=sub")
        plain_git(inner, "config", name, value.format(evil=evil))
        touch(inner / "f.txt")

    return prepare


# name, how the repository is made hostile, the command of plain git that runs the program
ATTACKS: list[tuple[str, Attack, tuple[str, ...]]] = [
    ("fsmonitor", setting("core.fsmonitor"), ("status",)),
    ("fsmonitor-diff", setting("core.fsmonitor"), ("diff",)),
    ("fsmonitor-add", setting("core.fsmonitor"), ("add", "f.txt")),
    ("external-diff", setting("diff.external"), ("diff",)),
    ("diff-driver", setting("diff.x.command", attributes="*.txt diff=x\n"), ("diff",)),
    ("textconv", setting("diff.x.textconv", attributes="*.txt diff=x\n"), ("diff",)),
    ("textconv-show", setting("diff.x.textconv", attributes="*.txt diff=x\n"), ("show",)),
    ("filter-clean", setting("filter.x.clean", attributes="*.txt filter=x\n"), ("status",)),
    ("filter-clean-diff", setting("filter.x.clean", attributes="*.txt filter=x\n"), ("diff",)),
    ("filter-clean-add", setting("filter.x.clean", attributes="*.txt filter=x\n"), ("add", "f.txt")),
    ("filter-process", setting("filter.x.process", attributes="*.txt filter=x\n"), ("status",)),
    ("filter-odd-name", setting("filter.a.b.clean", attributes="*.txt filter=a.b\n"), ("status",)),
    ("info-attributes", info_attributes, ("status",)),
    ("include", included, ("status",)),
    ("include-if", included_if, ("status",)),
    ("worktree-settings", worktree_settings, ("status",)),
    ("hooks", hooks, ("commit", "--all", "--message=x")),
    ("hooks-index", hooks, ("status",)),
    ("hooks-elsewhere", hooks_elsewhere, ("commit", "--all", "--message=x")),
    ("pager", setting("core.pager"), ("--paginate", "log")),
    ("pager-of-one", setting("pager.status"), ("--terminal", "status")),
    ("editor", setting("core.editor"), ("commit", "--all")),
    ("alias", setting("alias.st", "!{evil}"), ("st",)),
    ("signing", signing, ("commit", "--all", "--message=x")),
    ("shown-signature", shown_signature, ("show",)),
    ("ssh", setting("core.sshCommand"), ("ls-remote", "ssh://x/y")),
    ("credential", setting("credential.helper", "!{evil}"), ("credential", "fill")),
    ("promisor", missing_object_fetched, ("show",)),
    ("submodule-fsmonitor", submodule("core.fsmonitor", "{evil}"), ("status",)),
    ("submodule-filter", submodule("filter.x.clean", "{evil}"), ("-c", "core.fsmonitor=false", "status")),
    ("submodule-add", submodule("filter.x.clean", "{evil}"), ("add", ".")),
    ("submodule-not-ignored", submodule("core.fsmonitor", "{evil}", ignore="\tignore = none\n"),
     ("-c", "diff.ignoreSubmodules=all", "diff")),
]  # fmt: skip

TOOLS: list[tuple[Any, dict[str, Any]]] = [
    (git_status, {}),
    (git_diff, {}),
    (git_diff, {"cached": True}),
    (git_show, {"rev": "HEAD", "stat": True}),
    (git_show, {"rev": "HEAD:f.txt"}),
    (git_add, {"pathspecs": ["."]}),
    (git_commit, {"message": "by the tool"}),
]


@pytest.mark.parametrize(("prepare", "command"), [a[1:] for a in ATTACKS], ids=[a[0] for a in ATTACKS])
def test_no_program_of_a_hostile_repository_is_run(
    bench: Any, tmp_path: Path, prepare: Attack, command: tuple[str, ...], request: pytest.FixtureRequest
) -> None:
    at_a_terminal = command[0] in ("--paginate", "--terminal")
    if at_a_terminal:
        request.getfixturevalue("pseudo_terminals")
    make_repository(bench.root)
    evil = Evil(tmp_path / "evil")
    (bench.root / "f.txt").write_text("two\n")  # as long as before: git must read it, through its filter, to know
    prepare(bench.root, evil)
    evil.ran()
    touch(bench.root / "f.txt")
    if at_a_terminal:
        git_at_a_terminal(bench.root, *(word for word in command if word != "--terminal"))
    else:
        plain_git(bench.root, *command, check=False, said=b"protocol=https\nhost=x\n\n")
    assert evil.ran(), "the attack itself does not work"
    for module, arguments in TOOLS:
        touch(bench.root / "f.txt")
        result = bench.call(module, **arguments)
        assert not evil.ran(), (module.NAME, arguments)
        assert result.failure != "fatal"


def test_where_nothing_stands_against_it_the_tools_do_their_work_on_a_hostile_repository(
    bench: Any, tmp_path: Path
) -> None:
    """Guards against a test above that is green because the tools refuse everything."""
    make_repository(bench.root)
    evil = Evil(tmp_path / "evil")
    for prepare in (setting("core.fsmonitor"), setting("diff.external"), hooks, signing, setting("core.pager")):
        prepare(bench.root, evil)
    (bench.root / "f.txt").write_text("one\ntwo\n")
    for module, arguments in TOOLS[:-1]:
        assert bench.call(module, **arguments).ok, module.NAME
    result = bench.call(git_commit, message="by the tool")
    assert result.ok
    assert result.facts["commit"] == plain_git(bench.root, "-c", "core.fsmonitor=false", "rev-parse", "HEAD").strip()
    assert not (tmp_path / "evil/mark").exists()


@pytest.mark.parametrize(
    "name",
    [
        "GIT_EXTERNAL_DIFF",
        "GIT_PAGER",
        "GIT_SSH_COMMAND",
        "GIT_EDITOR",
        "GIT_PROXY_COMMAND",
        "GIT_ASKPASS",
        "PAGER",
        "EDITOR",
    ],
)
def test_programs_named_by_our_own_environment_are_not_run(
    bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    make_repository(bench.root)
    evil = Evil(tmp_path / "evil")
    (bench.root / "f.txt").write_text("two\n")
    if name == "GIT_EXTERNAL_DIFF":
        plain_git(bench.root, "diff", check=False, GIT_EXTERNAL_DIFF=str(evil))
        assert evil.ran()
    monkeypatch.setenv(name, str(evil))
    for module, arguments in TOOLS:
        bench.call(module, **arguments)
        assert not evil.ran(), module.NAME


def test_settings_from_our_own_environment_do_not_count(
    bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_repository(bench.root)
    evil = Evil(tmp_path / "evil")
    named = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.fsmonitor", "GIT_CONFIG_VALUE_0": str(evil)}
    plain_git(bench.root, "status", **named)
    assert evil.ran()
    (tmp_path / "settings").write_text(f"[core]\n\tfsmonitor = {evil}\n")
    plain_git(bench.root, "status", GIT_CONFIG_GLOBAL=str(tmp_path / "settings"))
    assert evil.ran()
    evil.copy_to(tmp_path / "exec/git-status")
    for variable, value in {
        **named,
        "GIT_CONFIG_GLOBAL": str(tmp_path / "settings"),
        "GIT_EXEC_PATH": str(tmp_path / "exec"),
        "RIPGREP_CONFIG_PATH": str(tmp_path / "settings"),
        "GIT_DIR": str(tmp_path / "elsewhere"),
        "GIT_WORK_TREE": str(tmp_path),
        "GIT_INDEX_FILE": str(tmp_path / "index"),
    }.items():
        monkeypatch.setenv(variable, value)
    (bench.root / "f.txt").write_text("two\n")
    for module, arguments in TOOLS:
        assert bench.call(module, **arguments).ok or module in (git_add, git_commit), module.NAME
        assert not evil.ran(), module.NAME


def test_programs_of_the_users_own_settings_are_not_run_either(bench: Any, tmp_path: Path, own_home: Path) -> None:
    """They are trusted, but what a tool does must not depend on them."""
    make_repository(bench.root)
    evil = Evil(tmp_path / "evil")
    (own_home / ".gitconfig").write_text(f"[core]\n\tfsmonitor = {evil}\n\thooksPath = {tmp_path / 'hooks'}\n")
    evil.copy_to(tmp_path / "hooks/pre-commit")
    plain_git(bench.root, "status")
    assert evil.ran()
    (bench.root / "f.txt").write_text("two\n")
    for module, arguments in TOOLS:
        assert bench.call(module, **arguments).ok, module.NAME
        assert not evil.ran(), module.NAME


def test_a_git_or_rg_of_the_workspace_is_not_run_though_it_is_first_in_the_path(
    bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_repository(bench.root)
    evil = Evil(tmp_path / "evil")
    for name in ("git", "rg"):
        evil.copy_to(bench.root / name)
        evil.copy_to(bench.root / "bin" / name)
    monkeypatch.setenv("PATH", f"{bench.root}:{bench.root}/bin:.:/usr/bin:/bin")
    monkeypatch.chdir(bench.root)
    searches: list[tuple[Any, dict[str, Any]]] = [(list_files, {}), (rg_search, {"query": "one"})]
    for module, arguments in (*searches, *TOOLS[:-1]):
        assert bench.call(module, **arguments).ok, module.NAME
        assert not evil.ran(), module.NAME


def test_git_is_taken_only_from_outside_the_workspace(
    tmp_path: Path, bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    evil = Evil(tmp_path / "evil")
    evil.copy_to(bench.root / "git")
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked/git").symlink_to(bench.root / "git")
    monkeypatch.setattr(git, "_SYSTEM", (str(bench.root / "git"), str(tmp_path / "linked/git")))
    monkeypatch.setenv("PATH", f"{bench.root}:{tmp_path / 'linked'}::.")
    make_repository(bench.root)
    for module, arguments in TOOLS:
        assert bench.call(module, **arguments).error.code == "no_git", module.NAME
    assert not evil.ran()
    monkeypatch.setenv("PATH", f"{bench.root}:/usr/bin")
    assert bench.call(git_status).ok


def test_files_that_need_a_filter_are_refused_not_staged_without_it(bench: Any) -> None:
    make_repository(bench.root)
    (bench.root / ".gitattributes").write_text("*.bin filter=lfs diff=lfs merge=lfs -text\nplain.bin -filter\n")
    (bench.root / "big.bin").write_bytes(b"\0" * 10)
    (bench.root / "a.txt").write_text("a\n")
    result = bench.call(git_add, pathspecs=["."])
    assert (result.ok, result.error.code, result.error.path) == (False, "filtered_file", "big.bin")
    assert "lfs" in result.content
    assert plain_git(bench.root, "diff", "--cached", "--name-only") == ""
    assert bench.call(git_add, pathspecs=["a.txt"]).ok
    (bench.root / "plain.bin").write_bytes(b"\0")
    assert bench.call(git_add, pathspecs=["plain.bin"]).ok
    (bench.root / "big.bin").unlink()
    assert bench.call(git_add, pathspecs=["."]).ok


def test_a_reader_is_told_of_filters_that_were_not_run(bench: Any, tmp_path: Path) -> None:
    make_repository(bench.root)
    setting("filter.x.clean", attributes="*.txt filter=x\n")(bench.root, Evil(tmp_path / "evil"))
    assert "filters of this repository are not run (x)" in bench.call(git_status).content
    assert "filters of this repository are not run (x)" in bench.call(git_diff).content


@pytest.mark.parametrize("name", ["logs/HEAD", "logs/refs/heads/main", "index", "COMMIT_EDITMSG", "refs/heads/main"])
def test_nothing_outside_is_written_through_links_in_the_repository(bench: Any, outside: Path, name: str) -> None:
    make_repository(bench.root)
    inner = bench.root / ".git" / name
    target = outside / "secret.txt"
    inner.unlink(missing_ok=True)
    inner.symlink_to(target)
    (bench.root / "f.txt").write_text("two\n")
    for module, arguments in ((git_add, {"pathspecs": ["."]}), (git_commit, {"message": "x"})):
        result = bench.call(module, **arguments)
        assert (result.ok, result.error.code) == (False, "link_in_repository")
        assert result.error.path == f".git/{name}"
    if "logs" in name or "EDIT" in name:
        inner.unlink()
        inner.hardlink_to(target)
        assert bench.call(git_commit, message="x").error.code == "link_in_repository"


def test_folders_of_the_repository_that_are_links_are_not_written(bench: Any, outside: Path) -> None:
    make_repository(bench.root)
    (bench.root / "f.txt").write_text("two\n")
    for name in ("objects/00", "objects/ff", "objects/pack", "refs/tags/deep", "logs/refs/x"):
        inner = bench.root / ".git" / name
        if inner.is_dir():
            for file in inner.iterdir():
                file.unlink()
            inner.rmdir()
        inner.symlink_to(outside)
        assert bench.call(git_add, pathspecs=["."]).error.code == "link_in_repository"
        inner.unlink()
        if name == "objects/pack":
            inner.mkdir()
    assert bench.call(git_add, pathspecs=["."]).ok


def test_commands_of_the_repository_reach_no_work_tree_but_its_own(bench: Any, outside: Path) -> None:
    make_repository(bench.root)
    plain_git(bench.root, "config", "core.worktree", str(outside))
    assert "secret.txt" in plain_git(bench.root, "status")
    for module, arguments in TOOLS:
        result = bench.call(module, **arguments)
        assert (result.ok, result.error.code) == (False, "unsupported_repository")
        assert "secret" not in result.content
