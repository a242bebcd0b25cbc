"""One command line of a model or a project in the workspace folder, in the sandbox if there is one."""

from __future__ import annotations

import os
from collections.abc import Sequence

from sluice.tools.process import Reader, environment, run_command
from sluice.tools.registry import ToolContext
from sluice.tools.sandbox import Ran
from sluice.values.ports import Cancel


async def run_in_workspace(
    argv: Sequence[str], context: ToolContext, *, seconds: float, output: Reader, cancel: Cancel
) -> Ran:
    """How `argv` ended, after at most `seconds`; `output` takes what it prints.

    It ends with all that it started, also when `cancel` is set. Raises `SandboxError` where no sandbox can be set up,
    `OSError` or `PathError` where it cannot be started; nothing has run then.
    """
    limits = context.limits
    folder = context.workspace.open_directory()
    try:
        if context.sandbox is not None:
            return await context.sandbox.run(
                argv,
                folder=folder,
                env=environment(),
                timeout=seconds,
                output=output,
                cancel=cancel,
                max_output_bytes=limits.max_command_output_bytes,
                drain_seconds=limits.command_drain_seconds,
            )
        ended = await run_command(
            argv,
            cwd=folder,
            env=environment(),
            timeout=seconds,
            output=output,
            cancel=cancel,
            max_output_bytes=limits.max_command_output_bytes,
            drain_seconds=limits.command_drain_seconds,
        )
        return Ran(ended)
    finally:
        os.close(folder)
