"""A small program of a user: it uses what `sluice` exports as the documentation shows it. Checked, never run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from sluice import (
    Agent,
    Approver,
    CallFinished,
    Cancel,
    ConfigurationError,
    Hooks,
    Limits,
    MemoryStore,
    NoHooks,
    Notice,
    Policy,
    Rule,
    RunFinished,
    Settings,
    TextNotice,
    ToolResult,
    ToolSpec,
    open_agent,
    run_once,
    tool,
)


@tool(category="read_only", subject="part")
def stock(part: str, minimum: int = 0) -> dict[str, int]:
    """Tells what is in stock."""
    return {part: minimum}


@tool(category="execution")
async def order(part: str, cancel: Cancel) -> ToolResult:
    """Orders a part."""
    return ToolResult(ok=not cancel.is_set(), status="ok", tool="order")


class Person:
    async def ask(self, spec: ToolSpec, arguments: str, reason: str) -> tuple[bool, str]:
        return spec.category == "read_only", arguments + reason


class Quiet(NoHooks):
    async def stop_when(self, turn: int) -> str | None:
        return "enough" if turn > 3 else None


async def main() -> str:
    approver: Approver = Person()
    hooks: Hooks = Quiet()
    pieces: list[str] = []
    async with Agent(
        workspace=".",
        model="openai:gpt-5",
        policy=Policy(rules=(Rule("deny", "git_*"),)),
        tools=[stock, order],
        builtin_tools=["read_file_safe"],
        approver=approver,
        hooks=hooks,
        store=MemoryStore(),
        limits=Limits(max_turns=3),
    ) as agent:
        async for notice in agent.run("x", images=["a.png"]):
            if isinstance(notice, TextNotice):
                pieces.append(notice.text)
            elif isinstance(notice, CallFinished):
                pieces.append(notice.result.content)
            elif isinstance(notice, RunFinished):
                pieces.append(notice.outcome)
    return "".join(pieces)


def watch(notice: Notice) -> None:
    print(notice.v)


def plain() -> int:
    amount: int = stock("nut", minimum=2)["nut"]
    end: RunFinished = Agent(".", settings=Settings(model="m")).run_sync("x", watch=watch)
    try:
        once: RunFinished = run_once(Settings(), "x", watch=watch)
    except ConfigurationError as error:
        print(str(error))
        raise
    return amount + end.exit_code + once.exit_code


async def older() -> Sequence[Notice]:
    async with open_agent(Settings()) as agent:
        return [notice async for notice in agent.run("x")]


if __name__ == "__main__":
    asyncio.run(main())
