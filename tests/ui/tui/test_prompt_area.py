"""Typing: lines, history, pastes, completion, sending."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from stage import Stage, screen, typed
from textual import events
from textual.pilot import Pilot

from sluice.run.prompt_history import PromptHistory
from sluice.run.workspace_files import FileNames
from sluice.ui.tui.prompt_area import PromptArea
from sluice.ui.tui.prompt_panel import PromptPanel
from sluice.ui.visible import visible

PATHS = ("src/app.py", "README.md", "docs/a b.md")


async def files() -> FileNames:
    return FileNames(paths=PATHS, complete=True)


def play(
    scene: Callable[[Pilot[Any], Stage, PromptArea], Awaitable[None]],
    *,
    earlier: tuple[str, ...] = (),
    size: tuple[int, int] = (80, 24),
) -> None:
    async def work() -> None:
        history = PromptHistory(None)
        for text in earlier:
            history.add(text)
        app = Stage(lambda: PromptPanel(history, files, lambda: ("small", "openai:gpt-5")))
        async with app.run_test(size=size) as pilot:
            area = app.query_one(PromptArea)
            area.focus()
            await pilot.pause()
            await scene(pilot, app, area)

    asyncio.run(work())


def test_enter_sends_and_empties_the_input() -> None:
    async def scene(pilot: Pilot[Any], app: Stage, area: PromptArea) -> None:
        await typed(pilot, "hello you")
        await pilot.press("enter", "enter")
        assert app.got == [("Submitted", "hello you", False)]
        assert area.text == ""

    play(scene)


def test_three_ways_to_a_new_line() -> None:
    async def scene(pilot: Pilot[Any], app: Stage, area: PromptArea) -> None:
        await pilot.press("a", "ctrl+j", "b", "alt+enter", "c", "backslash", "enter", "d", "shift+enter", "e", "enter")
        assert app.got == [("Submitted", "a\nb\nc\nd\ne", False)]

    play(scene)


def test_ctrl_s_sends_into_the_run_that_is_going() -> None:
    async def scene(pilot: Pilot[Any], app: Stage, area: PromptArea) -> None:
        await pilot.press("n", "o", "ctrl+s")
        assert app.got == [("Submitted", "no", True)]

    play(scene)


def test_ctrl_d_leaves_only_where_nothing_is_typed() -> None:
    async def scene(pilot: Pilot[Any], app: Stage, area: PromptArea) -> None:
        await pilot.press("a", "home", "ctrl+d")
        assert (area.text, app.got) == ("", [])
        await pilot.press("ctrl+d")
        assert app.got == [("LeaveWanted",)]

    play(scene)


def test_history_keeps_the_draft() -> None:
    async def scene(pilot: Pilot[Any], app: Stage, area: PromptArea) -> None:
        await typed(pilot, "draft")
        await pilot.press("up")
        assert area.text == "two\nlines"
        await pilot.press("up", "up")
        assert area.text == "one"
        await pilot.press("down")
        assert area.text == "two\nlines"
        await pilot.press("down")
        assert area.text == "draft"
        await pilot.press("up", "enter")
        assert app.got == [("Submitted", "two\nlines", False)]

    play(scene, earlier=("one", "two\nlines"))


def test_up_moves_within_lines_first() -> None:
    async def scene(pilot: Pilot[Any], app: Stage, area: PromptArea) -> None:
        await pilot.press("a", "ctrl+j", "b", "up")
        assert area.text == "a\nb"
        assert area.cursor_location[0] == 0
        await pilot.press("up")
        assert area.text == "old"

    play(scene, earlier=("old",))


def test_a_long_paste_is_one_label_that_the_cursor_steps_over() -> None:
    async def scene(pilot: Pilot[Any], app: Stage, area: PromptArea) -> None:
        long = "line\r\n" * 2500
        await pilot.press("a")
        area.post_message(events.Paste(long))
        await pilot.pause()
        await pilot.press("b")
        label = "[pasted 12,500 characters]"
        assert area.text == f"a{label}b"
        await pilot.press("left", "left")
        assert area.cursor_location == (0, 1)
        await pilot.press("x", "right")
        assert area.cursor_location == (0, 2 + len(label))
        await pilot.press("enter")
        assert app.got == [("Submitted", "ax" + "line\n" * 2500 + "b", False)]

    play(scene)


@pytest.mark.parametrize("keys", [("backspace",), ("ctrl+w",), ("left", "delete"), ("shift+left", "z")])
def test_a_label_is_deleted_as_a_whole(keys: tuple[str, ...]) -> None:
    async def scene(pilot: Pilot[Any], app: Stage, area: PromptArea) -> None:
        area.post_message(events.Paste("x" * 5000))
        await pilot.pause()
        await pilot.press(*keys)
        assert area.text in ("", "z")
        await pilot.press("ctrl+underscore")
        assert area.draft in ("x" * 5000, "")

    play(scene)


def test_escape_sequences_are_shown_as_a_label_and_sent_as_they_are() -> None:
    async def scene(pilot: Pilot[Any], app: Stage, area: PromptArea) -> None:
        attack = "\x1b[2J\x1b]52;c;cm0=\x07\u202edoc"
        area.post_message(events.Paste(attack))
        await pilot.pause()
        assert visible(area.text) == area.text
        assert "invisible" in screen(app)
        await pilot.press("enter")
        assert app.got == [("Submitted", attack, False)]

    play(scene)


def test_three_megabytes_are_typed_around_without_delay() -> None:
    async def scene(pilot: Pilot[Any], app: Stage, area: PromptArea) -> None:
        area.post_message(events.Paste("y" * 3_000_000))
        await pilot.pause()
        assert len(area.text) < 100
        await pilot.press("a", "enter")
        assert app.got[0][1] == "y" * 3_000_000 + "a"

    play(scene)


def test_a_command_is_completed_and_given() -> None:
    async def scene(pilot: Pilot[Any], app: Stage, area: PromptArea) -> None:
        await typed(pilot, "/co")
        await pilot.pause()
        assert "/cost" in screen(app)
        await pilot.press("down", "tab")
        assert area.text == "/compact"
        await pilot.press("enter")
        assert app.got == [("CommandGiven", "compact", "")]
        await typed(pilot, "/model")
        await pilot.press("enter")
        assert app.got[1] == ("CommandGiven", "model", "")
        await typed(pilot, "/model gp")
        await pilot.press("tab", "enter")
        assert app.got[2] == ("CommandGiven", "model", "openai:gpt-5")

    play(scene)


def test_an_unknown_command_stays_in_the_input_with_a_hint() -> None:
    async def scene(pilot: Pilot[Any], app: Stage, area: PromptArea) -> None:
        await typed(pilot, "/undoo")
        await pilot.press("enter")
        assert app.got[0][0] == "Remark"
        assert "/undo" in app.got[0][1]
        assert area.text == "/undoo"

    play(scene)


def test_a_file_is_completed() -> None:
    async def scene(pilot: Pilot[Any], app: Stage, area: PromptArea) -> None:
        await typed(pilot, "see @ap")
        await pilot.pause()
        assert "src/app.py" in screen(app)
        await pilot.press("enter")
        assert area.text == "see @src/app.py "
        await typed(pilot, "@a")
        await pilot.press("down", "escape")
        assert "src/app.py\n" not in screen(app)
        await pilot.press("enter")
        assert app.got == [("Submitted", "see @src/app.py @a", False)]

    play(scene)


def test_tab_goes_on_where_nothing_is_completed() -> None:
    async def scene(pilot: Pilot[Any], app: Stage, area: PromptArea) -> None:
        await pilot.press("a", "tab")
        assert app.got == [("NextPanel",)]
        assert area.text == "a"

    play(scene)


def test_editing_a_waiting_prompt_brings_the_draft_back() -> None:
    async def scene(pilot: Pilot[Any], app: Stage, area: PromptArea) -> None:
        await typed(pilot, "my draft")
        area.edit_waiting(3, "wating")
        await pilot.pause()
        assert "editing waiting prompt 3" in screen(app)
        await pilot.press("x", "enter")
        assert app.got == [("Edited", 3, "watingx")]
        assert area.text == "my draft"
        area.edit_waiting(4, "other")
        await pilot.pause()
        await pilot.press("escape")
        assert area.text == "my draft"
        assert area.editing is None
        await pilot.pause()
        assert "editing" not in screen(app)

    play(scene)


def test_what_comes_back_stands_before_the_draft() -> None:
    async def scene(pilot: Pilot[Any], app: Stage, area: PromptArea) -> None:
        await typed(pilot, "draft")
        area.put_back("first", "z" * 5000)
        await pilot.pause()
        assert area.draft == "first\n\n" + "z" * 5000 + "\n\ndraft"

    play(scene)


def test_deleting_the_last_line_and_undoing_it() -> None:
    async def scene(pilot: Pilot[Any], app: Stage, area: PromptArea) -> None:
        await pilot.press("a", "ctrl+j", "b", "ctrl+k", "ctrl+shift+k", "c", "ctrl+underscore", "ctrl+underscore", "up")
        await pilot.press("ctrl+underscore", "end", "ctrl+j", "z", "enter")
        assert app.got[0][0] == "Submitted"

    play(scene)


@pytest.mark.parametrize("size", [(20, 5), (80, 24), (3, 2), (200, 60)])
def test_any_size(size: tuple[int, int]) -> None:
    async def scene(pilot: Pilot[Any], app: Stage, area: PromptArea) -> None:
        await typed(pilot, "/")
        await pilot.resize_terminal(size[1] * 3, size[0])
        await pilot.resize_terminal(*size)
        await pilot.press("escape", "a", "漢", "enter")
        assert app.got[-1][0] in ("Submitted", "Remark")

    play(scene, size=size)
