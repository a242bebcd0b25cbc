"""Earlier prompts: kept, bounded, private, and never in the way."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.run import prompt_history
from sluice.run.prompt_history import MAX_PROMPT_CHARACTERS, MAX_PROMPTS, PromptHistory


def test_prompts_come_back_in_order_and_nobody_else_can_read_them(tmp_path: Path) -> None:
    path = tmp_path / "prompts" / "p.jsonl"
    history = PromptHistory(path)
    for text in ("one", "two\nlines", "two\nlines", "  ", "\x1b[2J", "三"):
        history.add(text)
    assert PromptHistory(path).prompts() == ("one", "two\nlines", "\x1b[2J", "三") == history.prompts()
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_file_that_others_may_read_is_closed_to_them(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.touch(mode=0o644)
    PromptHistory(path).add("secret")
    assert path.stat().st_mode & 0o777 == 0o600


def test_damage_costs_only_what_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    path.write_bytes(b'"one"\n{"no": 1}\n\xff\xfe\n"cut off\n"two"\n"thr')
    history = PromptHistory(path)
    assert history.prompts() == ("one", "two")
    assert not history.fault


def test_a_line_that_was_cut_costs_none_after_it(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    PromptHistory(path).add("one")
    with path.open("ab") as file:
        file.write(b'"tw')  # killed, or the disk was full
    PromptHistory(path).add("three")
    assert PromptHistory(path).prompts() == ("one", "three")


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_what_is_no_plain_file_is_neither_followed_nor_waited_for(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "p.jsonl"
    target = tmp_path / "elsewhere"
    target.write_text('"theirs"\n')
    if kind == "link":
        path.symlink_to(target)
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    history = PromptHistory(path)
    assert history.fault
    history.add("mine")
    assert history.prompts() == ("mine",)
    assert target.read_text() == '"theirs"\n'


def test_number_and_size_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt_history, "_MAX_FILE_BYTES", 4000)
    path = tmp_path / "p.jsonl"
    history = PromptHistory(path)
    for number in range(MAX_PROMPTS + 50):
        history.add(f"prompt {number}")
    history.add("x" * (MAX_PROMPT_CHARACTERS + 1))
    assert len(history.prompts()) == MAX_PROMPTS
    assert path.stat().st_size <= 4000
    kept = PromptHistory(path).prompts()
    assert kept[-1] == f"prompt {MAX_PROMPTS + 49}"
    assert len(kept) > 50
    assert [entry.name for entry in tmp_path.iterdir()] == ["p.jsonl"]


def test_two_programs_add_to_one_file(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    first, second = PromptHistory(path), PromptHistory(path)
    first.add("a")
    second.add("b")
    assert PromptHistory(path).prompts() == ("a", "b")


def test_without_a_file_nothing_is_written(tmp_path: Path) -> None:
    history = PromptHistory(None)
    history.add("a")
    assert history.prompts() == ("a",)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_had_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    history = PromptHistory(tmp_path / "state" / "p.jsonl")
    history.add("a")
    assert "not kept" in history.fault or "cannot be read" in history.fault


@given(st.lists(st.text(), max_size=5))
def test_any_text_comes_back(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    path = tmp_path_factory.mktemp("h") / "p.jsonl"
    history = PromptHistory(path)
    for text in texts:
        history.add(text)
    assert PromptHistory(path).prompts() == history.prompts()
