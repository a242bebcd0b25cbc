"""Every tool that takes a path × every forbidden path: nothing outside is reached, nothing forbidden is written.

Calls go through the real executor. A tree outside, beside and above the workspace is compared byte for byte after each
call, and each tool does its work on a good path in the same test.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sluice.limits import DEFAULT_LIMITS
from sluice.tools.builtin import default_tools
from sluice.tools.registry import Executor, Registry, ToolContext
from sluice.tools.seen import SeenFiles
from sluice.tools.spill import Spill
from sluice.tools.workspace import Workspace
from sluice.values.calls import AllowedCall, CallKey, Verdict, call_digest
from sluice.values.results import ToolResult

SHARED = Path(os.environ.get("SLUICE_SHARED", Path(__file__).parents[3] / "shared"))
CANARY = "SECRET-canary-31415"
REGISTRY = Registry(default_tools())


def _patch(*lines: str) -> dict[str, Any]:
    return {"patch": "\n".join(["*** Begin Patch", *lines, "*** End Patch"])}


Makers = Callable[[str], list[dict[str, Any]]]
READING: dict[str, Makers] = {
    "read_file_safe": lambda path: [{"path": path}, {"path": path, "offset": 1, "limit": 5}],
}
FINDING: dict[str, Makers] = {
    "list_files_bounded": lambda path: [{"directory": path}],
    "rg_search": lambda path: [{"query": "SECRET", "directory": path}],
}
WRITING: dict[str, Makers] = {
    "write_file_safe": lambda path: [
        {"path": path, "content": "[pwn]\n"},
        {"path": path, "content": "[pwn]\n", "mode": "create"},
        {"path": path, "content": "[pwn]\n", "mode": "append"},
    ],
    "apply_patch": lambda path: [
        {"path": path, "old_text": "SECRET", "new_text": "PWNED"},
        {"path": path, "patches": [{"old_text": "SECRET", "new_text": "PWNED"}]},
        _patch(f"*** Add File: {path}", "+pwn"),
        _patch(f"*** Update File: {path}", "@@", f"-{CANARY}", "+PWNED"),
        _patch(f"*** Update File: {path}", "*** Move to: good/taken.txt"),
        _patch("*** Update File: good/ok.txt", f"*** Move to: {path}"),
        _patch(f"*** Delete File: {path}"),
    ],
}
GIT: dict[str, Makers] = {
    "git_diff": lambda path: [{"pathspecs": [path]}, {"pathspecs": [path], "cached": True}],
    "git_show": lambda path: [{"rev": "HEAD", "pathspecs": [path]}, {"rev": path}, {"rev": f"HEAD:{path}"}],
    "git_add": lambda path: [{"pathspecs": [path]}],
}
WITHOUT_A_PATH = {
    "git_status": "takes no argument",
    "git_commit": "takes a message; what is staged outside is the matter of its own tests",
    "build_project_safe": "takes no path; runs a project's own commands, which the sandbox bounds and not the wall",
    "test_project_safe": "as build_project_safe",
    "bash_execute_safe": "takes a command, not a path; what it may touch is the sandbox's matter and not the wall's",
    "job_list": "takes no argument",
    "job_read": "takes a number",
    "job_stop": "takes a number",
}
TOOLS = {**READING, **FINDING, **WRITING, **GIT}

# What a vector asks for that is not done, and why.
NOT_PROTECTED = (
    "an ordinary work file: the approval of the mutating call covers it, and running it needs one of its own"
)
DIFFERENT = {"Makefile": NOT_PROTECTED, "setup.cfg": NOT_PROTECTED, ".python-version": NOT_PROTECTED}
DIFFERENT |= {".tool-versions": NOT_PROTECTED, "AGENTS.md": NOT_PROTECTED}

EVERY = ["read", "write", "edit", "apply_patch", "glob", "grep"]
CHANGE = ["write", "edit", "apply_patch"]


def _own(path: str, ops: list[str], expect: str = "deny", setup: tuple[str, ...] = ()) -> dict[str, Any]:
    return {"id": f"own {path!a:.40}", "path": path, "ops": ops, "expect": expect, "setup": list(setup)}


OWN = [
    _own("..", EVERY),
    _own("a/..", EVERY),
    _own("good/../../outside/secret.txt", EVERY),
    _own("./../outside", EVERY),
    _own("{OUT}/secret.txt", EVERY),
    _own("//{OUT}/secret.txt", EVERY),
    _own("C:\\outside", EVERY),
    _own("..\\outside\\secret.txt", EVERY),
    _own("good\\..\\..\\outside", EVERY),
    _own("link", EVERY, setup=("symlink link -> {OUT}",)),
    _own("link/", EVERY, setup=("symlink link -> {OUT}",)),
    _own("link/./secret.txt", EVERY, setup=("symlink link -> {OUT}",)),
    _own("link/deep/secret.txt", EVERY, setup=("symlink link -> {OUT}",)),
    _own("file", EVERY, setup=("symlink file -> {OUT}/secret.txt",)),
    _own("inner", CHANGE, setup=("symlink inner -> good/ok.txt",)),
    _own("up/outside/secret.txt", EVERY, setup=("symlink up -> ..",)),
    _own("proc/self/root{OUT}/secret.txt", EVERY, setup=("symlink proc -> /proc",)),
    _own("fd/0", EVERY, setup=("symlink fd -> /proc/self/fd",)),
    _own("good/hard.txt", CHANGE, setup=("hardlink good/hard.txt -> {OUT}/secret.txt",)),
    _own("pipe", EVERY, "clean_error", ("fifo pipe",)),
    _own("null", EVERY, "clean_error", ("device null",)),
    _own("spill:1", EVERY, "clean_error"),
    _own("spill:1/../../outside/secret.txt", EVERY),
    _own("x" * 300 + "/y", EVERY, "clean_error"),
    _own("d/" * 5_000 + "f", EVERY, "clean_error"),
    _own("a\ud800b", EVERY, "clean_error"),
    _own("\0", EVERY, "clean_error"),
    _own("nested/.git/hooks/post-checkout", CHANGE),
    _own("nested/.g\u200cit/config", CHANGE),
    _own("nested/.GIT::$INDEX_ALLOCATION/config", CHANGE),
    _own("bare.git/hooks/pre-receive", CHANGE),
    _own("nested/.Sluice/config.toml", CHANGE),
    _own("ours/state.db", CHANGE),
    _own("OURS/new/state.db", CHANGE),
    _own(".github/workflows/ci.yml", CHANGE),
    _own("$HOME/x", EVERY, "literal_not_expanded"),
    _own("good/*.txt", ["write", "apply_patch"], "allow"),
    _own("good/-n", EVERY, "literal_not_option"),
]


def rows() -> list[dict[str, Any]]:
    file = SHARED / "vectors/paths/paths.jsonl"
    return [*(map(json.loads, file.read_text().splitlines()) if file.is_file() else []), *OWN]


def tree(root: Path) -> dict[str, tuple[str, bytes]]:
    found: dict[str, tuple[str, bytes]] = {}
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            path = Path(folder, name)
            status = path.lstat()
            data = os.readlink(path).encode() if path.is_symlink() else b""
            if path.is_file() and not path.is_symlink() and status.st_size < 1_000_000:
                data = path.read_bytes()
            found[str(path.relative_to(root))] = (f"{status.st_mode:o} {status.st_size * path.is_file()}", data)
    return found


class World:
    """`base/work` is the workspace; everything else under `base` must never change or be seen."""

    def __init__(self, base: Path, spill: Spill, kernel: bool) -> None:
        self.base, self.root = base, base / "work"
        for folder in ("outside/deep", "work-evil", "work/good", "work/.git/hooks", "work/.sluice"):
            (base / folder).mkdir(parents=True)
        for name in ("outside/secret.txt", "outside/deep/secret.txt", "work-evil/secret.txt", "outside.txt"):
            (base / name).write_text(f"{CANARY}\n")
        (self.root / ".git/config").write_text(f"{CANARY}\n[core]\n")
        (self.root / ".sluice/config.toml").write_text(f"# {CANARY}\n")
        (self.root / "good/ok.txt").write_text("fine SECRET\n")
        self.workspace = Workspace(str(self.root), private=[str(self.root / "ours")], kernel=kernel)
        self.seen = SeenFiles()
        self.spill = spill
        self.executor = Executor(REGISTRY, self._context)
        self.outer = self.outside()

    def _context(self, cancel: Any) -> ToolContext:
        return ToolContext(self.workspace, DEFAULT_LIMITS, None, self.seen, cancel, self.spill)

    def outside(self) -> dict[str, tuple[str, bytes]]:
        return {name: held for name, held in tree(self.base).items() if not name.startswith("work/") and name != "work"}

    def call(self, tool: str, arguments: dict[str, Any]) -> ToolResult:
        text = json.dumps(arguments)
        checked = self.executor.check(tool, text)
        if isinstance(checked, ToolResult):
            return checked
        key = CallKey("run", 1, 0)
        verdict = Verdict(key=key, digest=call_digest(tool, text), decision="allow", rule="test")
        call = AllowedCall(key=key, tool=tool, arguments=text, verdict=verdict)

        async def main() -> ToolResult:
            return await self.executor.run(call, asyncio.Event())

        result = asyncio.run(main())
        assert result.failure != "fatal", (tool, arguments, result.content)
        assert result.ok or result.error is not None
        return result

    def set_up(self, line: str) -> None:
        word, _, rest = line.partition(" ")
        name, _, target = rest.partition(" -> ")
        target = target.replace("{OUT}", str(self.base / "outside"))
        place = self.root / name
        if word == "symlink":
            place.symlink_to(target)
        elif word == "symlink-in-out":
            (self.base / "outside" / name).symlink_to(target)
        elif word == "hardlink":
            os.link(target, place)
        elif word == "unix-socket":
            with socket.socket(socket.AF_UNIX) as made:
                made.bind(os.path.relpath(place))
        elif word == "truncate":
            with open(self.root / rest.rpartition(" ")[2], "wb") as file:
                file.truncate(2**40)
        elif word == "fifo":
            os.mkfifo(place)
        elif word == "device":
            try:
                os.mknod(place, 0o666 | 0o020000, os.makedev(1, 3))
            except PermissionError:
                os.mkfifo(place)
        else:
            raise AssertionError(line)

    def good_path_works(self, tool: str) -> None:
        """The positive control: the same tool on a path inside."""
        if tool == "read_file_safe":
            assert "fine" in self.call(tool, {"path": "good/ok.txt"}).content
        elif tool == "list_files_bounded":
            assert "good/ok.txt" in self.call(tool, {"directory": "good"}).content
        elif tool == "rg_search":
            assert "fine SECRET" in self.call(tool, {"query": "SECRET", "directory": "good"}).content
        elif tool == "write_file_safe":
            assert self.call(tool, {"path": "good/new/n.txt", "content": "x"}).ok
            assert (self.root / "good/new/n.txt").read_bytes() == b"x"
            shutil.rmtree(self.root / "good/new")
            self.seen.forget("good/new/n.txt")
        elif tool == "apply_patch":
            for old, new in (("fine", "better"), ("better", "fine")):
                edit = _patch("*** Update File: good/ok.txt", f"-{old} SECRET", f"+{new} SECRET")
                assert self.call(tool, edit).ok
                assert (self.root / "good/ok.txt").read_text() == f"{new} SECRET\n"


@pytest.fixture
def world(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.chdir(tmp_path)
    base = tmp_path / "base"
    with Spill() as spill:
        made = World(base, spill, getattr(request, "param", "openat2") == "openat2")
        yield made
        made.workspace.close()


OPS = {**dict.fromkeys(READING, ("read",)), "list_files_bounded": ("glob",), "rg_search": ("grep",)}
OPS |= {"write_file_safe": ("write",), "apply_patch": ("apply_patch", "edit", "write")}


# The two ways of opening differ only where something stands in the way; words alone are refused before either.
CASES = [(row, "openat2") for row in rows()] + [(row, "walk") for row in rows() if row["setup"]]


@pytest.mark.parametrize(("row", "world"), CASES, ids=[f"{row['id']}-{way}" for row, way in CASES], indirect=["world"])
def test_every_tool_on_every_forbidden_path(row: dict[str, Any], world: World) -> None:
    for line in row["setup"]:
        world.set_up(line)
    fill = {"{W}": str(world.root), "{WNAME}": "work", "{OUT}": str(world.base / "outside")}
    fill |= {"{AGENT_CONFIG}": ".sluice/config.toml", "{AGENT_CONFIG_MISSING}": ".sluice/policy.toml"}
    path = row["path"]
    for word, value in fill.items():
        path = path.replace(word, value)
    world.outer = world.outside()
    before = tree(world.root)
    refused = row["expect"] in ("deny", "ask", "clean_error", "bounded") and path not in DIFFERENT
    for tool, makers in {**READING, **FINDING, **WRITING}.items():
        named = any(op in row["ops"] for op in OPS[tool])
        if path == "" and tool in FINDING:
            continue  # different on purpose: an empty `directory` is one that was left out, and means the workspace
        for arguments in makers(path):
            result = world.call(tool, arguments)
            assert world.outside() == world.outer, (tool, arguments)
            # Reading inside is free: .git, our project file, and a hard link, which is a file of the workspace as well.
            readable = path.startswith(".") or any(line.startswith("hardlink") for line in row["setup"])
            if result.status != "invalid" and ((named and refused) or not readable):
                assert CANARY not in result.content + json.dumps(result.facts), (tool, arguments)
            assert "\x1b" not in result.content
            if named and refused:
                assert not result.ok, (tool, arguments, result.content)
            if tool in WRITING and refused and row["ops"] != ["read"]:
                assert tree(world.root) == before, (tool, arguments)
            if row["expect"] == "allow" and arguments.get("mode") == "create":
                assert result.ok or result.error is None or result.error.code == "exists"
        if tree(world.root) != before:  # an allowed write: back to the beginning for the next tool
            for name in set(tree(world.root)) - set(before):
                made = world.root / name
                if made.is_dir() and not made.is_symlink():
                    shutil.rmtree(made)
                elif os.path.lexists(made):
                    made.unlink()
            (world.root / "good/ok.txt").write_bytes(before["good/ok.txt"][1])
            world.seen = SeenFiles()
        world.good_path_works(tool)
        world.seen = SeenFiles()


def test_every_tool_is_in_the_matrix_or_has_its_reason() -> None:
    assert set(REGISTRY.names()) <= set(TOOLS) | set(WITHOUT_A_PATH)
    assert not set(TOOLS) & set(WITHOUT_A_PATH)
    for name in REGISTRY.names():
        words = json.dumps(REGISTRY.spec(name).parameters["properties"])
        if name in WITHOUT_A_PATH:
            assert not {"path", "directory", "pathspecs"} & set(json.loads(words)), name


GIT_PATHS = [
    "../outside/secret.txt",
    "{OUT}/secret.txt",
    ":(top)../outside/secret.txt",
    ":/../outside",
    ":!x",
    "link/secret.txt",
    "good/../../outside/secret.txt",
    "--output={OUT}/pwn",
    "-O{OUT}/secret.txt",
    "\0",
    "",
    "x" * 100_000,
]


@pytest.mark.parametrize("tool", [name for name in GIT if name in REGISTRY.names()])
def test_git_tools_on_forbidden_paths(tool: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("git") is None:
        pytest.skip("there is no git")
    with Spill() as spill:
        world = World(tmp_path / "base", spill, True)
        shutil.rmtree(world.root / ".git")
        identity = ["-c", "user.name=x", "-c", "user.email=x@y", "-c", "init.defaultBranch=main"]
        for command in (["init", "-q"], ["add", "good"], ["commit", "-qm", "one"]):
            subprocess.run(["git", *identity, *command], cwd=world.root, check=True, capture_output=True)
        (world.root / "link").symlink_to(world.base / "outside")
        world.outer = world.outside()
        for path in GIT_PATHS:
            for arguments in GIT[tool](path.replace("{OUT}", str(world.base / "outside"))):
                result = world.call(tool, arguments)
                assert world.outside() == world.outer, arguments
                assert CANARY not in result.content + json.dumps(result.facts), arguments
        (world.root / "good/ok.txt").write_text("changed SECRET\n")
        good = {"rev": "HEAD", "pathspecs": ["good/ok.txt"]} if tool == "git_show" else {"pathspecs": ["good/ok.txt"]}
        assert world.call(tool, good).ok
        world.workspace.close()


def test_the_mandatory_deny_list(world: World, shared: Path) -> None:
    listed = json.loads((shared / "vectors/paths/mandatory_deny.json").read_text())
    before = tree(world.root)
    for name in [*listed["dangerous_files"], *listed["dangerous_directories"]]:
        for path in (name, f"sub/{name}", f"sub/{name}/new", name.upper(), name.title()):
            for tool, makers in WRITING.items():
                for arguments in makers(path):
                    assert not world.call(tool, arguments).ok, arguments
    assert tree(world.root) == before


def test_what_stays_writable_and_what_of_git_does_not(world: World) -> None:
    """The list lets git's own program write its index and objects; a file tool has no business there (P5)."""
    assert world.call("write_file_safe", {"path": ".claude/other/notes.md", "content": "x"}).ok
    for path in (".git/objects/aa/bb", ".git/refs/heads/main", ".git/index"):
        result = world.call("write_file_safe", {"path": path, "content": "x"})
        assert result.error is not None
        assert result.error.code == "protected"
