"""Makes what a model, a tool or a file wrote safe to show on a terminal.

Control characters, invisible characters and those that reorder text are shown as marks and never obeyed. No state is
kept: a sequence that is torn between two pieces of text is shown as marks too, because the escape itself never passes.
"""

from __future__ import annotations

import re

# What a terminal acts on: C0 but tab and newline, DEL, C1, and a carriage return that is no part of a line end.
_CONTROL = r"\x00-\x08\x0b-\x1f\x7f-\x9f"
# What reorders or hides text, lone surrogates, and code points that are no characters.
_HIDDEN = (
    r"\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff"
    r"\uffa0\ufff0-\ufffb\ufdd0-\ufdef\ufffe\uffff\ud800-\udfff"
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
# Variation selectors and private characters are common in honest text; only a question to a person marks them.
_STRICT = r"\xa0\u2000-\u200a\u202f\u205f\u2800\u3000\ufe00-\ufe0f\ue000-\uf8ff\U000f0000-\U0010ffff"

_EMOJI = r"\u2190-\u2bff\U0001f000-\U0001faff"
_SCRIPTS = r"\u0600-\u08ff\u0900-\u0dff"
# A joiner inside an emoji, and one between letters of the scripts that are spelt with it, belongs to the text.
_JOINER = rf"(?<=[{_EMOJI}\ufe0f])\u200d(?=[{_EMOJI}])|(?<=[{_SCRIPTS}])[\u200c\u200d](?=[{_SCRIPTS}])"

_LOOSE_MARKS = re.compile(rf"\r\n|(?P<keep>{_JOINER})|[{_CONTROL}{_HIDDEN}]")
_IN_JSON = re.compile(rf"[\x7f-\x9f{_HIDDEN}]")
_STRICT_MARKS = re.compile(rf"\r\n|[{_CONTROL}{_HIDDEN}{_STRICT}]")


def visible(text: str, *, strict: bool = False) -> str:
    r"""The text with every control and invisible character as a mark: `␛`, `\x9b`, `<U+202E>`.

    Tab and newline stay, `\r\n` becomes a newline. Encodable as UTF-8 in every case. `strict` is for what a person is
    asked to approve: it also marks odd spaces, variation selectors and private characters.
    """
    if text.isascii() and text.isprintable():
        return text
    return (_STRICT_MARKS if strict else _LOOSE_MARKS).sub(_mark, text)


def one_line(text: str, limit: int = 200) -> str:
    """The text, visible, in one line of at most `limit` characters; newlines and tabs are marks too."""
    cut = text if len(text) <= limit else text[: limit - 1]
    line = visible(cut.strip("\n")).replace("\n", "␊").replace("\t", "␉")
    if len(line) > limit:  # marks are longer than what they stand for
        cut, line = "", line[: limit - 1]
    return line if cut == text else line + "…"


def json_escaped(json_text: str) -> str:
    r"""The JSON text with those characters as `\uXXXX` escapes: the same value, safe to print, one line for any reader."""
    return json_text if json_text.isascii() and "\x7f" not in json_text else _IN_JSON.sub(_escape, json_text)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"


def _mark(found: re.Match[str]) -> str:
    text = found[0]
    if text == "\r\n":
        return "\n"
    if found.lastgroup == "keep":
        return text
    code = ord(text)
    if code < 0x20:
        return chr(0x2400 + code)  # control pictures
    if code == 0x7F:
        return "␡"
    return f"\\x{code:02x}" if code < 0xA0 else f"<U+{code:04X}>"
