"""What completes the word at the cursor."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.ui.tui.matches import MOST_SHOWN, Wanted, command_matches, file_matches, wanted, word_matches
from sluice.ui.visible import visible

PATHS = ("src/app.py", "src/apple.md", "docs/a b.md", "README.md", "tests/test_app.py", "src/deep/map.py")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("/mo", Wanted("command", "mo", 0)),
        ("/model gp", Wanted("model", "gp", 7)),
        ("look at @src/a", Wanted("file", "src/a", 8)),
        ("@", Wanted("file", "", 0)),
        ('(@"a b', Wanted("file", "a b", 1)),
        ("me@example.com", None),
        ("/etc/hosts", None),
        ("plain", None),
        ("@a b", None),
    ],
)
def test_what_is_wanted(line: str, expected: Wanted | None) -> None:
    assert wanted(line, first_line=True) == expected


def test_commands_only_begin_a_prompt() -> None:
    assert wanted("/mo", first_line=False) is None


def test_commands_by_their_beginning() -> None:
    assert [match.insert for match in command_matches("co")] == ["/cost", "/compact"]
    assert command_matches("mod")[0].insert == "/model "


def test_the_best_file_is_first() -> None:
    assert file_matches("app", PATHS)[0].insert == "@src/app.py "
    assert [match.shown for match in file_matches("src/a", PATHS)][:2] == ["src/app.py", "src/apple.md"]
    assert file_matches("a b", PATHS)[0].insert == '@"docs/a b.md" '
    assert "src/deep/map.py" in [match.shown for match in file_matches("sdm", PATHS)]
    assert not file_matches("zzz", PATHS)


def test_words() -> None:
    assert [match.insert for match in word_matches("gp", ["openai:gpt-5", "gpt-4o", "x\x1b"])] == [
        "gpt-4o",
        "openai:gpt-5",
    ]


@given(st.text(max_size=20), st.lists(st.text(max_size=30), max_size=20))
def test_any_name_is_safe_to_show_and_bounded(typed: str, paths: list[str]) -> None:
    found = file_matches(typed, paths * 10)
    assert len(found) <= MOST_SHOWN
    for match in found:
        assert visible(match.shown) == match.shown
        assert match.insert.startswith("@")
