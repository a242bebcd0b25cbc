"""Results read from what runners print, each text as the real runner prints it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluice.tools import test_reports as reports

PYTEST = """..F.Es                                                     [100%]
=========================== short test summary info ============================
FAILED tests/test_a.py::test_one[a b] - assert 1 == 2
FAILED tests/test_a.py::TestX::test_two
ERROR tests/test_b.py - ImportError: no
=================== 2 failed, 2 passed, 1 skipped, 1 error in 0.12s ============
"""
UNITTEST = """test_a (m.T.test_a) ... ok
======================================================================
FAIL: test_b (m.T.test_b)
ERROR: test_c (m.T.test_c)
----------------------------------------------------------------------
Ran 5 tests in 0.001s

FAILED (failures=1, errors=1, skipped=1)
"""
CTEST = """1/3 Test #1: good .............................   Passed    0.00 sec
2/3 Test #2: bad ..............................***Failed    0.00 sec
67% tests passed, 1 tests failed out of 3

Total Test time (real) =   0.01 sec

The following tests did not run:
\t  3 - later (Disabled)

The following tests FAILED:
\t  2 - bad (Failed)
Errors while running CTest
"""
CARGO = """running 3 tests
test tests::good ... ok
test tests::bad ... FAILED
test tests::later ... ignored

test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s

test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
"""
GO = """=== RUN   TestGood
--- PASS: TestGood (0.00s)
--- FAIL: TestBad (0.01s)
    --- FAIL: TestBad/sub (0.01s)
--- SKIP: TestLater (0.00s)
FAIL\texample.com/broken [build failed]
ok  \texample.com/a\t0.003s
"""
GO_JSON = """{"Time":"x","Action":"run","Package":"p","Test":"TestA"}
{"Time":"x","Action":"pass","Package":"p","Test":"TestA"}
{"Time":"x","Action":"fail","Package":"p","Test":"TestB"}
{"Time":"x","Action":"fail","Package":"p"}
"""
NODE_TAP = """TAP version 13
# Subtest: good
ok 1 - good
not ok 2 - bad thing
not ok 3 - todo # TODO later
# tests 4
# pass 2
# fail 1
# cancelled 0
# skipped 0
# todo 1
"""
NODE_SPEC = """✔ good (0.5ms)
✖ bad thing (1.25ms)
ℹ tests 2
ℹ pass 1
ℹ fail 1
ℹ cancelled 0
ℹ skipped 0
ℹ todo 0

✖ failing tests:

✖ bad thing (1.25ms)
"""


def read(text: str, first: str = "", size: int = 10**9) -> reports.Report | None:
    lines = reports.TellingLines()
    data = text.encode()
    for start in range(0, len(data), size):
        lines.feed(data[start : start + size])
    return reports.read_report(lines.finish(), first)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (
            PYTEST,
            (
                "pytest",
                2,
                3,
                1,
                ["tests/test_a.py::test_one[a b]", "tests/test_a.py::TestX::test_two", "tests/test_b.py"],
            ),
        ),
        ("no tests ran in 0.01s\n", ("pytest", 0, 0, 0, [])),
        ("3 passed, 1 warning in 1.00s (0:00:01)\n", ("pytest", 3, 0, 0, [])),
        (UNITTEST, ("unittest", 2, 2, 1, ["test_b (m.T.test_b)", "test_c (m.T.test_c)"])),
        ("Ran 2 tests in 0.1s\n\nOK\n", ("unittest", 2, 0, 0, [])),
        (CTEST, ("ctest", 2, 1, 1, ["bad"])),
        ("100% tests passed, 0 tests failed out of 7\n", ("ctest", 7, 0, 0, [])),
        (CARGO, ("cargo", 3, 1, 1, ["tests::bad"])),
        (GO, ("go", 1, 3, 1, ["TestBad", "TestBad/sub", "example.com/broken"])),
        (GO_JSON, ("go", 1, 1, 0, ["p.TestB"])),
        (NODE_TAP, ("node", 2, 1, 1, ["bad thing"])),
        (NODE_SPEC, ("node", 1, 1, 0, ["bad thing"])),
    ],
)
@pytest.mark.parametrize("size", [10**9, 1, 13])
def test_what_each_runner_prints(text: str, wanted: tuple[str, int, int, int, list[str]], size: int) -> None:
    for shown in (
        text,
        text.replace("\n", "\r\n"),
        "".join(f"\x1b[31m{line}\x1b[0m" for line in text.splitlines(True)),
    ):
        report = read("noise\n" + shown + "more noise\n", size=size)
        assert report is not None
        assert (report.form, report.passed, report.failed, report.skipped, report.failing) == wanted


def test_the_expected_form_goes_first_and_nothing_is_made_up() -> None:
    assert read(PYTEST + CARGO, "cargo").form == "cargo"  # type: ignore[union-attr]
    assert read(PYTEST + CARGO).form == "pytest"  # type: ignore[union-attr]
    assert read("all good, 3 tests were fine\n") is None
    assert read("") is None


def test_what_is_kept_is_bounded() -> None:
    report = read(
        "".join(f"test t{n} ... FAILED\n" for n in range(300)) + "test result: x. 0 passed; 300 failed; 0 ignored\n"
    )
    assert report is not None
    assert (report.failed, len(report.failing)) == (300, reports.MAX_NAMES)
    lines = reports.TellingLines()
    for _ in range(300):
        lines.feed(b"test " + b"x" * 100_000)
    assert len(lines._rest) <= 4096
    lines.feed(b"\n" + b"test a ... ok\n" * 300_000)
    assert len(lines.finish()) == 200_000


@given(st.text(max_size=300))
def test_any_text_is_read_without_an_error(text: str) -> None:
    read(text)
    for start in ('{"', "test result: ", "--- FAIL: ", "FAILED ", "# pass ", "Ran 1 tests in 1s\nFAILED ("):
        read(start + text + "\n")


JUNIT = b"""<?xml version="1.0"?><testsuites><testsuite name="s">
<testcase classname="a.B" name="good"/>
<testcase classname="a.B" name="bad"><failure message="x"/></testcase>
<testcase name="broken"><error/></testcase>
<testcase name="later"><skipped/></testcase></testsuite></testsuites>"""


def test_junit() -> None:
    report = reports.junit_report([JUNIT, b"<testsuite><testcase name='one'/></testsuite>"])
    assert report is not None
    assert (report.passed, report.failed, report.skipped, report.failing) == (2, 2, 1, ["a.B.bad", "broken"])
    bomb = b'<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><testsuite><testcase name="&b;"/></testsuite>'
    utf16 = JUNIT.decode().replace('"1.0"', '"1.0" encoding="utf-16"').encode("utf-16")
    for wrong in (
        b"",
        b"<x/>",
        b"<testsuite>",
        bomb,
        utf16,
        b"\xff\xfe",
        b'<?xml version="1.0" encoding="no"?><testsuite/>',
    ):
        assert reports.junit_report([wrong]) is None
