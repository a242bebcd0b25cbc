"""Calls, and reasoning, that a model writes inside its text (W10). Off unless a form is chosen by name.

| state | meaning | left by |
|---|---|---|
| `idle` | nothing was said since the start, a call or a thought | text → `content`, a marker or `<think>` as below |
| `content` | text goes to the watcher | a marker → `capture`, `<think>` → `reasoning` |
| `capture` | a body reader takes the text | its end → `idle`; it was text after all → `content` |
| `reasoning` | text is a thought | `</think>` → `idle` |

What is a marker:

- Text goes out at once, but for the characters at its end that may begin a marker, and white space (64 characters at the
  most) between the last call or thought and what comes next: before a marker that is no text.
- Inside a fenced block (a line that begins with three backticks or tildes, up to the next such line) nothing is a marker;
  neither is what follows a backtick or a quotation mark directly. A fence that never ends hides every call after it: a
  call that does not run is the smaller harm.
- `<think>` must stand at the beginning of a line, with three spaces before it at the most.
- A marker whose body is none comes out as the text it is, in order; so does one that the reply cuts before the call's name
  is known. After the name it is a call: `malformed` if broken, `cut` if the reply ends inside it.
- JSON without a marker is a call only where the model has said nothing before it, and only if it holds a name, an object
  of arguments and nothing else (where tools are known, the name of one). So is a list of Python calls.

Where the forms are documented: Hermes function calling (NousResearch, "Hermes-Function-Calling"); the chat templates of
Qwen2.5, Qwen3 and Qwen3-Coder; GLM-4.5's template and vLLM's issue 44326 for calls without arguments; Meta's
"Llama 3.1 prompt format" (`<|python_tag|>`, `<function=…>`); Mistral's tokenizer notes for versions 3, 11 and 13; the
templates of DeepSeek V3, R1 and V3.1, and of V3.2 and V4 for the form with `DSML` (seen with one bar and with two on each
side); Moonshot's guide to the tool calls of Kimi K2; for calls in Python see `inline_python`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Literal

import msgspec

from sluice.limits import KIB, Limits
from sluice.values.calls import ToolSpec
from sluice.values.deltas import Delta, TextDelta
from sluice.wire import inline_bodies as bodies
from sluice.wire import inline_python as python
from sluice.wire.dialects.base import EventReader, ReplyState
from sluice.wire.fences import Fences
from sluice.wire.inline_capture import Body, Capture, Ended, NotACall, begun
from sluice.wire.sse import Event

_THINK, _THOUGHT = "<think>", "</think>"
_QUOTES = frozenset("`\"'\N{LEFT DOUBLE QUOTATION MARK}\N{LEFT SINGLE QUOTATION MARK}\N{DOUBLE LOW-9 QUOTATION MARK}")
_MAX_BLANK = 64  # characters of white space that wait for what follows
_space = re.compile(r"[ \t\r\n]*+").match

State = Literal["idle", "content", "capture", "reasoning"]
Reader = Callable[[Capture], Body]

NEXT: Mapping[tuple[State, str], State] = MappingProxyType(
    {
        ("idle", "text"): "content",
        ("idle", "marker"): "capture",
        ("idle", "think"): "reasoning",
        ("content", "text"): "content",
        ("content", "marker"): "capture",
        ("content", "think"): "reasoning",
        ("capture", "end"): "idle",
        ("capture", "text"): "content",
        ("reasoning", "end"): "idle",
    }
)
"""The table of states: what happens, and where it leads."""


class InlineForm(msgspec.Struct, frozen=True):
    """One way of writing calls: markers and the readers of what follows them.

    `bare` reads a call without a marker: at the beginning of what the model says, where it begins with `bare_start`.
    """

    markers: Mapping[str, Reader]
    bare: Reader | None = None
    bare_start: str = "{"


INLINE_FORMS: Mapping[str, InlineForm] = MappingProxyType(
    {
        "think": InlineForm({}),
        "hermes": InlineForm({"<tool_call>": bodies.hermes}),
        "qwen3_coder": InlineForm({"<tool_call>": bodies.wrapped_functions, "<function=": bodies.function}),
        "glm": InlineForm({"<tool_call>": bodies.glm}),
        "llama": InlineForm({"<|python_tag|>": bodies.llama}, bodies.bare_json),
        "function_tag": InlineForm({"<function=": bodies.function}),
        "mistral": InlineForm({"[TOOL_CALLS]": bodies.mistral}),
        "deepseek": InlineForm(
            {"<｜tool▁calls▁begin｜>": bodies.deepseek_calls, "<｜tool▁call▁begin｜>": bodies.deepseek_call}
        ),
        "deepseek_v32": InlineForm(
            {
                f"<{token}{tag}": made(token)
                for token in ("｜DSML｜", "｜｜DSML｜｜")
                for tag, made in (
                    ("function_calls>", bodies.dsml_calls),
                    ("tool_calls>", bodies.dsml_calls),
                    ('invoke name="', bodies.dsml_invoke),
                )
            }
        ),
        "kimi_k2": InlineForm(
            {"<|tool_calls_section_begin|>": bodies.kimi_calls, "<|tool_call_begin|>": bodies.kimi_call}
        ),
        "pythonic": InlineForm({"<|python_start|>": python.pythonic}, python.bare_pythonic, "["),
    }
)
"""The forms by name. All of them take `<think>…</think>` as reasoning."""


class InlineCalls:
    """Takes the text of one reply and sorts it into text, reasoning and calls.

    Calls go to the state's assembler, so its bounds hold. `specs` say which values of a tagged form are strings; without
    them all are. With a `trace` list each character that came in is in it once, with where it went: `text`, `reasoning`,
    `marker` or `call`. Raises `KeyError` for an unknown form.
    """

    def __init__(self, form: str, state: ReplyState, limits: Limits, specs: Sequence[ToolSpec] = ()) -> None:
        self.state: State = "idle"
        self.trace: list[tuple[str, str]] | None = None
        self._form = INLINE_FORMS[form]
        self._reply = state
        markers = (*self._form.markers, _THINK)
        self._markers = markers
        self._find = re.compile("|".join(map(re.escape, markers))).search
        size = limits.max_arguments_bytes + 64 * KIB
        self._capture = Capture(state.calls, {spec.name: spec for spec in specs}, size, state.tolerate)
        self._body: Body | None = None
        self._fences = Fences()
        self._before = ""  # the last character of text
        self._spoken = False  # a call or a thought came before

    def feed(self, text: str, out: list[Delta]) -> None:
        """The next piece of the reply's text; what becomes known goes to `out`. Raises `Bound`."""
        self._capture.push(text)
        self._run(out)

    def finish(self, out: list[Delta]) -> None:
        """The end of the text: what was held comes out, and a call that is still open is cut."""
        self._capture.ended = True
        self._run(out)
        self._capture.ended = False

    def _run(self, out: list[Delta]) -> None:
        cap = self._capture
        cap.out = out
        cap.trace = self.trace
        on = True
        while on:
            if self.state == "capture":
                on = self._captured(out)
            elif cap.pos >= len(cap.text):
                on = False
            elif self.state == "reasoning":
                on = self._thought(out)
            else:
                on = self._said(out)
        cap.out = []

    def _go(self, what: str) -> None:
        self.state = NEXT[self.state, what]
        if self.state == "idle":
            self._before = ""
            self._spoken = True

    def _said(self, out: list[Delta]) -> bool:
        """Text up to the next marker. True if there is more to do."""
        cap = self._capture
        if self.state == "idle":
            found = _space(cap.text, cap.pos)
            start = found.end() if found else cap.pos
            if start - cap.pos > _MAX_BLANK:
                self._say(start, out)
                return cap.pos < len(cap.text)
            if start == len(cap.text):
                if cap.ended:
                    self._leave(start) if self._spoken else self._say(start, out)
                return False
            if self._form.bare is not None and cap.text[start] == self._form.bare_start:
                self._begin(self._form.bare, start)
                return True
        else:
            start = cap.pos
        return self._search(start, out)

    def _search(self, start: int, out: list[Delta]) -> bool:
        cap = self._capture
        text = cap.text
        found = self._find(text, start)
        at = found.start() if found else min(begun(text, start, marker) for marker in self._markers)
        if at > start or self.state == "content":
            self._say(at, out)
        if at == len(text) or (found is None and self._plain(at)):
            self._say(len(text), out)
            return False
        if found is None:
            if cap.ended:
                self._say(len(text), out)
            return False
        marker = found.group()
        inside_line = self.state == "content" and not self._fences.line_is_blank
        if self._plain(at) or (marker == _THINK and inside_line):
            self._say(at + 1, out)
            return True
        if marker == _THINK:
            self._leave(found.end())
            self._go("think")
        else:
            self._begin(self._form.markers[marker], found.end())
        return True

    def _plain(self, at: int) -> bool:
        """True if what begins at `at` cannot be a marker: it stands in a fenced block or is quoted."""
        return self._fences.inside or (at == self._capture.pos and self._before in _QUOTES)

    def _say(self, end: int, out: list[Delta]) -> None:
        """Text up to a position."""
        cap = self._capture
        piece = cap.text[cap.pos : end]
        cap.pos = end
        self._text(piece, out)

    def _text(self, piece: str, out: list[Delta]) -> None:
        if not piece:
            return
        if self.state != "content":
            self._go("text")
        self._before = piece[-1]
        self._fences.add(piece)
        if self.trace is not None:
            self.trace.append(("text", piece))
        self._reply.show(piece)
        out.append(TextDelta(piece))

    def _leave(self, end: int) -> None:
        """A marker, and white space before it, is nobody's text."""
        cap = self._capture
        if self.trace is not None:
            self.trace.append(("marker", cap.text[cap.pos : end]))
        cap.pos = end

    def _begin(self, reader: Reader, end: int) -> None:
        cap = self._capture
        cap.call = None
        cap.taken = 0
        cap.take(end)
        self._body = reader(cap)
        self._go("marker")

    def _captured(self, out: list[Delta]) -> bool:
        """Lets the body reader take what is there. True if it came to its end."""
        cap = self._capture
        assert self._body is not None
        try:
            next(self._body)
        except StopIteration:
            cap.keep()
            self._go("end")
        except NotACall:
            self._give_back(out)
        except Ended:
            if cap.call is not None or not "".join(cap.held).strip():
                cap.cut()
                cap.keep()
                self._go("end")
            else:
                self._give_back(out)
        else:
            return False
        self._body = None
        return True

    def _give_back(self, out: list[Delta]) -> None:
        cap = self._capture
        held = "".join(cap.held)
        cap.held.clear()
        self._reply.tolerate("marker_in_text")
        self._text(held, out)

    def _thought(self, out: list[Delta]) -> bool:
        cap = self._capture
        found = cap.text.find(_THOUGHT, cap.pos)
        end = found if found >= 0 else begun(cap.text, cap.pos, _THOUGHT)
        if cap.ended and found < 0:
            end = len(cap.text)
        piece = cap.text[cap.pos : end]
        cap.pos = end
        if piece:
            if self.trace is not None:
                self.trace.append(("reasoning", piece))
            self._reply.add_reasoning(piece, out)
        if found < 0:
            return False
        self._leave(end + len(_THOUGHT))
        self._go("end")
        return True


class InlineReader:
    """An event reader whose text goes through `InlineCalls`. Its dialect sees nothing of it."""

    __slots__ = ("_events", "_inline", "_state")

    def __init__(self, events: EventReader, inline: InlineCalls, state: ReplyState) -> None:
        self._events = events
        self._inline = inline
        self._state = state

    def read(self, events: Sequence[Event], out: list[Delta]) -> None:
        """See `EventReader.read`. One event at a time, so that text is taken before a terminal mark that follows it."""
        for event in events:
            found: list[Delta] = []
            try:
                self._events.read((event,), found)
            finally:
                self._sort(found, out)
            if self._state.ended:
                return

    def finish(self, out: list[Delta]) -> None:
        """See `EventReader.finish`."""
        found: list[Delta] = []
        try:
            self._events.finish(found)
        finally:
            self._sort(found, out)
            self._inline.finish(out)
        if self._state.stop_reason is not None:
            self._state.calls.finish(self._state.stop_reason, out)

    def _sort(self, found: list[Delta], out: list[Delta]) -> None:
        for delta in found:
            if type(delta) is TextDelta:
                self._inline.feed(delta.text, out)
            else:
                out.append(delta)
