"""The transcript on a screen: what is shown of a run, that it stands still or follows, and what it costs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

import msgspec
import pytest
from textual.app import App
from textual.pilot import Pilot

from sluice.run.interaction import Event, SessionOpened
from sluice.testing.scripted_interaction import HOLD, Item, ScriptedInteraction, finished
from sluice.turn import answers
from sluice.ui.tui import transcript as transcript_module
from sluice.ui.tui.app import TerminalFace
from sluice.values import notices as n
from sluice.values.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from sluice.values.results import ToolResult

Check = Callable[[App[object], str], None]
Act = Callable[[TerminalFace, Pilot[int], ScriptedInteraction], Awaitable[None]]

STARTED = n.RunStarted(
    run="r", model="large-model", mode="real", workspace="project", tools=("a", "b"), blocked=("execution",)
)
DIFF = "--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,2 @@\n import os\n-old = 1\n+new = 2\n"


def text(words: str) -> n.TextNotice:
    return n.TextNotice(turn=1, text=words)


def call(arrival: int, tool: str, subject: str, *rest: Event) -> list[Item]:
    return [
        n.CallIntended(turn=1, arrival=arrival, id=f"c{arrival}", tool=tool),
        n.CallIntent(turn=1, arrival=arrival, tool=tool, subject=subject, category="mutating"),
        *rest,
    ]


def arrived(place: int, tool: str, subject: str) -> n.CallArrived:
    return n.CallArrived(
        turn=1,
        position=place,
        arrival=place,
        id=f"c{place}",
        tool=tool,
        arguments="{}",
        status="whole",
        subject=subject,
    )


def ended(place: int, tool: str, seconds: float = 0.2, **values: object) -> n.CallFinished:
    given = {"ok": True, "status": "ok", **values}
    return n.CallFinished(
        turn=1, position=place, id=f"c{place}", tool=tool, seconds=seconds, result=ToolResult(tool=tool, **given)
    )


def shown(app: TerminalFace) -> list[str]:
    """The rows of the transcript that are on the screen."""
    return [app.transcript.render_line(y).text.rstrip() for y in range(app.transcript.size.height)]


def play(script: Sequence[Item], act: Act, size: tuple[int, int] = (80, 24), *, alone: bool = True) -> None:
    """Plays a script to a face and lets `act` look at it; `alone`: without the input."""

    async def main() -> None:
        interaction = ScriptedInteraction(script)
        app = TerminalFace(interaction)
        app.transcript.feed._clock = lambda: 0.0
        app.status._clock = lambda: 0.0
        app.prompt.display = not alone
        async with app.run_test(size=size) as pilot:
            interaction.submit("What does it do?")
            await pilot.pause()
            app.transcript.flush()
            await pilot.pause()
            await act(app, pilot, interaction)
            await interaction.close()

    asyncio.run(main())


MARKDOWN = """# Streams

A paragraph with **bold**, *slanted* and `code`, a [link](https://example.org/a) and <b>no markup</b>, [red]none[/red].

- one
- two
  1. nested
  2. 中文和 emoji 👨‍👩‍👧 side by side

```python
def answer(n: int) -> str:
    return "forty" + str(n)  # done
```

> quoted

| name | what |
|------|------|
| a    | first |
"""


@pytest.mark.parametrize("size", [(80, 32), (40, 40)], ids=["80", "40"])
def test_markdown(matches_picture: Check, size: tuple[int, int]) -> None:
    async def act(app: TerminalFace, pilot: Pilot[int], interaction: ScriptedInteraction) -> None:
        matches_picture(app, f"markdown-{size[0]}")

    play([text(MARKDOWN), finished()], act, size)


def test_calls(matches_picture: Check) -> None:
    script = [
        STARTED,
        n.TurnStarted(run="r", turn=1),
        n.ReasoningNotice(turn=1, text="Let me see. " * 20),
        n.ReasoningEnded(turn=1),
        text("I change one line and run the tests."),
        *call(0, "write_file", "x.py"),
        *call(1, "bash", "pytest -q"),
        *call(2, "bash", "rm -rf build"),
        arrived(0, "write_file", "x.py"),
        arrived(1, "bash", "pytest -q"),
        arrived(2, "bash", "rm -rf build"),
        n.CallJudged(turn=1, position=2, tool="bash", decision="deny", rule="never delete"),
        n.CallStarted(turn=1, position=0, tool="write_file"),
        ended(0, "write_file", content="changed", facts={"diff": DIFF}),
        n.CallStarted(turn=1, position=1, tool="bash"),
        ended(1, "bash", 2.4, ok=False, status="failed", exit_code=1, content="\n".join(map(str, range(1, 101)))),
        ended(2, "bash", 0.0, ok=False, status="blocked", content="not allowed"),
        HOLD,
    ]

    async def act(app: TerminalFace, pilot: Pilot[int], interaction: ScriptedInteraction) -> None:
        matches_picture(app, "calls")
        app.action_details()
        app.transcript.flush()
        app.transcript.scroll_to(y=0, animate=False)
        await pilot.pause()
        matches_picture(app, "calls-unfolded")

    play(script, act, (80, 40))


def test_calls_that_have_not_run(matches_picture: Check) -> None:
    script = [
        *call(0, "write_file", "src/main.py"),
        n.CallProgressed(turn=1, arrival=0, tool="write_file", size=2048, tail="import os\n\nprint(", name="content"),
        *call(1, "bash", "make"),
        n.CallWithdrawn(turn=1, arrival=1, tool="bash", reason="the reply was cut"),
        *call(2, "bash", "ls"),
        arrived(2, "bash", "ls"),
        n.CallJudged(turn=1, position=2, tool="bash", decision="ask", rule="commands are asked about"),
        n.Waiting(turn=1, attempt=1, seconds=2.0, reason="503 from the provider"),
        n.Warned(message="the window is nearly full"),
        n.Failed(kind="model", message="the reply was cut"),
        n.Summarised(before=100_000, after=20_000),
        finished("failed", message="the model could not be reached"),
    ]

    async def act(app: TerminalFace, pilot: Pilot[int], interaction: ScriptedInteraction) -> None:
        matches_picture(app, "calls-not-run")

    play(script, act, (80, 30))


def test_no_colour_loses_no_meaning(matches_picture: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    script = [*call(0, "write_file", "x.py"), arrived(0, "write_file", "x.py")]
    script += [ended(0, "write_file", facts={"diff": DIFF}, content="changed"), finished()]

    async def act(app: TerminalFace, pilot: Pilot[int], interaction: ScriptedInteraction) -> None:
        matches_picture(app, "no-colour")

    play(script, act, (80, 20))


def test_a_very_small_terminal(matches_picture: Check) -> None:
    async def act(app: TerminalFace, pilot: Pilot[int], interaction: ScriptedInteraction) -> None:
        matches_picture(app, "small")

    play(
        [text("a long word: " + "x" * 50 + " 中文字符测试"), *call(0, "bash", "make all"), HOLD],
        act,
        (20, 5),
        alone=False,
    )


def test_a_stored_session(matches_picture: Check) -> None:
    history = (
        UserMessage("Read it"),
        AssistantMessage(content="I read.", tool_calls=(ToolCall(id="1", name="read_file", arguments='{"path":"a"}'),)),
        ToolMessage("1", "read_file", "line 1\nline 2"),
        UserMessage("words of the host", origin="host"),
        AssistantMessage(content="It says **two** lines."),
    )

    async def act(app: TerminalFace, pilot: Pilot[int], interaction: ScriptedInteraction) -> None:
        interaction.tell(SessionOpened(session="s-9", history=history))
        await pilot.pause()
        app.transcript.flush()
        await pilot.pause()
        matches_picture(app, "stored-session")

    play([text("what is shown before is gone")], act)


def test_it_follows_the_end_until_someone_looks_up_and_stands_still_then() -> None:
    async def act(app: TerminalFace, pilot: Pilot[int], interaction: ScriptedInteraction) -> None:
        rows = shown(app)
        assert rows[-1] == "paragraph 99"
        await pilot.press("pageup")
        await pilot.pause()
        before = shown(app)
        assert before != rows
        for number in range(100, 150):
            interaction.tell(text(f"\n\nparagraph {number}"))
        await pilot.pause()
        app.transcript.flush()
        assert shown(app) == before
        for _page in range(10):
            await pilot.press("pagedown")
        await pilot.pause()
        assert shown(app)[-1] == "paragraph 149"
        interaction.tell(text("\n\nthe last"))
        await pilot.pause()
        app.transcript.flush()
        assert shown(app)[-1] == "the last"

    play([text("\n\n".join(f"paragraph {number}" for number in range(100))), HOLD], act)


def test_what_is_above_stands_still_when_it_is_wrapped_anew() -> None:
    async def act(app: TerminalFace, pilot: Pilot[int], interaction: ScriptedInteraction) -> None:
        app.transcript.scroll_to(y=app.transcript._tops[60], animate=False)
        await pilot.pause()
        top = shown(app)[1]
        for width in (30, 79, 43, 80):
            await pilot.resize_terminal(width, 24)
            app.transcript.flush()
            await pilot.pause()
            assert shown(app)[1].split()[0] == top.split()[0], width

    play([text("\n\n".join(f"p{number} {'word ' * 40}" for number in range(100))), HOLD], act)


def test_a_storm_of_resizes_ends_well() -> None:
    async def act(app: TerminalFace, pilot: Pilot[int], interaction: ScriptedInteraction) -> None:
        for step in range(20):
            await pilot.resize_terminal(1 + step * 37 % 120, 1 + step * 13 % 50)
        await pilot.resize_terminal(80, 24)
        app.transcript.flush()
        await pilot.pause()
        assert shown(app)[-1] == "paragraph 299"
        assert max(app.transcript._row(y).cell_length for y in range(app.transcript._tops[-1])) <= 78

    play([text("\n\n".join(f"paragraph {number}" for number in range(300))), HOLD], act)


def test_a_hundred_thousand_small_deltas() -> None:
    async def act(app: TerminalFace, pilot: Pilot[int], interaction: ScriptedInteraction) -> None:
        await interaction.settled()
        app.transcript.flush()
        await pilot.pause()
        assert any("word 19999" in row for row in shown(app))

    words = "".join(f"word {number:05}\n\n" if number % 20 == 0 else f"word {number:05} " for number in range(20_000))
    pieces = [text(words[at : at + 1]) for at in range(100_000)]
    play([*pieces, text(words[100_000:]), finished()], act)


def test_one_delta_of_ten_megabytes_shows_its_end_and_says_what_is_missing() -> None:
    async def act(app: TerminalFace, pilot: Pilot[int], interaction: ScriptedInteraction) -> None:
        assert any("the very end" in row for row in shown(app))
        rows = [app.transcript._row(y).text for y in range(app.transcript._tops[-1])]
        assert any("characters of this message are not shown here; /export" in row for row in rows)

    play([text("some words " * 1_000_000 + "the very end"), finished()], act)


def test_a_result_of_fifty_megabytes_shows_head_and_tail() -> None:
    content = "first line\n" + "x" * 50_000_000 + "\nlast line"

    async def act(app: TerminalFace, pilot: Pilot[int], interaction: ScriptedInteraction) -> None:
        rows = [app.transcript._row(y).text for y in range(app.transcript._tops[-1])]
        assert any("first line" in row for row in rows)
        assert any("last line" in row for row in rows)
        assert any("characters and" in row for row in rows)
        assert len(rows) < 60
        assert sum(block.weight for block in app.transcript.feed.blocks) < 100_000

    play([*call(0, "bash", "cat"), arrived(0, "bash", "cat"), ended(0, "bash", content=content), finished()], act)


def test_old_blocks_leave_the_screen_and_a_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcript_module, "MAX_BLOCKS", 300)

    async def act(app: TerminalFace, pilot: Pilot[int], interaction: ScriptedInteraction) -> None:
        for number in range(2000):
            interaction.tell(text(f"paragraph {number}\n\n"))
            if number % 100 == 99:
                await pilot.pause()
                app.transcript.flush()
        blocks = app.transcript.feed.blocks
        assert len(blocks) <= 300
        first = app.transcript._row(0).text
        assert "earlier blocks are not kept on the screen; /export" in first
        left_out = int(first.split()[1].replace(",", ""))
        assert left_out + len(blocks) - 1 in range(2000, 2003)

    play([HOLD], act)


def test_what_a_model_writes_is_never_markup_or_a_sequence() -> None:
    hostile = "\x1b]0;title\x07 \x1b[2J [bold]x[/bold] [@click=app.quit]y[/] \u202eabc \x9b31m \r over \u200b."
    results = [ended(0, hostile, content=hostile, error=None), n.Warned(message=hostile), finished(message=hostile)]

    async def act(app: TerminalFace, pilot: Pilot[int], interaction: ScriptedInteraction) -> None:
        written = "".join(app.transcript._row(y).text for y in range(app.transcript._tops[-1]))
        assert not set(written) & set("\x1b\x07\x9b\r\u202e\u200b")
        assert written.count("[bold]x[/bold]") >= 4
        for y in range(app.transcript._tops[-1]):
            for segment in app.transcript._row(y):
                assert segment.style is None or (segment.style.link is None and not segment.style.meta)

    script = [text(hostile), n.ReasoningNotice(turn=1, text=hostile), *call(0, hostile, hostile)]
    play([*script, arrived(0, hostile, hostile), *results], act, (200, 40))


def test_an_answer_that_is_continued_is_one_text() -> None:
    async def act(app: TerminalFace, pilot: Pilot[int], interaction: ScriptedInteraction) -> None:
        assert "It goes on in the middle of a word." in shown(app)

    script = [
        n.TurnStarted(run="r", turn=1),
        text("It goes on in the mid"),
        n.TurnFinished(turn=1, stop_reason="max_tokens", usage=None),
        n.TurnStarted(run="r", turn=2, continues=True),
        n.TextNotice(turn=2, text="dle of a word."),
        n.TurnFinished(turn=2, stop_reason="end_turn", usage=None),
        finished(),
    ]
    play(script, act)


def test_a_call_that_is_withdrawn_twice_is_shown_once_and_one_that_was_cut_says_so() -> None:
    async def act(app: TerminalFace, pilot: Pilot[int], interaction: ScriptedInteraction) -> None:
        rows = shown(app)
        assert sum("withdrawn" in row for row in rows) == 1
        assert any("its arguments were closed by Sluice" in row for row in rows)

    gone = n.CallWithdrawn(turn=1, arrival=0, tool="bash", reason="cut")
    healed = n.CallStarted(turn=1, position=1, tool="read", healed='{"path":"a"}')
    script = [*call(0, "bash", "ls"), gone, gone, *call(1, "read", "a"), arrived(1, "read", "a"), healed, HOLD]
    play(script, act, (120, 24))


def test_selected_text_is_what_is_seen_and_ctrl_c_copies_it_first() -> None:
    from textual.geometry import Offset
    from textual.selection import Selection

    async def act(app: TerminalFace, pilot: Pilot[int], interaction: ScriptedInteraction) -> None:
        first = next(y for y in range(app.transcript._tops[-1]) if "alpha" in app.transcript._row(y).text)
        selection = Selection(Offset(2, first), Offset(3, first + 2))
        assert app.transcript.get_selection(selection) == ("pha\n\nbet", "\n")

        app.screen.selections = {app.transcript: selection}
        await pilot.press("ctrl+c")
        assert app.clipboard == "pha\n\nbet"
        assert "cancel" not in [request[0] for request in interaction.requests]
        await pilot.press("ctrl+c")
        await pilot.pause()
        assert "cancel" in [request[0] for request in interaction.requests]

    play([text("alpha\n\nbeta"), HOLD], act)


def test_a_frame_costs_no_more_in_a_long_conversation() -> None:
    """Compares two figures of one run: a frame over few blocks and one over many."""

    async def act(app: TerminalFace, pilot: Pilot[int], interaction: ScriptedInteraction) -> None:
        def frame() -> float:
            best = 1.0
            for number in range(20):
                app.transcript.feed.hear(text(f"word {number} "))
                began = time.process_time()
                app.transcript._frame()
                best = min(best, time.process_time() - began)
            return best

        few = frame()
        for number in range(2500):
            app.transcript.feed.hear(text(f"\n\nparagraph {number} " + "word " * 100))
            app.transcript.feed.step()
        app.transcript.flush()
        assert frame() < 25 * few + 0.02

    play([text("begin")], act)


@pytest.mark.parametrize("words", ["", "not this [bold]file\x1b[0m"])
def test_a_no_of_the_person_reads_as_theirs(words: str) -> None:
    refused = answers.refused_by_person(ToolCall(index=0, id="c0", name="edit", arguments="{}"), words, "mutating")

    async def act(app: TerminalFace, pilot: Pilot[int], _interaction: ScriptedInteraction) -> None:
        rows = shown(app)
        assert any("edit a.py" in row and "has not run: you said no" in row for row in rows), rows
        assert not any("The user" in row or "asked for again" in row for row in rows)
        assert any("“not this [bold]file␛[0m”" in row for row in rows) == bool(words)

    end = n.CallFinished(turn=1, position=0, id="c0", tool="edit", result=refused, seconds=0.0)
    play([*call(0, "edit", "a.py"), arrived(0, "edit", "a.py"), end, HOLD], act)


def test_what_the_person_agreed_to_is_no_warning_and_home_is_a_tilde(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/person")

    async def act(app: TerminalFace, pilot: Pilot[int], _interaction: ScriptedInteraction) -> None:
        rows = shown(app)
        assert "   · AGENTS.md is given".strip() in [row.strip() for row in rows], rows
        assert any("! warning: mind this" in row for row in rows)
        assert any("large-model in ~/project, 2 tools" in row for row in rows)

    given = n.Warned(message="AGENTS.md is given", expected=True)
    started = msgspec.structs.replace(STARTED, workspace="/home/person/project")
    play([given, n.Warned(message="mind this"), started, HOLD], act)
