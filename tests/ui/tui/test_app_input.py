"""The face as a whole, from the side of the keyboard: prompts, cancelling, questions, the queue, commands, leaving."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import pytest
from stage import screen, typed
from test_approval_panel import question
from textual import events
from textual.pilot import Pilot

from sluice.errors import ConfigurationError
from sluice.run.interaction import ApprovalSettled, QueueChanged, Queued, SessionOpened, SessionRow, UntrustedFile
from sluice.run.prompt_history import PromptHistory
from sluice.testing.scripted_interaction import HOLD, Item, ScriptedInteraction, finished
from sluice.ui.tui import trust_screen
from sluice.ui.tui.app import TerminalFace
from sluice.ui.tui.messages import PasteRefused
from sluice.values.notices import TextNotice

Scene = Callable[[Pilot[Any], TerminalFace, ScriptedInteraction], Awaitable[None]]


def play(
    scene: Scene,
    *scripts: Iterable[Item],
    size: tuple[int, int] = (80, 24),
    prepare: Callable[[ScriptedInteraction], None] = lambda _interaction: None,
    offer: bool = False,
) -> ScriptedInteraction:
    interaction = ScriptedInteraction(*scripts)
    prepare(interaction)

    async def work() -> None:
        app = TerminalFace(interaction, offer_sessions=offer, history=PromptHistory(None))
        app.approval._quiet, app.approval._alone = 0.02, 0.01
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await scene(pilot, app, interaction)
            await interaction.close()

    asyncio.run(work())
    return interaction


async def until(pilot: Pilot[Any], happened: Callable[[], object]) -> None:
    for _ in range(100):
        if happened():
            return
        await pilot.pause()
    raise AssertionError("it did not happen")


async def say(pilot: Pilot[Any], text: str) -> None:
    app = pilot.app
    assert isinstance(app, TerminalFace)
    app.prompt.area.insert(text)
    await pilot.press("enter")


def test_a_question_is_answered_and_the_focus_comes_back() -> None:
    async def scene(pilot: Pilot[Any], app: TerminalFace, interaction: ScriptedInteraction) -> None:
        await say(pilot, "go")
        await until(pilot, lambda: app.approval.has_focus)
        assert "make all" in screen(app)
        await pilot.press("y")
        await until(pilot, lambda: ("answer", 1, "once", "") in interaction.requests)
        await until(pilot, lambda: app.prompt.area.has_focus)
        assert "make all" not in screen(app).partition("› ")[2]

    play(scene, [question(), finished()])


def test_a_draft_keeps_the_focus_and_tab_goes_to_the_question() -> None:
    async def scene(pilot: Pilot[Any], app: TerminalFace, interaction: ScriptedInteraction) -> None:
        await say(pilot, "go")
        await typed(pilot, "y")
        interaction.go_on()
        await until(pilot, lambda: app.approval.listening)
        await typed(pilot, "yes")
        assert app.prompt.area.text == "yyes"
        assert ("answer", 1, "once", "") not in interaction.requests
        await pilot.press("tab")
        await until(pilot, lambda: app.approval.has_focus and app.approval.listening)
        await pilot.press("n", "enter")
        await until(pilot, lambda: ("answer", 1, "deny", "") in interaction.requests)
        assert app.prompt.area.text == "yyes"

    play(scene, [HOLD, question(), finished()])


def test_what_is_typed_at_a_question_and_is_no_answer_begins_a_prompt() -> None:
    async def scene(pilot: Pilot[Any], app: TerminalFace, interaction: ScriptedInteraction) -> None:
        app.approval._alone = 60.0
        await say(pilot, "go")
        await until(pilot, lambda: app.approval.has_focus and app.approval.listening)
        await typed(pilot, "stop that")
        assert app.prompt.area.text == "stop that"
        assert [request for request in interaction.requests if request[0] == "answer"] == []

    play(scene, [question(), finished()])


def test_ctrl_c_cancels_and_waiting_prompts_come_back() -> None:
    async def scene(pilot: Pilot[Any], app: TerminalFace, interaction: ScriptedInteraction) -> None:
        await say(pilot, "first")
        await say(pilot, "second")
        await say(pilot, "third")
        await typed(pilot, "draft")
        assert "2 prompts wait" in screen(app)
        await pilot.press("ctrl+c")
        await until(pilot, lambda: ("cancel",) in interaction.requests)
        await pilot.pause()
        assert app.prompt.area.text == "second\n\nthird\n\ndraft"
        assert app.is_running
        assert "prompts wait" not in screen(app)

    play(scene, [HOLD])


def test_twice_within_a_second_stores_and_leaves() -> None:
    async def scene(pilot: Pilot[Any], app: TerminalFace, interaction: ScriptedInteraction) -> None:
        now = [100.0]
        app._clock = lambda: now[0]
        await pilot.press("ctrl+c")
        now[0] += 1.5
        await pilot.press("ctrl+c")
        assert ("close",) not in interaction.requests
        now[0] += 0.5
        await pilot.press("ctrl+c")
        await until(pilot, lambda: ("close",) in interaction.requests)

    play(scene)


@pytest.mark.parametrize("keys", [("ctrl+d",), ("ctrl+q",), ("/", "q", "u", "i", "t", "enter")])
def test_other_ways_to_leave(keys: tuple[str, ...]) -> None:
    async def scene(pilot: Pilot[Any], app: TerminalFace, interaction: ScriptedInteraction) -> None:
        await pilot.press(*keys)
        await until(pilot, lambda: ("close",) in interaction.requests)

    play(scene)


def test_a_refused_prompt_comes_back() -> None:
    def prepare(interaction: ScriptedInteraction) -> None:
        interaction.failures["submit"] = ConfigurationError("there is no key")

    async def scene(pilot: Pilot[Any], app: TerminalFace, interaction: ScriptedInteraction) -> None:
        await say(pilot, "hello")
        await pilot.pause()
        assert app.prompt.area.text == "hello"
        assert "there is no key" in screen(app)

    play(scene, prepare=prepare)


def test_the_queue_edits_takes_back_and_steers() -> None:
    async def scene(pilot: Pilot[Any], app: TerminalFace, interaction: ScriptedInteraction) -> None:
        for text in ("run", "two", "three", "four"):
            await say(pilot, text)
        await pilot.press("tab")
        await until(pilot, lambda: app.queue.has_focus)
        await pilot.press("e", "x", "enter")
        assert ("edit", 2, "twox") in interaction.requests
        await pilot.press("tab", "down", "t")
        await until(pilot, lambda: app.prompt.area.text == "three")
        await pilot.press("tab", "down", "s")
        assert interaction.requests[-2:] == [("take_back", 4), ("submit", "four", True)]
        await until(pilot, lambda: "now, to this run: four" in screen(app))
        await pilot.press("escape")
        await until(pilot, lambda: app.prompt.area.has_focus)
        assert app.prompt.area.text == "three"

    play(scene, [HOLD])


def test_an_edit_that_comes_too_late_is_a_draft() -> None:
    async def scene(pilot: Pilot[Any], app: TerminalFace, interaction: ScriptedInteraction) -> None:
        await say(pilot, "run")
        await say(pilot, "two")
        await pilot.press("tab", "e")
        interaction.go_on()
        await until(pilot, lambda: not app.queue.waiting)
        await pilot.press("x", "enter")
        await until(pilot, lambda: app.prompt.area.text == "twox")
        assert "does not wait" in screen(app)

    play(scene, [HOLD, finished()], [HOLD])


def test_a_refused_paste_is_one_line() -> None:
    async def scene(pilot: Pilot[Any], app: TerminalFace, interaction: ScriptedInteraction) -> None:
        app.post_message(PasteRefused(10_485_760))
        await pilot.pause()
        await pilot.pause()
        assert "10,485,760" in screen(app)
        assert app.prompt.area.text == ""

    play(scene)


FILES = (UntrustedFile(path="AGENTS.md", bytes=1200, purpose="instructions to the model"),)


@pytest.mark.parametrize(("key", "read"), [("r", True), ("n", False), ("escape", False)])
def test_a_new_folder_is_asked_about(key: str, read: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trust_screen, "QUIET_SECONDS", 0.0)

    async def scene(pilot: Pilot[Any], app: TerminalFace, interaction: ScriptedInteraction) -> None:
        text = screen(app)
        assert "AGENTS.md  (1,200 bytes)" in text
        assert "allow nothing" in text
        await pilot.press(key)
        await until(pilot, lambda: interaction.requests)
        assert interaction.requests == [("trust", read)]

    play(scene, prepare=lambda interaction: setattr(interaction, "files", FILES))


def test_a_new_folder_is_not_answered_by_keys_from_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trust_screen, "ALONE_SECONDS", 0.01)

    async def scene(pilot: Pilot[Any], app: TerminalFace, interaction: ScriptedInteraction) -> None:
        screen_above = app.screen_stack[-1]
        screen_above._clock = lambda: 100.0  # type: ignore[attr-defined]
        screen_above._shown_at = 99.9  # type: ignore[attr-defined]
        await pilot.press("r", "n", "r")
        await pilot.pause(0.05)
        assert interaction.requests == []
        assert len(app.screen_stack) == 2

    play(scene, prepare=lambda interaction: setattr(interaction, "files", FILES))


def test_ctrl_c_twice_leaves_a_new_folder_without_an_answer() -> None:
    async def scene(pilot: Pilot[Any], app: TerminalFace, interaction: ScriptedInteraction) -> None:
        assert "Ctrl-C twice leaves" in screen(app)
        await pilot.press("ctrl+c")
        assert len(app.screen_stack) == 2
        await pilot.press("ctrl+c")
        await until(pilot, lambda: ("close",) in interaction.requests)
        assert "trust" not in {request[0] for request in interaction.requests}

    play(scene, prepare=lambda interaction: setattr(interaction, "files", FILES))


def test_a_question_behind_a_screen_is_told_there_and_listens_when_the_screen_is_closed() -> None:
    async def scene(pilot: Pilot[Any], app: TerminalFace, interaction: ScriptedInteraction) -> None:
        await app.command_runner.run("help", "")
        await pilot.pause()
        assert "question waits" not in screen(app)
        interaction.tell(question())
        await until(pilot, lambda: "a question waits behind this" in screen(app))
        await pilot.press("y", "escape")
        await until(pilot, lambda: app.approval.has_focus and app.approval.listening)
        assert [request for request in interaction.requests if request[0] == "answer"] == []
        await app.command_runner.run("model", "")
        await until(pilot, lambda: "a question waits behind this" in screen(app))
        interaction.tell(ApprovalSettled(number=1, decision="withdrawn"))
        await until(pilot, lambda: "question waits" not in screen(app))

    play(scene)


def test_what_takes_long_opens_nothing_over_what_is_typed() -> None:
    async def scene(pilot: Pilot[Any], app: TerminalFace, interaction: ScriptedInteraction) -> None:
        await say(pilot, "/doctor")
        await typed(pilot, "draft")
        await until(pilot, lambda: "two [b]lines[/b] ␛[2J" in screen(app))
        assert len(app.screen_stack) == 1
        assert app.prompt.area.text == "draft"

    play(scene, prepare=lambda interaction: setattr(interaction, "lines", ("two [b]lines[/b] \x1b[2J",)))


def test_the_first_letter_of_a_prompt_is_no_answer_about_a_new_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trust_screen, "QUIET_SECONDS", 0.0)

    async def scene(pilot: Pilot[Any], app: TerminalFace, interaction: ScriptedInteraction) -> None:
        await pilot.press(*"review")
        await pilot.pause(1.5 * trust_screen.ALONE_SECONDS)
        assert interaction.requests == []
        await pilot.press("n")
        await until(pilot, lambda: interaction.requests == [("trust", False)])

    play(scene, prepare=lambda interaction: setattr(interaction, "files", FILES))


ROWS = (
    SessionRow(session="s-1", title="", used=0.0, messages=0),
    SessionRow(session="s-8", title="Fix the \x1b[2J parser", used=1.0, messages=14),
    SessionRow(session="s-7", title="Write docs", used=0.5, messages=3, held=True),
    SessionRow(session="s-6", title="Ask", used=0.4, messages=2, waits=True),
)


def test_the_last_session_is_offered_until_something_is_said() -> None:
    async def scene(pilot: Pilot[Any], app: TerminalFace, interaction: ScriptedInteraction) -> None:
        interaction.tell(SessionOpened(session="s-1", history=()))  # the new one, as at every start
        await pilot.pause()
        assert "Ctrl-R goes on" in screen(app)
        assert "Fix the ␛[2J parser" in screen(app)
        await pilot.press("ctrl+r")
        await until(pilot, lambda: ("open_session", "s-8") in interaction.requests)
        await until(pilot, lambda: "Ctrl-R goes on" not in screen(app))
        await pilot.press("ctrl+r")
        assert interaction.requests == [("open_session", "s-8")]

    play(scene, prepare=lambda interaction: setattr(interaction, "rows", ROWS), offer=True)


def test_a_session_is_searched_and_chosen() -> None:
    async def scene(pilot: Pilot[Any], app: TerminalFace, interaction: ScriptedInteraction) -> None:
        await say(pilot, "/sessions")
        await until(pilot, lambda: len(app.screen_stack) == 2)
        await pilot.pause()
        assert "open in another program" in screen(app)
        assert "waits for you" in screen(app)
        await typed(pilot, "docs")
        await pilot.pause()
        assert "Fix the" not in screen(app)
        await pilot.press("enter")
        await until(pilot, lambda: ("open_session", "s-7") in interaction.requests)

    play(scene, prepare=lambda interaction: setattr(interaction, "rows", ROWS))


def test_commands_that_do_something() -> None:
    async def scene(pilot: Pilot[Any], app: TerminalFace, interaction: ScriptedInteraction) -> None:
        for line, request_made, said in (
            ("/undo", ("undo",), "taken back: a.txt"),
            ("/export notes.json", ("export", "json", "notes.json"), "/exported/notes.json"),
            ("/compact", ("compact",), "1,000 to 100 bytes"),
            ("/model large", ("set_model", "large"), "large"),
            ("/fork x", None, "counted from 1"),
            ("/queue", None, "no prompt waits"),
            ("/resume", None, "no other stored session"),
            ("/sessions", None, "no stored session"),
            ("/fork 3", ("fork", 3), "session s-fork"),
            ("/new", ("open_session", None), ""),
        ):
            interaction.requests.clear()
            app.prompt.area.insert(line)
            await pilot.press("escape", "enter")
            await until(pilot, lambda: said in screen(app))  # noqa: B023 - called at once
            await until(pilot, lambda: interaction.requests == [request_made] if request_made else True)  # noqa: B023
            assert len(interaction.requests) == bool(request_made)

    play(scene)


def test_commands_that_show_something() -> None:
    async def scene(pilot: Pilot[Any], app: TerminalFace, interaction: ScriptedInteraction) -> None:
        for line, words in (
            ("/help", "Ctrl-J"), ("/tools", "read_file"), ("/policy", "two [b]lines[/b] ␛"), ("/cost", "lines"),
            ("/model", "large"),
        ):  # fmt: skip
            app.prompt.area.insert(line)
            await pilot.press("enter")
            await until(pilot, lambda: len(app.screen_stack) == 2)
            await until(pilot, lambda: words in screen(app))  # noqa: B023 - called at once
            await pilot.press("down", "pagedown", "escape")
            await until(pilot, lambda: len(app.screen_stack) == 1)

    play(scene, prepare=lambda interaction: setattr(interaction, "lines", ("two [b]lines[/b] \x1b[2J",)))


def test_errors_are_one_line() -> None:
    def prepare(interaction: ScriptedInteraction) -> None:
        for name in ("compact", "fork", "undo", "export", "set_model", "open_session", "doctor"):
            interaction.failures[name] = ConfigurationError(f"{name} cannot be had")

    async def scene(pilot: Pilot[Any], app: TerminalFace, interaction: ScriptedInteraction) -> None:
        for name, line in (
            ("compact", "/compact"),
            ("undo", "/undo"),
            ("set_model", "/model x"),
            ("doctor", "/doctor"),
        ):
            await say(pilot, line)
            await until(pilot, lambda: f"{name} cannot be had" in screen(app))  # noqa: B023 - called at once
        assert len(app.screen_stack) == 1

    play(scene, prepare=prepare)


@pytest.mark.parametrize("size", [(20, 5), (10, 3)])
def test_a_very_small_terminal_still_asks_and_answers(size: tuple[int, int]) -> None:
    async def scene(pilot: Pilot[Any], app: TerminalFace, interaction: ScriptedInteraction) -> None:
        await say(pilot, "go")
        await until(pilot, lambda: app.approval.has_focus)
        if size == (20, 5):
            assert "y s n" in screen(app)
        await pilot.press("end", "y")
        await until(pilot, lambda: ("answer", 1, "once", "") in interaction.requests)

    play(scene, [TextNotice(turn=1, text="text " * 50), question(), finished()], size=size)


def test_the_chosen_prompt_can_be_seen_beside_a_question_on_a_very_small_terminal() -> None:
    async def scene(pilot: Pilot[Any], app: TerminalFace, interaction: ScriptedInteraction) -> None:
        for text in ("run", "two", "three"):
            await say(pilot, text)
        interaction.go_on()
        await until(pilot, lambda: app.approval.asking)
        app.queue.focus()
        await until(pilot, lambda: "e t s · two" in screen(app))
        await pilot.press("down")
        assert "e t s · three" in screen(app)
        await pilot.press("t")
        await until(pilot, lambda: app.prompt.area.text == "three")

    play(scene, [HOLD, question(), finished()], size=(20, 5))


def test_resizing_with_everything_open() -> None:
    async def scene(pilot: Pilot[Any], app: TerminalFace, interaction: ScriptedInteraction) -> None:
        app.approval._quiet = 60.0
        await say(pilot, "go")
        await say(pilot, "later")
        await typed(pilot, "/")
        for size in ((20, 5), (200, 50), (1, 1), (40, 12), (80, 24)):
            await pilot.resize_terminal(*size)
        await pilot.pause()
        text = screen(app)
        assert "Allow this call" in text
        assert "1 prompt waits" in text
        assert "/help" in text

    play(scene, [question(), finished()])


def test_a_second_key_behind_the_one_that_closed_a_screen_closes_nothing_else() -> None:
    async def scene(pilot: Pilot[Any], app: TerminalFace, interaction: ScriptedInteraction) -> None:
        await app.command_runner.run("help", "")
        await pilot.pause()
        above = app.screen
        for _ in range(3):
            above.post_message(events.Key("escape", None))
        await pilot.pause()
        assert len(app.screen_stack) == 1

    play(scene)


PLAIN_KEYS = [
    "enter",
    "ctrl+j",
    "tab",
    "shift+tab",
    "escape",
    "up",
    "down",
    "left",
    "home",
    "end",
    "ctrl+w",
    "ctrl+u",
    "ctrl+k",
    "backspace",
    "delete",
    "ctrl+s",
    "ctrl+o",
    "ctrl+b",
    "ctrl+underscore",
    "shift+left",
    "shift+up",
    "f6",
    "f7",
    "ctrl+x",
    "ctrl+v",
    "ctrl+shift+k",
]


@pytest.mark.parametrize("seed", [2, 11])
def test_any_keys_at_any_time_end_nothing_and_allow_nothing(seed: int) -> None:
    dice = random.Random(seed)

    async def scene(pilot: Pilot[Any], app: TerminalFace, interaction: ScriptedInteraction) -> None:
        app.leave = lambda code: None  # type: ignore[method-assign]  # /quit is one of the things that keys can do
        app.approval._quiet = app.approval._alone = 0.5  # keys come faster than that: none can be meant
        for number in range(150):
            kind = dice.random()
            if kind < 0.5:
                app.post_message(events.Key(dice.choice(PLAIN_KEYS), None))
            elif kind < 0.85:
                char = dice.choice("ysnyys/@\\漢")
                app.post_message(events.Key(char, char))
            elif kind < 0.9:
                app.post_message(events.Paste(dice.choice(["x" * 3000, "\x1b[2J", "a\nb", "y"])))
            elif kind < 0.94:
                interaction.tell(question(number))
            elif kind < 0.97:
                interaction.tell(QueueChanged(waiting=(Queued(number=number, text="\x1b" * dice.randrange(2)),)))
            else:
                await pilot.resize_terminal(dice.choice([1, 20, 80]), dice.choice([1, 5, 24]))
            if dice.random() < 0.1:
                await pilot.pause()
        assert app.fault is None
        assert {request[2] for request in interaction.requests if request[0] == "answer"} <= {"deny"}

    play(scene, [HOLD], [HOLD])
