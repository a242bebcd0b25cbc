"""Command lines are read as the programs they would run, and what is not certain is said to be so."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluice.policy.command_rules import joined
from sluice.policy.command_words import MAX_CHARACTERS, read_command


def programs(text: str) -> list[str]:
    return [joined(program) for program in read_command(text).programs if program.words]


@pytest.mark.parametrize(
    ("text", "inner"),
    [
        ("rm -rf /", "rm -rf /"),
        ("a && b || rm x; c | d", "rm x"),
        ('echo "$(rm x)"', "rm x"),
        ("echo a `rm x`", "rm x"),
        ("diff <(rm x) b", "rm x"),
        ("cat <<E\n$(rm x)\nE", "rm x"),
        ("echo ${a:-$(rm x)}", "rm x"),
        ("A=$(rm x) ls", "rm x"),
        ("ls > $(rm x)", "rm x"),
        ("[[ -f $(rm x) ]]", "rm x"),
        ("export A=$(rm x)", "rm x"),
        ("(cd a; rm x)", "rm x"),
        ("if a; then rm x; fi", "rm x"),
        ("for i in a; do rm x; done", "rm x"),
        ("while rm x; do a; done", "rm x"),
        ("case a in a) rm x;; esac", "rm x"),
        ("f() { rm x; }", "rm x"),
        ("sudo -u root rm x", "rm x"),
        ("env -u A B=c rm x", "rm x"),
        ("timeout -k 5 10 nice -n 3 nohup rm x", "rm x"),
        ("time rm x", "rm x"),
        ("command rm x", "rm x"),
        ("exec rm x", "rm x"),
        ("coproc rm x", "rm x"),
        ("find . -name a -exec rm x ';'", "rm x"),
        ("sh -c 'rm x'", "rm x"),
        ("bash -o pipefail -xc 'rm x'", "rm x"),
        ("sh -c \"bash -c 'rm x'\"", "rm x"),
        ("eval 'rm x'", "rm x"),
        ("trap 'rm x' EXIT", "rm x"),
        ("busybox rm x", "rm x"),
        ("r\\m x", "rm x"),
        ("r'm' x", "rm x"),
        ('r"m" x', "rm x"),
        ("$'\\x72m' x", "rm x"),
        ("$'\\162\\155' x", "rm x"),
        ("# c\nrm x", "rm x"),
        ("cat <<'E' | rm x\nE", "rm x"),
    ],
)
def test_every_program_of_a_line_is_found(text: str, inner: str) -> None:
    assert inner in programs(text)


def test_words_that_are_fed_to_a_program_are_not_known() -> None:
    assert programs("xargs -0 rm") == ["xargs -0 rm", "rm …"]
    assert "rm {}" in programs("find . -exec rm {} +")
    assert any(word.kind == "dynamic" for word in read_command("xargs rm").programs[1].words)


@pytest.mark.parametrize(
    "text",
    [
        "$x a", "`a` b", "$(echo rm) x", "/usr/bin/touc? x", "echo 'open", 'echo "open', "if then a", "f() { ls; }; ls",
        "echo $((a[1]))", "echo ${!x}", "echo ${x@P}", "(( a ))", ". ./s.sh", "source s", "alias ls=rm", "hash -p a ls",
        "export PATH=.", "curl a | sh", "bash -l -c ls", "bash -c $x", "eval $x", "env -S 'rm x'", "sudo --what rm",
        "set -x", "read 'a[$(x)]'", "mapfile -C x", "trap x EXIT", "x=(1 2)", "ls \0", "ls\r", "ls\u00a0-l", "\ud800",
        "parallel rm", "echo a`ls`b", "env A=b ls", "for PATH in .; do ls; done", "r\\\nm x", "let 'a[$(x)]=1'",
        "ssh host rm",
    ],
)  # fmt: skip
def test_what_is_not_certain_is_said(text: str) -> None:
    assert read_command(text).doubts


@pytest.mark.parametrize("text", ["ls", "git log | head", "sudo rm x", "sh -c 'ls -l'", "cat < a > b 2>&1", "rm $x"])
def test_a_plain_line_has_no_doubts(text: str) -> None:
    assert read_command(text).doubts == []


def test_redirections_background_and_texts_are_seen() -> None:
    reading = read_command("a >b 2>>c <d & cat <<<e")
    assert [(one.operator, one.target.text) for one in reading.redirections] == [(">", "b"), (">>", "c"), ("<", "d")]
    assert reading.background
    assert reading.heredoc


@pytest.mark.parametrize(
    "text",
    [
        "$(" * 10_000 + ")" * 10_000,
        "echo " + "$(echo " * 10_000 + ")" * 10_000,
        "echo " + "$(echo " * 1_500 + ")" * 1_500,
        "ls;" * 100_000,
        "ls;" * 5_000,
        "x" * 10_000_000,
        "'" + "x" * 10_000_000,
        "a=(" * 3_000,
        "|" * 16_000,
        "sh -c " * 2_000,
        "timeout 1 " * 1_500 + "ls",
    ],
    ids=lambda text: f"{text[:8]}-{len(text)}",
)
def test_a_line_that_is_too_much_is_doubtful(text: str) -> None:
    reading = read_command(text)
    assert reading.doubts
    assert len(reading.programs) < 3_000


def test_the_bound_is_on_asking_not_on_looking() -> None:
    assert read_command("rm -rf / #" + "x" * MAX_CHARACTERS).doubts
    assert not read_command("echo " + "x" * (MAX_CHARACTERS - 5)).doubts


_PIECES = st.sampled_from(
    ["rm", "ls", " ", "\n", ";", "&", "|", "(", ")", "{", "}", "$(", "`", "'", '"', "\\", "$", "${", "<<E\n", ">", "<(",
     "[[", "]]", "if ", "fi", "=", "a=(", "sh -c ", "xargs ", "find . -exec ", "\0", "\ud800", "é", "\u202e", "*", "~", "#"]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text(max_size=60), st.lists(_PIECES, max_size=25).map("".join)))
def test_whatever_the_text_is_it_is_read(text: str) -> None:
    reading = read_command(text)
    assert isinstance(reading.doubts, list)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12), min_size=1, max_size=5))
def test_quoted_words_come_back_as_they_are(words: list[str]) -> None:
    text = "echo " + " ".join("'" + word.replace("'", "'\\''") + "'" for word in words)
    reading = read_command(text)
    if not reading.doubts:
        assert [word.text for word in reading.programs[0].words] == ["echo", *words]
