from __future__ import annotations

import pytest

from sluice.tools.protected import NEVER_ALLOWED, folded, protection

GIT = [
    ".git",
    ".git/config",
    ".git/hooks/pre-commit",
    "vendor/sub/.git/hooks/post-checkout",
    ".GIT/config",
    ".Git/HOOKS/pre-commit",
    ".git./config",
    ".git /config",
    ".git . ./config",
    "GIT~1/config",
    "git~2/config",
    "GI7EBA~1",
    ".git\\config",
    "sub\\.git\\config",
    ".git::$INDEX_ALLOCATION/config",
    ".git:x",
    ".g\u200cit/config",
    ".\u200dgit/config",
    ".G\u200cIT/config",
    ".git\ufeff/config",
    ".g\u00adit/config",
    ".gi\u034ft/config",
    ".gi\ufe0ft/config",
    ".gi\U000e0041t/config",
    "．git/config",
    ".ｇｉｔ/config",
    "mirror.git/hooks/update",
    ".gitmodules",
    ".GitModules",
    "sub/.gitconfig",
    ".config/git/config",
]
OTHERS = {
    "sluice": [".sluice/policy.toml", ".SLUICE", "deep/.sluice/x", ".config/sluice/config.toml", "sluice~1/x"],
    "shell": [
        ".bashrc",
        ".BASHRC",
        ".profile",
        ".zshrc",
        ".zshenv",
        ".zprofile",
        ".bash_profile",
        ".envrc",
        "a/.envrc",
    ],
    "editor": [".vscode/settings.json", ".vscode/tasks.json", ".idea/workspace.xml", ".devcontainer/devcontainer.json"],
    "agent": [
        ".mcp.json",
        ".cursor/mcp.json",
        ".cUrSoR/mcp.jſon",
        ".claude/commands/x.md",
        ".claude/settings.json",
        ".codex/config.toml",
    ],
    "ci": [".github/workflows/ci.yml", ".GitHub/Workflows/ci.yml", ".gitlab-ci.yml", "Jenkinsfile"],
    "packages": [".npmrc", ".yarnrc.yml", ".ripgreprc", "sitecustomize.py", ".cargo/config.toml"],
    "startup": [".ssh/authorized_keys", ".config/systemd/user/x.service", "Library/LaunchAgents/x.plist"],
}
FREE = [
    "ok.txt",
    ".gitignore",
    ".gitattributes",
    ".github/ISSUE_TEMPLATE.md",
    "git/config",
    "gitx~",
    "a.git",
    "src/config",
    ".claude/notes.md",
    "config/git",
    "Makefile",
    "AGENTS.md",
    "setup.cfg",
    "hooks/pre-commit",
    "workflows/ci.yml",
    "digit~1.txt",
    "bashrc",
    "文件.txt",
]


@pytest.mark.parametrize("path", GIT)
def test_every_spelling_of_gits_own_files_is_protected(path: str) -> None:
    found = protection(path)
    assert found is not None
    assert found.group == "git"
    assert found.group in NEVER_ALLOWED


@pytest.mark.parametrize(("group", "path"), [(group, path) for group, paths in OTHERS.items() for path in paths])
def test_files_that_other_programs_obey_are_protected(group: str, path: str) -> None:
    found = protection(path)
    assert found is not None
    assert found.group == group


@pytest.mark.parametrize("path", FREE)
def test_ordinary_files_are_free(path: str) -> None:
    assert protection(path) is None


def test_a_private_place_is_protected_with_all_under_it() -> None:
    private = [("state", "ours")]
    assert protection("state/ours", private) is not None
    assert protection("State/OURS/db", private) is not None
    assert protection("state/other", private) is None
    assert protection("x/state/ours", private) is None


def test_folding_keeps_ordinary_names_apart() -> None:
    assert folded("a.txt") != folded("b.txt")
    assert folded("README.md") == folded("readme.MD")
