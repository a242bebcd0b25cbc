"""Code over a cut: the colour of what follows is right, or there is none."""

from __future__ import annotations

import pytest

from sluice.ui.tui.code_block import coloured, ends_clean
from sluice.ui.tui.markdown_stream import MarkdownStream
from sluice.ui.tui.styles import GOOD


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("python", 'def f():\n    """One."""\n    return "x"'),
        ("c", "/* one */\nint f(void) {\n  return 1;"),
        ("js", "const a = `one ${b}`;\nif (a) {"),
        ("bash", "cat <<EOF\nx\nEOF\necho 'a'"),
        ("json", '{"a": [1,\n"b",'),
        ("html", "<p>one</p><!-- two -->\n<div>"),
    ],
)
def test_what_is_closed_is_clean(language: str, code: str) -> None:
    assert ends_clean(code, language)


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("python", 'x = """one\ntwo'),
        ("python", "x = r'''one\ntwo"),
        ("c", "int a; /* one\ntwo"),
        ("go", "s := `one\ntwo"),
        ("js", "const a = `one\ntwo"),
        ("bash", "cat <<EOF\none"),
        ("bash", 'echo "one\ntwo'),
        ("html", "<p>one</p><!-- two\nthree"),
        ("rust", "/* one\ntwo"),
        ("toml", 'a = """one\ntwo'),
        ("no-such-language", "one"),
        ("", "one"),
    ],
)
def test_what_is_open_is_not(language: str, code: str) -> None:
    assert not ends_clean(code, language)


def test_a_string_over_the_cut_of_a_fence_is_not_taken_for_code() -> None:
    code = 'a = """\n' + 'text "of" it\n' * 250 + '"""\nb = "one"\n'
    stream = MarkdownStream()
    stream.feed(f"```python\n{code}```\n")
    stream.end()
    blocks = stream.step().finished
    assert len(blocks) == 3
    for block in blocks[1:]:
        assert all(not segment.style or segment.style.color is None for row in block.rows(80) for segment in row)


def test_code_over_the_cut_of_a_fence_keeps_its_colour() -> None:
    stream = MarkdownStream()
    stream.feed("```python\n" + "".join(f'name_{n} = "text"\n' for n in range(250)) + "```\n")
    stream.end()
    blocks = stream.step().finished
    assert len(blocks) == 3
    for block in blocks:
        assert all(any(segment.style == GOOD for segment in row) for row in block.rows(80))


def test_lines_are_those_of_the_code() -> None:
    code = 'a = """x\n\ny"""  # z\n'
    assert ["".join(text for text, _style in line) for line in coloured(code, "python")] == code.split("\n")
