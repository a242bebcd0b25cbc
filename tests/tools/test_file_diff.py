from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sluice.tools.file_diff import changes_between, lines_of, unified

LINES = st.lists(st.sampled_from(["a", "b", "c", ""]), max_size=30)


def applied(old: str, diff: str) -> str:
    """What a plain reader of unified diffs makes of `old`."""
    lines, out, at = lines_of(old), [], 0
    rows = diff.split("\n")[2:-1]
    for number, row in enumerate(rows):
        ends = "" if rows[number + 1 : number + 2] == ["\\ No newline at end of file"] else "\n"
        if row.startswith("@@"):
            start, _, count = row.split()[1][1:].partition(",")
            begin = int(start) - (count != "0")
            out += lines[at:begin]
            at = begin
        elif row.startswith("+"):
            out.append(row[1:] + ends)
        elif row.startswith(("-", " ")):
            assert lines[at] == row[1:] + ends
            out += [lines[at]] if row[0] == " " else []
            at += 1
    return "".join(out + lines[at:])


@given(LINES, LINES, st.booleans(), st.booleans())
def test_a_diff_leads_from_the_old_to_the_new(old: list[str], new: list[str], one: bool, two: bool) -> None:
    before, after = "\n".join(old) + "\n" * one, "\n".join(new) + "\n" * two
    diff = unified("f", before, after)
    assert (diff == "") == (before == after)
    if diff:
        assert applied(before, diff) == after


@given(st.text("ab\n\r\f\x85\u2028"))
def test_lines_join_to_the_text(text: str) -> None:
    assert "".join(lines_of(text)) == text
    assert all(line.count("\n") <= 1 for line in lines_of(text))


def test_a_new_file_comes_from_nowhere() -> None:
    assert unified("d/f", None, "x\n") == "--- /dev/null\n+++ b/d/f\n@@ -0,0 +1 @@\n+x\n"


def test_a_diff_is_bounded_in_lines_and_in_length_of_lines() -> None:
    diff = unified("f", "", "x" * 10_000 + "\n" + "y\n" * 100_000)
    assert diff.count("\n") <= 200
    assert len(diff) < 2_000
    assert diff.endswith("the rest of the diff is not shown\n")


def test_large_stretches_are_one_change_and_not_a_quadratic_search() -> None:
    old = [f"{n}\n" for n in range(100_000)]
    new = [f"{n}x\n" for n in range(100_000)]
    (change,) = changes_between(["head\n", *old, "tail\n"], ["head\n", *new, "tail\n"])
    assert (change.old_start, change.old_end, change.new_end) == (1, 100_001, 100_001)


def test_a_name_in_a_diff_stays_on_its_line() -> None:
    assert "a\\nb" in unified("a\nb", None, "x\n").split("\n")[1]
