"""Takes guards away, one at a time and in a copy of the tree, and looks whether a test turns red. For the tables beside it.

Not part of the suite, which only looks that every guard is still where its table says (`tests/test_guards.py`).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
_LEFT_OUT = shutil.ignore_patterns(".git", ".venv*", "build", "__pycache__", ".hypothesis", ".*_cache")


class Guard(NamedTuple):
    """A guard: its file below the root, its text, what stands there without it, and the tests that must notice.

    `select` narrows the tests by their names, as `-k` does. With `every` each place that holds the text is changed, else
    the first.
    """

    file: str
    text: str
    without: str
    tests: Sequence[str]
    select: str = ""
    every: bool = False


def removed(guard: Guard, tree: Path, environment: Mapping[str, str] | None = None) -> str:
    """`red`, `GREEN` (nothing noticed it), `BROKEN` (the tests could not run) or `GONE` (it is not where it was)."""
    path = tree / guard.file
    source = path.read_text("utf-8")
    if guard.text not in source:
        return "GONE"
    path.write_text(source.replace(guard.text, guard.without, -1 if guard.every else 1), "utf-8")
    words = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--timeout=30"]
    words += [f"--rootdir={tree}", f"--basetemp={tree.parent / 'base'}", *guard.tests]
    words += ["-k", guard.select] if guard.select else []
    shared = os.environ.get("SLUICE_SHARED", str(ROOT.parent / "shared"))
    given = {**os.environ, "PYTHONPATH": str(tree / "src"), "SLUICE_SHARED": shared, **(environment or {})}
    try:
        code = subprocess.run(words, cwd=tree, env=given, capture_output=True, timeout=600).returncode
    finally:
        path.write_text(source, "utf-8")
    return {0: "GREEN", 1: "red"}.get(code, "BROKEN")


def main(
    guards: Mapping[str, Guard],
    *,
    environment: Mapping[str, str] | None = None,
    after: Callable[[], None] = lambda: None,
) -> int:
    """Tries the guards whose names hold a word of the command line, all without one; `after` is called behind each.

    Prints a line a guard. Returns 1 if one could be removed unnoticed, or is gone; 2 if the tests are red with all of them.
    """
    wanted = sys.argv[1:]
    chosen = {name: one for name, one in guards.items() if not wanted or any(word in name for word in wanted)}
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        shutil.copytree(ROOT, tree, ignore=_LEFT_OUT)
        for one in list(chosen.values())[:1]:
            tests = sorted({test for guard in chosen.values() for test in guard.tests})
            came = removed(one._replace(without=one.text, tests=tests, select=""), tree, environment)
            after()
            if came != "GREEN":
                print(f"without any change the tests are {came}")
                return 2
        for name, guard in chosen.items():
            came = removed(guard, tree, environment)
            after()
            wrong += came != "red"
            print(f"{came:<6}  {name}", flush=True)
    print(f"{len(chosen) - wrong} of {len(chosen)} guards have a test that fails without them")
    return 1 if wrong else 0
