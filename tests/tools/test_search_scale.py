"""Searching and listing where there is much: 100,000 files, 10^6 matches, expressions that blow up."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sluice.limits import DEFAULT_LIMITS
from sluice.tools import git_status, list_files, rg_search
from sluice.tools.workspace import Workspace

pytestmark = pytest.mark.parametrize("bench", ["openat2"], indirect=True)
FOLDERS, FILES = 100, 1000


@pytest.fixture(scope="module")
def big_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """100,000 empty files, of which every tenth is ignored, and one with a million matching lines."""
    root = tmp_path_factory.mktemp("big")
    for folder in range(FOLDERS):
        at = root / f"d{folder:03}"
        at.mkdir()
        fd = os.open(at, os.O_RDONLY)
        try:
            for number in range(FILES):
                name = f"f{number:04}.{'log' if number % 10 == 0 else 'py'}"
                os.close(os.open(name, os.O_CREAT | os.O_WRONLY, 0o644, dir_fd=fd))
        finally:
            os.close(fd)
    (root / ".gitignore").write_text("*.log\n")
    (root / "d050/f0001.py").write_bytes(b"needle in line\n" * 1_000_000)
    (root / "d099/f0999.py").write_bytes(b"the last one\n")
    return root


@pytest.fixture
def big(bench: Any, big_tree: Path, outside: Path) -> Iterator[Any]:
    bench.workspace.close()
    bench.context.workspace = bench.workspace = Workspace(str(big_tree))
    (big_tree / "away").symlink_to(outside)
    yield bench
    (big_tree / "away").unlink()


def test_a_listing_of_many_is_exact_and_bounded(big: Any) -> None:
    result = big.call(list_files, extensions=["py"], max_results=500)
    assert (result.ok, result.truncated, result.facts) == (True, True, {"total": 90_000, "shown": 500})
    assert result.content.startswith("d000/f0001.py\nd000/f0002.py\n")
    assert len(result.content.encode()) <= DEFAULT_LIMITS.max_tool_output_bytes
    assert big.call(list_files, extensions=["log"]).facts["total"] == 0
    assert big.call(list_files, directory="d007").facts["total"] == 900


def test_a_million_matches_are_bounded(big: Any) -> None:
    result = big.call(rg_search, query="needle", max_results=200)
    assert (result.ok, result.truncated, result.facts["matches"], result.facts["more"]) == (True, True, 200, True)
    assert result.facts["places"][:2] == [{"path": "d050/f0001.py", "line": n} for n in (1, 2)]
    assert len(result.content.encode()) <= DEFAULT_LIMITS.max_tool_output_bytes


def test_the_last_file_of_many_is_found_and_nothing_behind_a_link(big: Any) -> None:
    assert big.call(rg_search, query="the last one").content == "d099/f0999.py:1: the last one"
    assert big.call(rg_search, query="SECRET").content == "(no matches)"


@pytest.mark.parametrize("query", ["((((a{99}){99}){99}){99}){99}", "(?s:.{0,1000}){1000}z"])
def test_an_expression_that_blows_up_is_refused(big: Any, query: str) -> None:
    result = big.call(rg_search, query=query)
    assert (result.ok, result.error.code, result.error.path) == (False, "invalid_regex", "$.query")


@pytest.mark.parametrize("query", ["(n+)+(e+)+$x", "(a{1000}){1000}", "(.*)*(.*)*zz", "^(([a-z])+.)+[A-Z]([a-z])+$"])
def test_an_expression_that_never_ends_elsewhere_ends_here(big: Any, query: str) -> None:
    big.limits(search_seconds=15.0)
    result = big.call(rg_search, query=query, directory="d050")
    assert result.status in ("ok", "timed_out")
    assert result.facts["matches"] == 0


def test_time_is_bounded_where_there_is_much(big: Any) -> None:
    big.limits(search_seconds=0.02)
    for module, arguments in ((rg_search, {"query": "no such thing"}), (list_files, {})):
        result = big.call(module, **arguments)
        assert (result.status, result.failure, result.truncated) == ("timed_out", "retryable", True), module.NAME
    assert big.call(git_status).error.code == "not_a_repository"
