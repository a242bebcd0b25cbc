"""`test_project_safe`: runs the tests of the project that the workspace holds, and reads their results.

Category and marks as those of `build_project_safe`, for the same reason.
"""

from __future__ import annotations

import os
from typing import Annotated, Any

import msgspec

from sluice.errors import PathError
from sluice.tools.output import clipped
from sluice.tools.project import Plan, test_plan
from sluice.tools.project_run import END_SECONDS, run_plan
from sluice.tools.registry import Tool, ToolContext
from sluice.tools.relative_path import visible
from sluice.tools.test_reports import Report, TellingLines, junit_report, read_report
from sluice.tools.workspace import Workspace
from sluice.values.calls import Risk
from sluice.values.results import ToolResult

NAME = "test_project_safe"
_FORMS = {"python": "pytest", "cmake": "ctest", "rust": "cargo", "go": "go", "node": "node"}
_REPORTS = (
    "junit.xml",
    "test-results.xml",
    "report.xml",
    "reports/junit.xml",
    "build/junit.xml",
    "build/test-results.xml",
)
_REPORT_FOLDERS = (
    "build/test-results",
    "build/test-results/test",
    "target/surefire-reports",
    "test-results",
    "reports",
)
_MAX_REPORTS = 200  # files looked at
_MAX_REPORT_BYTES = 4 * 1024 * 1024  # of one file
_NAMES_BYTES = 500  # of failing names in the closing line


class TestArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `test_project_safe`."""

    timeout_ms: Annotated[
        int | None, msgspec.Meta(description="Milliseconds it may take; default 120000, at most 600000.")
    ] = None
    max_output_bytes: Annotated[
        int | None, msgspec.Meta(description="Bytes of output to show; default 65536, at most 1048576.")
    ] = None


ARGUMENTS = TestArguments


async def run(arguments: TestArguments, context: ToolContext) -> ToolResult:
    """What was run and what it printed; `facts` hold also `passed`, `failed`, `skipped`, `failing` and `report`.

    The counts are what the runner printed, or what new JUnit XML files at the usual places say; without either they
    are not there.
    """
    lines = TellingLines()
    before = _reports(context.workspace)

    def facts(plan: Plan) -> tuple[dict[str, Any], str]:
        report = read_report(lines.finish(), _FORMS.get(plan.kind, "")) or _from_files(context.workspace, before)
        if report is None:
            return {}, ""
        counts = {"passed": report.passed, "failed": report.failed, "skipped": report.skipped}
        failing = [visible(name) for name in report.failing]
        return {**counts, "failing": failing, "report": report.form}, _line(report, failing)

    def plan() -> Plan:
        return test_plan(context.workspace)

    return await run_plan(
        TOOL, plan, arguments.timeout_ms, arguments.max_output_bytes, context, hear=lines.feed, facts=facts
    )


TOOL = Tool(
    name=NAME,
    arguments=TestArguments,
    run=run,
    category="execution",
    risk=Risk(runs_repository_code=True),
    max_output_bytes=1024 * 1024,
    timeout_seconds=lambda limits: max(limits.max_command_seconds, limits.build_seconds) + END_SECONDS,
)


def _line(report: Report, failing: list[str]) -> str:
    counts = f"{report.passed} passed, {report.failed} failed, {report.skipped} skipped"
    return clipped(f"[{counts}{': ' if failing else ''}{', '.join(failing)}", _NAMES_BYTES) + "]"


def _reports(workspace: Workspace) -> dict[str, tuple[int, int]]:
    """JUnit files at the usual places, with what tells whether one is new."""
    paths = list(_REPORTS)
    for folder in _REPORT_FOLDERS:
        try:
            opened = workspace.open_directory(folder)
        except PathError:
            continue
        try:
            paths.extend(f"{folder}/{name}" for name in sorted(os.listdir(opened)) if name.endswith(".xml"))
        finally:
            os.close(opened)
    found = {}
    for path in paths[:_MAX_REPORTS]:
        try:
            opened = workspace.open_read(path)
        except PathError:
            continue
        status = os.fstat(opened)
        os.close(opened)
        found[path] = (status.st_ino, status.st_mtime_ns)
    return found


def _from_files(workspace: Workspace, before: dict[str, tuple[int, int]]) -> Report | None:
    documents = []
    for path, mark in _reports(workspace).items():
        if before.get(path) != mark:
            try:
                documents.append(workspace.read(path, _MAX_REPORT_BYTES).data)
            except PathError:
                continue
    return junit_report(documents)
