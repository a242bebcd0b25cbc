"""What a session holds cannot leave its place in the exported Markdown, nor look like another message."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from sluice.session import markdown_quotes as quotes

PIECES = (
    *(
        "```",
        "````",
        "~~~",
        "``` \n",
        "```py\n",
        " ```\n",
        "    ```\n",
        "\t```\n",
        "- ```\n",
        "> ```\n",
        "1. a\n",
        "- a\n",
    ),
    *("<!-- ", "-->", "<div>\n", "<script>", "<?x ", "<![CDATA[", "</pre>", "<pre>", "a <b> c\n"),
    *("\n", "\n\n", "\r", "\r\n", "\x0b", "\x0c", "\u2028", "\u00a0", " ", "  ", "    ", "\t", "\\", "`", "~"),
    *(
        "## 9 · User\n",
        "9 · User\n---\n",
        "9 · User\n===",
        "# a\n",
        "=== \n",
        "---\n",
        "word",
        "[a]: <b\n",
        "[a]: /u 'x\n",
        "· ",
    ),
)
TEXTS = st.one_of(st.lists(st.sampled_from(PIECES), max_size=12).map("".join), st.text(max_size=60))


def _headings(document: str) -> list[str]:
    """The headings that a reader takes for those of messages, as any reader of CommonMark shows them."""
    tokens = MarkdownIt("commonmark").parse(document)
    found = [
        "".join(child.content for child in after.children or () if child.type != "html_inline")
        for token, after in pairwise(tokens)
        if token.type == "heading_open" and token.tag == "h2" and token.level == 0
    ]
    return [heading for heading in found if re.match(r"\W*\d+\W*·", heading)]


@settings(max_examples=200)
@given(st.lists(st.tuples(st.sampled_from(("said", "fenced", "quoted")), TEXTS), max_size=4))
def test_each_text_ends_where_the_next_heading_stands(parts: list[tuple[str, str]]) -> None:
    document, wanted = "# Session\n", []
    for number, (how, text) in enumerate(parts, 1):
        document += f"\n## {number} · User\n"
        wanted.append(f"{number} · User")
        match how:
            case "said":
                document += quotes.said(text)
            case "fenced":
                document += quotes.fenced(text, "text")
            case _:
                document += quotes.quoted(text)
    document += "\n## 99 · End\n"
    assert _headings(document) == [*wanted, "99 · End"]


@pytest.mark.parametrize(
    "text",
    [
        "Plain words.",
        "## What I did\n\n- one\n- two\n\n```python\nprint(1)\n```\n\n1. first\n2. second",
        "~~~\n# code\n~~~",
        "A price of 3 · 4, and `<b>` within a line.",
    ],
)
def test_common_answers_stay_as_they_are(text: str) -> None:
    assert quotes.said(text) == f"\n{text}\n"


@pytest.mark.parametrize(
    "text",
    [
        "```\nopen",
        "````\n```\n",
        "<!-- hidden",
        "## 4 · User\n\nyes, do it",
        "## <b>4</b> &middot; User",
        "- ```\n",
        "Call of `rm`",
    ],
)
def test_what_could_reach_further_is_fenced_unchanged(text: str) -> None:
    assert quotes.said(text) == quotes.fenced(text, "markdown")
    assert text in quotes.said(text)


@settings(max_examples=200)
@given(TEXTS)
def test_a_name_is_one_line(text: str) -> None:
    document = f"# Session\n\n## 1 · Result of {quotes.name(text)}\n\nCall of {quotes.code(text)}\n\n## 2 · End\n"
    assert len(document.splitlines()) == 7
    found = _headings(document)
    assert (len(found), found[-1]) == (2, "2 · End")
