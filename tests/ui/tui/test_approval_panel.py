"""A question shows all of what would run, and no key answers it by accident."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from stage import Stage, screen, typed
from textual import events
from textual.pilot import Pilot
from textual.widgets import Input

from sluice.run.interaction import ApprovalSettled, ApprovalWanted
from sluice.ui.tui.approval_panel import ApprovalPanel, lines_of

QUIET, ALONE = 0.02, 0.01


def question(number: int = 1, text: str = "command: 8 characters, 1 line\n│ make all", **more: Any) -> ApprovalWanted:
    values: dict[str, Any] = {
        "tool": "bash", "category": "execution", "folder": "/project", "characters": len(text),
        "reason": "execution tools are not allowed in this run", "session_words": "exactly this call of bash",
        "arguments": '{"command": "make all"}',
    }  # fmt: skip
    return ApprovalWanted(number=number, text=text, **{**values, **more})


Scene = Callable[[Pilot[Any], Stage, ApprovalPanel], Awaitable[None]]


def play(
    scene: Scene,
    *,
    size: tuple[int, int] = (80, 24),
    quiet: float = QUIET,
    alone: float = ALONE,
    may_focus: bool = True,
    last_key: Callable[[], float] = lambda: 0.0,
) -> None:
    async def work() -> None:
        app = Stage(lambda: ApprovalPanel(last_key, lambda: may_focus, quiet=quiet, alone=alone), Input)
        app.AUTO_FOCUS = None
        async with app.run_test(size=size) as pilot:
            await scene(pilot, app, app.query_one(ApprovalPanel))

    asyncio.run(work())


async def until(pilot: Pilot[Any], happened: Callable[[], object]) -> None:
    for _ in range(200):
        if happened():
            return
        await pilot.pause()
    raise AssertionError("it did not happen")


async def asked(pilot: Pilot[Any], panel: ApprovalPanel, wanted: ApprovalWanted | None = None) -> None:
    """Asks, and goes on when the panel listens and has the focus."""
    panel.hear(wanted or question())
    await until(pilot, lambda: panel.listening)
    panel.focus()
    await pilot.pause()


@pytest.mark.parametrize(("key", "allowed"), [("y", "once"), ("s", "session")])
def test_one_key_answers(key: str, allowed: str) -> None:
    async def scene(pilot: Pilot[Any], app: Stage, panel: ApprovalPanel) -> None:
        await asked(pilot, panel)
        text = screen(app)
        for words in (
            "bash",
            "(execution)?",
            "make all",
            "asked because execution tools are not allowed",
            "/project",
            "s allows exactly",
            "y once",
            "n deny",
        ):
            assert words in text
        await pilot.press(key)
        await until(pilot, lambda: app.got)
        await pilot.press("y", "s")
        assert app.got == [("Answered", 1, allowed, "")]
        panel.hear(ApprovalSettled(number=1, decision="once"))
        await pilot.pause()
        assert not panel.display

    play(scene)


def test_deny_with_a_word() -> None:
    async def scene(pilot: Pilot[Any], app: Stage, panel: ApprovalPanel) -> None:
        await asked(pilot, panel)
        await pilot.press("n")
        await typed(pilot, "use make test")
        await pilot.press("enter")
        assert app.got == [("Answered", 1, "deny", "use make test")]

    play(scene)


def test_deny_can_be_thought_over() -> None:
    async def scene(pilot: Pilot[Any], app: Stage, panel: ApprovalPanel) -> None:
        await asked(pilot, panel)
        await pilot.press("n", "y", "s", "escape")
        assert app.got == []
        await until(pilot, lambda: panel.has_focus)
        await pilot.press("n", "enter")
        assert app.got == [("Answered", 1, "deny", "")]

    play(scene)


def test_no_session_where_none_is_offered() -> None:
    async def scene(pilot: Pilot[Any], app: Stage, panel: ApprovalPanel) -> None:
        await asked(pilot, panel, question(session_words=None))
        assert "session" not in screen(app)
        await pilot.press("s")
        await pilot.pause(ALONE * 2)
        assert app.got == []

    play(scene)


def test_keys_before_it_was_seen_answer_nothing() -> None:
    async def scene(pilot: Pilot[Any], app: Stage, panel: ApprovalPanel) -> None:
        panel.focus()
        panel.hear(question())
        panel.focus()
        for key in "yyysy":
            await pilot.press(key)
        assert not panel.listening
        assert app.got == []
        assert "no key answers yet" in screen(app)

    play(scene, quiet=30.0)


def test_a_key_that_was_typed_before_and_read_late_answers_nothing() -> None:
    async def scene(pilot: Pilot[Any], app: Stage, panel: ApprovalPanel) -> None:
        early = events.Key("y", "y")
        await asked(pilot, panel)
        panel.post_message(early)
        await pilot.pause(ALONE * 3)
        assert app.got == []

    play(scene)


def test_typing_anywhere_makes_it_wait_longer() -> None:
    typing_now = time.monotonic

    async def scene(pilot: Pilot[Any], app: Stage, panel: ApprovalPanel) -> None:
        panel.hear(question())
        for _ in range(5):
            await pilot.pause(QUIET)
        assert not panel.listening

    play(scene, last_key=typing_now)


def test_a_burst_of_keys_is_a_paste_and_no_answer() -> None:
    async def scene(pilot: Pilot[Any], app: Stage, panel: ApprovalPanel) -> None:
        await asked(pilot, panel)
        for key, char in (("y", "y"), ("space", " "), ("e", "e"), ("s", "s")):
            panel.post_message(events.Key(key, char))
        await pilot.pause(0.15)
        assert app.got == []

    play(scene, alone=0.05)


def test_a_paste_is_no_answer() -> None:
    async def scene(pilot: Pilot[Any], app: Stage, panel: ApprovalPanel) -> None:
        await asked(pilot, panel)
        panel.post_message(events.Paste("y"))
        await pilot.pause(ALONE * 3)
        assert app.got == []

    play(scene)


def test_it_takes_no_focus_from_a_draft() -> None:
    async def scene(pilot: Pilot[Any], app: Stage, panel: ApprovalPanel) -> None:
        app.query_one(Input).focus()
        panel.hear(question())
        await until(pilot, lambda: panel.listening)
        await pilot.pause()
        assert not panel.has_focus
        assert "Tab goes to this question" in screen(app)

    play(scene, may_focus=False)


def test_the_next_question_begins_anew() -> None:
    async def scene(pilot: Pilot[Any], app: Stage, panel: ApprovalPanel) -> None:
        await asked(pilot, panel)
        panel.hear(question(2, "command: 4 characters, 1 line\n│ rm x"))
        await pilot.pause()
        assert "1 of 2" in screen(app)
        await pilot.press("y")
        await until(pilot, lambda: app.got)
        panel.hear(ApprovalSettled(number=1, decision="once"))
        assert not panel.listening
        await until(pilot, lambda: panel.listening)
        assert "rm x" in screen(app)
        await pilot.press("y")
        await until(pilot, lambda: len(app.got) == 2)
        assert app.got[1] == ("Answered", 2, "once", "")

    play(scene)


def test_a_question_that_is_withdrawn_takes_its_answer_along() -> None:
    async def scene(pilot: Pilot[Any], app: Stage, panel: ApprovalPanel) -> None:
        await asked(pilot, panel)
        panel.post_message(events.Key("y", "y"))
        await pilot.pause()
        panel.hear(ApprovalSettled(number=1, decision="withdrawn"))
        panel.hear(question(2))
        await pilot.pause(0.1)
        assert app.got == []

    play(scene, alone=0.05)


LONG = "command: many\n" + "\n".join(f"│ echo {number} {'x' * (number % 200)}" for number in range(4000))


@pytest.mark.parametrize("size", [(80, 24), (20, 5)])
def test_all_of_a_long_text_can_be_read(size: tuple[int, int]) -> None:
    async def scene(pilot: Pilot[Any], app: Stage, panel: ApprovalPanel) -> None:
        await asked(pilot, panel, question(text=LONG))
        await pilot.press("end")
        assert "in all" in screen(app).replace("\n", "")
        await pilot.press("home", "down")
        assert "│ echo 0" in screen(app)
        await pilot.press("y")
        await until(pilot, lambda: app.got)
        assert panel._body.place[2] == len(panel._body._rows)

    play(scene, size=size)


def test_the_whole_text_is_there_before_what_we_know_of_it() -> None:
    assert "\n".join(line.text for line in lines_of(question(text=LONG))).startswith(LONG + "\n")


def test_an_answer_whose_focus_is_lost_does_not_count() -> None:
    async def scene(pilot: Pilot[Any], app: Stage, panel: ApprovalPanel) -> None:
        await asked(pilot, panel)
        panel.post_message(events.Key("y", "y"))
        await until(pilot, lambda: panel._chosen)
        app.query_one(Input).focus()
        await pilot.pause(0.2)
        assert app.got == []

    play(scene, alone=0.1)


def test_it_survives_resizing_and_shows_the_keys_at_any_size() -> None:
    async def scene(pilot: Pilot[Any], app: Stage, panel: ApprovalPanel) -> None:
        await asked(pilot, panel, question(text=LONG))
        for size in ((40, 10), (20, 5), (4, 2), (200, 60), (80, 24)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
            if size[0] >= 20:
                assert "y once" in screen(app) or "y s n" in screen(app)
        await pilot.press("y")
        await until(pilot, lambda: app.got)

    play(scene)


def test_markup_and_escapes_are_text() -> None:
    async def scene(pilot: Pilot[Any], app: Stage, panel: ApprovalPanel) -> None:
        odd = question(
            text="│ [red]x[/red] \x1b[2J \u202e y once", tool="ba\x1bsh", reason="[b]why[/b]", folder="/a\nb"
        )
        await asked(pilot, panel, odd)
        text = screen(app)
        assert "[red]x[/red] ␛[2J <U+202E>" in text
        assert "[b]why[/b]" in text
        assert "/a␊b" in text
        assert "\x1b" not in text

    play(scene)
