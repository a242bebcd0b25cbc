"""What the file tools cost on a tree of 100,000 files and on a file of 4 MiB, and what the wall costs an open.

    python bench/files.py [files]

Every call goes through the tool as the executor would make it, the journal of pre-images included. The wall is compared
with a plain `os.open` of the same path, both with their close, in one run and alternating. Medians; the spread is in
brackets (the quartiles). The target: under 60 µs an open more than a plain one.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from sluice.limits import DEFAULT_LIMITS
from sluice.session.blobs import BlobJournal
from sluice.tools import apply_patch, list_files, read_file, rg_search, write_file
from sluice.tools.registry import ToolContext
from sluice.tools.seen import SeenFiles
from sluice.tools.spill import Spill
from sluice.tools.workspace import Workspace

LINE = "def handler_{0}(request): return respond(request, status={0})\n"


def plant(root: Path, files: int) -> None:
    """`files` small files, a hundred in a folder, and one of nearly 4 MiB."""
    for number in range(files):
        folder = root / f"pkg{number // 10_000}" / f"mod{number // 100 % 100}"
        if number % 100 == 0:
            folder.mkdir(parents=True)
        (folder / f"file{number % 100}.py").write_text(LINE.format(number) * 10)
    whole = "".join(map(LINE.format, range(70_000)))
    (root / "big.py").write_text(whole[: 4 * 1024 * 1024 - 100_000].rpartition("\n")[0] + "\n")


def timed(work: Callable[[int], object], rounds: int) -> str:
    """Median and quartiles of `rounds` calls, with a fitting unit."""
    took = []
    for number in range(rounds):
        began = time.perf_counter()
        work(number)
        took.append(time.perf_counter() - began)
    low, middle, high = statistics.quantiles(took, n=4)
    unit, scale = ("ms", 1e3) if middle > 1e-3 else ("µs", 1e6)
    return f"{middle * scale:8.1f} {unit}  ({low * scale:.1f} to {high * scale:.1f})"


class Tools:
    """Calls tools in one workspace; raises if one does not do its work."""

    def __init__(self, workspace: Workspace, spill: Spill, state: str) -> None:
        self.seen = SeenFiles()
        journal = BlobJournal(state, workspace.root)
        self._context = ToolContext(workspace, DEFAULT_LIMITS, journal, self.seen, asyncio.Event(), spill)

    async def call(self, module: Any, **arguments: Any) -> None:
        """One call."""
        result = await module.run(msgspec.convert(arguments, module.TOOL.arguments), self._context)
        if not result.ok:
            raise SystemExit(f"{module.__name__}: {result.content}")


def wall(workspace: Workspace, path: str, rounds: int = 3_000) -> tuple[float, float]:
    """Median µs of a plain open and of one through the wall, each with its close."""
    plain, walled = [], []
    absolute = os.path.join(workspace.root, path)
    for _ in range(rounds):
        began = time.perf_counter()
        os.close(os.open(absolute, os.O_RDONLY | os.O_CLOEXEC))
        between = time.perf_counter()
        os.close(workspace.open_read(path))
        walled.append(time.perf_counter() - between)
        plain.append(between - began)
    return statistics.median(plain) * 1e6, statistics.median(walled) * 1e6


def show_wall(root: Path) -> None:
    """The table of opens."""
    print("| an open and its close | plain, µs | wall, µs | more, µs |\n|---|---|---|---|")
    for kernel in (True, False):
        with Workspace(str(root), kernel=kernel) as workspace:
            for path in ("big.py", "pkg0/mod0/file0.py"):
                plain, walled = wall(workspace, path)
                way = "openat2" if kernel else "descriptor walk"
                print(f"| {way}, {path.count('/') + 1} deep | {plain:.1f} | {walled:.1f} | {walled - plain:.1f} |")


def show_tools(root: Path, tools: Tools) -> None:
    """The table of calls."""
    loop = asyncio.new_event_loop()

    def call(module: Any, **arguments: Any) -> None:
        loop.run_until_complete(tools.call(module, **arguments))

    small = "pkg0/mod1/file1.py"

    def both_ways(path: str, old: str) -> Callable[[int], None]:
        return lambda n: call(apply_patch, path=path, old_text=old + "!" * (n % 2), new_text=old + "!" * (1 - n % 2))

    def envelope(n: int) -> None:
        here, there = ("", "!") if n % 2 == 0 else ("!", "")
        lines = [f"*** Update File: pkg1/mod2/file{k}.py\n@@\n-# end{here}\n+# end{there}\n" for k in range(10)]
        call(apply_patch, patch="*** Begin Patch\n" + "".join(lines) + "*** End Patch")

    for k in range(10):
        with open(root / f"pkg1/mod2/file{k}.py", "a") as file:
            file.write("# end\n")
    (root / small).write_text("unique line here\n" + LINE.format(1) * 9)
    big = (root / "big.py").read_text()
    middle = big[len(big) // 2 : len(big) // 2 + 300].split("\n")[1]
    end = "*** End Patch"
    print("\n| call | time |\n|---|---|")
    rows: list[tuple[str, Callable[[int], None], int]] = [
        ("read a small file", lambda n: call(read_file, path=small), 300),
        ("write a small file", lambda n: call(write_file, path=small, content=f"unique line here\n{n}\n"), 100),
        ("patch a small file", both_ways(small, "unique line here"), 100),
        ("patch ten files as one", envelope, 50),
        ("read 4 MiB, its beginning", lambda n: call(read_file, path="big.py"), 20),
        ("read 4 MiB, 100 lines of its end", lambda n: call(read_file, path="big.py", offset=60_000, limit=100), 20),
        ("patch 4 MiB, exact text", both_ways("big.py", middle), 10),
        (
            "patch 4 MiB, a hunk",
            lambda n: call(
                apply_patch, patch=f"*** Begin Patch\n*** Update File: big.py\n@@ {LINE.format(7)}+#{n}\n{end}"
            ),
            10,
        ),
        ("write 4 MiB", lambda n: call(write_file, path="big.py", content=big + f"# {n}\n"), 10),
        ("list the tree, 100 of its files", lambda n: call(list_files), 5),
        ("list one folder", lambda n: call(list_files, directory="pkg0/mod3"), 20),
        ("search the tree, rare text", lambda n: call(rg_search, query="handler_77777\\b"), 5),
        ("search the tree, text in every line", lambda n: call(rg_search, query="handler"), 5),
    ]
    try:
        for name, work, rounds in rows:
            print(f"| {name} | {timed(work, rounds)} |", flush=True)
    finally:
        loop.close()


def main() -> None:
    """Plants the tree, measures, prints."""
    files = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory() as base, Spill() as spill:
        root = Path(base, "work")
        root.mkdir()
        plant(root, max(files, 11_000))
        print(f"{max(files, 11_000)} files; Python {sys.version.split()[0]}, {sys.platform}\n")
        show_wall(root)
        with Workspace(str(root)) as workspace:
            show_tools(root, Tools(workspace, spill, os.path.join(base, "state")))


if __name__ == "__main__":
    main()
