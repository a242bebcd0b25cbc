"""How models write a call inside text: one reader for each form, from behind its marker to its end (W10).

A body reader is a generator over a `Capture`: it takes text as it comes, waits with a bare `yield` for more, and says
what it found: `open` when the name is certain (until then everything may still turn out to be text), `write` for
arguments, `close` at the form's own end. It raises `NotACall` where the text is none. What arrives broken after the name
is a malformed call, so that the model is told; what the end of the reply cuts is a cut one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from typing import Any

from sluice.wire.inline_capture import Body, Capture, Ended, NotACall, blank, literal, named, nothing, peek, until
from sluice.wire.inline_tags import GLM, QWEN, Tags, tagged_arguments
from sluice.wire.json_scan import JsonScanner, Member
from sluice.wire.json_values import strict_value

_ARGUMENTS = ("arguments", "parameters")
_BARE_KEYS = frozenset({"type", "name", *_ARGUMENTS})


def _spoiled(cap: Capture, scanner: JsonScanner, stop: str | None, inside: bool) -> Body:
    """The rest of a call whose JSON is broken: up to the end mark, if the form has one."""
    cap.spoil(f"the call written in text is broken at character {scanner.broken_at}: {scanner.broken}")
    if stop is not None:
        yield from until(cap, stop, cap.write if inside else nothing)
    cap.close()


def _arguments(cap: Capture, stop: str | None) -> Generator[None, None, bool]:
    """The arguments alone, as one JSON object. False if they were broken; then `stop` was taken."""
    scanner = JsonScanner(keep=False)
    while True:
        start = scanner.size
        scanner.feed(cap.text[cap.pos :], [])
        end = _end_of(scanner)
        cap.write(cap.take(cap.pos + end - start))
        if scanner.end is not None:
            cap.close()
            return True
        if scanner.broken is not None:
            yield from _spoiled(cap, scanner, stop, inside=True)
            return False
        if cap.ended:
            raise Ended
        yield


def _end_of(scanner: JsonScanner) -> int:
    if scanner.end is not None:
        return scanner.end
    return scanner.size if scanner.broken_at is None else scanner.broken_at


class _ObjectArguments:
    """The arguments of a call that is one JSON object, as they come out of it: perhaps before the name."""

    def __init__(self, cap: Capture) -> None:
        self._cap = cap
        self._held: list[str] = []
        self.quoted = False  # they are a string, which may be JSON
        self.begun = False

    def write(self, piece: str) -> None:
        if not piece:
            return
        if not self.begun:
            self.begun = True
            self.quoted = piece[0] == '"'
        if self.quoted or self._cap.call is None:
            self._held.append(piece)
        else:
            self.release()
            self._cap.write(piece)

    def release(self) -> None:
        if self._cap.call is not None:
            self._cap.write("".join(self._held))
            self._held.clear()

    def done(self, value: Any) -> None:
        if self.quoted and isinstance(value, str) and isinstance((strict_value(value) or (None,))[0], dict):
            self._cap.tolerate("string_arguments")
            self._held[:] = [value]
        self.quoted = False

    @property
    def is_object(self) -> bool:
        return self.begun and bool(self._held) and self._held[0].startswith("{")


def _object(cap: Capture, stop: str | None, *, bare: bool = False) -> Generator[None, None, bool]:
    """A call as one JSON object of a name and arguments. False if it was broken; then `stop` was taken.

    Without a marker before it (`bare`) it is a call only if it has nothing but a name, a type and an object of
    arguments, and the name is a tool's where tools are known.
    """
    scanner = JsonScanner(keep=False, keys=_BARE_KEYS if bare else None)
    arguments = _ObjectArguments(cap)
    name = ""
    while True:
        start = scanner.size
        piece = cap.text[cap.pos :]
        done: list[Member] = []
        scanner.feed(piece, done)
        for member in done:
            if member.name == "name" and isinstance(member.value, str):
                name = member.value
                if bare and cap.specs and name not in cap.specs:
                    cap.take(cap.pos + member.end - start)
                    raise NotACall
        end = _end_of(scanner)
        piece = cap.take(cap.pos + end - start)
        for member in done:
            if member.name in _ARGUMENTS:
                arguments.write(piece[max(member.start - start, 0) : member.end - start])
                arguments.done(member.value)
        inside = scanner.value_at is not None and scanner.name in _ARGUMENTS
        if inside and scanner.value_at is not None:
            arguments.write(piece[max(scanner.value_at - start, 0) :])
        if name and (not bare or arguments.is_object):
            cap.open(name)
            if not inside or scanner.broken is not None or not arguments.quoted:
                arguments.release()
        if cap.call is None and (scanner.end is not None or scanner.broken is not None):
            raise NotACall
        if scanner.end is not None:
            if not arguments.begun:
                cap.write("{}")
            cap.close()
            return True
        if scanner.broken is not None:
            yield from _spoiled(cap, scanner, stop, inside)
            return False
        if cap.ended:
            arguments.release()
            raise Ended
        yield


def hermes(cap: Capture) -> Body:
    """`<tool_call>{"name": …, "arguments": {…}}</tool_call>`: Hermes 2 Pro, Qwen 2.5 and 3."""
    if (yield from peek(cap)) != "{":
        raise NotACall
    while (yield from _object(cap, "</tool_call>")):
        if (yield from peek(cap)) != "{":
            yield from literal(cap, "</tool_call>")
            return


def function(cap: Capture) -> Body:
    """`<function=name>` and then `{…}</function>` (Llama 3.1) or parameters as tags (Qwen 3 Coder)."""
    name = yield from named(cap)
    if (yield from literal(cap, ">")) is None:
        raise NotACall
    next_one = yield from peek(cap)
    if next_one == "{":
        cap.open(name)
        if (yield from _arguments(cap, "</function>")):
            yield from blank(cap)
            yield from literal(cap, "</function>")
            cap.keep()
    else:
        yield from tagged_arguments(cap, name, QWEN)
    yield from blank(cap)
    if cap.pos < len(cap.text):
        yield from literal(cap, "</tool_call>")  # models drop its beginning and keep its end


def wrapped_functions(cap: Capture) -> Body:
    """`<tool_call>` around one or more `<function=…>`."""
    if (yield from peek(cap)) != "<":
        raise NotACall
    if (yield from literal(cap, "<function=")) is None:
        raise NotACall
    yield from function(cap)


def glm(cap: Capture) -> Body:
    """`<tool_call>name`, keys and values as tags, `</tool_call>`: GLM 4.5 to 4.7, also without arguments."""
    yield from blank(cap)
    name = yield from named(cap)
    yield from tagged_arguments(cap, name, GLM)


def llama(cap: Capture) -> Body:
    """`<|python_tag|>{"name": …, "parameters": {…}}`, several with `;` between them: Llama 3.1 and later."""
    if (yield from peek(cap)) != "{":
        raise NotACall
    yield from _llama_objects(cap, bare=False)


def bare_json(cap: Capture) -> Body:
    """The same without a marker, at the very beginning of what the model says."""
    yield from _llama_objects(cap, bare=True)


def _llama_objects(cap: Capture, *, bare: bool) -> Body:
    while (yield from _object(cap, None, bare=bare)):
        yield from blank(cap)
        if cap.pos == len(cap.text) or (yield from literal(cap, ";")) is None:
            return
        cap.keep()
        if (yield from peek(cap)) != "{":
            return


def mistral(cap: Capture) -> Body:
    """`[TOOL_CALLS]` and then `[{"name": …, "arguments": {…}}, …]`, or (from tokenizer v11 on) `name{…}`, with
    `[CALL_ID]` and `[ARGS]` in later ones."""
    next_one = yield from peek(cap)
    if next_one == "{":
        yield from _object(cap, None)
        return
    if next_one == "[":
        cap.take(cap.pos + 1)
        yield from _mistral_list(cap)
        return
    name = yield from named(cap)
    if cap.text[cap.pos] == "[":
        found = yield from literal(cap, "[CALL_ID]", "[ARGS]")
        if found == "[CALL_ID]":
            yield from named(cap)
            found = yield from literal(cap, "[ARGS]")
        if found is None:
            raise NotACall
    if (yield from peek(cap)) != "{":
        raise NotACall
    cap.open(name)
    yield from _arguments(cap, None)


def _mistral_list(cap: Capture) -> Body:
    if (yield from peek(cap)) != "{":
        raise NotACall
    while (yield from _object(cap, None)):
        yield from blank(cap)
        if (yield from literal(cap, ",", "]")) != ",":
            return
        if (yield from peek(cap)) != "{":
            return


def _each_marked(cap: Capture, begin: str, end: str, one: Callable[[Capture], Body]) -> Body:
    """Calls that each begin with `begin`, up to `end` or to what is neither."""
    while True:
        yield from blank(cap)
        if (yield from literal(cap, begin, end)) != begin:
            return
        yield from one(cap)


_SEP = "<｜tool▁sep｜>"
_CALL_BEGIN = "<｜tool▁call▁begin｜>"
_CALL_END = "<｜tool▁call▁end｜>"
_CALLS_END = "<｜tool▁calls▁end｜>"


def deepseek_calls(cap: Capture) -> Body:
    """`<｜tool▁calls▁begin｜>`, calls, `<｜tool▁calls▁end｜>`."""
    yield from _each_marked(cap, _CALL_BEGIN, _CALLS_END, _deepseek_call)


def deepseek_call(cap: Capture) -> Body:
    """The same without the outer mark."""
    yield from _deepseek_call(cap)
    yield from deepseek_calls(cap)


def _deepseek_call(cap: Capture) -> Body:
    """`name<｜tool▁sep｜>{…}` (V3.1) or `function<｜tool▁sep｜>name`, then a fence of JSON (V3, R1)."""
    name = yield from named(cap)
    if (yield from literal(cap, _SEP)) is None:
        raise NotACall
    fenced = (yield from peek(cap)) != "{"
    if fenced:
        name = yield from named(cap)
        yield from blank(cap)
        if (yield from literal(cap, "```json")) is None or (yield from peek(cap)) != "{":
            raise NotACall
    cap.open(name)
    if not (yield from _arguments(cap, _CALL_END)):
        return
    yield from blank(cap)
    if fenced:
        yield from literal(cap, "```")
        yield from blank(cap)
    yield from literal(cap, _CALL_END)
    cap.keep()


def dsml_calls(token: str) -> Callable[[Capture], Body]:
    """`<…function_calls>` (or `tool_calls`) around invokes: DeepSeek V3.2 and later. `token` stands in each tag."""
    invoke = _dsml_invokes(token)

    def read(cap: Capture) -> Body:
        yield from blank(cap)
        if (yield from literal(cap, f'<{token}invoke name="')) is None:
            raise NotACall
        yield from invoke(cap)

    return read


def dsml_invoke(token: str) -> Callable[[Capture], Body]:
    """The same without the outer mark."""
    return _dsml_invokes(token)


def _dsml_invokes(token: str) -> Callable[[Capture], Body]:
    begin, ends = f'<{token}invoke name="', (f"</{token}function_calls>", f"</{token}tool_calls>")
    parameter, over, end = f'<{token}parameter name="', f"</{token}parameter>", f"</{token}invoke>"
    tags = Tags(parameter, '"', None, over, end, lines=False, says_string=True)

    def read(cap: Capture) -> Body:
        while True:
            name = yield from named(cap)
            if (yield from literal(cap, '">')) is None:
                raise NotACall
            if (yield from peek(cap)) == "{":
                cap.open(name)
                if (yield from _arguments(cap, end)):
                    yield from blank(cap)
                    yield from literal(cap, end)
                    cap.keep()
            else:
                yield from tagged_arguments(cap, name, tags)
            yield from blank(cap)
            if (yield from literal(cap, begin, *ends)) != begin:
                return
            cap.keep()

    return read


_KIMI_CALL = "<|tool_call_begin|>"
_KIMI_ARGUMENTS = "<|tool_call_argument_begin|>"
_KIMI_END = "<|tool_call_end|>"
_KIMI_ENDS = "<|tool_calls_section_end|>"
_kimi_name = re.compile(r"(?:functions\.)?(.+?)(?::[0-9]+)?").fullmatch


def kimi_calls(cap: Capture) -> Body:
    """`<|tool_calls_section_begin|>`, calls, `<|tool_calls_section_end|>`: Kimi K2."""
    yield from _each_marked(cap, _KIMI_CALL, _KIMI_ENDS, _kimi_call)


def kimi_call(cap: Capture) -> Body:
    """The same without the outer mark."""
    yield from _kimi_call(cap)
    yield from kimi_calls(cap)


def _kimi_call(cap: Capture) -> Body:
    """`functions.name:0<|tool_call_argument_begin|>{…}<|tool_call_end|>`; the number only counts the calls of a session."""
    yield from blank(cap)
    found = _kimi_name((yield from named(cap)))
    yield from blank(cap)
    if found is None or (yield from literal(cap, _KIMI_ARGUMENTS)) is None or (yield from peek(cap)) != "{":
        raise NotACall
    cap.open(found.group(1))
    if (yield from _arguments(cap, _KIMI_END)):
        yield from blank(cap)
        yield from literal(cap, _KIMI_END)
        cap.keep()
