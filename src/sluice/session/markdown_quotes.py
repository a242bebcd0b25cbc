"""What others wrote, put into a Markdown document of ours so that it stays in its place.

A reply may leave a code block open, begin a comment that swallows all that follows, or write a heading that looks like
ours. Text of which that cannot be ruled out line by line is put into a fence, unchanged.
"""

from __future__ import annotations

import html
import re

_LINES = re.compile(r"\r\n|\n|\r")
_FENCE = re.compile(r"(`{3,}|~{3,})[^`\r\n]*")
_BEFORE_BLOCKS = " \t>-*+0123456789.)"  # what may stand before a block in a list or a quotation
# The number and the dot of a message's heading, the heading of the sums, the line above a call.
_OURS = re.compile(r"\W*(?:\d+\W{0,3}[\u00b7\u2022\u2219\u22c5\u30fb]|Used\W*$|Call of\b)")
_BREAKS = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")
_UNSEEN = re.compile(r"<[^>]*>|\\")  # what is not there any more where Markdown is shown
_MOST_LINE = 1000  # characters of a line in which ours is looked for
_MOST_NAME = 200  # characters of a name in a heading


def name(text: str) -> str:
    """A name in one line, cut to 200 characters."""
    return _BREAKS.sub(" ", text[: _MOST_NAME + 1]).strip()[:_MOST_NAME]


def code(text: str) -> str:
    """A name as code in one line. A code span ends at the first backtick, so there is none in it."""
    return f"`{name(text).replace('`', chr(0x27))}`"


def fenced(text: str, language: str) -> str:
    """The text as it is, in a fence that it does not close."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"\n{fence}{language}\n{text}\n{fence}\n"


def said(text: str) -> str:
    """A message's text: as it is where nothing of it reaches beyond its end or looks like ours, else in a fence."""
    return f"\n{text}\n" if _keeps_to_itself(text) else fenced(text, "markdown")


def quoted(text: str) -> str:
    """The text as a quotation, which nothing in it can leave."""
    return "\n" + "".join(f"> {line}\n" for line in text.splitlines())


def _keeps_to_itself(text: str) -> bool:
    """Whether each fence is closed, no HTML begins a block, and no line could be taken for one of ours.

    It knows less than Markdown does, and says no where it is in doubt.
    """
    fence = ""
    for line in _LINES.split(text):
        if _OURS.match(_UNSEEN.sub("", html.unescape(line[:_MOST_LINE]))):
            return False
        block = line.lstrip(_BEFORE_BLOCKS)
        if block.startswith(("```", "~~~")):
            if fence:
                if line.rstrip(" \t").strip(fence[0]) or line[0] != fence[0] or len(line.rstrip()) < len(fence):
                    return False
                fence = ""
            elif (opened := _FENCE.fullmatch(line)) is not None:
                fence = opened[1]
            else:
                return False
        elif not fence and block.startswith("<"):
            return False
    return not fence
