"""What a test run came to: counts and failing names, read from what the usual runners print, or from JUnit XML.

These are words of the tested code: they are shown, and decide nothing. Whether a run was good is told by its exit status.
"""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

MAX_NAMES = 50  # failing names that are kept; the count tells the rest
MAX_NAME_CHARACTERS = 300
_MAX_LINES = 200_000  # telling lines that are kept of one run
_MAX_LINE_BYTES = 4096
_TELLING = re.compile(
    r"\s*(test |test result:|--- |ok\b|not ok |FAIL|PASS|ERROR|Ran \d|OK\b|[#ℹ] |✖ |\{\"|=+ |\d+% tests|\d+ - "
    r"|\d+ (passed|failed|errors?|skipped)|no tests ran|The following tests)"
)
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass
class Report:
    """Counts of one run, and the names of its first failing tests, each once."""

    form: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    failing: list[str] = field(default_factory=list)

    def fail(self, name: str) -> None:
        """Keeps a failing name, within bounds."""
        name = name.strip()[:MAX_NAME_CHARACTERS]
        if name and name not in self.failing and len(self.failing) < MAX_NAMES:
            self.failing.append(name)


class TellingLines:
    """Takes a run's output in pieces and keeps the lines that may tell of results, in bounded memory."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self.lines: list[str] = []

    def feed(self, data: bytes) -> None:
        """Takes the next bytes."""
        *whole, rest = data.split(b"\n")
        for piece in whole:
            self._keep(piece)
            self._line()
        self._keep(rest)

    def finish(self) -> list[str]:
        """All telling lines, without colours and line ends."""
        self._line()
        return self.lines

    def _keep(self, piece: bytes) -> None:
        self._rest += piece[: _MAX_LINE_BYTES - len(self._rest)]

    def _line(self) -> None:
        text = _COLOURS.sub("", self._rest.decode("utf-8", "replace")).rstrip("\r")
        self._rest.clear()
        if len(self.lines) < _MAX_LINES and _TELLING.match(text):
            self.lines.append(text)


def read_report(lines: Sequence[str], first: str = "") -> Report | None:
    """The report in these lines, of the form `first` if they hold one, else of the first form they hold."""
    for form in (*(name for name in _READERS if name == first), *_READERS):
        report = _READERS[form](lines)
        if report is not None:
            return report
    return None


_PYTEST_TOTAL = re.compile(r"(?:=+ )?((?:\d+ [a-z]+(?:, )?)+|no tests ran) in [\d.]+s.*")


def _pytest(lines: Iterable[str]) -> Report | None:
    report, seen = Report("pytest"), False
    for line in lines:
        named = re.match(r"(?:FAILED|ERROR) (\S+\.py\S*(?:\[.*?\])?)(?: - |$)", line)
        if named:
            report.fail(named[1])
        total = _PYTEST_TOTAL.fullmatch(line)
        if total:
            seen = True
            counts = {word.rstrip("s"): int(number) for number, word in re.findall(r"(\d+) ([a-z]+)", total[1])}
            report.passed += counts.get("passed", 0) + counts.get("xpassed", 0)
            report.failed += counts.get("failed", 0) + counts.get("error", 0)
            report.skipped += counts.get("skipped", 0) + counts.get("xfailed", 0)
    return report if seen else None


def _unittest(lines: Iterable[str]) -> Report | None:
    report, total, ended = Report("unittest"), 0, False
    for line in lines:
        ran = re.match(r"Ran (\d+) tests? in ", line)
        named = re.match(r"(?:FAIL|ERROR): (\S+ \(.*\))", line)
        end = re.fullmatch(r"(OK|FAILED)(?: \((.*)\))?", line)
        if ran:
            total += int(ran[1])
        elif named:
            report.fail(named[1])
        elif end and total:
            ended = True
            counts = {word.strip(): int(number) for word, number in re.findall(r"([a-z ]+)=(\d+)", end[2] or "")}
            report.failed += counts.get("failures", 0) + counts.get("errors", 0)
            report.skipped += counts.get("skipped", 0)
    report.passed = max(total - report.failed - report.skipped, 0)
    return report if ended else None


def _ctest(lines: Iterable[str]) -> Report | None:
    report, seen, failing = Report("ctest"), False, False
    for line in lines:
        total = re.match(r"\d+% tests passed, (\d+) tests? failed out of (\d+)", line)
        named = re.match(r"\s+\d+ - (.+?) \(([^()]*)\)", line)
        if total:
            seen = True
            report.failed += int(total[1])
            report.passed += int(total[2]) - int(total[1])
        elif line.startswith("The following tests"):
            failing = "FAILED" in line
        elif named and failing:
            report.fail(named[1])
        elif named:
            report.skipped += 1
    return report if seen else None


def _cargo(lines: Iterable[str]) -> Report | None:
    report, seen = Report("cargo"), False
    for line in lines:
        named = re.fullmatch(r"test (.+) \.\.\. FAILED", line)
        total = re.match(r"test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored", line)
        if named:
            report.fail(named[1])
        elif total:
            seen = True
            report.passed += int(total[1])
            report.failed += int(total[2])
            report.skipped += int(total[3])
    return report if seen else None


def _go(lines: Iterable[str]) -> Report | None:
    report, seen = Report("go"), False
    for line in lines:
        told = re.match(r"\s*--- (PASS|FAIL|SKIP): (\S+) \(", line)
        package = re.match(r"FAIL\t(\S+) \[(?:build|setup) failed\]", line)
        if told:
            seen = True
            _count(report, told[1].lower(), told[2])
        elif package:
            seen = True
            _count(report, "fail", package[1])
        elif line.startswith('{"'):
            seen = _go_event(report, line) or seen
    return report if seen else None


def _go_event(report: Report, line: str) -> bool:
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return False
    if not isinstance(event, dict) or "Action" not in event or not isinstance(event.get("Test"), str):
        return False
    _count(report, str(event["Action"]), f"{event.get('Package', '')}.{event['Test']}")
    return True


def _count(report: Report, action: str, name: str) -> None:
    if action == "pass":
        report.passed += 1
    elif action == "skip":
        report.skipped += 1
    elif action == "fail":
        report.failed += 1
        report.fail(name)


def _node(lines: Iterable[str]) -> Report | None:
    report, seen = Report("node"), set()
    for line in lines:
        total = re.fullmatch(r"[#ℹ] (pass|fail|cancelled|skipped|todo) (\d+)", line)
        tap = re.match(r"\s*not ok \d+ - (.+?)(?: # (SKIP|TODO).*)?$", line)
        spec = re.match(r"\s*✖ (.+?) \([\d.]+ms\)$", line)
        if total:
            seen.add(total[1])
            count = int(total[2])
            if total[1] == "pass":
                report.passed += count
            elif total[1] in ("fail", "cancelled"):
                report.failed += count
            else:
                report.skipped += count
        elif tap and not tap[2]:
            report.fail(tap[1])
        elif spec:
            report.fail(spec[1])
    return report if {"pass", "fail"} <= seen else None


_READERS: dict[str, Callable[[Iterable[str]], Report | None]] = {
    "pytest": _pytest,
    "ctest": _ctest,
    "cargo": _cargo,
    "go": _go,
    "node": _node,
    "unittest": _unittest,
}


def junit_report(documents: Iterable[bytes]) -> Report | None:
    """The sum of several JUnit XML documents; None if none of them is one.

    A document with a document type is left out: nothing of JUnit needs one, and entities can make a small file huge.
    """
    report, seen = Report("junit"), False
    for document in documents:
        if b"<!DOCTYPE" in document or b"<!ENTITY" in document or b"\0" in document:
            continue
        try:
            root = ElementTree.fromstring(document)  # noqa: S314 - no document type, so no entities
        except (ElementTree.ParseError, ValueError, LookupError):
            continue
        if root.tag not in ("testsuite", "testsuites"):
            continue
        seen = True
        for case in root.iter("testcase"):
            name = ".".join(filter(None, (case.get("classname"), case.get("name"))))
            bad = case.find("failure") is not None or case.find("error") is not None
            skipped = case.find("skipped") is not None
            _count(report, "fail" if bad else "skip" if skipped else "pass", name)
    return report if seen else None
