"""What a person sees: the answer alone on standard output, one line a thing on standard error, no control sequences."""

from __future__ import annotations

import io
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.ui.text import MAX_DIFF_LINES, TextFace
from sluice.values.messages import Usage
from sluice.values.notices import (
    CallArrived,
    CallFinished,
    CallIntended,
    CallIntent,
    CallProgressed,
    CallStarted,
    CallWithdrawn,
    Failed,
    Notice,
    ReasoningEnded,
    ReasoningNotice,
    RunFinished,
    RunStarted,
    Steered,
    Summarised,
    TextNotice,
    TurnFinished,
    TurnStarted,
    Waiting,
    Warned,
)
from sluice.values.results import Blocked, ErrorInfo, ToolResult


class Screen(io.StringIO):
    def __init__(self, terminal: bool = False) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


def finished(**more: Any) -> RunFinished:
    values: dict[str, Any] = {
        "run": "r",
        "outcome": "completed",
        "exit_code": 0,
        "message": "",
        "text": "",
        "message_id": "m",
        "turns": 1,
        "tool_calls": 0,
        "usage": Usage(input_tokens=1200, output_tokens=5),
    }
    return RunFinished(**{**values, **more})


def shown(*notices: Notice, terminal: bool = False, **more: Any) -> tuple[str, str]:
    out, err = Screen(terminal), Screen(terminal)
    face = TextFace(out, err, **more)
    for notice in notices:
        face.show(notice)
    face.close()
    return out.getvalue(), err.getvalue()


def arrived(**more: Any) -> CallArrived:
    values: dict[str, Any] = {
        "turn": 1,
        "position": 0,
        "arrival": 0,
        "id": "c",
        "tool": "read",
        "arguments": "{}",
        "status": "whole",
    }
    return CallArrived(**{**values, **more})


def ended(result: ToolResult, position: int = 0, seconds: float = 0.25) -> CallFinished:
    return CallFinished(turn=1, position=position, id="c", tool=result.tool, result=result, seconds=seconds)


OK = ToolResult(ok=True, status="ok", tool="read", content="secret of the file")
TURN = TurnStarted(run="r", turn=1)
DONE = TurnFinished(turn=1, stop_reason="end_turn", usage=None)


def test_the_answer_is_alone_on_standard_output_and_ends_its_line() -> None:
    text = [TextNotice(turn=1, text=piece) for piece in ("Hel", "lo", " world")]
    out, err = shown(
        RunStarted(run="r", model="m", mode="real", workspace="/w", tools=("a", "b"), blocked=("mutating",)),
        TURN,
        *text,
        DONE,
        finished(),
    )
    assert out == "Hello world\n"
    assert (
        err
        == "· m in /w, 2 tools, blocked: mutating\n✓ completed · 1 turn · 0 calls · 1,200 tokens in, 5 out · 0.0 s\n"
    )


def test_each_piece_is_out_before_the_next_one_comes() -> None:
    out = Screen()
    face = TextFace(out, Screen())
    face.show(TURN)
    face.show(TextNotice(turn=1, text="Hel"))
    assert out.getvalue() == "Hel"


@pytest.mark.parametrize(
    ("pieces", "answer"),
    [
        (["\nHi"], "Hi\n"),
        (["\n", "\nHi"], "\nHi\n"),
        (["\n\nHi\n"], "\nHi\n"),
        (["\r\nHi"], "Hi\n"),
        (["Hi", "\nyou"], "Hi\nyou\n"),
    ],
)
def test_one_leading_newline_of_a_reply_is_not_shown(pieces: list[str], answer: str) -> None:
    assert shown(TURN, *(TextNotice(turn=1, text=piece) for piece in pieces), DONE)[0] == answer


def test_a_call_that_runs_alone_is_one_line() -> None:
    out, err = shown(TURN, arrived(subject="README.md"), CallStarted(turn=1, position=0, tool="read"), ended(OK))
    assert out == ""
    assert err == "→ read README.md  ✓ 0.25 s\n"


def test_a_call_is_seen_when_it_starts() -> None:
    err = Screen()
    face = TextFace(Screen(), err)
    face.show(CallIntended(turn=1, arrival=0, id="c", tool="read"))
    assert err.getvalue() == ""  # an intent has not run, and is not shown as if it had
    face.show(arrived(subject="a"))
    face.show(CallStarted(turn=1, position=0, tool="read"))
    assert err.getvalue() == "→ read a"


def test_calls_side_by_side_have_whole_lines() -> None:
    _out, err = shown(
        TURN,
        arrived(subject="a"),
        arrived(position=1, subject="b"),
        CallStarted(turn=1, position=0, tool="read"),
        CallStarted(turn=1, position=1, tool="read"),
        ended(OK),
        ended(OK, position=1),
    )
    assert err.splitlines() == ["→ read a", "→ read b", "✓ read a  0.25 s", "✓ read b  0.25 s"]


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        (
            {
                "status": "blocked",
                "blocked": Blocked(
                    category="mutating",
                    missing=("allow_mutating_tools",),
                    how_to_allow="run again with --allow-mutating-tools",
                ),
            },
            "⊘ read  blocked: run again with --allow-mutating-tools",
        ),
        ({"status": "blocked", "facts": {"refused": ""}}, "⊘ read  you said no"),
        ({"status": "blocked", "facts": {"refused": "not\nnow"}}, "⊘ read  you said no: not␊now"),
        (
            {"status": "failed", "error": ErrorInfo("no_match", "old_text\nis not there")},
            "✗ read  failed: old_text␊is not there  0.25 s",
        ),
        ({"status": "failed", "exit_code": 3}, "✗ read  failed: exit code 3  0.25 s"),
        ({"status": "timed_out"}, "✗ read  timed out after 0.25 s"),
        ({"status": "skipped"}, "- read  skipped"),
        ({"status": "unknown_outcome"}, "✗ read  unknown outcome  0.25 s"),
    ],
)
def test_every_way_a_call_can_end_has_its_line(fields: dict[str, Any], line: str) -> None:
    _out, err = shown(TURN, arrived(), ended(ToolResult(ok=False, tool="read", **fields)))
    assert err == line + "\n"


def test_a_diff_is_shown_in_colour_only_where_colour_is_wanted() -> None:
    diff = "@@ -1 +1 @@\n-a\x1b[2J\n+b\n"
    notice = ended(ToolResult(ok=True, status="ok", tool="edit", facts={"diff": diff}))
    plain, coloured = shown(notice)[1], shown(notice, colour=True)[1]
    assert "\x1b" not in plain
    assert "    -a␛[2J\n    +b\n" in plain
    assert "\x1b[32m    +b\x1b[0m" in coloured
    assert "\x1b[2J" not in coloured


def test_a_long_diff_is_cut_and_says_so() -> None:
    notice = ended(ToolResult(ok=True, status="ok", tool="edit", facts={"diff": "+x\n" * (MAX_DIFF_LINES + 5)}))
    err = shown(notice)[1]
    assert err.count("+x") == MAX_DIFF_LINES
    assert "… 5 more lines" in err


def test_a_text_that_is_continued_is_one_text() -> None:
    out, _err = shown(
        TurnStarted(run="r", turn=1),
        TextNotice(turn=1, text="One, t"),
        TurnStarted(run="r", turn=2, continues=True),
        TextNotice(turn=2, text="\nwo."),
        TurnStarted(run="r", turn=3),
        TextNotice(turn=3, text="\nNext."),
    )
    assert out == "One, t\nwo.\nNext.\n"


def test_waits_warnings_errors_and_shrinking_are_said() -> None:
    _out, err = shown(
        Waiting(turn=1, attempt=1, seconds=1.5, reason="HTTP 429"),
        Warned(message="careful"),
        Failed(kind="status", message="HTTP 400: too long"),
        Summarised(before=2000, after=10),
        Summarised(before=10, after=10, ok=False, message="the model's summary was empty"),
        Steered(turn=2, text="look at b\x1b first", message_id="s@4"),
        Failed(kind="incomplete", message="the stream ended early"),
        CallWithdrawn(turn=1, arrival=0, position=0, tool="edit", reason="the reply was cut"),
        finished(outcome="incomplete", exit_code=1, message="the stream ended early"),
    )
    assert err.splitlines() == [
        "… HTTP 429; trying again in 1.5 s (attempt 1 failed)",
        "warning: careful",
        "· HTTP 400: too long; going on",
        "· context shrunk from 2,000 to 10 bytes",
        "· the context of 10 bytes could not be shrunk (the model's summary was empty)",
        "» look at b␛ first",
        "· edit will not run: the reply was cut",
        "error: the stream ended early",
        "✗ incomplete · 1 turn · 0 calls · 1,200 tokens in, 5 out · 0.0 s",  # the error is not said twice
    ]


def test_a_reply_that_broke_off_twice_is_one_error() -> None:
    _out, err = shown(
        TurnStarted(run="r", turn=1),
        Failed(kind="incomplete", message="the reply broke off"),
        TurnStarted(run="r", turn=2),
        Failed(kind="incomplete", message="the reply broke off"),
        finished(outcome="incomplete", exit_code=1, message="the reply broke off"),
    )
    assert err.splitlines()[:2] == ["· the reply broke off; going on", "error: the reply broke off"]
    assert err.count("error") == 1


def test_an_error_is_said_also_where_no_end_follows() -> None:
    _out, err = shown(Failed(kind="incomplete", message="the reply broke off"))
    assert err == "error: the reply broke off\n"


def test_the_end_says_what_went_wrong_what_it_cost_and_what_is_not_saved() -> None:
    usage = Usage(input_tokens=1, output_tokens=1, estimated=True)
    _out, err = shown(
        finished(
            outcome="limit:max_turns",
            exit_code=3,
            message="20 turns are used up",
            turns=20,
            cost=0.5,
            usage=usage,
            saved=False,
            unsaved="the last message",
            extra={"copy": "/tmp/a\x1b.json"},
        )
    )
    assert "a copy of the conversation is in /tmp/a␛.json: keep it elsewhere\n" in err
    assert "limit:max_turns: 20 turns are used up\n" in err
    assert "not saved: the last message" in err
    assert "20 turns · 0 calls · about 1 tokens in, 1 out · about $0.5000 ·" in err


def test_a_model_that_returns_nothing_is_said() -> None:
    for notices in ((TURN, DONE), (TURN, TextNotice(turn=1, text="\n"), DONE)):
        assert "the model returned nothing" in shown(*notices)[1]
    assert "nothing" not in shown(TURN, TextNotice(turn=1, text="x"), DONE)[1]
    assert "nothing" not in shown(TURN, arrived(), ended(OK), DONE)[1]


def test_reasoning_is_shown_only_to_those_who_debug() -> None:
    notices = (TURN, ReasoningNotice(turn=1, text="hmm"), ReasoningEnded(turn=1), TextNotice(turn=1, text="x"), DONE)
    assert shown(*notices) == ("x\n", "")
    assert "hmm" not in shown(*notices, terminal=True)[1]
    assert "thinking …\n" in shown(*notices, terminal=True)[1]
    out, err = shown(*notices, debug=True)
    assert out == "x\n"
    assert "\nhmm\n" in err
    assert 'debug: {"type":"turn_started"' in err


def test_lines_do_not_run_into_each_other_on_one_terminal() -> None:
    screen = Screen(terminal=True)
    face = TextFace(screen, screen)
    for notice in (TURN, TextNotice(turn=1, text="I look."), CallStarted(turn=1, position=0, tool="read"), ended(OK)):
        face.show(notice)
    face.show(TextNotice(turn=1, text="more"))
    face.show(Warned(message="w"))
    face.close()
    assert screen.getvalue() == "I look.\n→ read  ✓ 0.25 s\nmore\nwarning: w\n"


def test_lines_do_not_run_into_each_other_in_one_file(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w+", encoding="utf-8") as out, (tmp_path / "log").open("a", encoding="utf-8") as err:
        face = TextFace(out, err)
        face.show(TextNotice(turn=1, text="half"))
        face.show(Warned(message="w"))
        face.close()
        assert (tmp_path / "log").read_text(encoding="utf-8") == "half\nwarning: w\n"


def test_a_reply_that_broke_does_not_run_into_the_next() -> None:
    out, _err = shown(TURN, TextNotice(turn=1, text="half"), TURN, TextNotice(turn=2, text="whole"), DONE)
    assert out == "half\nwhole\n"


HOSTILE = st.text(alphabet=st.sampled_from("\x1b\x9b\x07\r\u202e\u200b\ud800\nab[2J\x00"), max_size=12)


@given(HOSTILE, st.booleans())
def test_no_field_of_any_notice_reaches_the_terminal_as_a_control(text: str, debug: bool) -> None:
    result = ToolResult(
        ok=False,
        status="blocked",
        tool=text,
        error=ErrorInfo(text, text, text),
        blocked=Blocked(category="mutating", missing=(text,), how_to_allow=text),
        facts={"diff": text},
    )
    out, err = shown(
        RunStarted(run=text, model=text, mode=text, workspace=text, tools=(text,), blocked=()),
        TextNotice(turn=1, text=text or "x"),
        ReasoningNotice(turn=1, text=text),
        arrived(tool=text, arguments=text, subject=text),
        CallStarted(turn=1, position=0, tool=text),
        ended(result),
        CallWithdrawn(turn=1, arrival=0, position=0, tool=text, reason=text),
        Waiting(turn=1, attempt=1, seconds=0, reason=text),
        Warned(message=text),
        Failed(kind=text, message=text),
        finished(outcome=text, message=text, saved=False, unsaved=text, exit_code=1, extra={"copy": text}),
        debug=debug,
    )
    for written in (out, err):
        written.encode("utf-8")
        assert not set(written) & set("\x1b\x9b\x07\r\u202e\u200b\x00")


def progress(size: int, arrival: int = 0) -> CallProgressed:
    return CallProgressed(turn=1, arrival=arrival, tool="write", size=size, tail="x\x1b[2J", name="content")


def row(screen: str) -> list[str]:
    """The rows of a terminal that shows this, where a carriage return begins the row again."""
    rows = []
    for line in screen.split("\n"):
        cells: list[str] = []
        for part in line.split("\r"):
            cells[: len(part)] = part
        rows.append("".join(cells).rstrip())
    return rows


def test_a_call_that_is_being_written_is_one_line_that_grows_and_goes() -> None:
    out, err = Screen(True), Screen(True)
    face = TextFace(out, err, live=True)
    face.show(TURN)
    face.show(TextNotice(turn=1, text="I write"))
    face.show(CallIntended(turn=1, arrival=0, id=None, tool="write"))
    face.show(progress(9))
    assert (out.getvalue(), row(err.getvalue())) == ("I write\n", ["… asking for write (9 bytes)"])
    face.show(CallIntent(turn=1, arrival=0, tool="write", subject="src/app.py", category="mutating"))
    face.show(progress(12 * 1024))
    assert row(err.getvalue()) == ["… writing src/app.py (12 KB)"]
    face.show(arrived(tool="write", subject="src/app.py"))
    face.show(CallStarted(turn=1, position=0, tool="write"))
    assert row(err.getvalue()) == ["→ write src/app.py"]
    face.show(ended(ToolResult(ok=True, status="ok", tool="write")))
    assert row(err.getvalue()) == ["→ write src/app.py  ✓ 0.25 s", ""]


def test_what_was_being_written_leaves_no_trace_when_it_is_withdrawn() -> None:
    gone = CallWithdrawn(turn=1, arrival=0, tool="write", reason="the reply was cut")
    err = shown(TURN, progress(9), gone, terminal=True, live=True)[1]
    assert row(err) == ["· write will not run: the reply was cut", ""]
    assert row(shown(TURN, progress(9), terminal=True, live=True)[1]) == [""]


def test_only_a_terminal_has_a_line_that_grows() -> None:
    intent = CallIntent(turn=1, arrival=0, tool="write", subject="a", category="mutating")
    assert shown(TURN, intent, progress(9)) == ("", "")


def test_a_line_that_grows_stays_in_its_row_and_hides_nothing() -> None:
    for subject in ("x" * 300, "漢" * 300, "a\rb\x1b[2J\n", "e\u0301" * 100):
        for category in ("mutating", "execution"):
            intent = CallIntent(turn=1, arrival=0, tool="t\x1b", subject=subject, category=category)
            err = Screen(True)
            face = TextFace(Screen(True), err, live=True)
            for notice in (TURN, intent, progress(2000)):
                face.show(notice)
            written = err.getvalue().removeprefix("\r")
            assert "\x1b" not in written
            assert "\r" not in written
            assert "\n" not in written
            assert written.endswith(" (2 KB)")
            wide = sum(
                0 if unicodedata.combining(c) else 1 + (unicodedata.east_asian_width(c) in "WF") for c in written
            )
            assert wide < 80
