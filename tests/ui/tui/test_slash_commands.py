"""What a line that begins with a slash means."""

from __future__ import annotations

import pytest

from sluice.ui.tui.slash_commands import COMMANDS, Given, given, help_lines

WANTED = "help model tools policy sessions fork undo export cost compact doctor quit new resume queue"


def test_all_commands_are_there_with_words() -> None:
    assert {command.name for command in COMMANDS} == set(WANTED.split())
    assert all(command.words for command in COMMANDS)
    assert len(help_lines()) == len(COMMANDS)
    assert max(map(len, help_lines())) <= 90


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/help", Given("help")),
        ("/ ", Given("help")),
        ("/MODEL  openai:gpt-5 ", Given("model", "openai:gpt-5")),
        ("/exit", Given("quit")),
        ("/export notes of today.md", Given("export", "notes of today.md")),
    ],
)
def test_commands(text: str, expected: Given) -> None:
    assert given(text) == expected


@pytest.mark.parametrize(
    "text", ["", "hello", " /help", "/etc/hosts is odd", "/usr", "// comment", "/1", "x /help", "/a/b"]
)
def test_prompts_and_paths(text: str) -> None:
    found = given(text)
    assert found is None or (text == "/usr" and found.problem)


def test_an_unknown_command_names_the_nearest() -> None:
    found = given("/modle x")
    assert found is not None
    assert "did you mean /model?" in found.problem
    far = given("/zzzzzz")
    assert far is not None
    assert "/help" in far.problem


def test_words_behind_a_command_that_takes_none_are_a_mistake() -> None:
    found = given("/undo everything please")
    assert found is not None
    assert found.problem
