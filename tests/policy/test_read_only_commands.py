"""What is spared a question reads only: against tables of the world's tricks, and against the real programs."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.policy.command_words import read_command
from sluice.policy.read_only_commands import known_read_only


def spared(text: str) -> bool:
    return known_read_only(text, read_command(text))


@pytest.mark.parametrize(
    "text",
    [
        "ls -la src", "cat a b | sort | uniq -c | sort -rn | head -20", "grep -rn 'def f' src --include='*.py'",
        "rg -n 'a|b' src 2>/dev/null | wc -l", "find . -name '*.py' -type f", "sed -n '1,5p' a.txt", "pwd && ls",
        "timeout 5 ls", "ls src/*.py", "diff -u a b", "tail -n +3 f", "echo 'rm -rf /'", "cd src; ls",
        "/bin/ls", "git --version", "uniq a", "date -u +%F", "ls > /dev/null 2>&1", "printf '%s\\n' a",
    ],
)  # fmt: skip
def test_these_are_spared(text: str) -> None:
    assert spared(text)


@pytest.mark.parametrize(
    "text",
    [
        "uniq in out", "uniq -c in out", "sort -o f f", "sort --output=f f", "sort --outp=f f", "sort -T d f",
        "sort --compress-program=x f", "sed -n '1e x' f", "sed -n 's/a/b/w f' g", "sed -i s/a/b/ f", "sed -n 1p -i f",
        "sed 'w f' g", "find . -delete", "find . -exec rm {} ';'", "find . -fprint f", "find . -fls f", "find . -ok x ';'",
        "rg --pre x f", "rg --pre=x f", "rg -z f", "rg --search-zip f", "rg --hostname-bin x f", "awk 1 f",
        "git diff", "git diff --no-index a b", "git diff --output=f", "git diff --ext-diff", "git status", "git log",
        "git -c a.b=c status", "git branch -D x", "env ls", "PATH=. ls", "LD_PRELOAD=x ls", "ls > f", "ls >> f", "ls &",
        "ls & ls", "echo > /dev/tcp/a/1", "tee f", "xxd -r a b", "file -C -m f", "date -s 1", "hostname x", "base64 -o f",
        "cat /etc/passwd", "cat ../x", "cat ~/x", "ls a/../../b", "sort *", "cat -- *", "uniq *", "tail -f f", "tree -o f",
        "./ls", "a/ls", "LS", "ls $x", "ls $(x)", "xargs ls", "ls; x", "ls\nx", "x | ls", "(ls)", "{ ls; }", "! ls",
        "if ls; then ls; fi", "printf -v x y", "cat <<E\nE", "cat <<<a", "ls #", "ls \\\n-l", "time -o f ls",
        "bash -c 'ls -l'", "nice -n 5 x",
        "hash -p x ls; ls", "alias ls=x\nls", "cd -P / ; ls", "cd ..", "wc --files0-from=f", "echo a=b | sh", "", "\n", "#",
        "ls ''\"$x\"", "ls {a,b}", "date -f f", "rg -f /etc/passwd x", "grep -f/etc/passwd x",
    ],
)  # fmt: skip
def test_these_are_not(text: str) -> None:
    assert not spared(text)


STATED_RATE = 0.7  # of the known-safe commands of the vectors; docs/tools.md says so too


def _lines(shared: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (shared / "vectors/shell" / name).read_text().splitlines()]


def _line(argv: list[str]) -> str:
    """What our shell tool would be given for it: the text of `bash -lc TEXT`, else the words, quoted."""
    return argv[2] if argv[:2] in (["bash", "-lc"], ["zsh", "-lc"]) and len(argv) == 3 else shlex.join(argv)


def test_no_trick_of_the_vectors_is_spared(shared: Path) -> None:
    cases = _lines(shared, "bypass.jsonl")
    harmful = [case for case in cases if case["verified_here"] in ("WRITE", "EXEC")]
    assert len(harmful) > 40
    for case in cases:
        text = case["command_bash_escaped"]
        for form in (text, text.replace('\\"', '"').replace("\\$", "$").replace("\\\\", "\\")):
            for filled in (form, form.replace("$M", "m").replace("$O", "o").replace("$L", "l")):
                if case in harmful:
                    assert not spared(filled), case


def test_nothing_dangerous_of_the_vectors_is_spared(shared: Path) -> None:
    for case in _lines(shared, "codex_dangerous_commands.jsonl"):
        if case["expect"].startswith("dangerous"):
            assert not spared(_line(case["argv"])), case
    for case in _lines(shared, "openhands_risk.jsonl"):
        if case["expect"] in ("risk_high", "risk_medium"):
            assert not spared(case["command"]), case
    for case in _lines(shared, "roo_substitution.jsonl"):
        if case["expect"] in ("dangerous_substitution", "ask_user"):
            assert not spared(case["command"]), case
    for case in _lines(shared, "codex_safe_commands.jsonl"):
        if case["expect"] == "needs_approval" and case["argv"][0] not in (
            "numfmt",
            "tac",
        ):  # these depend on the system
            assert not spared(_line(case["argv"])), case


def test_dangerous_programs_are_found_by_the_reader(shared: Path) -> None:
    """Each forced `rm` of the vectors is among the programs of its line, whatever it is wrapped in."""
    for case in _lines(shared, "codex_dangerous_commands.jsonl"):
        if case["expect"].startswith("dangerous"):
            reading = read_command(_line(case["argv"]))
            assert any(program.name == "rm" for program in reading.programs), case


def test_the_rate_of_known_safe_commands_that_are_spared(shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    safe = [
        _line(case["argv"]) for case in _lines(shared, "codex_safe_commands.jsonl") if case["expect"] == "auto_safe"
    ]
    asked = [text for text in safe if not spared(text)]
    with capsys.disabled():
        print(f"\nspared {len(safe) - len(asked)} of {len(safe)} known-safe commands; asked about: {'; '.join(asked)}")
    assert all("git" in text for text in asked), "only what a repository's configuration can change is asked about"
    assert len(safe) - len(asked) >= len(safe) * STATED_RATE


_WORDS = st.sampled_from(
    ["ls", "cat", "sort", "-o", "uniq", "f", "g", "|", ";", "&&", ">", "2>/dev/null", "'a b'", "$x", "$(x)", "*", "--",
     "-rf", "rm", "&", "\n", "timeout", "5", "sh", "-c", "'rm x'", "find", "-delete", ".", "echo", "tee", "#", "{", "}",
     "!", "A=1"]
)  # fmt: skip
_SAFE = {"ls", "cat", "sort", "uniq", "timeout", "find", "echo", "sh"}


@settings(max_examples=400, deadline=None)
@given(st.lists(_WORDS, max_size=9))
def test_a_spared_line_names_only_programs_of_the_list(words: list[str]) -> None:
    text = " ".join(words)
    if spared(text):
        reading = read_command(text)
        assert {program.name for program in reading.programs} <= _SAFE
        assert not {"sort", "-o"} <= set(words) or "echo" in words or "ls" in words
        assert not set(words) & {">", "&", "$x", "$(x)", "{", "!"}


def test_why_git_is_asked_about(tmp_path: Path) -> None:
    """A repository's own configuration names a program, and looking at its state starts it."""
    git = shutil.which("git")
    if git is None:
        pytest.skip("there is no git here")
    spy = tmp_path / "spy"
    spy.write_text("#!/bin/sh\n: > ran\n")
    spy.chmod(0o700)
    for words in (["init", "--quiet"], ["config", "core.fsmonitor", str(spy)], ["status"]):
        subprocess.run([git, *words], cwd=tmp_path, check=True, capture_output=True, timeout=30)
    assert (tmp_path / "ran").exists()
    assert not spared("git status")
