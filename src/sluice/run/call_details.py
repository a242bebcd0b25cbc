"""What stands behind a call whose words alone do not tell it, for the person who is asked about it (P3)."""

from __future__ import annotations

import msgspec

from sluice.errors import SluiceError
from sluice.tools.build_project import TOOL as BUILD
from sluice.tools.build_project import BuildArguments
from sluice.tools.project import Plan, ProjectProblem, build_plan, test_plan
from sluice.tools.project_words import project_words
from sluice.tools.test_project import TOOL as TEST
from sluice.tools.workspace import Workspace


def call_details(workspace: str, tool: str, arguments: str) -> tuple[str, ...]:
    """What a build or a test run in this folder would run, in lines as they stand in the project's files, unescaped.

    Empty for every other tool. Never raises: what cannot be told is said in a line, and whoever is asked can say no.
    """
    if tool not in (BUILD.name, TEST.name):
        return ()
    try:
        with Workspace(workspace) as opened:
            return project_words(opened, _plan(opened, tool, arguments))
    except ProjectProblem as problem:
        return (f"nothing: {problem}",)
    except (SluiceError, OSError, msgspec.MsgspecError, UnicodeError) as error:
        return (f"it cannot be told what this would run: {error}",)


def _plan(workspace: Workspace, tool: str, arguments: str) -> Plan:
    if tool == TEST.name:
        return test_plan(workspace)
    wanted = msgspec.json.decode(arguments, type=BuildArguments)
    return build_plan(workspace, wanted.build_mode, wanted.clean_first)
