"""`test_project_safe`: real runners, and results beside their output."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from sluice.tools import test_project as tool

pytestmark = pytest.mark.parametrize("bench", ["openat2"], indirect=True)


def write(root: Path, name: str, text: str) -> None:
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)


def counts(result: Any) -> tuple[Any, ...]:
    return tuple(result.facts.get(key) for key in ("report", "passed", "failed", "skipped", "failing"))


def own_python(root: Path) -> None:
    """The Python of this test as the project's own, so that pytest is there."""
    write(root, ".venv/bin/python", f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (root / ".venv/bin/python").chmod(0o755)


def test_pytest(bench: Any) -> None:
    own_python(bench.root)
    write(bench.root, "pytest.ini", "[pytest]\naddopts = -p no:cacheprovider\n")
    write(bench.root, "test_it.py", "def test_good(): pass\ndef test_bad(): assert 0, 'because'\n")
    result = bench.call(tool)
    assert (result.ok, result.status, result.failure, result.exit_code) == (False, "failed", "needs_inspection", 1)
    assert counts(result) == ("pytest", 1, 1, 0, ["test_it.py::test_bad"])
    assert "[1 passed, 1 failed, 0 skipped: test_it.py::test_bad]" in result.content
    assert "because" in result.content
    write(bench.root, "test_it.py", "def test_good(): pass\n")
    result = bench.call(tool)
    assert (result.ok, counts(result)) == (True, ("pytest", 1, 0, 0, []))


def test_unittest(bench: Any) -> None:
    write(bench.root, "setup.py", "")
    body = (
        "import unittest\nclass T(unittest.TestCase):\n    def test_a(self): pass\n    def test_b(self): self.fail()\n"
    )
    write(bench.root, "test_it.py", body)
    result = bench.call(tool)
    assert (result.ok, counts(result)[:4]) == (False, ("unittest", 1, 1, 0))
    assert "test_b" in result.facts["failing"][0]


@pytest.mark.skipif(
    not shutil.which("node"), reason="node is not installed: its runner is tested by recorded text only"
)
def test_node(bench: Any) -> None:
    write(bench.root, "package.json", "{}")
    body = "const t = require('node:test'); t('good', () => {}); t('bad', () => { throw new Error('x') })\n"
    write(bench.root, "it.test.js", body)
    result = bench.call(tool)
    assert (result.ok, counts(result)[:3], "bad" in result.facts["failing"]) == (False, ("node", 1, 1), True)


@pytest.mark.skipif(not shutil.which("ctest"), reason="ctest is not installed: it is tested by recorded text only")
def test_cmake(bench: Any) -> None:
    lines = ["cmake_minimum_required(VERSION 3.20)", "project(x NONE)", "enable_testing()"]
    lines += ["add_test(NAME good COMMAND true)", "add_test(NAME bad COMMAND false)"]
    write(bench.root, "CMakeLists.txt", "\n".join(lines))
    result = bench.call(tool)
    assert (result.ok, counts(result)) == (False, ("ctest", 1, 1, 0, ["bad"]))
    assert "$ ctest --test-dir build --output-on-failure" in result.content


def test_the_output_of_a_script_is_read_whatever_runner_it_is(bench: Any) -> None:
    write(
        bench.root,
        "build.sh",
        "echo 'test a::b ... FAILED'; echo 'test result: FAILED. 4 passed; 1 failed; 0 ignored'; exit 1",
    )
    result = bench.call(tool)
    assert (result.facts["command"], counts(result)) == ("bash ./build.sh test", ("cargo", 4, 1, 0, ["a::b"]))
    write(bench.root, "build.sh", "echo fine")
    result = bench.call(tool)
    assert (result.ok, counts(result)) == (True, (None,) * 5)


def test_the_exit_status_decides_not_the_words(bench: Any) -> None:
    write(bench.root, "build.sh", "echo '3 passed in 0.1s'; exit 1")
    assert not bench.call(tool).ok
    write(bench.root, "build.sh", "echo '1 failed, 3 passed in 0.1s'")
    assert bench.call(tool).ok


def test_new_report_files_are_read_and_old_ones_are_not(bench: Any, outside: Path) -> None:
    case = "<testsuite><testcase classname='C' name='{}'><failure/></testcase></testsuite>"
    write(bench.root, "build/test-results/old.xml", case.format("old"))
    (bench.root / "junit.xml").symlink_to(outside / "secret.txt")
    write(bench.root, "build.sh", f'echo "{case.format("new")}" > build/test-results/new.xml; exit 1')
    assert counts(bench.call(tool)) == ("junit", 0, 1, 0, ["C.new"])


def test_control_characters_in_names_are_made_visible(bench: Any) -> None:
    text = r"printf 'test a\033]0;x\007 ... FAILED\ntest result: x. 0 passed; 1 failed; 0 ignored\n'; exit 1"
    write(bench.root, "build.sh", text)
    assert counts(bench.call(tool))[4] == ["a\\x1b]0;x\\x07"]


def test_a_run_that_takes_too_long_is_retryable(bench: Any) -> None:
    write(bench.root, "build.sh", "echo 'test a ... FAILED'; sleep 1000\n")
    result = bench.call(tool, timeout_ms=200)
    assert (result.status, result.failure, result.timed_out) == ("timed_out", "retryable", True)
