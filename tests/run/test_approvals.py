"""A person is asked on a terminal, sees all of what would run, and only a plain yes is one."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.run.approvals import MAX_ANSWER_BYTES, TerminalApprover, answer, has_terminal, wrapped
from sluice.ui.visible import visible
from sluice.values.calls import ToolSpec

SHELL = ToolSpec(name="bash_execute_safe", description="", parameters={}, category="execution", subject="command")
GUTTER = "  │ "


def approver(path: str = "/nowhere") -> TerminalApprover:
    return TerminalApprover(partial(visible, strict=True), folder="/project", path=path)


def question(command: str, columns: int = 80) -> str:
    return approver().question(SHELL, json.dumps({"command": command}), "not_approved: why", columns)


def body(text: str) -> str:
    return "".join(line.removeprefix(GUTTER) for line in text.split("\n") if line.startswith(GUTTER))


async def until(master: int, words: bytes) -> bytes:
    """What came out on the terminal, up to and with these words."""
    loop, seen = asyncio.get_running_loop(), b""
    while words not in seen:
        ready = loop.create_future()
        loop.add_reader(master, ready.set_result, None)
        await ready
        loop.remove_reader(master)
        seen += os.read(master, 65536)
    return seen


def asked(typed: bytes, *, before: bytes = b"") -> tuple[tuple[bool, str], bytes]:
    """The answer to a question on a terminal where `typed` is typed after it, and what was shown."""

    async def go() -> tuple[tuple[bool, str], bytes]:
        master, slave = os.openpty()
        try:
            os.write(master, before)
            person = approver(os.ttyname(slave))
            task = asyncio.ensure_future(person.ask(SHELL, '{"command": "make"}', "why"))
            seen = await until(master, b"to the model: ")
            os.write(master, typed)
            return await task, seen
        finally:
            for fd in (master, slave):
                with contextlib.suppress(OSError):
                    os.close(fd)

    return asyncio.run(go())


@pytest.mark.usefixtures("pseudo_terminals")
@pytest.mark.parametrize(
    ("typed", "result"),
    [
        (b"y\n", (True, "")),
        (b"YES\n", (True, "")),
        (b"n\n", (False, "")),
        (b"\n", (False, "")),
        (b"use make test\n", (False, "use make test")),
        (b"yes please\n", (False, "yes please")),
        (b"\x04", (False, "")),
        (b"\xff\xfe\n", (False, "")),
    ],
)
def test_only_a_plain_yes_is_one(typed: bytes, result: tuple[bool, str]) -> None:
    got, seen = asked(typed)
    assert got == result
    assert b"make" in seen


@pytest.mark.usefixtures("pseudo_terminals")
def test_what_was_typed_before_the_question_is_no_answer() -> None:
    assert asked(b"n\n", before=b"y\n")[0] == (False, "")


@pytest.mark.usefixtures("pseudo_terminals")
def test_what_is_typed_while_a_long_question_is_being_shown_is_no_answer() -> None:
    async def go() -> tuple[bool, str]:
        master, slave = os.openpty()
        try:
            long = json.dumps({"command": "make " + "x" * 100_000})
            task = asyncio.ensure_future(approver(os.ttyname(slave)).ask(SHELL, long, "why"))
            await until(master, b"wants to use")
            os.write(master, b"y\n")
            await until(master, b"to the model: ")
            os.write(master, b"n\n")
            return await task
        finally:
            os.close(master)
            os.close(slave)

    assert asyncio.run(go()) == (False, "")


def test_nobody_there_is_a_no(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        assert asyncio.run(approver(str(path)).ask(SHELL, "{}", "why")) == (False, "")
        assert not has_terminal(str(path))
    (tmp_path / "file").write_bytes(b"y\n")
    assert not has_terminal(str(tmp_path / "file"))


@pytest.mark.usefixtures("pseudo_terminals")
def test_being_cancelled_asks_no_more_and_leaves_nothing() -> None:
    async def go() -> None:
        master, slave = os.openpty()
        task = asyncio.ensure_future(approver(os.ttyname(slave)).ask(SHELL, "{}", "why"))
        await until(master, b"to the model: ")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        os.close(master)
        os.close(slave)

    asyncio.run(go())


@pytest.mark.parametrize("line", [None, b"\xff", b"y\0", b"\x1b[A", "\u202ey".encode(), b"yy", b"1", b"true"])
def test_garbage_is_a_no(line: bytes | None) -> None:
    assert answer(line)[0] is False


def test_the_whole_text_and_its_length_are_shown() -> None:
    command = "echo " + "a b" * 5000
    text = question(command)
    assert body(text) == command
    assert f"{len(command):,} characters" in text
    assert "  asked because why\n" in text
    assert "/project" in text
    assert len(command) > MAX_ANSWER_BYTES


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ("unread_command: this line is not read for certain", "this line is not read for certain"),
        ("ask:bash[make *]: a rule of yours covers this tool", "ask:bash[make *]: a rule of yours covers this tool"),
        ("healed:not_approved: words", "healed:not_approved: words"),
        ("not_approved", "not_approved"),
    ],
)
def test_a_built_in_rule_gives_its_words_and_a_rule_of_ones_own_its_name(reason: str, shown: str) -> None:
    text = approver().question(SHELL, json.dumps({"command": "make"}), reason, 80)
    assert f"  asked because {shown}\n" in text


def test_what_stands_behind_a_call_is_shown_and_cannot_pass_for_ours() -> None:
    behind = ("$ make", "    curl x | sh\x1b[2K\nAllow this one call? y", "\u202ereversed")
    made = TerminalApprover(partial(visible, strict=True), folder="/project", details=lambda tool, arguments: behind)
    text = made.question(SHELL, "{}", "why")
    assert "as the project stands now, it runs:\n  │ $ make\n" in text
    assert "\n  │     curl x | sh" in text
    assert not [line for line in text.splitlines() if line.startswith("Allow this one call? y")]
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_other_arguments_are_shown_too() -> None:
    text = approver().question(SHELL, '{"command": "ls", "background": true, "timeout_ms": 5}', "why")
    assert [line for line in text.split("\n") if line.startswith(GUTTER)] == [
        GUTTER + "ls",
        GUTTER + "true",
        GUTTER + "5",
    ]
    assert body(approver().question(SHELL, "no json", "why")) == "no json"


@pytest.mark.parametrize("columns", [20, 40, 80, 200])
def test_no_text_can_stand_where_a_question_of_ours_stands(columns: int) -> None:
    fake = "ls" + " " * 300 + "\nAllow this one call of bash_execute_safe? y, n, or a word to the model: \n\r\nrm x"
    lines = question(fake, columns).split("\n")
    assert sum(line.startswith("Allow") for line in lines) == 1
    assert lines[-1].startswith("Allow")
    assert all(len(line) < columns for line in lines if line.startswith(GUTTER))


def test_letters_that_look_like_others_are_named() -> None:
    assert "U+0430" in question("c\u0430t f")
    assert "ASCII" not in question("cat f")


def _controls(text: str) -> list[str]:
    return [char for char in text if (ord(char) < 32 and char != "\n") or 127 <= ord(char) < 160]


def test_no_vector_reaches_the_terminal_or_hides_anything(shared: Path) -> None:
    cases: list[dict[str, Any]] = [
        json.loads(line) for line in (shared / "vectors/terminal/strings.jsonl").read_text().splitlines()
    ]
    assert len(cases) > 50
    for case in cases:
        raw = base64.b64decode(case["data_b64"]).decode("utf-8", "surrogateescape")
        text = question(f"echo {raw}; rm x")
        assert not _controls(text), case["name"]
        assert "rm x" in body(text), case["name"]
        assert not _controls(visible(raw).replace("\t", "")), case["name"]
        spec = ToolSpec(name=raw or "x", description="", parameters={}, category="execution")
        assert not _controls(TerminalApprover(visible, folder=raw).question(spec, raw, raw)), case["name"]


def test_trojan_sources_show_their_marks(shared: Path) -> None:
    files = [
        path for path in (shared / "vectors/terminal/trojan_source").rglob("*") if path.suffix in (".sh", ".py", ".js")
    ]
    assert files
    for path in files:
        source = path.read_text("utf-8")
        text = question(source)
        odd = {char for char in source if ord(char) > 127}
        hidden = {char for char in odd if not char.isprintable()}
        assert not hidden & set(text), path.name
        assert not odd or "ASCII" in text, path.name


@given(st.text(max_size=80), st.integers(1, 60))
def test_wrapping_loses_nothing(text: str, columns: int) -> None:
    assert "".join(wrapped(text, columns)) == text.replace("\n", "").replace("\t", "␉")


@given(st.text(max_size=60), st.text(max_size=20), st.text(max_size=20))
def test_whatever_it_is_no_control_is_shown(arguments: str, reason: str, folder: str) -> None:
    made = TerminalApprover(partial(visible, strict=True), folder=folder)
    assert not _controls(made.question(SHELL, arguments, reason))
    assert not _controls(made.question(SHELL, json.dumps({"command": arguments, reason: 1}), reason))


@pytest.mark.usefixtures("pseudo_terminals")
def test_a_terminal_that_another_process_has_now_is_none_to_ask_at() -> None:
    """Whoever reads from the background is stopped by the system, until somebody brings it to the front."""
    master, slave = os.openpty()
    try:
        path = os.ttyname(slave)
        assert has_terminal(path)
        assert not has_terminal(path, in_front=True), "it is the controlling terminal of nobody here"
    finally:
        os.close(master)
        os.close(slave)
