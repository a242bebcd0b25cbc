"""A file's bytes as text and back, so that nothing but an edit's own characters ever changes.

`decode` only answers with an encoding in which the whole text gives back exactly the bytes it came from. A byte that is
no UTF-8 in a file that otherwise is stays itself (as a lone surrogate, PEP 383).
"""

from __future__ import annotations

import codecs
import re
from typing import Literal

import msgspec

LineEnds = Literal["none", "lf", "crlf", "cr", "mixed"]

# The longer mark first: UTF-32's little-endian mark begins with UTF-16's.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_NAMES = {
    "utf-8": "UTF-8",
    "utf-16-le": "UTF-16 LE",
    "utf-16-be": "UTF-16 BE",
    "utf-32-le": "UTF-32 LE",
    "utf-32-be": "UTF-32 BE",
    "gb18030": "GBK (guessed)",
    "latin-1": "Latin-1 (guessed)",
}
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")  # white space, form feed and ESC are seen in text
_HIDDEN = re.compile("[\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff\U000e0001-\U000e007f]")
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")
_ASSIGNED = re.compile("[^\ue000-\uf8ff\ufdd0-\ufdef\ufffe\uffff]*")  # none of what no script writes
_PAIR = re.compile(rb"[\x81-\xfe][\x40-\xfe]")
_COMMON_PAIR = re.compile(rb"[\xa1-\xa3\xb0-\xd7][\xa1-\xfe]")
_ESCAPED = re.compile("[\udc80-\udcff]")


class Text(msgspec.Struct, frozen=True, kw_only=True):
    """A decoded file: its mark (a BOM or nothing), its text after the mark, and the codec that gives the bytes back."""

    mark: bytes
    text: str
    codec: str

    def encode(self, text: str) -> bytes:
        """New text in this file's encoding, without a mark; raises `UnicodeEncodeError` if it cannot be said in it."""
        return text.encode(self.codec)

    def encode_old(self, text: str) -> bytes:
        """The bytes that a piece of the file's own text came from."""
        return text.encode(self.codec, "surrogateescape" if self.codec == "utf-8" else "strict")

    @property
    def line_ends(self) -> LineEnds:
        """Which line ends there are."""
        crlf = self.text.count("\r\n")
        lone_lf = self.text.count("\n") - crlf
        lone_cr = self.text.count("\r") - crlf
        kinds: list[LineEnds] = []
        kinds += ["crlf"] if crlf else []
        kinds += ["lf"] if lone_lf else []
        kinds += ["cr"] if lone_cr else []
        if not kinds:
            return "none"
        return kinds[0] if len(kinds) == 1 else "mixed"

    def _name(self) -> str:
        guessed = " (guessed)" if self.codec.startswith("utf-16") and not self.mark else ""
        return _NAMES[self.codec] + guessed

    def facts(self) -> dict[str, str | int | bool]:
        """What a face or a later tool may want to know of the file."""
        facts: dict[str, str | int | bool] = {
            "encoding": self._name(),
            "bom": bool(self.mark),
            "line_ends": self.line_ends,
            "final_newline": self.text.endswith(("\n", "\r")),
        }
        if not self.text.isascii():
            facts["invalid_bytes"] = len(_ESCAPED.findall(self.text))
            facts["hidden_characters"] = len(_HIDDEN.findall(self.text))
        return facts

    def unusual(self) -> list[str]:
        """What a reader of the text alone would get wrong, each in a few words; empty for plain UTF-8 with LF."""
        notes: list[str] = []
        if self.codec != "utf-8" or self.mark:
            notes.append("encoding " + self._name() + (" with BOM" if self.mark else ""))
        if self.line_ends not in ("lf", "none"):
            notes.append(f"line ends {self.line_ends.upper() if self.line_ends != 'mixed' else 'mixed'}")
        if not self.text.isascii():
            if invalid := len(_ESCAPED.findall(self.text)):
                notes.append(f"{invalid} bytes are no UTF-8, shown as U+FFFD")
            if hidden := len(_HIDDEN.findall(self.text)):
                notes.append(f"holds {hidden} invisible or direction-changing characters")
        return notes


def decode(data: bytes) -> Text | None:
    """The file as text, or None if it is binary: it holds NUL, or more than one control character in fifty.

    NUL bytes are text only where they are the high halves of UTF-16: with a BOM, or without one if half of all characters
    are ASCII. UTF-16 of mostly other scripts without a BOM counts as binary: nothing tells its bytes from a program's.
    """
    for mark, codec in _MARKS:
        if data.startswith(mark):
            found = _exactly(data[len(mark) :], codec, mark)
            if found is not None:
                return None if "\0" in found.text else found
    if b"\0" in data:
        found = _unmarked_utf16(data)
        return found if found is not None and _few_controls(found.text) else None
    found = _utf8(data)
    if found is None and _looks_chinese(data):
        found = _exactly(data, "gb18030")
    if found is None:
        found = Text(mark=b"", text=data.decode("latin-1"), codec="latin-1")
    return found if _few_controls(found.text) else None


def shown(text: str) -> str:
    """`text` as it can be sent and stored: bytes that were no text become U+FFFD."""
    return _ESCAPED.sub("\ufffd", text) if not text.isascii() else text


def _exactly(data: bytes, codec: str, mark: bytes = b"") -> Text | None:
    # A stateful or lenient codec could read two spellings as one text; then an edit would change bytes it does not name.
    try:
        text = data.decode(codec, "surrogateescape" if codec == "utf-8" else "strict")
        again = text.encode(codec, "surrogateescape" if codec == "utf-8" else "strict")
    except UnicodeError:
        return None
    return Text(mark=mark, text=text, codec=codec) if again == data else None


def _few_controls(text: str) -> bool:
    return len(_CONTROLS.findall(text)) * 50 <= len(text)


def _unmarked_utf16(data: bytes) -> Text | None:
    if len(data) % 2:
        return None
    even, odd = data[::2].count(0), data[1::2].count(0)
    low, high, codec = (even, odd, "utf-16-le") if odd >= even else (odd, even, "utf-16-be")
    if low or high * 4 < len(data):
        return None
    found = _exactly(data, codec)
    return None if found is None or not _ASSIGNED.fullmatch(found.text) else found


def _utf8(data: bytes) -> Text | None:
    """UTF-8, also with a few stray bytes: there must be more characters beyond ASCII than bytes that are none."""
    found = _exactly(data, "utf-8")
    if found is None or not (stray := len(_ESCAPED.findall(found.text))):
        return found
    beyond = len(_BEYOND_ASCII.findall(found.text)) - stray
    return found if beyond > stray else None


def _looks_chinese(data: bytes) -> bool:
    """Whether bytes above ASCII stand as GBK's pairs of common characters rather than as single Latin-1 letters.

    Common are GB 2312's signs and its first level. Their lead bytes are signs and capitals in Latin-1, which hardly ever
    stand in pairs there.
    """
    pairs = _PAIR.findall(data)
    common = sum(1 for pair in pairs if _COMMON_PAIR.fullmatch(pair))
    return bool(pairs) and common * 10 >= len(pairs) * 7
