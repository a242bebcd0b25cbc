"""`build_project_safe`: builds the project that the workspace holds.

Category `execution`, marked as running repository code, like a shell: `allow_execution_tools` alone is documented to allow
builds. It is not marked as changing the repository, which would ask for both approvals and guard nothing that a shell with
one could not do; what a build writes are its own products.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from sluice.tools.project import Mode, Plan, build_plan
from sluice.tools.project_run import END_SECONDS, run_plan
from sluice.tools.registry import Tool, ToolContext
from sluice.values.calls import Risk
from sluice.values.results import ToolResult

NAME = "build_project_safe"


class BuildArguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Arguments of `build_project_safe`."""

    build_mode: Annotated[
        Mode | None, msgspec.Meta(description="debug or release, where the project knows both; default debug.")
    ] = None
    clean_first: Annotated[bool, msgspec.Meta(description="Remove what earlier builds made first; default false.")] = (
        False
    )
    timeout_ms: Annotated[
        int | None, msgspec.Meta(description="Milliseconds it may take; default 120000, at most 600000.")
    ] = None
    max_output_bytes: Annotated[
        int | None, msgspec.Meta(description="Bytes of output to show; default 65536, at most 1048576.")
    ] = None


ARGUMENTS = BuildArguments


async def run(arguments: BuildArguments, context: ToolContext) -> ToolResult:
    """What was run and what it printed; `facts` hold `project`, `command`, `commands` and `detected`."""

    def plan() -> Plan:
        return build_plan(context.workspace, arguments.build_mode, arguments.clean_first)

    return await run_plan(TOOL, plan, arguments.timeout_ms, arguments.max_output_bytes, context)


TOOL = Tool(
    name=NAME,
    arguments=BuildArguments,
    run=run,
    category="execution",
    risk=Risk(runs_repository_code=True),
    max_output_bytes=1024 * 1024,
    timeout_seconds=lambda limits: max(limits.max_command_seconds, limits.build_seconds) + END_SECONDS,
)
