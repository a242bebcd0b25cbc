"""The text face: the answer on standard output as it arrives, all else on standard error, one line a thing."""

from __future__ import annotations

import os
import unicodedata
from typing import TextIO

from sluice.ui.json_stream import as_json
from sluice.ui.visible import one_line, visible
from sluice.values.messages import Usage
from sluice.values.money import dollars
from sluice.values.notices import (
    CallArrived,
    CallFinished,
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
from sluice.values.results import ToolResult

MAX_DIFF_LINES = 200  # lines of one diff that are shown
_COLOURS = {"+": "\x1b[32m", "-": "\x1b[31m", "@": "\x1b[36m"}
_DIM, _PLAIN = "\x1b[2m", "\x1b[0m"


class TextFace:
    """Shows the notices of one run to a person. `show` each notice, then `close`.

    `colour` allows colours on `err`, and `live` a line there that is written over while a call arrives; nothing else of
    what it writes is a control sequence. With `debug`, reasoning is shown and every notice is also written as JSON to
    `err`. Errors of the streams themselves pass through.
    """

    def __init__(
        self, out: TextIO, err: TextIO, *, debug: bool = False, colour: bool = False, live: bool = False
    ) -> None:
        self._out = out
        self._err = err
        self._debug = debug
        self._colour = colour
        self._live = live
        self._live_columns = 0  # how much of the live line is to be wiped
        self._intents: dict[tuple[int, int], str] = {}  # by arrival: what is being done
        self._same_screen = _same_place(out, err)
        self._out_open = False  # standard output stands inside a line
        self._err_open: tuple[int, int] | str | None = None  # standard error does: by which call, or by reasoning
        self._subjects: dict[tuple[int, int], str] = {}
        self._turn_said = False  # this turn showed text or a call
        self._turn_text = False  # this turn's first text has been seen
        self._failed: Failed | None = (
            None  # what went wrong last, until it is known whether the run goes on all the same
        )

    def show(self, notice: Notice) -> None:
        """Shows one notice, at once."""
        if self._debug:
            self._line(_DIM, "debug: " + visible(as_json(notice).decode("utf-8")))
        match notice:
            case TextNotice():
                self._text(notice.text)
            case ReasoningNotice():
                self._reasoning(notice.text)
            case ReasoningEnded():
                self._end_err_line()
            case RunStarted():
                self._run_started(notice)
            case TurnStarted():
                self._goes_on()
                if not notice.continues:
                    self._end_out_line()  # the reply before it may have broken inside a line
                self._turn_said = False
                self._turn_text = notice.continues
                self._intents.clear()
            case CallIntent():
                verb = "writing" if notice.category == "mutating" else f"asking for {notice.tool}"
                self._intents[notice.turn, notice.arrival] = f"{verb} {one_line(notice.subject, 120)}"
            case CallProgressed():
                self._progress(notice)
            case CallArrived() | CallStarted() | CallFinished() | CallWithdrawn():
                self._call(notice)
            case Waiting():
                reason = one_line(notice.reason)
                self._line("", f"… {reason}; trying again in {notice.seconds:.1f} s (attempt {notice.attempt} failed)")
            case Warned():
                self._line("", f"warning: {one_line(notice.message, 500)}")
            case Failed():
                self._goes_on()
                self._failed = notice
            case Summarised():
                self._goes_on()
                self._summarised(notice)
            case Steered():
                self._line("", f"» {one_line(notice.text, 500)}")
            case TurnFinished():
                self._turn_finished(notice)
            case RunFinished():
                self._run_finished(notice)
            case _:
                pass  # intents and verdicts: what comes of them is shown when it comes

    def close(self) -> None:
        """Ends the lines that are open. Calling it twice is fine."""
        self._say_failed()
        self._end_out_line()
        self._end_err_line()

    # -- the answer

    def _text(self, text: str) -> None:
        if not self._turn_text:
            self._turn_text = True
            # One leading newline of a reply's first text is an artefact of chat templates (U7).
            text = text.removeprefix("\r\n") if text.startswith("\r\n") else text.removeprefix("\n")
        if not text:
            return
        self._turn_said = self._turn_said or bool(text.strip())
        self._end_err_line()
        self._out.write(visible(text))
        self._out.flush()
        self._out_open = not text.endswith("\n")

    def _reasoning(self, text: str) -> None:
        if not self._debug:
            if self._err_open != "reasoning" and self._err.isatty():
                self._before_err_line()
                self._write_err(_DIM, "thinking …")
                self._err_open = "reasoning"
            return
        if self._err_open != "reasoning":
            self._end_err_line()
        self._write_err(_DIM, visible(text))
        self._err_open = "reasoning"

    # -- calls

    def _progress(self, notice: CallProgressed) -> None:
        """Writes over one line what is arriving; it is gone when anything else is shown."""
        if not self._live:
            return
        if self._err_open != "live":
            self._before_err_line()
            self._live_columns = 0
        doing = self._intents.get((notice.turn, notice.arrival), f"asking for {one_line(notice.tool, 64)}")
        line, columns = _fitting(visible(f"… {doing}"), f" ({_size(notice.size)})", _columns_of(self._err) - 1)
        wipe = " " * max(self._live_columns - columns, 0)
        self._err.write(f"\r{line}{wipe}")
        self._err.flush()
        self._live_columns = max(columns, self._live_columns)
        self._err_open = "live"

    def _call(self, notice: CallArrived | CallStarted | CallFinished | CallWithdrawn) -> None:
        self._turn_said = True
        if notice.position is None:  # only a withdrawn call has none
            self._line(_DIM, f"· {one_line(notice.tool, 64)} will not run: {one_line(notice.reason)}")
            return
        key = (notice.turn, notice.position)
        if isinstance(notice, CallArrived):
            self._subjects[key] = one_line(notice.subject or "", 120)
            return
        name = f"{one_line(notice.tool, 64)} {self._subjects.get(key, '')}".rstrip()
        if isinstance(notice, CallWithdrawn):
            self._line(_DIM, f"· {name} will not run: {one_line(notice.reason)}")
        elif isinstance(notice, CallStarted):
            self._before_err_line()
            closed = f" (it was cut; closed by Sluice: {one_line(notice.healed, 200)})" if notice.healed else ""
            self._write_err("", f"→ {name}{closed}")
            self._err_open = key
        else:
            mark, words = _ending(notice.result, notice.seconds)
            if self._err_open == key:
                self._err_open = None
                self._write_err("", f"  {mark} {words}\n")
            else:
                self._line("", f"{mark} {name}  {words}")
            self._subjects.pop(key, None)
            self._diff(notice.result.facts.get("diff"))

    def _diff(self, diff: object) -> None:
        if not isinstance(diff, str) or not diff:
            return
        lines = visible(diff).rstrip("\n").split("\n")
        for line in lines[:MAX_DIFF_LINES]:
            self._line(_COLOURS.get(line[:1], ""), "    " + line)
        if len(lines) > MAX_DIFF_LINES:
            self._line(_DIM, f"    … {len(lines) - MAX_DIFF_LINES} more lines of the diff")

    # -- beginning and end

    def _run_started(self, notice: RunStarted) -> None:
        blocked = f", blocked: {', '.join(notice.blocked)}" if notice.blocked else ""
        tools = f"{len(notice.tools)} tools{blocked}" if notice.tools else "no tools"
        mode = "" if notice.mode == "real" else f" ({notice.mode})"
        self._line(_DIM, one_line(f"· {notice.model}{mode} in {notice.workspace}, {tools}", 400))

    def _summarised(self, notice: Summarised) -> None:
        done = f"context shrunk from {notice.before:,} to {notice.after:,} bytes"
        words = done if notice.ok else f"the context of {notice.before:,} bytes could not be shrunk"
        why = f" ({one_line(notice.message, 300)})" if notice.message else ""
        self._line(_DIM, f"· {words}{why}")

    def _turn_finished(self, notice: TurnFinished) -> None:
        self._end_out_line()
        if not self._turn_said and notice.stop_reason is not None:
            self._line("", "note: the model returned nothing: no text and no call")

    def _goes_on(self) -> None:
        """What went wrong did not end the run: it is no error, and what ends the run is said once."""
        failed, self._failed = self._failed, None
        if failed is not None:
            self._line(_DIM, f"· {one_line(failed.message, 500)}; going on")

    def _say_failed(self) -> str:
        """Says what went wrong last, if it was not said; returns its words."""
        failed, self._failed = self._failed, None
        if failed is None:
            return ""
        self._line(_COLOURS["-"], f"error: {one_line(failed.message, 500)}")
        return failed.message

    def _run_finished(self, notice: RunFinished) -> None:
        self._end_out_line()
        said = self._say_failed()
        if notice.message and notice.outcome != "completed" and notice.message != said:
            self._line(_COLOURS["-"], f"{one_line(notice.outcome, 40)}: {one_line(notice.message, 500)}")
        if not notice.saved:
            self._line(_COLOURS["-"], f"error: not saved: {one_line(notice.unsaved or 'the end of this run', 500)}")
        if copy := notice.extra.get("copy"):
            self._line(
                _COLOURS["-"], f"a copy of the conversation is in {one_line(str(copy), 1000)}: keep it elsewhere"
            )
        parts = [
            one_line(notice.outcome, 40),
            _count(notice.turns, "turn"),
            _count(notice.tool_calls, "call"),
            _tokens(notice.usage),
            f"{notice.seconds:.1f} s",
        ]
        if notice.cost is not None:
            parts.insert(4, dollars(notice.cost, estimated=notice.usage.estimated))
        mark = "✓" if notice.exit_code == 0 else "✗"
        self._line(_DIM, f"{mark} " + " · ".join(parts))

    # -- lines

    def _line(self, colour: str, text: str) -> None:
        self._before_err_line()
        self._write_err(colour, text, end="\n")

    def _before_err_line(self) -> None:
        if self._same_screen:
            self._end_out_line()
        self._end_err_line()

    def _write_err(self, colour: str, text: str, end: str = "") -> None:
        text = visible(text)  # the one place every word to `err` goes through, whatever was done to it before
        painted = f"{colour}{text}{_PLAIN}" if self._colour and colour and text else text
        self._err.write(painted + end)
        self._err.flush()

    def _end_out_line(self) -> None:
        if self._out_open:
            self._out_open = False
            self._out.write("\n")
            self._out.flush()

    def _end_err_line(self) -> None:
        if self._err_open is not None:
            self._err.write("\r" + " " * self._live_columns + "\r" if self._err_open == "live" else "\n")
            self._err_open = None
            self._err.flush()


def _same_place(out: TextIO, err: TextIO) -> bool:
    """Whether both streams are read together: on terminals, or in one file or pipe (`2>&1`)."""
    if out.isatty() and err.isatty():
        return True
    try:
        first, second = os.fstat(out.fileno()), os.fstat(err.fileno())
    except (OSError, ValueError):  # a stream that is no file
        return False
    return (first.st_dev, first.st_ino) == (second.st_dev, second.st_ino)


def _columns_of(stream: TextIO) -> int:
    try:
        return max(os.get_terminal_size(stream.fileno()).columns, 20)
    except (OSError, ValueError):
        return 80


def _fitting(text: str, end: str, columns: int) -> tuple[str, int]:
    """`text`, cut so that it and `end` stand in one row of a terminal, and how many columns both take."""
    room, used = columns - len(end), 0
    for at, character in enumerate(text):
        wide = 0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        if used + wide > room - 1:
            text = text[:at] + "…"
            used += 1
            break
        used += wide
    return text + end, used + len(end)


def _size(size: int) -> str:
    return f"{size / 1024:.0f} KB" if size >= 1024 else f"{size} bytes"


def _ending(result: ToolResult, seconds: float) -> tuple[str, str]:
    """The mark and the words for how a call ended."""
    time = f"{seconds:.2f} s"
    why = one_line(result.error.message) if result.error else ""
    if result.ok:
        return "✓", time
    if result.status == "blocked":
        if (said := result.facts.get("refused")) is not None:
            return "⊘", f"you said no: {one_line(str(said))}" if said else "you said no"
        how = one_line(result.blocked.how_to_allow) if result.blocked else why
        return "⊘", f"blocked: {how}" if how else "blocked"
    if result.status in ("skipped", "cancelled"):
        return "-", f"{result.status}: {why}" if why else result.status
    if result.status == "timed_out":
        return "✗", f"timed out after {time}"
    if not why and result.exit_code is not None:
        why = f"exit code {result.exit_code}"
    status = result.status.replace("_", " ")
    return "✗", f"{status}: {why}  {time}" if why else f"{status}  {time}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number:,} {noun}s"


def _tokens(usage: Usage) -> str:
    about = "about " if usage.estimated else ""
    return f"{about}{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out"
