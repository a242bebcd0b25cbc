"""A folder exchanged for a link to the outside, all the time, while every file tool works in it: how many calls escape?

    python bench/race.py [calls a tool] [--walk]

Another process swaps `work/d` and `work/link` (which leads outside) as fast as it can. Each file tool is called on a path
below `d`, through the real executor. After every call its answer is searched for the outside's canary, and at the end the
outside is compared byte for byte. A naive opener (resolve, compare, open) runs beside it as the positive control: it must
escape, else the race was not there.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import ctypes
import json
import multiprocessing
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from sluice.limits import DEFAULT_LIMITS
from sluice.tools.builtin import default_tools
from sluice.tools.registry import Executor, Registry, ToolContext
from sluice.tools.seen import SeenFiles
from sluice.tools.spill import Spill
from sluice.tools.workspace import Workspace
from sluice.values.calls import AllowedCall, CallKey, Verdict, call_digest
from sluice.values.results import ToolResult

CANARY = "SECRET-canary"
INSIDE = "inside\n"
_EXCHANGE = 2
_HERE = -100


def swap(work: str) -> None:
    """Exchanges `d` and `link` until it is ended, or its starter is gone."""
    rename = ctypes.CDLL(None, use_errno=True).renameat2
    here, there = os.fsencode(f"{work}/d"), os.fsencode(f"{work}/link")
    parent = os.getppid()
    while os.getppid() == parent:
        for _ in range(200):
            rename(_HERE, here, _HERE, there, _EXCHANGE)


def naive(work: str) -> str:
    """What many agents do: resolve, compare, open."""
    try:
        path = os.path.realpath(f"{work}/d/f.txt")
        if not path.startswith(work + "/"):
            return ""
        return Path(f"{work}/d/f.txt").read_text()
    except OSError:
        return ""


def arguments_of(tool: str, number: int) -> dict[str, Any]:
    """A call of `tool` whose path leads through the swapped folder."""
    new = f"d/n{number % 50}.txt"
    if tool == "read_file_safe":
        return {"path": "d/f.txt"}
    if tool == "list_files_bounded":
        return {"directory": "d"}
    if tool == "rg_search":
        return {"query": "SECRET|inside", "directory": "d"}
    if tool == "write_file_safe":
        return {"path": "d/f.txt" if number % 2 else new, "content": f"{INSIDE}{number}\n"}
    if number % 3 == 0:
        return {"path": "d/f.txt", "old_text": "inside", "new_text": "inside "}
    if number % 3 == 1:
        return {"patch": f"*** Begin Patch\n*** Add File: d/p{number}.txt\n+x\n*** End Patch"}
    several = f"*** Update File: d/f.txt\n*** Move to: d/p{number}\n@@\n+x\n*** Add File: d/f.txt\n+inside"
    return {"patch": f"*** Begin Patch\n{several}\n*** End Patch"}


class Race:
    """The lab: a workspace, an outside, and the executor over them."""

    def __init__(self, base: str, spill: Spill, kernel: bool) -> None:
        self.work, self.out = f"{base}/work", f"{base}/out"
        os.makedirs(f"{self.work}/d")
        os.makedirs(self.out)
        self.restore()
        for name in ("f.txt", "g.txt", *(f"n{n}.txt" for n in range(50))):
            Path(self.out, name).write_text(CANARY)
        os.symlink(self.out, f"{self.work}/link")
        self.before = self.outside()
        self.workspace = Workspace(self.work, kernel=kernel)
        self.seen = SeenFiles()
        self.executor = Executor(
            Registry(default_tools()),
            lambda cancel: ToolContext(self.workspace, DEFAULT_LIMITS, None, self.seen, cancel, spill),
        )

    def restore(self) -> None:
        """Puts the file that is read back in its place, whichever of the two names the folder has now."""
        for name in ("d", "link"):
            folder = f"{self.work}/{name}"
            try:
                fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            except OSError:
                continue
            try:
                made = os.open("f.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o644, dir_fd=fd)
                os.write(made, INSIDE.encode())
                os.close(made)
                for old in os.listdir(fd):
                    if old.startswith("p"):
                        os.unlink(old, dir_fd=fd)
            finally:
                os.close(fd)

    def outside(self) -> dict[str, bytes]:
        """The outside, byte for byte."""
        return {p.name: p.read_bytes() for p in Path(self.out).iterdir()}

    async def call(self, tool: str, number: int) -> ToolResult:
        """One call of a tool through the executor."""
        text = json.dumps(arguments_of(tool, number))
        verdict = Verdict(key=CallKey("race", 1, 0), digest=call_digest(tool, text), decision="allow", rule="bench")
        call = AllowedCall(key=verdict.key, tool=tool, arguments=text, verdict=verdict)
        return await self.executor.run(call, asyncio.Event())


async def run(race: Race, tool: str, calls: int) -> tuple[int, collections.Counter[str]]:
    """How many of `calls` showed or changed the outside, and what they came to."""
    escapes, answers = 0, collections.Counter[str]()
    for number in range(calls):
        if number % 20 == 0:
            race.restore()
        result = await race.call(tool, number)
        shown = result.content + json.dumps(result.facts)
        escapes += CANARY in shown
        answers["ok" if result.error is None else result.error.code] += 1
        if number % 1000 == 999:
            escapes += race.outside() != race.before
    return escapes + (race.outside() != race.before), answers


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("calls", nargs="?", type=int, default=2_000)
    parser.add_argument("--walk", action="store_true", help="the descriptor walk instead of openat2")
    parser.add_argument("--tools", default="read_file_safe,write_file_safe,apply_patch,list_files_bounded,rg_search")
    options = parser.parse_args()
    if sys.platform != "linux":
        print("exchanging two names at once is Linux's")
        return 0
    total = control = 0
    with tempfile.TemporaryDirectory() as base, Spill() as spill:
        race = Race(base, spill, not options.walk)
        attacker = multiprocessing.Process(target=swap, args=(race.work,))
        attacker.start()
        try:
            control = tried = 0
            while tried < 20_000 or (not control and tried < 1_000_000):
                tried += 1
                control += naive(race.work) == CANARY
            print(f"naive opener (control): {tried} calls, {control} escapes", flush=True)
            for tool in options.tools.split(","):
                race.seen = SeenFiles()
                began = time.perf_counter()
                escapes, answers = asyncio.run(run(race, tool, options.calls))
                total += escapes
                took = time.perf_counter() - began
                print(f"{tool}: {options.calls} calls, {escapes} escapes, {took:.0f} s, {dict(answers)}", flush=True)
        finally:
            attacker.terminate()  # an event would need /dev/shm, which not every container has
            attacker.join()
            race.workspace.close()
    return 1 if total or not control else 0


if __name__ == "__main__":
    sys.exit(main())
