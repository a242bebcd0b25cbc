"""Search: the query is only ever a regular expression, the answer is bounded and the same each time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.errors import PathError
from sluice.tools import rg_search, ripgrep


def lines(result: Any) -> list[str]:
    found: list[str] = result.content.splitlines()
    return found


def test_matches_come_back_by_path_and_line(bench: Any) -> None:
    (bench.root / "b").mkdir()
    (bench.root / "b/x.py").write_text("alpha\nneedle one\n\tneedle two\r\n")
    (bench.root / "a.py").write_text("needle\n")
    result = bench.call(rg_search, query="needle")
    assert lines(result) == ["a.py:1: needle", "b/x.py:2: needle one", "b/x.py:3: \tneedle two"]
    assert (result.ok, result.truncated, result.facts) == (
        True,
        False,
        {
            "matches": 3,
            "files": 2,
            "more": False,
            "places": [{"path": "a.py", "line": 1}, {"path": "b/x.py", "line": 2}, {"path": "b/x.py", "line": 3}],
        },
    )
    assert lines(bench.call(rg_search, query="needle", directory="b"))[0] == "b/x.py:2: needle one"


def test_no_match_is_ok(bench: Any) -> None:
    result = bench.call(rg_search, query="nowhere")
    assert (result.ok, result.content) == (True, "(no matches)")


def test_the_query_is_a_regular_expression(bench: Any) -> None:
    (bench.root / "f").write_text("foo(bar)\nfoobar\n")
    assert lines(bench.call(rg_search, query=r"o\(b")) == ["f:1: foo(bar)"]
    assert lines(bench.call(rg_search, query="(?i)^FOOB")) == ["f:2: foobar"]


@pytest.mark.parametrize(
    ("query", "said"),
    [("foo(", "unclosed group;"), ("ab[", "at position 2"), ("*", "repetition"), (r"a\nb", "not allowed")],
)
def test_a_broken_expression_is_explained(bench: Any, query: str, said: str) -> None:
    result = bench.call(rg_search, query=query)
    assert (result.ok, result.status, result.error.code, result.error.path) == (
        False,
        "failed",
        "invalid_regex",
        "$.query",
    )
    assert said in result.content
    assert "\n" not in result.content


@pytest.mark.parametrize("query", ["--pre=./evil", "-e", "--files", "--version", "-f/etc/passwd", "--", "-z"])
def test_a_query_is_never_an_option(bench: Any, query: str) -> None:
    evil = bench.root / "evil"
    evil.write_text("#!/bin/sh\ntouch ran\n")
    evil.chmod(0o755)
    (bench.root / "text").write_text(f"see {query} here\n")
    assert lines(bench.call(rg_search, query=query)) == [f"text:1: see {query} here"]
    assert not (bench.root / "ran").exists()


def test_a_configuration_file_is_not_read(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (bench.root / "rgc").write_text("--pre=./evil\n--invert-match\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(bench.root / "rgc"))
    assert lines(bench.call(rg_search, query="two")) == ["ok.txt:2: two"]


def test_a_program_of_the_workspace_is_not_run(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (bench.root / "rg").write_text("#!/bin/sh\ntouch ran\n")
    (bench.root / "rg").chmod(0o755)
    monkeypatch.setenv("PATH", f"{bench.root}:.:")
    monkeypatch.chdir(bench.root)
    assert "ok.txt:2: two" in bench.call(rg_search, query="two").content
    assert not (bench.root / "ran").exists()


def test_ignored_hidden_binary_and_linked_files(bench: Any, outside: Path) -> None:
    for name in ("ignored", ".hidden", ".git/config", "sub/.git/x"):
        (bench.root / name).parent.mkdir(parents=True, exist_ok=True)
        (bench.root / name).write_text("canary\n")
    (bench.root / "binary").write_bytes(b"\0\0canary\n")
    (bench.root / ".gitignore").write_text("ignored\n")
    (bench.root / "link").symlink_to(outside)
    (bench.root / "file").symlink_to(outside / "secret.txt")
    assert lines(bench.call(rg_search, query="canary")) == [".hidden:1: canary"]
    with pytest.raises(PathError):
        bench.call(rg_search, query="canary", directory="link")


def test_matches_are_bounded(bench: Any) -> None:
    (bench.root / "many").write_text("hit\n" * 1000)
    result = bench.call(rg_search, query="hit")
    assert lines(result)[:50] == [f"many:{n}: hit" for n in range(1, 51)]
    assert lines(result)[50:] == ["[more than 50 matches; the first are shown, narrow the query or the directory]"]
    assert (result.ok, result.truncated, result.facts["more"]) == (True, True, True)
    assert len(lines(bench.call(rg_search, query="hit", max_results=200))) == 201
    assert not bench.call(rg_search, query="t", directory=".", max_results=200).facts["files"] > 2


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ({"max_results": 0}, "$.max_results"),
        ({"max_results": 201}, "$.max_results"),
        ({"max_snippet_bytes": 401}, "$.max_snippet_bytes"),
        ({"max_snippet_bytes": -5}, "$.max_snippet_bytes"),
    ],
)
def test_numbers_out_of_range_are_refused(bench: Any, arguments: dict[str, int], path: str) -> None:
    result = bench.call(rg_search, query="x", **arguments)
    assert (result.status, result.error.code, result.error.path) == ("invalid", "invalid_arguments", path)


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("", "empty_query"),
        ("a\0b", "nul_in_query"),
        ("a\nb", "invalid_regex"),
        ("\ud800", "not_utf8"),
        ("x" * 10_000_000, "query_too_long"),
    ],
)
def test_a_query_that_cannot_be_one_is_refused(bench: Any, query: str, code: str) -> None:
    result = bench.call(rg_search, query=query)
    assert (result.ok, result.error.code, result.error.path) == (False, code, "$.query")
    assert len(result.content) < 300
    if "\n" in query:
        assert "line end" in result.content


def test_a_long_line_is_shown_around_its_match(bench: Any) -> None:
    (bench.root / "long").write_text("é" * 5000 + "NEEDLE" + "ü" * 5000 + "\n")
    for bound in (16, 160, 400):
        snippet = bench.call(rg_search, query="NEEDLE", max_snippet_bytes=bound).content.removeprefix("long:1: ")
        assert len(snippet.encode()) <= bound
        assert "NEEDLE" in snippet
        assert snippet[0] == snippet[-1] == "…"
        assert "\ufffd" not in snippet


@given(st.text(alphabet="aé😀\n", max_size=200), st.integers(0, 400), st.integers(16, 60))
def test_a_snippet_keeps_its_bound_and_cuts_between_characters(text: str, at: int, bound: int) -> None:
    got = rg_search._snippet(text.encode(), at, bound)
    assert len(got.encode()) <= bound
    assert "\ufffd" not in got or at
    assert "\n" not in got


def test_a_line_far_too_long_is_counted_not_kept(bench: Any) -> None:
    (bench.root / "huge").write_bytes(b"x" * 5_000_000 + b"NEEDLE\n")
    (bench.root / "zlast").write_bytes(b"NEEDLE\n")
    result = bench.call(rg_search, query="NEEDLE")
    assert lines(result) == ["huge: (a matching line too long to show)", "zlast:1: NEEDLE"]


def test_text_that_is_not_utf8_is_shown_with_marks(bench: Any) -> None:
    (bench.root / "latin").write_bytes(b"caf\xe9 NEEDLE\n")
    (bench.root / "wide").write_bytes("NEEDLE ü\n".encode("utf-16"))
    assert lines(bench.call(rg_search, query="NEEDLE")) == ["latin:1: caf\ufffd NEEDLE", "wide:1: NEEDLE ü"]


def test_output_bytes_are_bounded(bench: Any) -> None:
    (bench.root / "many").write_text(("hit " + "x" * 100 + "\n") * 300)
    bench.limits(max_tool_output_bytes=3000)
    result = bench.call(rg_search, query="hit", max_results=200)
    assert len(result.content.encode()) <= 3000
    assert result.truncated


def test_time_is_bounded(bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\nexec sleep 1000\n")
    slow.chmod(0o755)
    monkeypatch.setattr(ripgrep, "program", lambda root: str(slow))
    bench.limits(search_seconds=0.1)
    result = bench.call(rg_search, query="two")
    assert (result.ok, result.status, result.failure, result.timed_out) == (False, "timed_out", "retryable", True)


@pytest.mark.parametrize("directory", ["..", "/etc", "missing", "ok.txt", "a\0"])
def test_folders_that_are_none_are_refused_by_the_wall(bench: Any, directory: str) -> None:
    with pytest.raises(PathError):
        bench.call(rg_search, query="x", directory=directory)
