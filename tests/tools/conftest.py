"""A workspace with an outside that must not change, and the context in which tools are called."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from sluice.limits import DEFAULT_LIMITS
from sluice.tools.registry import ToolContext
from sluice.tools.seen import SeenFiles
from sluice.tools.spill import Spill
from sluice.tools.workspace import Workspace
from sluice.values.results import ToolResult


class NeverCancelled:
    def is_set(self) -> bool:
        return False

    async def wait(self) -> bool:
        return await asyncio.Event().wait()


class Bench:
    """Calls a file tool in one workspace, as the executor would after its checks."""

    def __init__(self, root: Path, spill: Spill, *, kernel: bool = True) -> None:
        self.root = root
        self.workspace = Workspace(str(root), kernel=kernel)
        self.context = ToolContext(
            workspace=self.workspace,
            limits=DEFAULT_LIMITS,
            journal=None,
            seen=SeenFiles(),
            cancel=NeverCancelled(),
            spill=spill,
        )

    def limits(self, **changed: Any) -> None:
        self.context.limits = msgspec.structs.replace(DEFAULT_LIMITS, **changed)

    def call(self, module: Any, **arguments: Any) -> ToolResult:
        decoded = msgspec.convert(arguments, module.TOOL.arguments, strict=True)
        return asyncio.run(module.run(decoded, self.context))


def tree(root: Path) -> dict[str, tuple[str, bytes]]:
    """Everything under a folder: kind and mode, and content."""
    found: dict[str, tuple[str, bytes]] = {}
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            path = Path(folder, name)
            status = path.lstat()
            content = os.readlink(path).encode() if path.is_symlink() else b""
            if path.is_file() and not path.is_symlink() and status.st_size < 1_000_000:
                content = path.read_bytes()
            found[str(path.relative_to(root))] = (oct(status.st_mode), content)
    return found


@pytest.fixture
def look() -> Callable[[Path], dict[str, tuple[str, bytes]]]:
    return tree


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.txt").write_bytes(b"SECRET canary\n")
    return folder


@pytest.fixture(params=["openat2", "walk"])
def bench(tmp_path: Path, outside: Path, request: pytest.FixtureRequest) -> Iterator[Bench]:
    """A bench on each way of opening; descriptors and the outside must be as before afterwards."""
    root = tmp_path / "work"
    root.mkdir()
    (root / "ok.txt").write_bytes(b"one\ntwo\nthree\n")
    fds = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    with Spill() as spill:
        made = Bench(root, spill, kernel=request.param == "openat2")
        before = tree(outside)
        yield made
        made.workspace.close()
    assert tree(outside) == before
    assert not [name for name in tree(root) if name.rpartition("/")[2].startswith(".sluice-")]
    if fds:
        assert len(os.listdir("/proc/self/fd")) == fds
